"""States of a directory tree: read from disk, written as git trees, and compared.

A state holds files, links and directories, empty ones too, with every bit of their permissions.
Names are bytes, as the file system has them. A link is stored as its target and never followed.
"""

import errno
import hashlib
import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path

from agentcli.log.checkpoint.store import CANNOT_RESTORE, EMPTY_TREE, ObjectStore
from agentcli.types.errors import SettingsError
from agentcli.types.fast_dataclass import dataclass

LIMIT_BYTES = 8_000_000
"""The content of a larger file is not stored."""

_FLAGS = (
    os.O_RDONLY
    | getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_NONBLOCK", 0)
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_BINARY", 0)
)

Stamp = tuple[int, int, int, int, int]

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
    for path, entry in state.items():
        parent, _, name = path.rpartition(b"/")
        children.setdefault(parent, {})[name] = entry
        if entry.is_dir:
            children.setdefault(path, {})
    return _write_below(store, b"", children=children)


def _write_below(
    store: ObjectStore, path: bytes, *, children: Mapping[bytes, Mapping[bytes, StoredEntry]]
) -> str:
    prefix = path + b"/" if path else b""
    rows = {
        name: (
            entry,
            _write_below(store, prefix + name, children=children) if entry.is_dir else entry.id,
        )
        for name, entry in children[path].items()
    }
    return write_tree(store, rows)


def write_tree(store: ObjectStore, rows: Mapping[bytes, tuple[StoredEntry, str]]) -> str:
    """Write one directory: its entries, each with the id of its content or of its own tree."""
    # Git compares a directory's name as if it ended in a slash.
    ordered = sorted(rows.items(), key=lambda row: row[0] + b"/" * row[1][0].is_dir)
    data = b"".join(
        b"%o %s\0" % (entry.mode if not entry.is_link else stat.S_IFLNK, name)
        + bytes.fromhex(object_id)
        for name, (entry, object_id) in ordered
    )
    return store.put("tree", data)


def find_differences(store: ObjectStore, before: str, *, after: str) -> list[TreeDifference]:
    """Return what differs. Directories that are the same are not read."""
    return list(_walk_differences(store, before, after=after, prefix=b""))


def _walk_differences(
    store: ObjectStore, before: str, *, after: str, prefix: bytes
) -> Iterator[TreeDifference]:
    if before == after:
        return
    old, new = _read_rows(store, before), _read_rows(store, after)
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
            after=new_id if new_kept and new_kept.is_dir else EMPTY_TREE,
            prefix=prefix + name + b"/",
        )


def _read_rows(store: ObjectStore, tree: str) -> dict[bytes, tuple[StoredEntry, str]]:
    if tree == EMPTY_TREE:
        return {}
    data, rows, at = store.get("tree", tree), {}, 0
    while at < len(data):
        end = data.index(b"\0", at)
        mode, _, name = data[at:end].partition(b" ")
        object_id = data[end + 1 : end + 21].hex()
        entry = StoredEntry(int(mode, 8), "" if mode.startswith(b"4") else object_id)
        rows[_check_name(name)] = (entry, object_id)
        at = end + 21
    return rows


def _check_name(name: bytes) -> bytes:
    """Return the name. Raise SettingsError for names that were never stored by us.

    Whoever wrote them wants to reach a path elsewhere.
    """
    if name in (b"", b".", b"..", b".git") or b"/" in name:
        raise SettingsError(f"a stored state holds the name {name!r}", hint=CANNOT_RESTORE)
    return name


# Reading the disk


@dataclass(frozen=True, slots=True)
class CapturedFile:
    entry: StoredEntry
    stamp: Stamp


_OUT_OF_REACH = CapturedFile(StoredEntry.without_content("out of reach"), (0, 0, 0, 0, 0))
"""What lies in a directory that may not be entered: nobody knows whether it exists."""


def make_stamp(found: os.stat_result) -> Stamp:
    """Return values that change whenever the file does."""
    return (found.st_mode, found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino)


def capture(store: ObjectStore, path: bytes, *, root: bytes) -> CapturedFile | None:
    """Put the path into the store; return None if it is missing. Raise OSError if that fails."""
    try:
        found, data = _read(root + b"/" + path)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG):
            return None
        if error.errno == errno.EACCES:
            return _OUT_OF_REACH
        raise
    stamp = make_stamp(found)
    if stat.S_ISDIR(found.st_mode):
        return CapturedFile(StoredEntry(found.st_mode), stamp)
    if data is None:
        return CapturedFile(StoredEntry.without_content(stamp), stamp)
    mode = stat.S_IFLNK if stat.S_ISLNK(found.st_mode) else found.st_mode
    return CapturedFile(StoredEntry(mode, store.put("blob", data)), stamp)


def _read(whole: bytes) -> tuple[os.stat_result, bytes | None]:
    """Return its status and its content or target; None if it has none or it cannot be read."""
    found = os.lstat(whole)
    try:
        if stat.S_ISLNK(found.st_mode):
            return found, os.readlink(whole)  # noqa: PTH115 - bytes
        if stat.S_ISREG(found.st_mode) and found.st_size <= LIMIT_BYTES:
            return _read_file(whole)
    except PermissionError:
        return found, None
    return found, None


def _read_file(whole: bytes) -> tuple[os.stat_result, bytes | None]:
    handle = os.open(whole, _FLAGS)
    with os.fdopen(handle, "rb", buffering=0) as file:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode):
            return found, None
        data = file.read(found.st_size + 1)
        if len(data) > found.st_size:  # it is growing right now
            data += file.read(LIMIT_BYTES)
    return found, data if len(data) <= LIMIT_BYTES else None


def capture_paths(
    store: ObjectStore, paths: tuple[bytes, ...], *, root: Path
) -> dict[bytes, StoredEntry]:
    """Return the existing ones of the named paths and of the directories they lie in."""
    state: dict[bytes, StoredEntry] = {}
    where = os.fsencode(root)
    for path in paths:
        parts = path.split(b"/")
        for length in range(1, len(parts) + 1):
            part = b"/".join(parts[:length])
            found = capture(store, part, root=where)
            if found is None:
                break
            state[part] = found.entry
            if not found.entry.is_dir:
                break
    return state
