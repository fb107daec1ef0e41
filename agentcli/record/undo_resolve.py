"""What a path becomes when a change to it is taken back, in view of what happened to it since."""

from dataclasses import dataclass

from agentcli.record.checkpoint.store import ObjectStore
from agentcli.record.checkpoint.trees import StoredEntry
from agentcli.record.undo_merge import merge_three_way


class UndoConflict(Exception):
    """It stays as it is. The message says why, after the path."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreeStates:
    base: StoredEntry | None
    """As the change left it."""
    mine: StoredEntry | None
    """As it is now."""
    theirs: StoredEntry | None
    """As it was before the change."""


def resolve(store: ObjectStore, three: ThreeStates) -> StoredEntry | None:
    """Raises Conflict rather than lose anything that is not kept elsewhere."""
    base, mine, theirs = three.base, three.mine, three.theirs
    if mine == theirs:
        return mine
    if any(kept is not None and not kept.has_content for kept in (base, mine, theirs)):
        raise UndoConflict("its content was not kept (too large, unreadable, or no regular file)")
    if mine == base:
        return theirs
    return _merge_sides(store, base, mine, theirs)


def _merge_sides(
    store: ObjectStore,
    base: StoredEntry | None,
    mine: StoredEntry | None,
    theirs: StoredEntry | None,
) -> StoredEntry | None:
    if mine is None:
        raise UndoConflict("was removed since: it stays removed")
    if base is None:
        raise UndoConflict("was made anew since: the new one stays")
    if base.is_dir and mine.is_dir:
        return _directory(base, mine, theirs)
    if theirs is None:
        raise UndoConflict("was changed since the call made it: it stays")
    if any(kept.is_dir or kept.is_link for kept in (base, mine, theirs)):
        raise UndoConflict("is of another kind since: it stays")
    return StoredEntry(_mode(base, mine, theirs), _content(store, base, mine, theirs))


def _directory(
    base: StoredEntry, mine: StoredEntry, theirs: StoredEntry | None
) -> StoredEntry | None:
    if theirs is None:
        return None  # it goes only if nothing is in it any more
    if not theirs.is_dir:
        raise UndoConflict("is of another kind since: it stays")
    return StoredEntry(_mode(base, mine, theirs))


def _mode(base: StoredEntry, mine: StoredEntry, theirs: StoredEntry) -> int:
    return theirs.mode if mine.mode == base.mode else mine.mode


def _content(store: ObjectStore, base: StoredEntry, mine: StoredEntry, theirs: StoredEntry) -> str:
    if mine.id == base.id:
        return theirs.id
    if base.id == theirs.id:
        return mine.id
    texts = [store.get("blob", kept.id) for kept in (base, mine, theirs)]
    merged = merge_three_way(texts[0], mine=texts[1], theirs=texts[2])
    if merged is None:
        raise UndoConflict("was changed since in the same place: it stays as it is")
    return store.put("blob", merged)
