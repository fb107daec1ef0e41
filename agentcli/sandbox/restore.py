"""Guarded paths as they were before a command, and their restoration after it.

This is for what the kernel does not protect: a layer that cannot exclude a directory from a
writable one, symbolic links, and repositories that a command created itself. A path is reached
from a directory that no command can replace, without following links. So swapping a directory for
a link gets nothing written.
"""

import os
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from threading import Lock
from typing import TypeAlias

from agentcli.sandbox.contents import (
    DIRECTORY,
    ContentReader,
    DirectoryContent,
    Entry,
    FileContent,
    keep_copy,
    make_accessible,
    outline,
    put_back,
)
from agentcli.sandbox.git_settings import is_harmless
from agentcli.sandbox.placeholder import Placeholder
from agentcli.sandbox.protect import GuardedPath
from agentcli.system.kinds import is_directory

Snapshot: TypeAlias = Mapping[GuardedPath, Entry | None]


@dataclass(frozen=True, slots=True)
class _Group:
    """Guarded paths in one directory, and the way there."""

    root: Path
    parts: tuple[str, ...]
    members: tuple[GuardedPath, ...]


class GuardedPaths:
    def __init__(
        self, guarded: Iterable[GuardedPath], *, roots: Iterable[Path], rejected: Path
    ) -> None:
        """Each path lies below one of the roots, which no command can replace.

        Whoever changed a path meanwhile, the removed content is kept in the `rejected` directory.
        """
        self._rejected = rejected
        tops = tuple(roots)
        # From the top down, so that a false directory is gone before anything in it is read.
        ordered = sorted(guarded, key=lambda one: (len(one.path.parts), one.path))
        self._groups = []
        for parent, members in groupby(ordered, key=lambda one: one.path.parent):
            root = next(top for top in tops if parent.is_relative_to(top))
            self._groups.append(_Group(root, parent.relative_to(root).parts, tuple(members)))
        self._reader = ContentReader()

    def snapshot(self) -> Snapshot:
        return {one: entry for group in self._groups for one, entry in self._look(group)}

    def undo(self, before: Snapshot) -> tuple[str, ...]:
        """Put back what changed. Return a sentence for each path, for the model and the user.

        A path that is not in the snapshot is left alone.
        """
        sentences: list[str] = []
        for group in self._groups:
            if not is_directory(group.root):
                continue  # no command can have removed all of it
            must_be = any(one.is_lasting and before.get(one) is not None for one in group.members)
            with _open(group, make=must_be) as parent:
                if parent is not None:
                    sentences += self._undo_in(parent, group, before)
        return tuple(sentences)

    def _undo_in(self, parent: int, group: _Group, before: Snapshot) -> Iterator[str]:
        for one in filter(before.__contains__, group.members):
            was, now = before[one], self._read(one, parent)
            if now != was and not _is_innocent(one.path, was, now):
                path = "/".join((*group.parts, one.path.name))
                yield f"{path} was {self._undo_one(parent, one, was, now)}"

    def _look(self, group: _Group) -> list[tuple[GuardedPath, Entry | None]]:
        if not is_directory(group.root):
            return [(one, None) for one in group.members]
        with _open(group) as parent:
            if parent is None:
                return [(one, None) for one in group.members]
            return [(one, self._read(one, parent)) for one in group.members]

    def _read(self, one: GuardedPath, parent: int) -> Entry | None:
        name = one.path.name
        if one.kind == "entry":
            return outline(name, parent)
        # Another session may create and remove its own placeholder at any time.
        is_held = Placeholder(one.path, one.kind, one.filler).is_untouched(name, parent)
        return None if is_held else self._reader.read(name, parent)

    def _undo_one(
        self, parent: int, one: GuardedPath, before: Entry | None, after: Entry | None
    ) -> str:
        # Of a directory only the entry was recorded: a false one goes, the old cannot come back.
        is_lost = one.kind == "entry" and isinstance(before, DirectoryContent)
        wanted = None if is_lost else before
        kept = ""
        try:
            if one.kind != "entry" and isinstance(after, FileContent | DirectoryContent):
                kept = f" What was there is kept in {keep_copy(after, self._rejected)}."
            put_back(one.path.name, parent, before=wanted, after=after)
        except OSError as error:
            done = f"changed by the command, and could not be put back: {error.strerror}"
        else:
            done = _WHAT_WAS_DONE[before is None, is_lost]
        return f"{done}. {_RULE}{kept}"


