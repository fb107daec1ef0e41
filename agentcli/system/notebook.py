"""Jupyter notebooks as text: their cells one after the other, with short outputs, without base64.

Each cell begins with a line such as `# %% [3] code`, and its output with `# %% [3] output`. The
text can be edited: a cell without a number is new, one whose lines are gone is deleted. What is
not shown of a cell, such as its metadata, stays as it is.
"""

import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

from agentcli.system.lazy import compile_later
from agentcli.system.plain_text import to_plain_text
from agentcli.types.fast_dataclass import dataclass

ENDING = ".ipynb"
LIMIT_BYTES = 50_000_000
OUTPUT_LINES = 40
OUTPUT_CHARS = 4000
_MARKER = compile_later(
    r"# %%(?: \[(?P<number>[0-9]{1,6})\])?(?: (?P<kind>code|markdown|raw|output))?[ \t]*"
)
_INDENT = compile_later(r"\{(\r?\n)([ \t]+)\"")
_BLANKS = compile_later(r"[ \t\r\n]*")
_DECODER = json.JSONDecoder()
_WITH_IDS = (4, 5)
"""The first version of the format whose cells have ids."""


class NotNotebook(Exception):
    """The reason why a file cannot be shown as cells, as the rest of a sentence about it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _ShownCell:
    number: int | None
    kind: str
    source: str


def is_notebook_name(name: str) -> bool:
    return name.lower().endswith(ENDING)


def show_notebook(data: bytes) -> str:
    """Return the cells as text. Raise NotNotebook if it has none, or is too large."""
    if len(data) > LIMIT_BYTES:
        raise NotNotebook(
            f"has more than {LIMIT_BYTES // 1_000_000} MB, most of it output. Remove that first: "
            "jupyter nbconvert --clear-output --inplace FILE"
        )
    lines: list[str] = []
    for number, cell in enumerate(_parse(data)["cells"], 1):
        lines += [f"# %% [{number}] {cell['cell_type']}", *_split_source(cell)]
        if output := list(_show_outputs(cell)):
            lines += [f"# %% [{number}] output", *output]
    return "\n".join(lines) + "\n"


def rewrite_notebook(data: bytes, text: str) -> bytes:
    """Return a notebook with the cells of an edited text. Raise NotNotebook if it has a fault."""
    notebook = _parse(data)
    cells, is_kept = notebook["cells"], set[int]()
    outputs = _find_outputs(show_notebook(data))
    new: list[tuple[int | None, dict[str, Any]]] = []
    for shown in _split_cells(text):
        number = shown.number
        if number is not None and not 1 <= number <= len(cells):
            raise NotNotebook(f"has cells 1 to {len(cells)}, and no cell [{number}]")
        if shown.kind == "output":
            if number is None or outputs.get(number) != shown.source:
                raise NotNotebook("keeps the outputs of its cells: only cells can be edited")
        elif number is None:
            new.append((None, _make_cell(shown, len(new), notebook=notebook)))
        elif number in is_kept:
            raise NotNotebook(f"would have the cell [{number}] twice: leave the number out")
        else:
            is_kept.add(number)
            new.append((number, _change_cell(cells[number - 1], shown)))
    return _write_cells(data, new, cells=cells)


def _write_cells(
    data: bytes,
    new: Sequence[tuple[int | None, dict[str, Any]]],
    *,
    cells: Sequence[dict[str, Any]],
) -> bytes:
    """Return the notebook with these cells, each with its number. Nothing else is written anew."""
    encoding = json.detect_encoding(data)
    written = data.decode(encoding, "surrogatepass")
    if written.encode(encoding, "surrogatepass") != data:
        raise NotNotebook(f"is in {encoding}, which cannot be written back")
    array = _find_cells(written)
    style = _choose_style(written, array, escapes=data.isascii() and b"\\u" in data)
    pieces: list[str] = []
    before: int | None = None
    for number, cell in new:
        if pieces:
            follows = None not in (number, before) and number == (before or 0) + 1
            pieces.append(array.get_gap(written, number) if follows else style.separator)
        if number is None:
            pieces.append(style.dump(cell, style.line_break))
        else:
            span = array.spans[number - 1]
            old = cells[number - 1]
            pieces.append(_change_text(written, span, old=old, cell=cell, style=style))
        before = number
    body = "".join((style.head, *pieces, style.tail)) if pieces else ""
    changed = f"{written[: array.start]}{body}{written[array.end :]}"
    return changed.encode(encoding, "surrogatepass")


def _change_text(
    written: str,
    span: tuple[int, int],
    *,
    old: dict[str, Any],
    cell: dict[str, Any],
    style: "_CellStyle",
) -> str:
    """Return the text of a cell in which only the values that differ are written anew."""
    if old.keys() != cell.keys():
        return style.dump(cell, style.line_break)
    pieces: list[str] = []
    at = span[0]
    for name, (start, end) in _scan_object(written, span[0]).items():
        if old[name] != cell[name]:
            pieces += (
                written[at:start],
                style.dump(cell[name], f"{style.line_break}{style.indent}"),
            )
            at = end
    return "".join((*pieces, written[at : span[1]]))


@dataclass(frozen=True, slots=True, kw_only=True)
class _CellArray:
    """Where the list of cells is in the text of a notebook, between its brackets."""

    start: int
    end: int
    spans: tuple[tuple[int, int], ...]

    def get_gap(self, text: str, number: int | None) -> str:
        """Return what is between a cell and the one before it. Cells are counted from 1."""
        assert number is not None
        return text[self.spans[number - 2][1] : self.spans[number - 1][0]]


def _find_cells(text: str) -> _CellArray:
    """Locate the cells in the text of a notebook, which is valid JSON."""
    start, _ = _scan_object(text, text.index("{"))["cells"]
    return _scan_array(text, start + 1)


def _scan_object(text: str, at: int) -> dict[str, tuple[int, int]]:
    """Return where the values of an object are. Of two with the same name, the last one counts."""
    spans: dict[str, tuple[int, int]] = {}
    at = _skip_blanks(text, at + 1)
    while text[at] != "}":
        key, at = _DECODER.raw_decode(text, at)
        start = _skip_blanks(text, _skip_blanks(text, at) + 1)
        end = _DECODER.raw_decode(text, start)[1]
        spans.pop(key, None)
        spans[key] = (start, end)
        at = _skip_blanks(text, end)
        if text[at] == ",":
            at = _skip_blanks(text, at + 1)
    return spans


def _scan_array(text: str, start: int) -> _CellArray:
    spans: list[tuple[int, int]] = []
    at = _skip_blanks(text, start)
    while text[at] != "]":
        end = _DECODER.raw_decode(text, at)[1]
        spans.append((at, end))
        at = _skip_blanks(text, end)
        if text[at] == ",":
            at = _skip_blanks(text, at + 1)
    return _CellArray(start=start, end=at, spans=tuple(spans))


def _skip_blanks(text: str, at: int) -> int:
    found = _BLANKS.match(text, at)
    return found.end() if found else at


@dataclass(frozen=True, slots=True, kw_only=True)
class _CellStyle:
    """How a notebook writes its cells."""

    head: str
    """What is before the first cell."""
    separator: str
    tail: str
    indent: str
    """Empty if everything is in one line."""
    line_break: str
    """One with the indentation of a cell."""
    space: str
    """What follows a colon, and in one line a comma."""
    escapes: bool
    """True if other characters than those of ASCII are escaped."""

    def dump(self, value: Any, line_break: str) -> str:
        """Return a value as JSON. `line_break` is one with the indentation around the value."""
        in_lines = bool(self.indent)
        written = json.dumps(
            value,
            indent=self.indent or None,
            ensure_ascii=self.escapes,
            separators=("," if in_lines else f",{self.space}", f":{self.space}"),
        )
        return written.replace("\n", line_break)  # strings have no line breaks in JSON


def _choose_style(text: str, array: _CellArray, *, escapes: bool) -> _CellStyle:
    outer = _INDENT.match(text)
    is_empty = not array.spans
    head = f"{outer[1]}{outer[2] * 2}" if outer else ""
    tail = f"{outer[1]}{outer[2]}" if outer else ""
    if not is_empty:
        head = text[array.start : array.spans[0][0]]
        tail = text[array.spans[-1][1] : array.end]
    key_end = text.index('"', text.index('"') + 1) + 1
    space = " " if text[text.index(":", key_end) + 1] == " " else ""
    blanks = head.rpartition("\n")[2]
    has_lines = "\n" in head
    default = f",{head}" if has_lines else f",{space}"
    return _CellStyle(
        head=head,
        separator=array.get_gap(text, 2) if len(array.spans) > 1 else default,
        tail=tail,
        indent=blanks[: len(blanks) // 2] if has_lines else "",
        line_break=("\r\n" if "\r\n" in head else "\n") + blanks,
        space=space,
        escapes=escapes,
    )


def _parse(data: bytes) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise NotNotebook(f"is not valid JSON: {error}") from None
    cells = found.get("cells") if isinstance(found, dict) else None
    if not isinstance(cells, list) or not all(map(_is_cell, cells)):
        raise NotNotebook("has no list of cells: it is no notebook of version 4")
    if any(_MARKER.fullmatch(line) for cell in cells for line in _split_source(cell)):
        raise NotNotebook("has a cell with a line that looks like the beginning of another")
    return found


def _is_cell(cell: Any) -> bool:
    kinds = ("code", "markdown", "raw")
    return isinstance(cell, dict) and cell.get("cell_type") in kinds and "source" in cell


def _join(text: Any) -> str:
    return "".join(map(str, text)) if isinstance(text, list) else str(text)


def _split_source(cell: dict[str, Any]) -> list[str]:
    source = _join(cell["source"])
    return source.split("\n") if source else []


def _show_outputs(cell: dict[str, Any]) -> Iterator[str]:
    text = "\n".join(map(_show_output, cell.get("outputs") or ()))
    lines = to_plain_text(text).rstrip("\n").split("\n") if text.strip() else []
    is_cut = len(lines) > OUTPUT_LINES or len(text) > OUTPUT_CHARS
    left = OUTPUT_CHARS
    for line in lines[:OUTPUT_LINES]:
        yield f" {line[:left]}" if _MARKER.fullmatch(line) else line[:left]
        left -= len(line)
        if left <= 0:
            break
    if is_cut:
        yield f"[... the output has {len(lines)} lines and {len(text)} characters ...]"


def _show_output(output: Any) -> str:
    if not isinstance(output, dict):
        return ""
    if "text" in output:
        return _join(output["text"]).rstrip("\n")
    if output.get("output_type") == "error":
        trace = output.get("traceback") or [f"{output.get('ename')}: {output.get('evalue')}"]
        return "\n".join(map(str, trace))
    kinds = output.get("data")
    shown = []
    for media, value in kinds.items() if isinstance(kinds, dict) else ():
        if media == "text/plain":
            shown.append(_join(value))
        elif not media.startswith("text/"):
            shown.append(f"[{media}, {len(_join(value))} characters, not shown]")
    return "\n".join(shown)


def _split_cells(text: str) -> Iterator[_ShownCell]:
    number, kind, lines = None, "", list[str]()
    for line in text.removesuffix("\n").split("\n"):
        found = _MARKER.fullmatch(line)
        if found is None:
            lines.append(line)
            continue
        if kind or any(lines):
            yield _make_shown(number, kind, lines=lines)
        number = int(found["number"]) if found["number"] else None
        kind, lines = found["kind"] or "code", []
    if kind or any(lines):
        yield _make_shown(number, kind, lines=lines)


def _make_shown(number: int | None, kind: str, *, lines: list[str]) -> _ShownCell:
    if not kind:
        raise NotNotebook('has lines before its first cell, which begins with "# %% [1] code"')
    return _ShownCell(number=number, kind=kind, source="\n".join(lines))


def _find_outputs(text: str) -> dict[int, str]:
    cells = _split_cells(text)
    return {one.number: one.source for one in cells if one.kind == "output" and one.number}


def _change_cell(cell: dict[str, Any], shown: _ShownCell) -> dict[str, Any]:
    """Return the cell with its new source. The output of another source is not kept."""
    if shown.source == _join(cell["source"]) and shown.kind == cell["cell_type"]:
        return cell
    changed = {**cell, "cell_type": shown.kind, "source": _write_source(shown.source, cell)}
    for name, empty in (("execution_count", None), ("outputs", [])):
        if shown.kind == "code":
            changed[name] = empty  # in its place, so that the file changes nowhere else
        else:
            changed.pop(name, None)
    return changed


def _make_cell(shown: _ShownCell, position: int, *, notebook: dict[str, Any]) -> dict[str, Any]:
    version = (notebook.get("nbformat", 4), notebook.get("nbformat_minor", 0))
    made: dict[str, Any] = {"cell_type": shown.kind}
    if shown.kind == "code":
        made["execution_count"] = None
    if version >= _WITH_IDS:
        words = f"{position}\n{shown.source}".encode("utf-8", "surrogatepass")
        made["id"] = hashlib.sha256(words).hexdigest()[:8]
    made["metadata"] = {}
    if shown.kind == "code":
        made["outputs"] = []
    return {**made, "source": _write_source(shown.source, {"source": []})}


def _write_source(source: str, like: dict[str, Any]) -> Any:
    """Return the source as a list of lines, as notebooks have it, or as one text like the cell."""
    if isinstance(like["source"], str):
        return source
    return re.findall(r"[^\n]*\n|[^\n]+", source)
