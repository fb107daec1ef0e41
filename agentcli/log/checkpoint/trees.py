"""States of a directory tree as git trees, and the differences between two of them.

A state holds files, links and directories, empty ones too, with every bit of their permissions.
Names are bytes, as the file system has them.
"""

import hashlib
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from agentcli.log.checkpoint.store import EMPTY_TREE, ObjectStore
from agentcli.types.errors import SettingsError

_NOT_KEPT = 0o160000
"""The mode of an entry stored without its content: to git a pointer that it does not follow."""


@dataclass(frozen=True, slots=True)
class StoredEntry:
    mode: int
    """As in `os.stat`: the kind of file and its permissions."""
    id: str = ""
    """The id of the content, or of a link's target; empty for a directory."""

    @staticmethod
    def without_content(stamp: object) -> "StoredEntry":
        """Return an entry for what is too large or unreadable: it shows existence and changes."""
        digest = hashlib.sha1(repr(stamp).encode(), usedforsecurity=False).hexdigest()
        return StoredEntry(_NOT_KEPT, digest)

    @property
    def has_content(self) -> bool:
        return self.mode != _NOT_KEPT

    @property
    def is_dir(self) -> bool:
        return stat.S_ISDIR(self.mode)

    @property
    def is_link(self) -> bool:
        return stat.S_ISLNK(self.mode)


State = Mapping[bytes, StoredEntry]
"""Entries by path below the root. The parents of each path are in the state, too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeDifference:
    path: bytes
    before: StoredEntry | None
    after: StoredEntry | None


def write_state(store: ObjectStore, state: State) -> str:
    children: dict[bytes, dict[bytes, StoredEntry]] = {b"": {}}
    for path, kept in state.items():
        parent, _, name = path.rpartition(b"/")
        children.setdefault(parent, {})[name] = kept
        if kept.is_dir:
            children.setdefault(path, {})
    return _write_below(store, b"", children)


def _write_below(
    store: ObjectStore, path: bytes, children: Mapping[bytes, Mapping[bytes, StoredEntry]]
) -> str:
    prefix = path + b"/" if path else b""
    rows = {
        name: (kept, _write_below(store, prefix + name, children) if kept.is_dir else kept.id)
        for name, kept in children[path].items()
    }
    return write_tree(store, rows)


def write_tree(store: ObjectStore, rows: Mapping[bytes, tuple[StoredEntry, str]]) -> str:
    """Write one directory: its entries, each with the id of its content or of its own tree."""
    # Git compares a directory's name as if it ended in a slash.
    ordered = sorted(rows.items(), key=lambda row: row[0] + b"/" * row[1][0].is_dir)
    data = b"".join(
        b"%o %s\0" % (kept.mode if not kept.is_link else stat.S_IFLNK, name)
        + bytes.fromhex(object_id)
        for name, (kept, object_id) in ordered
    )
    return store.put("tree", data)


def find_differences(store: ObjectStore, before: str, after: str) -> list[TreeDifference]:
    """Return what differs. Directories that are the same are not read."""
    return list(_walk_differences(store, before, after, b""))


def _walk_differences(
    store: ObjectStore, before: str, after: str, prefix: bytes
) -> Iterator[TreeDifference]:
    if before == after:
        return
    old, new = _rows(store, before), _rows(store, after)
    for name in sorted(old.keys() | new.keys()):
        old_kept, old_id = old.get(name, (None, EMPTY_TREE))
        new_kept, new_id = new.get(name, (None, EMPTY_TREE))
        if (old_kept, old_id) == (new_kept, new_id):
            continue
        if old_kept != new_kept:
            yield TreeDifference(path=prefix + name, before=old_kept, after=new_kept)
        yield from _walk_differences(
            store,
            old_id if old_kept and old_kept.is_dir else EMPTY_TREE,
            new_id if new_kept and new_kept.is_dir else EMPTY_TREE,
            prefix + name + b"/",
        )


def _rows(store: ObjectStore, tree: str) -> dict[bytes, tuple[StoredEntry, str]]:
    if tree == EMPTY_TREE:
        return {}
    data, rows, at = store.get("tree", tree), {}, 0
    while at < len(data):
        end = data.index(b"\0", at)
        mode, _, name = data[at:end].partition(b" ")
        object_id = data[end + 1 : end + 21].hex()
        kept = StoredEntry(int(mode, 8), "" if mode.startswith(b"4") else object_id)
        rows[_check_name(name)] = (kept, object_id)
        at = end + 21
    return rows


def _check_name(name: bytes) -> bytes:
    """Return the name. Raise SettingsError for names that were never stored by us.

    Whoever wrote them wants to reach a path elsewhere.
    """
    if name in (b"", b".", b"..", b".git") or b"/" in name:
        raise SettingsError(f"a kept state holds the name {name!r}", hint="nothing was changed")
    return name
