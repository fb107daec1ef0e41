"""Jupyter notebooks as text: their cells one after the other, with short outputs, without base64.

Each cell begins with a line such as `# %% [3] code`, and its output with `# %% [3] output`. The
text can be edited: a cell without a number is new, one whose lines are gone is deleted. What is
not shown of a cell, such as its metadata, stays as it is.
"""

import hashlib
import json
import re
from collections.abc import Iterator
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
_INDENT = compile_later(r"\{\r?\n( +)\"")
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
    new: list[dict[str, Any]] = []
    for shown in _split_cells(text):
        number = shown.number
        if number is not None and not 1 <= number <= len(cells):
            raise NotNotebook(f"has cells 1 to {len(cells)}, and no cell [{number}]")
        if shown.kind == "output":
            if number is None or outputs.get(number) != shown.source:
                raise NotNotebook("keeps the outputs of its cells: only cells can be edited")
        elif number is None:
            new.append(_make_cell(shown, len(new), notebook=notebook))
        elif number in is_kept:
            raise NotNotebook(f"would have the cell [{number}] twice: leave the number out")
        else:
            is_kept.add(number)
            new.append(_change_cell(cells[number - 1], shown))
    indent = _INDENT.match(data[:100].decode("utf-8", "replace"))
    written = json.dumps(
        {**notebook, "cells": new},
        indent=len(indent[1]) if indent else None,
        ensure_ascii=data.isascii() and b"\\u" in data,
    )
    return (written + "\n" * data.endswith(b"\n")).encode("utf-8", "surrogatepass")


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
