"""Three-way merge of lines: what two sides made of one text, where they did not touch the same."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from agentcli.machine.diff import LineChange, find_changes, split_lines


@dataclass(frozen=True, slots=True)
class _Edit:
    start: int
    end: int
    lines: tuple[str, ...]
    """What stands there instead of the lines [start, end) of the base."""


def merge_three_way(base: bytes, *, mine: bytes, theirs: bytes) -> bytes | None:
    """None: both changed the same place in different ways, or it is not text."""
    if any(b"\0" in text for text in (base, mine, theirs)):
        return None
    lines = _lines(base)
    edits = _combine(_edits(lines, _lines(mine)), _edits(lines, _lines(theirs)))
    if edits is None:
        return None
    merged: list[str] = []
    at = 0
    for edit in edits:
        merged += (*lines[at : edit.start], *edit.lines)
        at = edit.end
    return "".join((*merged, *lines[at:])).encode("latin-1")


def _lines(text: bytes) -> list[str]:
    # Every byte is a character there: nothing of any encoding is lost.
    return split_lines(text.decode("latin-1"))


def _edits(base: Sequence[str], side: Sequence[str]) -> list[_Edit]:
    def edit(change: LineChange) -> _Edit:
        lines = tuple(side[change.new_start : change.new_end])
        return _Edit(change.old_start, change.old_end, lines)

    return [edit(change) for change in find_changes(base, side)]


def _combine(mine: Sequence[_Edit], theirs: Sequence[_Edit]) -> list[_Edit] | None:
    """In order; an edit that both made is made once."""
    combined: list[_Edit] = []
    for edit in _interleave(mine, theirs):
        if combined and edit == combined[-1]:
            continue
        if combined and _overlap(combined[-1], edit):
            return None
        combined.append(edit)
    return combined


def _interleave(mine: Sequence[_Edit], theirs: Sequence[_Edit]) -> Iterator[_Edit]:
    yield from sorted((*mine, *theirs), key=lambda edit: (edit.start, edit.end, edit.lines))


def _overlap(one: _Edit, other: _Edit) -> bool:
    """Neighbours do not, except where one only inserts: nobody knows which comes first."""
    if one.start == one.end or other.start == other.end:
        return other.start <= one.end
    return other.start < one.end
