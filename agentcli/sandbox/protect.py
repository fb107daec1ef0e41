"""The paths in the workspace that are read-only to commands: git's hooks and settings, and ours.

Content there runs later with the user's rights, so a path counts whether it exists or not. The
search is made once, before the first command, so that no command can influence it.
"""

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Literal

from agentcli.sandbox.git_paths import (
    SEARCH_DEPTH,
    find_named_paths,
    find_repositories,
    read_small_text,
    search_directories,
)
from agentcli.sandbox.paths import FindDenied
from agentcli.system.files import exists, is_directory, is_file, is_link, is_socket
from agentcli.system.lazy import compile_later
from agentcli.system.repository import (
    find_common_directory,
    find_git_directory,
    is_repository,
)
from agentcli.system.reserved import choose_kind
from agentcli.types.fast_dataclass import dataclass

OWN_SETTINGS = ".agentcli"

_MERCURIAL = ".hg"
_HG_SETTINGS = (".hg/hgrc", ".hg/hgrc-not-shared")
"""Mercurial runs hooks and extensions that they name."""

ADDRESS_DIRECTORIES = ("remotes", "branches")
"""Old places for the addresses of remotes, in a git directory: they may lead to another directory,
whose hooks would run."""

_MOST_OF_A_KIND = 64
"""Limit of repositories in a repository: a hostile one may have any number of them."""

_WORKTREE = compile_later(r'^\s*worktree\s*=\s*"?([^"\n;#]+)', re.IGNORECASE | re.MULTILINE)


