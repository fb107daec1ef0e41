"""One path of the workspace as it is now: put into the store, or recorded without its content.

A link is stored as its target and never followed. A file is read once, through one handle.
"""

import os
import stat
from dataclasses import dataclass
from pathlib import Path

from agentcli.log.checkpoint.store import ObjectStore
from agentcli.log.checkpoint.trees import StoredEntry

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


@dataclass(frozen=True, slots=True)
class CapturedFile:
    entry: StoredEntry
    stamp: Stamp


def make_stamp(found: os.stat_result) -> Stamp:
    """Return values that change whenever the file does."""
    return (found.st_mode, found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino)


def capture(store: ObjectStore, path: bytes, root: bytes) -> CapturedFile | None:
    """Put the path into the store; return None if it is missing. Raise OSError if that fails."""
    try:
        found, data = _read(root + b"/" + path)
    except (FileNotFoundError, NotADirectoryError):
        return None
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
    store: ObjectStore, paths: tuple[bytes, ...], root: Path
) -> dict[bytes, StoredEntry]:
    """Return the existing ones of the named paths and of the directories they lie in."""
    state: dict[bytes, StoredEntry] = {}
    where = os.fsencode(root)
    for path in paths:
        parts = path.split(b"/")
        for length in range(1, len(parts) + 1):
            part = b"/".join(parts[:length])
            found = capture(store, part, where)
            if found is None:
                break
            state[part] = found.entry
            if not found.entry.is_dir:
                break
    return state
