"""A file, link or small directory as a value: to compare with later, and to write back.

Links are never followed, neither to read nor to write. Every name is reached through the open
directory that holds it.
"""

import os
import secrets
import shutil
import stat
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TypeAlias

from agentcli.types.fast_dataclass import dataclass

_FILE_LIMIT_BYTES = 8 * 1024 * 1024
_ALL_LIMIT_BYTES = 64 * 1024 * 1024
_ENTRY_LIMIT = 2000
_DEPTH_LIMIT = 16
_TICK_S = 0.05
"""Resolution of time stamps: their clock moves in steps, and within one a change may not show."""
_COARSE_TICK_S = 2.0
"""The same, for file systems that store whole seconds."""

_NO_LINK = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
DIRECTORY = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | _NO_LINK
_PASS = getattr(os, "O_PATH", os.O_RDONLY) | getattr(os, "O_DIRECTORY", 0) | _NO_LINK
_READ = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | _NO_LINK
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NO_LINK


@dataclass(frozen=True, slots=True)
class FileContent:
    mode: int
    content: bytes
    has_other_names: bool = False
    """True if it has other hard links, wherever they are, by which it could be written later."""


@dataclass(frozen=True, slots=True)
class LinkContent:
    target: str


@dataclass(frozen=True, slots=True)
class DirectoryContent:
    mode: int
    children: Mapping[str, "Entry"]


@dataclass(frozen=True, slots=True)
class UnreadContent:
    """Content that is no file, unreadable or too large: compared, but never written back."""

    identity: tuple[int, ...]


Entry: TypeAlias = FileContent | LinkContent | DirectoryContent | UnreadContent


class _TooMuch(Exception):
    pass


class _Budget:
    """The limit on how much of one entry is read."""

    def __init__(self) -> None:
        self._entries = _ENTRY_LIMIT
        self._bytes = _ALL_LIMIT_BYTES

    def spend(self, found: os.stat_result, depth: int) -> None:
        self._entries -= 1
        self._bytes -= found.st_size if stat.S_ISREG(found.st_mode) else 0
        if self._entries < 0 or self._bytes < 0 or depth > _DEPTH_LIMIT:
            raise _TooMuch


class ContentReader:
    """A reader of entries. Content is not read again while nothing about it changed."""

    def __init__(self) -> None:
        self._contents: dict[tuple[int, ...], bytes] = {}

    def read(self, name: str, parent: int) -> Entry | None:
        """Return the entry, or None if there is nothing of that name."""
        try:
            found = os.stat(name, dir_fd=parent, follow_symlinks=False)
        except FileNotFoundError:
            return None
        try:
            return self._read_entry(name, parent, found=found, budget=_Budget(), depth=0)
        except (OSError, _TooMuch):
            return UnreadContent(_identify(found))

    def _read_entry(
        self, name: str, parent: int, *, found: os.stat_result, budget: _Budget, depth: int
    ) -> Entry:
        mode = stat.S_IMODE(found.st_mode)
        if stat.S_ISREG(found.st_mode) and found.st_size > _FILE_LIMIT_BYTES:
            return UnreadContent(_identify(found))
        budget.spend(found, depth)
        if stat.S_ISLNK(found.st_mode):
            return LinkContent(os.readlink(name, dir_fd=parent))
        if stat.S_ISDIR(found.st_mode):
            return DirectoryContent(
                mode, self._read_children(name, parent, budget=budget, depth=depth)
            )
        if stat.S_ISREG(found.st_mode):
            return FileContent(
                mode, self._read_content(name, parent, found=found), found.st_nlink > 1
            )
        return UnreadContent(_identify(found))

    def _read_children(
        self, name: str, parent: int, *, budget: _Budget, depth: int
    ) -> dict[str, Entry]:
        handle = os.open(name, DIRECTORY, dir_fd=parent)
        try:
            children = {}
            with os.scandir(handle) as entries:
                for child in entries:
                    found = child.stat(follow_symlinks=False)
                    children[child.name] = self._read_entry(
                        child.name, handle, found=found, budget=budget, depth=depth + 1
                    )
            return children
        finally:
            os.close(handle)

    def _read_content(self, name: str, parent: int, *, found: os.stat_result) -> bytes:
        key = _identify(found)
        known = self._contents.get(key)
        if known is not None:
            return known
        with os.fdopen(os.open(name, _READ, dir_fd=parent), "rb") as file:
            content = file.read(_FILE_LIMIT_BYTES)
        if _is_settled(found):
            if len(self._contents) > _ENTRY_LIMIT:
                self._contents.clear()
            self._contents[key] = content
        return content