@dataclass(frozen=True, slots=True)
class GuardedPath:
    path: Path
    kind: Literal["file", "directory", "entry"]
    """`entry` means only the entry itself, a link or anything else, and nothing below it."""
    filler: bytes = b""
    """The content that git must find in a file that exists only to be held."""
    is_lasting: bool = False
    """True if it is put back even if its directory is gone: the user's own settings, and those of
    the workspace's own repository."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Protection:
    guarded: tuple[GuardedPath, ...]
    readable: tuple[Path, ...] = ()
    writable: tuple[Path, ...] = ()
    """Paths outside the workspace, in the repository that a linked worktree belongs to."""
    new_repository: tuple[GuardedPath, ...] = ()
    """Paths to put back if the workspace has no repository: a command may create one, even bare,
    or one of Mercurial."""


def find_protection(
    workspace: Path, also: Iterable[Path] = (), *, denied: Iterable[Path] = ()
) -> Protection:
    """Return the protection of a workspace. Rules deny changes of the paths in `denied`."""
    outside = _protect_outside_repository(workspace)
    found = [*outside.guarded, *_guard_enclosing(workspace)]
    found += _iter_guards(workspace / OWN_SETTINGS, "directory")
    of_mercurial = [
        guard for name in _HG_SETTINGS for guard in _iter_guards(workspace / name, "file")
    ]
    has_mercurial = is_directory(workspace / _MERCURIAL)
    found += of_mercurial if has_mercurial else ()
    for path in also:
        found += (replace(one, is_lasting=True) for one in _iter_guards(path, choose_kind(path)))
    if is_bare := is_repository(workspace):
        own = _guard_git_directory(workspace, workspace)
        found += (replace(one, is_lasting=True) for one in own)
    for root in find_repositories(workspace, most_searched=_MOST_OF_A_KIND):
        found += (
            _guard_own_worktree(root) if root == workspace else _guard_worktree(root, workspace)
        )
    # Only so many can be mounted, and hooks and settings matter more.
    found.sort(key=lambda one: one.path.name in ADDRESS_DIRECTORIES)
    # A link in a repository may lead anywhere, and what is held is also shown.
    tops = (workspace, *outside.writable)
    guarded = {one.path: one for one in found if _is_below(one, tops)}
    for one in (guard for path in denied for guard in _iter_guards(path, "file")):
        if one.path not in guarded and _is_below(one, tops):
            guarded[one.path] = replace(one, is_lasting=True)
    git = workspace / ".git"
    has_repository = is_bare or any(
        one.kind != "entry" and one.path.is_relative_to(git) for one in guarded.values()
    )
    return replace(
        outside,
        guarded=tuple(guarded.values()),
        new_repository=(
            *(() if has_repository else guard_new_repository(workspace)),
            *(() if has_mercurial else of_mercurial),
        ),
    )


class GrantedProtection:
    """The protection of directories that grants open to commands. Each is searched once."""

    def __init__(self, find_denied: FindDenied | None = None) -> None:
        self._find_denied = find_denied
        self._found: dict[Path, Protection] = {}
        self._unreadable: dict[Path, tuple[Path, ...]] = {}

    def find(self, directory: Path) -> Protection:
        if directory not in self._found:
            self._found[directory] = (
                find_protection(directory, denied=self._list_denied(directory, "edit"))
                if is_directory(directory)
                else Protection(guarded=())
            )
        return self._found[directory]

    def find_unreadable(self, directories: Iterable[Path]) -> tuple[Path, ...]:
        """Return the paths in them that rules deny to read, as far as they exist by now."""
        for directory in (one for one in directories if one not in self._unreadable):
            found = self._list_denied(directory, "read")
            self._unreadable[directory] = tuple(Path(os.path.realpath(path)) for path in found)
        each = (self._unreadable[directory] for directory in directories)
        return tuple(path for paths in each for path in paths if exists(path))

    def _list_denied(self, directory: Path, action: Literal["read", "edit"]) -> tuple[Path, ...]:
        return self._find_denied(directory, action) if self._find_denied else ()

    def find_hidden(
        self, *, writable: Iterable[Path], readable: Iterable[Path]
    ) -> tuple[Path, ...]:
        """Return what is hidden in granted directories by now: what rules deny to read, and the
        sockets in those that may only be read. To connect is more than to read."""
        opened = tuple(readable)
        sockets = (path for directory in opened for path in _find_sockets(directory))
        return (*self.find_unreadable((*writable, *opened)), *sockets)

    def find_mountable(self, directories: Iterable[Path]) -> Protection:
        """Return the protection of all of them, with the guarded paths that exist by now."""
        each = [self.find(directory) for directory in directories]
        guarded = (one for protection in each for one in protection.guarded)
        return Protection(
            guarded=tuple(one for one in guarded if one.kind != "entry" and exists(one.path)),
            readable=tuple(path for protection in each for path in protection.readable),
            writable=tuple(path for protection in each for path in protection.writable),
        )


def _find_sockets(top: Path) -> Iterator[Path]:
    for _, entries in search_directories(top):
        for entry in entries:
            is_usual = entry.is_symlink() or entry.is_dir() or entry.is_file()
            if not is_usual and is_socket(Path(entry.path)):
                yield Path(entry.path)


def _is_below(one: GuardedPath, tops: Iterable[Path]) -> bool:
    return any(top in one.path.parents for top in tops)


def guard_new_repository(workspace: Path) -> tuple[GuardedPath, ...]:
    git = workspace / ".git"
    entries = (GuardedPath(git, "entry"), GuardedPath(workspace / "HEAD", "entry"))
    return (*entries, *_guard_git_directory(git, workspace))


def find_pins(roots: Iterable[Path], paths: Iterable[Path]) -> tuple[Path, ...]:
    """Return the directories between: renaming one removes or replaces the paths below it."""
    tops = set(roots)
    between: set[Path] = set()
    for path in paths:
        passed: list[Path] = []
        for parent in path.parents:
            if parent in tops or parent in between:
                between.update(passed)
                passed.clear()
            else:
                passed.append(parent)
    return tuple(sorted(between, key=lambda path: (len(path.parts), path)))


def _guard_own_worktree(workspace: Path) -> Iterator[GuardedPath]:
    """Yield the paths of the workspace's own repository, which are put back even if it is gone.

    But its submodules and linked worktrees may go with their settings."""
    git = find_git_directory(workspace / ".git")
    parts = (git / "modules", git / "worktrees") if git else ()
    for one in _guard_worktree(workspace, workspace):
        may_go = one.kind == "entry" or any(one.path.is_relative_to(part) for part in parts)
        yield one if may_go else replace(one, is_lasting=True)


def _guard_worktree(root: Path, workspace: Path) -> Iterator[GuardedPath]:
    git = root / ".git"
    if is_link(git):
        yield GuardedPath(git, "entry")
    elif is_file(git):
        yield GuardedPath(git, "file")  # not its target: that has a different layout
    real = find_git_directory(git)
    if real is not None and real.is_relative_to(workspace):
        yield from _guard_git_directory(real, root)


def _guard_git_directory(git: Path, root: Path) -> Iterator[GuardedPath]:
    for name in ("hooks", *ADDRESS_DIRECTORIES):
        yield from _iter_guards(git / name, "directory")
    yield from _iter_guards(git / "config", "file")
    # Git reads it only if the settings say so, but `git sparse-checkout` makes them say so.
    yield from _iter_guards(git / "config.worktree", "file")
    # It would make git take hooks and settings from another directory; "." changes nothing.
    yield from _iter_guards(git / "commondir", "file", filler=b".\n")
    yield from _find_named(git, root)
    for linked in _list_subdirectories(git / "worktrees")[:_MOST_OF_A_KIND]:
        yield from _guard_linked_worktree(linked)
    yield from _guard_modules(git, root)


def _guard_modules(git: Path, root: Path) -> Iterator[GuardedPath]:
    for module in islice(_iter_modules(git / "modules"), _MOST_OF_A_KIND):
        yield from _guard_git_directory(module, root)


def _find_named(git: Path, root: Path) -> Iterator[GuardedPath]:
    """Yield hooks and further settings that the settings themselves place in the workspace."""
    for path, kind in find_named_paths(git, root):
        yield from _iter_guards(path, kind)


def _guard_linked_worktree(git: Path) -> Iterator[GuardedPath]:
    for name in ("commondir", "gitdir"):
        if is_file(git / name):
            yield GuardedPath(git / name, "file")
    yield from _iter_guards(git / "config.worktree", "file")


def _iter_guards(
    path: Path, kind: Literal["file", "directory"], *, filler: bytes = b""
) -> Iterator[GuardedPath]:
    """Yield a path by its actual kind, or `kind` if it is missing. For a link, add its target."""
    if is_link(path):
        yield GuardedPath(path, "entry")
        path = Path(os.path.realpath(path))
        if not exists(path):
            return
    if is_directory(path):
        yield GuardedPath(path, "directory")
    elif is_file(path):
        yield GuardedPath(path, "file", filler)
    else:
        yield GuardedPath(path, "entry") if exists(path) else GuardedPath(path, kind, filler)


def _iter_modules(directory: Path, depth: int = 0) -> Iterator[Path]:
    """Yield the git directories of submodules, whose names may have slashes in them."""
    for child in _list_subdirectories(directory):
        if is_file(child / "HEAD"):
            yield child
        elif depth < SEARCH_DEPTH:
            yield from _iter_modules(child, depth + 1)


def _protect_outside_repository(workspace: Path) -> Protection:
    """Return the paths a commit needs if the workspace's `.git` only points to its repository.

    The pointer is in the workspace, so the repository must point back before it is believed.
    """
    git = workspace / ".git"
    target = find_git_directory(git) if is_file(git) and not is_link(git) else None
    if target is None or target.is_relative_to(workspace):
        return Protection(guarded=())
    common = find_common_directory(target)
    is_linked = target.parent == common / "worktrees" and is_repository(common)
    if is_linked and _points_back(target / "gitdir", git):
        logs = [path for path in (common / "logs",) if is_directory(path)]  # they can be off
        return Protection(
            guarded=(
                *_guard_linked_worktree(target),
                *_find_named(target, workspace),
                *_guard_modules(target, workspace),
            ),
            readable=(common,),
            writable=(target, common / "objects", common / "refs", *logs),
        )
    named = _WORKTREE.search(read_small_text(target / "config")) if is_repository(target) else None
    if named and os.path.realpath(target / named[1].strip()) == str(workspace):
        return Protection(
            guarded=tuple(_guard_git_directory(target, workspace)), writable=(target,)
        )
    return Protection(guarded=())


def _guard_enclosing(workspace: Path) -> Iterator[GuardedPath]:
    """Yield the paths of a repository around the workspace: its hooks may be in the workspace."""
    for root in workspace.parents:
        if git := find_git_directory(root / ".git"):
            yield from _find_named(git, root)
            return


def _points_back(pointer: Path, git: Path) -> bool:
    return os.path.realpath(pointer.parent / read_small_text(pointer).strip()) == str(git)


def _list_subdirectories(directory: Path) -> list[Path]:
    try:
        with os.scandir(directory) as entries:
            return sorted(
                Path(entry.path) for entry in entries if entry.is_dir(follow_symlinks=False)
            )
    except OSError:
        return []
