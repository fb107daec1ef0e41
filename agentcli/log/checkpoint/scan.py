"""The workspace as it was last seen, updated by looking only where something changed.

In memory are the entries of every directory with their stamps. A file with an unchanged stamp is
not read again, unless it was written so shortly before that a stamp could not show it.
"""

import ctypes
import errno
import os
import stat
import struct
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import field
from pathlib import Path
from typing import Protocol

from agentcli.log.checkpoint.store import ObjectStore
from agentcli.log.checkpoint.trees import (
    LIMIT_BYTES,
    CapturedFile,
    Stamp,
    StoredEntry,
    capture,
    make_stamp,
    write_tree,
)
from agentcli.system.replace_file import TEMPORARY_BEGIN, is_stale, is_temporary
from agentcli.types.fast_dataclass import dataclass

FILES_MAX = 100_000
LOOK_MAX_BYTES = 500_000_000
"""The limit for new files in one look."""
DEPTH_MAX = 200
IGNORED_MAX = 1000
"""The limit for names of ignored files that are remembered per directory."""

NEVER = frozenset(
    {b".git", b"node_modules", b"__pycache__", b".venv", b".tox", b".mypy_cache", b".ruff_cache"}
)
"""Git's own files, and files that can be made again, whatever the ignore rules say."""

_RULES = b".gitignore"
_SETTINGS = b".agentcli"
_OURS = TEMPORARY_BEGIN.encode()
RACY_NS = 20_000_000
"""The resolution of file system clocks: two writes within it look like one."""
_UNSURE: Stamp = (0, 0, 0, 0, 0)
"""A stamp that no real file has."""


class IgnoreScope(Protocol):
    """The ignore rules of one directory."""

    def ignores(self, name: bytes, *, is_dir: bool) -> bool: ...

    def enter(self, name: bytes) -> "IgnoreScope": ...


class ScanStopped(Exception):
    """Nobody needs the scan any more."""


class WorkspaceTooLarge(Exception):
    """The workspace is too large to store; the message says in what, after its name."""


@dataclass(slots=True)
class _ScannedDirectory:
    scope: IgnoreScope
    entries: dict[bytes, CapturedFile] = field(default_factory=dict)
    ignored: set[bytes] = field(default_factory=set)
    """Names that the ignore rules leave out, or whose path is too long. They are not stored."""
    tree: str | None = None
    """Its id, until something below changes."""


