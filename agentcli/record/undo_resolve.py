"""What a path becomes when a change to it is taken back, in view of what happened to it since."""

from dataclasses import dataclass

from agentcli.record.checkpoint.store import Store
from agentcli.record.checkpoint.trees import Kept
from agentcli.record.undo_merge import merge


class Conflict(Exception):
    """It stays as it is. The message says why, after the path."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Three:
    base: Kept | None
    """As the change left it."""
    mine: Kept | None
    """As it is now."""
    theirs: Kept | None
    """As it was before the change."""


def resolve(store: Store, three: Three) -> Kept | None:
    """Raises Conflict rather than lose anything that is not kept elsewhere."""
    base, mine, theirs = three.base, three.mine, three.theirs
    if mine == theirs:
        return mine
    if any(kept is not None and not kept.has_content for kept in (base, mine, theirs)):
        raise Conflict("its content was not kept (too large, unreadable, or no regular file)")
    if mine == base:
        return theirs
    return _merged(store, base, mine, theirs)


def _merged(store: Store, base: Kept | None, mine: Kept | None, theirs: Kept | None) -> Kept | None:
    if mine is None:
        raise Conflict("was removed since: it stays removed")
    if base is None:
        raise Conflict("was made anew since: the new one stays")
    if base.is_dir and mine.is_dir:
        return _directory(base, mine, theirs)
    if theirs is None:
        raise Conflict("was changed since the call made it: it stays")
    if any(kept.is_dir or kept.is_link for kept in (base, mine, theirs)):
        raise Conflict("is of another kind since: it stays")
    return Kept(_mode(base, mine, theirs), _content(store, base, mine, theirs))


def _directory(base: Kept, mine: Kept, theirs: Kept | None) -> Kept | None:
    if theirs is None:
        return None  # it goes only if nothing is in it any more
    if not theirs.is_dir:
        raise Conflict("is of another kind since: it stays")
    return Kept(_mode(base, mine, theirs))


def _mode(base: Kept, mine: Kept, theirs: Kept) -> int:
    return theirs.mode if mine.mode == base.mode else mine.mode


def _content(store: Store, base: Kept, mine: Kept, theirs: Kept) -> str:
    if mine.id == base.id:
        return theirs.id
    if base.id == theirs.id:
        return mine.id
    texts = [store.get("blob", kept.id) for kept in (base, mine, theirs)]
    merged = merge(texts[0], mine=texts[1], theirs=texts[2])
    if merged is None:
        raise Conflict("was changed since in the same place: it stays as it is")
    return store.put("blob", merged)
