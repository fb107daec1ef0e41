"""The parser of patches: from text to the changes of each file.

`patch_grammar.lark` defines the same for models that can be held to a grammar. Text that was not
held to it is accepted only if its meaning is clear. The rest is refused, with its line.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, TypeAlias

from agentcli.system.lazy import compile_later
from agentcli.system.text import to_lf, to_printable
from agentcli.types.errors import ToolError
from agentcli.types.fast_dataclass import dataclass
from agentcli.types.tools import ErrorKind

BEGIN = "*** Begin Patch"
END = "*** End Patch"
ADD = "*** Add File: "
DELETE = "*** Delete File: "
UPDATE = "*** Update File: "
MOVE = "*** Move to: "
AT_END = "*** End of File"
HEADING = "@@"
KEPT, REMOVED, ADDED = " ", "-", "+"

SHOWN_CHARS = 80

_FILES = (ADD, DELETE, UPDATE)
_MARKER = compile_later(
    r"[ \t]*\*\*\*[ \t]*(?:(Begin Patch|End Patch|End of File)[ \t]*"
    r"|((?:Add File|Delete File|Update File|Move to):)[ \t]*(.*))"
)
"""A marker with any spaces around its parts."""
_HEREDOC = compile_later(
    r"(?:apply_?patch|cat)?[ \t]*<<-?[ \t]*(['\"]?)(\w+)\1(?:[ \t]*\|[ \t]*apply_?patch)?"
)
_FENCE = "```"
_NUMBERED = compile_later(r"@@ -\d+(?:,\d+)? \+\d+(?:,\d+)? @@ ?(.*)")
"""The hunk header of other patch formats; its numbers are ignored."""


class PatchLine(NamedTuple):
    mark: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Hunk:
    headings: tuple[str, ...]
    """Lines of the file that lead to the location, from the outside in."""
    lines: tuple[PatchLine, ...]
    at_end: bool
    """True if the hunk describes the end of the file."""
    number: int
    """The line of the patch where the hunk begins."""

    @property
    def old(self) -> list[str]:
        return [line.text for line in self.lines if line.mark != ADDED]

    @property
    def new(self) -> list[str]:
        return [line.text for line in self.lines if line.mark != REMOVED]

    @property
    def changes_something(self) -> bool:
        return any(line.mark != KEPT for line in self.lines)


@dataclass(frozen=True, slots=True, kw_only=True)
class Add:
    path: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Delete:
    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    path: str
    move_to: str | None
    hunks: tuple[Hunk, ...]


FileChange: TypeAlias = Add | Delete | Update


class _Row(NamedTuple):
    number: int
    text: str


def parse_patch(text: str) -> tuple[FileChange, ...]:
    """Parse a patch; raise ToolError that names the wrong line."""
    numbered = enumerate(to_lf(text).split("\n"), start=1)
    rows = _unwrap(_trim([_Row(number, line) for number, line in numbered]))
    rows = list(_tidy_markers(_dedent(rows)))
    if not rows:
        raise _build_invalid_error(
            f'the patch is empty. It begins with "{BEGIN}" and ends with "{END}".'
        )
    if rows[0].text != BEGIN:
        is_unified = rows[0].text.startswith(("--- ", "diff --git"))
        other = "; a unified diff is applied by git apply in bash" if is_unified else ""
        raise _build_row_error(rows[0], f'A patch begins with "{BEGIN}"{other}')
    if rows[-1].text != END:
        raise _build_row_error(rows[-1], f'A patch ends with "{END}"')
    changes = tuple(_parse_change(section) for section in _split_sections(rows[1:-1]))
    _check(changes)
    return changes


def _trim(rows: Sequence[_Row]) -> Sequence[_Row]:
    """Return the rows without blank ones at both ends."""
    filled = [index for index, row in enumerate(rows) if row.text.strip()]
    return rows[filled[0] : filled[-1] + 1] if filled else []


def _unwrap(rows: Sequence[_Row]) -> Sequence[_Row]:
    """Return the rows without a shell's heredoc or a code fence around the patch."""
    while len(rows) > 1:
        first, last = rows[0].text.strip(), rows[-1].text.strip()
        heredoc = _HEREDOC.fullmatch(first)
        is_fenced = first.startswith(_FENCE) and last == _FENCE
        if not is_fenced and (heredoc is None or last != heredoc[2]):
            break
        rows = _trim(rows[1:-1])
    return rows


def _dedent(rows: Sequence[_Row]) -> Sequence[_Row]:
    """Return the rows without an indentation that all of them have.

    No patch without it is meant: the first marker has it, too."""
    text = rows[0].text if rows else ""
    padding = text[: len(text) - len(text.lstrip())]
    if not all(row.text.startswith(padding) for row in rows if row.text.strip()):
        return rows
    return [_Row(row.number, row.text[len(padding) :]) for row in rows]