class WorkspaceScan:
    def __init__(
        self,
        store: ObjectStore,
        root: Path,
        *,
        scope: IgnoreScope,
        outside: Iterable[Path] = (),
        known: Mapping[bytes, CapturedFile] | None = None,
        is_stopped: Callable[[], bool] = lambda: False,
    ) -> None:
        """`outside` are paths in the workspace that are not part of it, such as our own records.
        `known` are the files stored already, as `files` returned them before. `is_stopped` returns
        whether to give up. Raise WorkspaceTooLarge, ScanStopped or OSError."""
        self.newly_read = 0
        """The number of files whose content was not known."""
        self.rules_changed = False
        """True if an ignore file has changed: the next state needs a new scan."""
        self.removed_ignored: set[bytes] = set()
        """The ignored paths that the latest refresh no longer found."""
        self._store = store
        self._root = root
        self._where = os.fsencode(root)
        self._outside = {os.fsencode(path.relative_to(root)) for path in outside}
        self._directories: dict[bytes, _ScannedDirectory] = {}
        self._waiting: list[bytes] = []
        self._files = 0
        self._room_bytes = store.count_free_bytes(LOOK_MAX_BYTES)
        self._lost_names: set[int] = set()
        """The inodes of files of which the latest refresh no longer found a name."""
        self._watch = _watch()
        self._known = known or {}
        self._is_stopped = is_stopped
        # Files are read once all are listed: nothing is, if that is too much.
        self._unread: list[tuple[bytes, bytes, int]] | None = []
        try:
            self._enter(b"", scope)
            self._look(())
            self._read_listed()
            self.store_tree()  # a directory is written again only if something below changes
        except BaseException:
            self.close()
            raise
        self._known = {}
        self._is_stopped = lambda: False  # later looks are those of calls
        self.rules_changed = False

    def refresh(self) -> None:
        """Update the scan to the workspace as it is during this call."""
        self._room_bytes = self._store.count_free_bytes(LOOK_MAX_BYTES)
        self.removed_ignored.clear()
        changed = self._watch.take_changed() if self._watch else None
        self._lost_names.clear()
        linked = self._look(self._directories if changed is None else changed)
        if changed is not None and (linked or self._has_other_names()):
            # A file with several names changed under all of them, though written under one.
            self._look(self._directories.keys() - changed)

    def _has_other_names(self) -> bool:
        """Return whether a file of which a name is gone may have others: it may have changed."""
        return bool(self._lost_names) and any(
            one.stamp[-1] in self._lost_names
            for directory in self._directories.values()
            for one in directory.entries.values()
        )

    def store_tree(self) -> str:
        """Return the id of the whole tree."""
        return self._store_tree(b"")

    def files(self) -> Iterator[tuple[bytes, CapturedFile]]:
        """Yield every file whose content is stored and whose stamp can be trusted."""
        for path, directory in self._directories.items():
            for name, entry in directory.entries.items():
                if entry.entry.id and entry.entry.has_content and entry.stamp != _UNSURE:
                    yield _join(path, name), entry

    def close(self) -> None:
        if self._watch is not None:
            self._watch.close()
            self._watch = None

    def _look(self, paths: Iterable[bytes]) -> bool:
        """Look into these directories; return whether a changed file has other names."""
        linked = False
        self._waiting += sorted(paths, reverse=True)
        while self._waiting:
            if self._is_stopped():
                raise ScanStopped
            path = self._waiting.pop()
            if path in self._directories:
                self._watch_over(path)  # it may be a new one with the same name and number
                linked = self._look_into(path) or linked
        return linked

    def _look_into(self, path: bytes) -> bool:
        directory = self._directories[path]
        began_ns, linked = time.time_ns(), False
        found, ignored = self._list_directory(path, directory.scope)
        self._note_removed(path, directory.ignored - ignored)
        directory.ignored = ignored
        for name in directory.entries.keys() - found.keys():
            self._forget(path, name)
        for name, status in found.items():
            before, stamp = directory.entries.get(name), _compute_stamp(status)
            if before is not None and before.stamp == stamp:
                continue
            if before is None or before.entry.is_dir or stat.S_ISDIR(status.st_mode):
                self._forget(path, name)
                self._count()
            if stat.S_ISDIR(status.st_mode):
                directory.entries[name] = CapturedFile(StoredEntry(status.st_mode), stamp)
                self._enter(_join(path, name), directory.scope.enter(name))
                self._mark_changed(path)
            else:
                linked = linked or status.st_nlink > 1
                if self._is_known(path, name, status=status):
                    continue
                if self._unread is None:
                    self._keep(path, name, began_ns=began_ns)
                else:
                    self._unread.append((path, name, began_ns))
        return linked

    def _read_listed(self) -> None:
        listed, self._unread = self._unread or [], None
        for path, name, began_ns in listed:
            if self._is_stopped():
                raise ScanStopped
            self._keep(path, name, began_ns=began_ns)

    def _is_known(self, path: bytes, name: bytes, *, status: os.stat_result) -> bool:
        """Take over what an earlier session has stored, and return whether there was something."""
        known = self._known.get(_join(path, name))
        if known is None or known.stamp != make_stamp(status):
            self._check_space(status)
            return False
        self._directories[path].entries[name] = known
        self._mark_changed(path)
        return True

    def _keep(self, path: bytes, name: bytes, *, began_ns: int) -> None:
        entries = self._directories[path].entries
        before = entries.pop(name, None)
        now = capture(self._store, _join(path, name), root=self._where)
        if now is not None:
            is_fresh = now.stamp[3] > began_ns - RACY_NS
            entries[name] = CapturedFile(now.entry, _UNSURE) if is_fresh else now
        if now is None or before is None or before.entry != now.entry:
            self._mark_changed(path)
            self.rules_changed = self.rules_changed or name == _RULES

    def _enter(self, path: bytes, scope: IgnoreScope) -> None:
        self._directories[path] = _ScannedDirectory(scope)
        self._waiting.append(path)
        self._watch_over(path)

    def _watch_over(self, path: bytes) -> None:
        if self._watch is None or self._watch.holds(path):
            return
        try:
            self._watch.add(path, self._root)
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.EACCES, errno.ENAMETOOLONG):
                return  # gone again, or out of reach: there is nothing to see in it
            self.close()  # no more watches: from now on everything is looked at

    def _note_removed(self, path: bytes, ignored: Iterable[bytes]) -> None:
        """Note which of these names are gone. A name may also be left out by its limit."""
        paths = (_join(path, name) for name in ignored)
        self.removed_ignored.update(
            one for one in paths if not os.path.lexists(self._where + b"/" + one)
        )

    def _list_directory(
        self, path: bytes, scope: IgnoreScope
    ) -> tuple[dict[bytes, os.stat_result], set[bytes]]:
        """Return the entries of a directory, and the names that are not stored."""
        found: dict[bytes, os.stat_result] = {}
        ignored: set[bytes] = set()
        deep = path.count(b"/") >= DEPTH_MAX
        gone = suppress(FileNotFoundError, NotADirectoryError, PermissionError)
        with gone, os.scandir(self._where + b"/" + path) as entries:
            for entry in entries:
                is_dir = entry.is_dir(follow_symlinks=False)
                if entry.name in NEVER or (deep and is_dir):
                    continue
                if self._outside and _join(path, entry.name) in self._outside:
                    continue
                if entry.name.startswith(_OURS) and is_temporary(os.fsdecode(entry.name)):
                    _remove_if_stale(entry)
                    continue
                ignores = scope.ignores(entry.name, is_dir=is_dir)
                with suppress(FileNotFoundError):  # it alone is gone again
                    status = None if ignores else _stat_in_reach(entry)
                    if status is not None:
                        found[entry.name] = status
                    elif len(ignored) < IGNORED_MAX:
                        ignored.add(entry.name)
        return found, ignored

    def _forget(self, path: bytes, name: bytes) -> None:
        """Remove an entry, and everything below it if it is a directory."""
        entry = self._directories[path].entries.pop(name, None)
        if entry is None:
            return
        self._files -= 1
        self._mark_changed(path)
        self.rules_changed = self.rules_changed or name == _RULES
        if not entry.entry.is_dir:
            self._lost_names.add(entry.stamp[-1])
            return
        top = _join(path, name)
        for known in [p for p in self._directories if p == top or p.startswith(top + b"/")]:
            forgotten = self._directories.pop(known)
            self._lost_names.update(one.stamp[-1] for one in forgotten.entries.values())
            self._files -= len(forgotten.entries)
            self._note_removed(known, forgotten.ignored)
            if self._watch is not None:
                self._watch.remove(known)

    def _mark_changed(self, path: bytes) -> None:
        while True:
            self._directories[path].tree = None
            if not path:
                return
            path = path.rpartition(b"/")[0]

    def _store_tree(self, path: bytes) -> str:
        directory = self._directories[path]
        if directory.tree is None:
            if self._is_stopped():
                raise ScanStopped
            rows = {
                name: (
                    kept := entry.entry,
                    self._store_tree(_join(path, name)) if kept.is_dir else kept.id,
                )
                for name, entry in directory.entries.items()
                if not self._is_placeholder(_join(path, name))
            }
            directory.tree = write_tree(self._store, rows)
        return directory.tree

    def _is_placeholder(self, path: bytes) -> bool:
        """Return whether a sandbox made it as a placeholder while commands run: no command did."""
        found = self._directories.get(path) if path == _SETTINGS else None
        return found is not None and not found.entries

    def _count(self) -> None:
        self._files += 1
        if self._files > FILES_MAX:
            raise WorkspaceTooLarge(
                f"it has more than {FILES_MAX:,} files that no ignore rule leaves out"
            )

    def _check_space(self, status: os.stat_result) -> None:
        self.newly_read += 1
        self._room_bytes -= status.st_size if status.st_size <= LIMIT_BYTES else 0
        if self._room_bytes < 0:
            raise WorkspaceTooLarge(
                "it has more new content than may be kept at once, or there is room for"
            )


