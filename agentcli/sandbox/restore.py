"""Guarded paths as they were before a command, and their restoration after it.

This is for what the kernel does not protect: a layer that cannot exclude a directory from a
writable one, symbolic links, and repositories that a command created itself. A path is reached
from a directory that no command can replace, without following links. So swapping a directory for
a link gets nothing written.
"""

import os
import stat
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from itertools import groupby
from pathlib import Path
from typing import TypeAlias

from agentcli.sandbox.contents import (
    DIRECTORY,
    ContentReader,
    DirectoryContent,
    Entry,
    FileContent,
    LinkContent,
    UnreadContent,
    keep_copy,
    make_accessible,
    put_back,
)
from agentcli.sandbox.git_paths import list_risky_lines, remove_risky_lines
from agentcli.sandbox.placeholders import Placeholder
from agentcli.sandbox.protect import GuardedPath
from agentcli.system.files import is_directory
from agentcli.types.fast_dataclass import dataclass

Snapshot: TypeAlias = Mapping[GuardedPath, Entry | None]


@dataclass(frozen=True, slots=True)
class _Group:
    """Guarded paths in one directory, and the way there."""

    root: Path
    parts: tuple[str, ...]
    members: tuple[GuardedPath, ...]


@dataclass(frozen=True, slots=True)
class UndoneChanges:
    notes: tuple[str, ...]
    """A sentence for each path that was put back, for the model and the user."""
    lost: frozenset[Path]
    """The directories that are gone or replaced, and that nothing puts back."""


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
        self._placeholders = {one: Placeholder.from_guarded(one) for one in ordered}
        self._made: set[Path] = set()
        """What commands made, and may keep changing as long as it runs nothing."""
        self._reader = ContentReader()

    def take_snapshot(self) -> Snapshot:
        return {one: entry for group in self._groups for one, entry in self._look(group)}

    def restore(
        self, before: Snapshot, *, held: Collection[Path], stale: Collection[Path]
    ) -> UndoneChanges:
        """Put back what a command changed. What mounts held need not be, unless one is stale."""
        changed = self.select_to_undo(before, held=held, stale=stale)
        lost = frozenset(self._find_lost(changed))  # first: undoing removes what replaced them
        return UndoneChanges(self.undo(changed), lost)

    def undo(self, before: Snapshot) -> tuple[str, ...]:
        """Put back what changed. Return a sentence for each path, for the model and the user.

        A path that is not in the snapshot is left alone.
        """
        sentences: list[str] = []
        for group in self._groups:
            must_be = any(one.is_lasting and before.get(one) is not None for one in group.members)
            with _open(group, make=must_be) as parent:
                if parent is not None:
                    sentences += self._undo_in(parent, group, before=before)
        return tuple(sentences)

    def _find_lost(self, before: Snapshot) -> Iterator[Path]:
        """Yield the directories that are gone or replaced, of which only the entry was recorded.

        No command can have removed a root."""
        for group in (one for one in self._groups if is_directory(one.root)):
            known = [one for one in group.members if _is_outline(one, before.get(one))]
            with _open(group) if known else nullcontext() as parent:
                yield from (one.path for one in known if self._read(one, parent) != before[one])

    def select_to_undo(
        self, before: Snapshot, *, held: Collection[Path], stale: Collection[Path]
    ) -> Snapshot:
        """Return the part of `before` that a command can have changed: unheld paths and stale ones.

        The one who replaced a path cannot be told from the one who then wrote to it. So a
        replacement stays only if it can do no harm.
        """
        now = self.take_snapshot() if stale else {}
        return {
            one: was
            for one, was in before.items()
            if one.path not in held
            or (one.path in stale and not _is_harmless(one.path, was, after=now.get(one)))
        }

    def _undo_in(self, parent: int, group: _Group, *, before: Snapshot) -> Iterator[str]:
        for one in filter(before.__contains__, group.members):
            was, now = before[one], self._read(one, parent)
            if now != was and not self._may_stay(one.path, was, after=now):
                path = "/".join((*group.parts, one.path.name))
                yield f"{path} was {self._undo_one(parent, one, before=was, after=now)}"

    def _may_stay(self, path: Path, before: Entry | None, *, after: Entry | None) -> bool:
        if before is None and _is_innocent(path, after):
            self._made.add(path)
            return True
        return path in self._made and _is_harmless(path, before, after=after)

    def _look(self, group: _Group) -> list[tuple[GuardedPath, Entry | None]]:
        with _open(group) as parent:
            return [(one, self._read(one, parent)) for one in group.members]

    def _read(self, one: GuardedPath, parent: int | None) -> Entry | None:
        name = one.path.name
        if parent is None:
            return None
        if one.kind == "entry":
            return _outline(name, parent)
        # Another session may create and remove its own placeholder at any time.
        is_held = self._placeholders[one].is_untouched(name, parent)
        return None if is_held else self._reader.read(name, parent)

    def _undo_one(
        self, parent: int, one: GuardedPath, *, before: Entry | None, after: Entry | None
    ) -> str:
        # Of a directory only the entry was recorded: a false one goes, the old cannot come back.
        is_lost = _is_outline(one, before)
        is_made = before is None or one.path in self._made
        harmless = _keep_harmless(one.path, after) if is_made else None
        wanted = None if is_lost else harmless or before
        note = ""
        try:
            if one.kind != "entry" and isinstance(after, FileContent | DirectoryContent):
                note = f" What was there is kept in {keep_copy(after, self._rejected)}."
            put_back(one.path.name, parent, before=wanted, after=after)
        except OSError as error:
            done = f"changed by the command, and could not be put back: {error.strerror}"
        else:
            done = _CLEARED if harmless else _WHAT_WAS_DONE[before is None, is_lost]
        return f"{done}. {_RULE}{note}"