def _tidy_markers(rows: Sequence[_Row]) -> Iterator[_Row]:
    """Yield the rows, the markers among them with the spaces that belong there.

    In an update, a row that begins with a space is a line of the file, whatever it looks like."""
    is_update = False
    for row in rows:
        found = _MARKER.fullmatch(row.text)
        if not found or (is_update and row.text[0] == KEPT and row is not rows[-1]):
            yield row
            continue
        text = f"*** {found[1] or f'{found[2]} {found[3]}'}"
        is_update = text.startswith(UPDATE) or (is_update and not text.startswith(_FILES))
        yield _Row(row.number, text)


def _split_sections(rows: Sequence[_Row]) -> list[list[_Row]]:
    """Split the rows by file; the first row of each section names the file."""
    sections: list[list[_Row]] = []
    for row in rows:
        if row.text.startswith(_FILES):
            sections.append([row])
        elif sections:
            sections[-1].append(row)
        elif row.text.strip():
            expected = ", ".join(f'"{marker}PATH"' for marker in _FILES)
            raise _build_row_error(row, f"Each file begins with one of {expected}")
    return sections


def _parse_change(section: Sequence[_Row]) -> FileChange:
    head, body = section[0], _trim_end(section[1:])
    if head.text.startswith(ADD):
        return Add(path=_read_path(head, ADD), text=_read_added(body))
    if head.text.startswith(DELETE):
        for row in body:
            raise _build_row_error(row, "Nothing follows the name of a file that is deleted")
        return Delete(path=_read_path(head, DELETE))
    move_to = None
    if body and body[0].text.startswith(MOVE):
        move_to = _read_path(body[0], MOVE)
        body = body[1:]
    hunks = _parse_hunks(body)
    if not hunks and move_to is None:
        raise _build_row_error(
            head, f'What changes in it follows, in hunks that begin with "{HEADING}"'
        )
    return Update(path=_read_path(head, UPDATE), move_to=move_to, hunks=hunks)


def _trim_end(rows: Sequence[_Row]) -> Sequence[_Row]:
    """Return the rows without trailing blank ones, which only separate files."""
    last = len(rows)
    while last and not rows[last - 1].text:
        last -= 1
    return rows[:last]


def _read_path(row: _Row, marker: str) -> str:
    path = row.text.removeprefix(marker).strip()
    if not path:
        raise _build_row_error(row, f'A path follows "{marker}"')
    return path


def _read_added(rows: Sequence[_Row]) -> str:
    for row in rows:
        if not row.text.startswith(ADDED):
            raise _build_row_error(row, f'Every line of a file that is added begins with "{ADDED}"')
    return "".join(f"{row.text[1:]}\n" for row in rows)


def _parse_hunks(rows: Iterable[_Row]) -> tuple[Hunk, ...]:
    hunks: list[Hunk] = []
    for group in _split_groups(rows):
        headings = tuple(_read_heading(row) for row in group if row.text.startswith(HEADING))
        lines = [row for row in group if not row.text.startswith(HEADING)]
        at_end = bool(lines) and lines[-1].text.rstrip() == AT_END
        hunk = Hunk(
            headings=tuple(filter(None, headings)),
            lines=tuple(map(_parse_line, lines[:-1] if at_end else lines)),
            at_end=at_end,
            number=group[0].number,
        )
        if not hunk.changes_something:
            raise _build_row_error(group[0], 'This hunk has no line that begins with "+" or "-"')
        hunks.append(hunk)
    return tuple(hunks)


def _split_groups(rows: Iterable[_Row]) -> list[list[_Row]]:
    """Split rows into hunks: one ends before a heading, or after the end-of-file marker."""
    groups: list[list[_Row]] = []
    is_open = False
    for row in rows:
        is_heading = row.text.startswith(HEADING)
        if not is_open or (is_heading and not groups[-1][-1].text.startswith(HEADING)):
            groups.append([])
        groups[-1].append(row)
        is_open = row.text.rstrip() != AT_END
    return groups


def _read_heading(row: _Row) -> str:
    numbered = _NUMBERED.fullmatch(row.text)
    return (numbered[1] if numbered else row.text.removeprefix(HEADING)).strip()


def _parse_line(row: _Row) -> PatchLine:
    if not row.text:
        return PatchLine(KEPT, "")  # a blank line of the file, without the space that marks it
    if row.text[0] not in (KEPT, REMOVED, ADDED):
        raise _build_row_error(row, 'Every line of a hunk begins with " ", "-" or "+"')
    return PatchLine(row.text[0], row.text[1:])


def _check(changes: Sequence[FileChange]) -> None:
    if not changes:
        raise _build_invalid_error("the patch names no file.")
    seen: set[str] = set()
    for change in changes:
        target = change.move_to if isinstance(change, Update) else None
        for path in filter(None, (change.path, target)):
            if path in seen:
                raise _build_invalid_error(
                    f"{to_printable(path)} is named twice. Put its hunks together."
                )
            seen.add(path)


def _build_row_error(row: _Row, expected: str) -> ToolError:
    shown = to_printable(row.text)
    shown = shown if len(shown) <= SHOWN_CHARS else f"{shown[:SHOWN_CHARS]}…"
    return _build_invalid_error(f'line {row.number} of the patch is "{shown}". {expected}.')


def _build_invalid_error(reason: str) -> ToolError:
    return ToolError(reason, kind=ErrorKind.INVALID_INPUT)