def _stat_in_reach(entry: os.DirEntry[bytes]) -> os.stat_result | None:
    """Return its status; None if its path is too long. Raise OSError if it is gone or closed."""
    try:
        return entry.stat(follow_symlinks=False)
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            return None
        raise


def _remove_if_stale(entry: os.DirEntry[bytes]) -> None:
    """Remove a file that a killed process of ours left in the workspace."""
    with suppress(OSError):  # read-only here, or gone already: then it is only left out
        if is_stale(entry.stat(follow_symlinks=False)):
            Path(os.fsdecode(entry.path)).unlink()


def is_rule_file(path: bytes) -> bool:
    return path.rpartition(b"/")[2] == _RULES


def _join(path: bytes, name: bytes) -> bytes:
    return path + b"/" + name if path else name


def _compute_stamp(status: os.stat_result) -> Stamp:
    """Return the stamp. For a directory only identity counts: its times change with each name."""
    if stat.S_ISDIR(status.st_mode):
        return (status.st_mode, 0, 0, 0, status.st_ino)
    return make_stamp(status)


def _watch() -> "DirectoryWatch | None":
    try:
        return DirectoryWatch()
    except OSError:
        return None


# The directories in which something changed, as the Linux kernel reports it. This is a hint where
# to look, not a proof. If the kernel cannot report (its limit of watches, a flood of events),
# everything has to be looked at.