def put_back(name: str, parent: int, *, before: Entry | None, after: Entry | None) -> None:
    """Restore an entry to what it was before. Content that was not read is left alone."""
    if before == after or isinstance(before, UnreadContent):
        return
    if isinstance(before, DirectoryContent) and isinstance(after, DirectoryContent):
        _put_back_below(name, parent, before=before, after=after)
        return
    remove_entry(name, parent)
    if before is not None:
        write_entry(name, parent, entry=before)


def _put_back_below(
    name: str, parent: int, *, before: DirectoryContent, after: DirectoryContent
) -> None:
    handle = os.open(name, DIRECTORY, dir_fd=parent)
    try:
        for child in before.children.keys() | after.children.keys():
            put_back(
                child,
                handle,
                before=before.children.get(child),
                after=after.children.get(child),
            )
        os.fchmod(handle, before.mode)
    finally:
        os.close(handle)


def remove_entry(name: str, parent: int) -> None:
    """Remove an entry of any kind. What cannot be deleted is moved out of the way."""
    try:
        if not stat.S_ISDIR(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode):
            os.unlink(name, dir_fd=parent)
            return
    except FileNotFoundError:
        return
    make_accessible(name, parent)
    try:
        _remove_tree(name, parent)
    except (OSError, RecursionError):
        os.rename(name, f"removed-{secrets.token_hex(4)}", src_dir_fd=parent, dst_dir_fd=parent)


def remove_directory(directory: Path) -> None:
    """Remove a directory and all in it, whatever rights its owner took from themselves.

    Raise OSError if something stays.
    """
    parent = os.open(directory.parent, DIRECTORY)
    try:
        _remove_tree(directory.name, parent)
    finally:
        os.close(parent)


def _remove_tree(name: str, parent: int) -> None:
    try:
        shutil.rmtree(name, dir_fd=parent)
    except PermissionError:  # Go makes the directories of its cache read-only
        _make_all_accessible(name, parent)
        shutil.rmtree(name, dir_fd=parent)


def keep_copy(entry: Entry, directory: Path) -> Path:
    """Write an entry under a new name into a directory, and return its path."""
    directory.mkdir(mode=0o700, exist_ok=True)
    path = directory / secrets.token_hex(4)
    parent = os.open(directory, DIRECTORY)
    try:
        write_entry(path.name, parent, entry=entry)
    finally:
        os.close(parent)
    return path


def write_entry(name: str, parent: int, *, entry: Entry) -> None:
    """Create an entry. Raise FileExistsError if there is something of that name, even a link."""
    match entry:
        case FileContent(mode=mode, content=content):
            with os.fdopen(os.open(name, _CREATE, mode, dir_fd=parent), "wb") as file:
                file.write(content)
                os.fchmod(file.fileno(), mode)
        case LinkContent(target=target):
            os.symlink(target, name, dir_fd=parent)
        case DirectoryContent(mode=mode, children=children):
            os.mkdir(name, 0o700, dir_fd=parent)
            handle = os.open(name, DIRECTORY, dir_fd=parent)
            try:
                for child, below in children.items():
                    write_entry(child, handle, entry=below)
                os.fchmod(handle, mode)
            finally:
                os.close(handle)


def make_accessible(name: str, parent: int) -> None:
    """Make a directory accessible whose owner removed their own rights, if that owner is us."""
    with suppress(OSError):
        handle = os.open(name, _PASS, dir_fd=parent)
        try:
            Path(f"/proc/self/fd/{handle}").chmod(0o700)
        finally:
            os.close(handle)


def _make_all_accessible(name: str, parent: int) -> None:
    """Do the same for all directories below."""
    for _, directories, _, handle in os.fwalk(name, dir_fd=parent):
        for child in directories:
            make_accessible(child, handle)


def _is_settled(found: os.stat_result) -> bool:
    """Return whether any later change will show in the time stamps."""
    keeps_fractions = found.st_ctime_ns % 1_000_000_000
    return time.time() - found.st_ctime > (_TICK_S if keeps_fractions else _COARSE_TICK_S)


def _identify(found: os.stat_result) -> tuple[int, ...]:
    return (
        found.st_dev,
        found.st_ino,
        found.st_mode,
        found.st_size,
        found.st_mtime_ns,
        found.st_ctime_ns,
    )