_RULE = "Git's hooks and settings and agentcli's own are read-only."
_WHAT_WAS_DONE = {
    (True, False): "made by the command, and has been removed",
    (False, False): "changed by the command, and has been put back",
    (False, True): "removed or replaced by the command",
}


def _is_innocent(path: Path, before: Entry | None, after: Entry | None) -> bool:
    """Return whether it is what git itself creates from nothing: `git init` must work."""
    if before is not None:
        return False
    match path.name, after:
        case "config", FileContent(content=content):
            return is_harmless(content.decode("utf-8", "replace"))
        case "hooks", DirectoryContent(children=children):
            return all(name.endswith(".sample") for name in children)
        case ".git", DirectoryContent():
            return True
        case "HEAD", _:
            # Beside these two it would make the whole workspace a repository of its own.
            return not all((path.parent / name).is_dir() for name in ("objects", "refs"))
    return False


@contextmanager
def _open(group: _Group, *, make: bool = False) -> Iterator[int | None]:
    """Yield the group's directory, reached without following links, or None if there is none."""
    handle: int | None = os.open(group.root, DIRECTORY)
    try:
        for part in group.parts:
            if handle is not None:
                handle = _below(handle, part, make=make)
        yield handle
    finally:
        if handle is not None:
            os.close(handle)


def _below(handle: int, name: str, *, make: bool) -> int | None:
    """Open a directory inside the open one, and close that."""
    try:
        if make:
            with suppress(FileExistsError):
                os.mkdir(name, 0o700, dir_fd=handle)
        return os.open(name, DIRECTORY, dir_fd=handle)
    except PermissionError:
        make_accessible(name, handle)
        with suppress(OSError):
            return os.open(name, DIRECTORY, dir_fd=handle)
        return None
    except OSError:
        return None
    finally:
        os.close(handle)


# The guarded paths before the first of the running commands, and the times commands ran.


_TICK_S = 0.1
"""The delay of file times: their clock moves in steps, and may be that much behind."""


class OriginalState:
    def __init__(self) -> None:
        self._lock = Lock()
        self._running = 0
        self._began_at = 0.0
        self._spans: list[tuple[float, float]] = []
        self._entries: dict[GuardedPath, Entry | None] = {}

    def begin(self, keeper: GuardedPaths) -> Snapshot:
        """Record the state before a command starts. `end` must be called once for each."""
        with self._lock:
            seen = keeper.snapshot()
            if self._running == 0:
                self._entries.clear()
                self._began_at = time.time() - _TICK_S
            self._running += 1
            # What another sandbox guards as another kind was replaced before this one existed.
            known = {one.path for one in self._entries}
            self._entries |= {one: entry for one, entry in seen.items() if one.path not in known}
            return {one: self._entries[one] for one in seen if one in self._entries}

    def end(self) -> None:
        with self._lock:
            self._running -= 1
            if self._running == 0:
                self._spans.append((self._began_at, time.time()))

    def saw_command_at(self, at: float) -> bool:
        """Return whether a command ran at that time, in seconds since the epoch."""
        with self._lock:
            runs_since_then = self._running > 0 and at >= self._began_at
            return runs_since_then or any(start <= at <= end for start, end in self._spans)


_ORIGINALS: dict[Path, OriginalState] = {}


def find_original(workspace: Path) -> OriginalState:
    return _ORIGINALS.setdefault(workspace, OriginalState())
