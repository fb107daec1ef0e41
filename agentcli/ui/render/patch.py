"""A unified diff parsed for display: its lines with their numbers, and what no line can show."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from unidiff.errors import UnidiffParseError
from unidiff.patch import Hunk, PatchSet

from agentcli.ui.render.paint import TextRange, escape, escape_with_ranges

TAB = 4
NO_NEWLINE = "\\"


@dataclass(slots=True, kw_only=True)
class DiffLine:
    sign: str
    """`+`, `-` or a blank."""
    raw: str
    """The line as it is in the file, with its ending."""
    number: int
    """The line number: in the old file if it was removed, in the new one otherwise."""
    text: str = ""
    """The text to show: without its ending, tabs as blanks, control characters as escapes."""
    escapes: list[TextRange] = field(default_factory=list)
    words: list[TextRange] = field(default_factory=list)
    """The ranges of the words that are new in it, or removed with it."""
    is_unended: bool = False
    """True if no newline follows: it is the last line of its file."""


@dataclass(frozen=True, slots=True)
class FilePatch:
    path: str
    hunks: tuple[list[DiffLine], ...]


def read_patch(unified: str) -> list[FilePatch] | None:
    """Return the files of a unified diff; None if it cannot be read as one."""
    try:
        files = PatchSet(unified)
    except UnidiffParseError:
        return None
    read = [FilePatch(escape(file.path), tuple(map(_read_hunk, file))) for file in files]
    return read or None


def _read_hunk(hunk: Hunk) -> list[DiffLine]:
    lines: list[DiffLine] = []
    for line in hunk:
        if line.line_type == NO_NEWLINE:
            if lines:
                lines[-1].is_unended = True
            continue
        number = line.source_line_no if line.line_type == "-" else line.target_line_no
        shown = line.value.removesuffix("\n").removesuffix("\r").expandtabs(TAB)
        text, escapes = escape_with_ranges(shown)
        lines.append(
            DiffLine(
                sign=line.line_type,
                raw=line.value,
                number=number or 0,
                text=text,
                escapes=escapes,
            )
        )
    return lines


def list_remarks(files: Sequence[FilePatch]) -> list[str]:
    """Return the changes that no line shows."""
    lines = [line for file in files for hunk in file.hunks for line in hunk]
    removed = [line for line in lines if line.sign == "-"]
    added = [line for line in lines if line.sign == "+"]
    return [
        *_compare_line_ends(lines, removed, added),
        *_compare_last_newline(lines),
        *_compare_blanks(removed, added),
    ]


def _compare_line_ends(
    lines: Sequence[DiffLine], removed: Sequence[DiffLine], added: Sequence[DiffLine]
) -> Iterator[str]:
    if removed and added and _is_crlf(removed) != _is_crlf(added):
        yield f"line ends change from {_name_line_end(removed)} to {_name_line_end(added)}"
    elif _is_crlf(lines):
        yield "line ends are CRLF"


def _compare_last_newline(lines: Sequence[DiffLine]) -> Iterator[str]:
    unended = {line.sign for line in lines if line.is_unended}
    if unended == {"-"}:
        yield "a newline is added at the end of the file"
    elif unended == {"+"} and any(line.sign == "-" for line in lines):
        yield "the newline at the end of the file is removed"
    elif unended:
        yield "no newline at the end of the file"


def _compare_blanks(removed: Sequence[DiffLine], added: Sequence[DiffLine]) -> Iterator[str]:
    if not removed or not added or _join_letters(removed) != _join_letters(added):
        return
    before, after = _join_indents(removed), _join_indents(added)
    if [line.text for line in removed] == [line.text for line in added] and before == after:
        return
    if "\t" in before and "\t" not in after:
        yield "whitespace only: tabs become spaces"
    elif "\t" in after and "\t" not in before:
        yield "whitespace only: spaces become tabs"
    elif before != after or _join_letters(removed):
        yield "whitespace only"


def _join_letters(lines: Sequence[DiffLine]) -> str:
    return "".join("".join(line.raw.split()) for line in lines)


def _join_indents(lines: Sequence[DiffLine]) -> str:
    return "".join(line.raw[: len(line.raw) - len(line.raw.lstrip(" \t"))] for line in lines)


def _is_crlf(lines: Sequence[DiffLine]) -> bool:
    """Return whether all lines that have an ending end in CRLF."""
    ended = [line for line in lines if not line.is_unended]
    return bool(ended) and all(line.raw.endswith("\r\n") for line in ended)


def _name_line_end(lines: Sequence[DiffLine]) -> str:
    return "CRLF" if _is_crlf(lines) else "LF"