_SETTINGS = ("config", "config.worktree")
_RULE = "Git's hooks and settings, agentcli's own and what rules deny are read-only."
_WHAT_WAS_DONE = {
    (True, False): "made by the command, and has been removed",
    (False, False): "changed by the command, and has been put back",
    (False, True): "removed or replaced by the command",
}
_CLEARED = "written by the command, and settings that can run programs have been removed from it"


def _outline(name: str, parent: int) -> Entry | None:
    """Return only the kind of an entry, without anything that may change while the kind stays."""
    try:
        found = os.stat(name, dir_fd=parent, follow_symlinks=False)
    except FileNotFoundError:
        return None
    if stat.S_ISDIR(found.st_mode):
        return DirectoryContent(0, {})
    if stat.S_ISLNK(found.st_mode):
        return LinkContent(os.readlink(name, dir_fd=parent))
    return FileContent(0, b"") if stat.S_ISREG(found.st_mode) else UnreadContent((found.st_mode,))


def _is_outline(one: GuardedPath, before: Entry | None) -> bool:
    """Return whether it was a directory of which only the entry was recorded."""
    return one.kind == "entry" and isinstance(before, DirectoryContent)


def _is_innocent(path: Path, made: Entry | None) -> bool:
    """Return whether it is what git itself creates from nothing: `git init` must work."""
    match path.name, made:
        case "config", FileContent(content=content):
            return not list_risky_lines(_decode_text(content))
        case "hooks", DirectoryContent(children=children):
            return all(name.endswith(".sample") for name in children)
        case (("remotes" | "branches"), DirectoryContent(children=children)):
            return not children
        case ".git", DirectoryContent():
            return True
        case "HEAD", _:
            # Beside these two it would make the whole workspace a repository of its own.
            return not all((path.parent / name).is_dir() for name in ("objects", "refs"))
    return False


def _keep_harmless(path: Path, made: Entry | None) -> Entry | None:
    """Return settings without what can run a program; None if nothing else is in them.

    Those of one worktree would change what a repository of the user says."""
    if path.name != "config" or not isinstance(made, FileContent):
        return None
    text = remove_risky_lines(_decode_text(made.content))
    return FileContent(made.mode, text.encode("utf-8", "surrogateescape")) if text else None


def _is_harmless(path: Path, before: Entry | None, *, after: Entry | None) -> bool:
    """Return whether it only removes something, or adds settings that make git run nothing."""
    match before, after:
        case _, None:
            return True
        case ((DirectoryContent() | None), DirectoryContent(children=children)):
            known = before.children if isinstance(before, DirectoryContent) else {}
            return children.items() <= known.items()
        case ((FileContent() | None), FileContent(content=content, has_other_names=False)) if (
            path.name in _SETTINGS
        ):
            known_text = _decode_text(before.content) if isinstance(before, FileContent) else ""
            return list_risky_lines(_decode_text(content)) == list_risky_lines(known_text)
    return False


def _decode_text(content: bytes) -> str:
    return content.decode("utf-8", "surrogateescape")


@contextmanager
def _open(group: _Group, *, make: bool = False) -> Iterator[int | None]:
    """Yield the group's directory, reached without following links, or None if there is none.

    Nothing is made in a root that is gone: no command can have removed all of it."""
    handle = os.open(group.root, DIRECTORY) if is_directory(group.root) else None
    try:
        for part in group.parts:
            if handle is not None:
                handle = _open_child(handle, part, make=make)
        yield handle
    finally:
        if handle is not None:
            os.close(handle)


def _open_child(handle: int, name: str, *, make: bool) -> int | None:
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