_MASK = (
    0x2  # modified
    | 0x4  # permissions, owner, times
    | 0x8  # closed after writing: also the end of a shared mapping
    | 0x40
    | 0x80  # moved out, moved in
    | 0x100
    | 0x200  # created, deleted
    | 0x01000000  # only directories
    | 0x02000000  # links are not followed
)
_OVERFLOW = 0x4000
_IGNORED = 0x8000
_HEAD = struct.Struct("iIII")
_READ_BYTES = 1 << 16


class DirectoryWatch:
    """A set of watched directories. Raises OSError if the system has no such interface."""

    def __init__(self) -> None:
        if sys.platform != "linux":
            raise OSError("the system does not tell of changes")
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._fd = self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self._fd < 0:
            raise _build_os_error()
        self._paths: dict[int, bytes] = {}
        self._numbers: dict[bytes, int] = {}

    def add(self, path: bytes, root: Path) -> None:
        """Watch a directory. Call before looking at it, so that no change is missed."""
        whole = os.fsencode(root) + b"/" + path
        number = self._libc.inotify_add_watch(self._fd, whole, _MASK)
        if number < 0:
            raise _build_os_error()
        # A directory that was moved keeps its number.
        self._paths[number] = path
        self._numbers[path] = number

    def remove(self, path: bytes) -> None:
        number = self._numbers.pop(path, -1)
        if self._paths.get(number) == path:
            del self._paths[number]
            self._libc.inotify_rm_watch(self._fd, number)

    def take_changed(self) -> set[bytes] | None:
        """Return the directories that changed since the last call; None if events were lost."""
        found: set[bytes] = set()
        while True:
            try:
                data = os.read(self._fd, _READ_BYTES)
            except BlockingIOError:
                return found
            at = 0
            while at < len(data):
                number, mask, _, name_bytes = _HEAD.unpack_from(data, at)
                at += _HEAD.size + name_bytes
                if mask & _OVERFLOW:
                    self._drain()
                    self._numbers.clear()  # which of them are gone is not known either
                    return None
                path = self._paths.get(number)
                if path is None:
                    continue
                found.add(path)
                if mask & _IGNORED:  # it is gone, though another may have its name by now
                    self._lose(number, path)

    def holds(self, path: bytes) -> bool:
        return path in self._numbers

    def close(self) -> None:
        os.close(self._fd)

    def _lose(self, number: int, path: bytes) -> None:
        del self._paths[number]
        if self._numbers.get(path) == number:
            del self._numbers[path]

    def _drain(self) -> None:
        try:
            while os.read(self._fd, _READ_BYTES):
                pass
        except BlockingIOError:
            return


def _build_os_error() -> OSError:
    number = ctypes.get_errno()
    return OSError(number, os.strerror(number))
