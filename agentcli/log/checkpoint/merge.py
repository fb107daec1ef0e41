"""Undoing a change to a path that changed since: a three-way merge of lines, and what it gives."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from agentcli.log.checkpoint.store import ObjectStore
from agentcli.log.checkpoint.trees import StoredEntry
from agentcli.system.diff import LineChange, find_changes, split_lines


@dataclass(frozen=True, slots=True)
class _Edit:
    start: int
    end: int
    lines: tuple[str, ...]
    """The lines that replace the lines [start, end) of the base."""


def merge_three_way(base: bytes, *, mine: bytes, theirs: bytes) -> bytes | None:
    """Return the merged text.

    Return None if both sides changed the same lines in different ways, or if it is not text.
    """
    if any(b"\0" in text for text in (base, mine, theirs)):
        return None
    lines = _split_lines(base)
    edits = _combine(
        _list_edits(lines, _split_lines(mine)), _list_edits(lines, _split_lines(theirs))
    )
    if edits is None:
        return None
    merged: list[str] = []
    at = 0
    for edit in edits:
        merged += (*lines[at : edit.start], *edit.lines)
        at = edit.end
    return "".join((*merged, *lines[at:])).encode("latin-1")


def mark_conflicts(base: bytes, *, mine: bytes, theirs: bytes, name: str) -> bytes:
    """Return the merged text, with markers around lines that both sides changed differently.

    `name` is that of the other side. Return nothing if it is not text."""
    if any(b"\0" in text for text in (base, mine, theirs)):
        return b""
    lines, sides = _split_lines(base), (_split_lines(mine), _split_lines(theirs))
    marked: list[str] = []
    at = 0
    for group in _group_overlapping([_list_edits(lines, side) for side in sides]):
        start, end = min(one.start for one in group.all), max(one.end for one in group.all)
        marked += lines[at:start]
        own, other = (_apply_edits(lines, edits, start=start, end=end) for edits in group.sides)
        if not group.sides[0] or not group.sides[1] or own == other:
            marked += own if group.sides[0] else other
        else:
            marked += ("<<<<<<< yours\n", *_end_line(own), "=======\n", *_end_line(other))
            marked.append(f">>>>>>> {name}\n")
        at = end
    return "".join((*marked, *lines[at:])).encode("latin-1")


@dataclass(slots=True)
class _EditGroup:
    """Edits that touch the same lines, by their side."""

    sides: tuple[list[_Edit], list[_Edit]]

    @property
    def all(self) -> list[_Edit]:
        return [*self.sides[0], *self.sides[1]]


def _group_overlapping(sides: Sequence[Sequence[_Edit]]) -> list[_EditGroup]:
    groups: list[_EditGroup] = []
    numbered = [(edit, number) for number, edits in enumerate(sides) for edit in edits]
    for edit, number in sorted(numbered, key=lambda one: (one[0].start, one[0].end)):
        if not groups or not any(_overlap(one, edit) for one in groups[-1].all):
            groups.append(_EditGroup(([], [])))
        groups[-1].sides[number].append(edit)
    return groups


def _apply_edits(
    lines: Sequence[str], edits: Sequence[_Edit], *, start: int, end: int
) -> list[str]:
    """Return the lines [start, end) of the base with the edits."""
    applied: list[str] = []
    for edit in edits:
        applied += (*lines[start : edit.start], *edit.lines)
        start = edit.end
    return [*applied, *lines[start:end]]


def _end_line(lines: Sequence[str]) -> list[str]:
    """Return the lines; the last one ends, so that a marker can follow."""
    is_open = bool(lines) and not lines[-1].endswith("\n")
    return [*lines[:-1], f"{lines[-1]}\n"] if is_open else [*lines]


def _split_lines(text: bytes) -> list[str]:
    # Latin-1 maps every byte to one character, so no encoding loses anything.
    return split_lines(text.decode("latin-1"))


def _list_edits(base: Sequence[str], side: Sequence[str]) -> list[_Edit]:
    def edit(change: LineChange) -> _Edit:
        lines = tuple(side[change.new_start : change.new_end])
        return _Edit(change.old_start, change.old_end, lines)

    return [edit(change) for change in find_changes(base, side)]


def _combine(mine: Sequence[_Edit], theirs: Sequence[_Edit]) -> list[_Edit] | None:
    """Combine the edits in order; an edit that both sides made is made once."""
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
    """Return whether two edits overlap.

    Neighbours do not, unless one only inserts: then the order of the two is unknown.
    """
    if one.start == one.end or other.start == other.end:
        return other.start <= one.end
    return other.start < one.end


# The state of a path when a change to it is undone, given what happened to it since.


class UndoConflict(Exception):
    """The path stays unchanged. The message says why, after the path."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreeStates:
    base: StoredEntry | None
    """The state after the change."""
    mine: StoredEntry | None
    """The state now."""
    theirs: StoredEntry | None
    """The state before the change."""


def resolve(store: ObjectStore, three: ThreeStates) -> StoredEntry | None:
    """Return the state to restore.

    Raise UndoConflict rather than lose what is not stored elsewhere.
    """
    base, mine, theirs = three.base, three.mine, three.theirs
    if mine == theirs:
        return mine
    if any(entry is not None and not entry.has_content for entry in (base, mine, theirs)):
        raise UndoConflict(
            "its content was not stored (too large, unreadable, or not a regular file)"
        )
    if mine == base:
        return theirs
    return _merge_sides(store, base, mine=mine, theirs=theirs)


def _merge_sides(
    store: ObjectStore,
    base: StoredEntry | None,
    *,
    mine: StoredEntry | None,
    theirs: StoredEntry | None,
) -> StoredEntry | None:
    if mine is None:
        raise UndoConflict("deleted since then, and stays deleted")
    if base is None:
        raise UndoConflict("created again since then; the new one stays")
    if base.is_dir and mine.is_dir:
        return _merge_directory(base, mine, theirs=theirs)
    if theirs is None:
        raise UndoConflict("changed since then; it stays")
    if any(entry.is_dir or entry.is_link for entry in (base, mine, theirs)):
        raise UndoConflict("replaced by another kind of file since then; it stays")
    return StoredEntry(
        _merge_mode(base, mine, theirs=theirs),
        _merge_content(store, base, mine=mine, theirs=theirs),
    )


def _merge_directory(
    base: StoredEntry, mine: StoredEntry, *, theirs: StoredEntry | None
) -> StoredEntry | None:
    if theirs is None:
        return None  # it is removed only if it is empty by then
    if not theirs.is_dir:
        raise UndoConflict("replaced by another kind of file since then; it stays")
    return StoredEntry(_merge_mode(base, mine, theirs=theirs))


def _merge_mode(base: StoredEntry, mine: StoredEntry, *, theirs: StoredEntry) -> int:
    return theirs.mode if mine.mode == base.mode else mine.mode


def _merge_content(
    store: ObjectStore, base: StoredEntry, *, mine: StoredEntry, theirs: StoredEntry
) -> str:
    if mine.id == base.id:
        return theirs.id
    if base.id == theirs.id:
        return mine.id
    texts = [store.get("blob", entry.id) for entry in (base, mine, theirs)]
    merged = merge_three_way(texts[0], mine=texts[1], theirs=texts[2])
    if merged is None:
        if any(b"\0" in text for text in texts):
            raise UndoConflict("changed since then, and has no lines to merge; it stays unchanged")
        raise UndoConflict("the same lines were changed since then; it stays unchanged")
    return store.put("blob", merged)
