"""What stays read-only to commands inside the workspace: git's hooks and settings, and our own.

Whatever stands there runs later with the person's rights, so a place counts whether it exists or
not. The search is made once, before the first command, so that no command can have a say in it.
"""

import os
import re
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Literal

from agentcli.guard.sandbox.kinds import exists, is_directory, is_file, is_link

OWN_SETTINGS = ".agentcli"

_MOST_OF_A_KIND = 64
"""Of repositories in a repository: a hostile one may have any number of them."""
_SEARCH_DEPTH = 3
_SEARCH_DIRECTORIES = 2000
_NOT_SEARCHED = frozenset({"node_modules", ".git", ".venv", "venv", "__pycache__", "target"})
_POINTER = "gitdir:"
_SMALL_FILE_CHARS = 64 * 1024

# An entry may stand in the line of its section, whose name may hold anything in quotes.
_REFERENCE = re.compile(
    r"""^[^\S\n]*(?:\[(?:"(?:\\.|[^"\\\n])*"|[^]"\n])*\][^\S\n]*)*"""
    r"""(hookspath|path)[^\S\n]*=[^\S\n]*"?([^"\n;#]+)""",
    re.IGNORECASE | re.MULTILINE,
)
_WORKTREE = re.compile(r'^\s*worktree\s*=\s*"?([^"\n;#]+)', re.IGNORECASE | re.MULTILINE)
_SUBMODULE = re.compile(r"^\s*path\s*=\s*(.+?)\s*$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Guarded:
    path: Path
    kind: Literal["file", "directory", "entry"]
    """`entry`: only what stands there, a link or whatever it is, and nothing below it."""
    filler: bytes = b""
    """What git must find in a file that exists only to be held."""
    is_lasting: bool = False
    """Put back even where the directory it was in is gone: the person's own settings."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Protection:
    guarded: tuple[Guarded, ...]
    readable: tuple[Path, ...] = ()
    writable: tuple[Path, ...] = ()
    """Of the repository that a linked worktree belongs to, outside of the workspace."""


def protections(workspace: Path, also: Iterable[Path] = ()) -> Protection:
    outside = _outside_repository(workspace)
    found = [*outside.guarded]
    found += _guards(workspace / OWN_SETTINGS, "directory")
    for path in also:
        found += (replace(one, is_lasting=True) for one in _guards(path, "directory"))
    for root in repositories(workspace):
        found += _of_worktree(root, workspace)
    # A link in a repository may lead anywhere, and what is held is also shown.
    tops = (workspace, *outside.writable)
    inside = (one for one in found if any(top in one.path.parents for top in tops))
    return Protection(
        guarded=tuple({one.path: one for one in inside}.values()),
        readable=outside.readable,
        writable=outside.writable,
    )


def of_new_repository(workspace: Path) -> tuple[Guarded, ...]:
    """What to look at where there was no repository and a command may make one, even a bare one."""
    git = workspace / ".git"
    entries = (Guarded(git, "entry"), Guarded(workspace / "HEAD", "entry"))
    return (*entries, *_of_git_directory(git, workspace))


def pins(roots: Iterable[Path], paths: Iterable[Path]) -> tuple[Path, ...]:
    """The directories between: who can rename one takes away or replaces what lies below it."""
    tops = set(roots)
    between = {
        parent
        for path in paths
        for parent in path.parents
        if parent not in tops and not tops.isdisjoint(parent.parents)
    }
    return tuple(sorted(between, key=lambda path: (len(path.parts), path)))


def repositories(workspace: Path) -> Iterator[Path]:
    return islice(_roots(workspace), _MOST_OF_A_KIND)


def _roots(workspace: Path) -> Iterator[Path]:
    """The workspace, its submodules, and repositories that are found without a long search."""
    yield workspace
    for path in _SUBMODULE.findall(_text(workspace / ".gitmodules")):
        submodule = Path(os.path.realpath(workspace / path))
        if submodule.is_relative_to(workspace):
            yield submodule
    waiting = deque([(workspace, 0)])
    for _ in range(_SEARCH_DIRECTORIES):
        if not waiting:
            return
        directory, depth = waiting.popleft()
        children, is_repository = _look(directory)
        if is_repository and directory != workspace:
            yield directory
        if depth < _SEARCH_DEPTH:
            waiting += ((child, depth + 1) for child in children)


def _look(directory: Path) -> tuple[list[Path], bool]:
    try:
        with os.scandir(directory) as entries:
            names = {entry.name: entry.is_dir(follow_symlinks=False) for entry in entries}
    except OSError:
        return [], False
    children = (name for name, is_dir in names.items() if is_dir and name not in _NOT_SEARCHED)
    return [directory / name for name in sorted(children)], ".git" in names


def _of_worktree(root: Path, workspace: Path) -> Iterator[Guarded]:
    git = root / ".git"
    if is_link(git):
        yield Guarded(git, "entry")
    elif is_file(git):
        yield Guarded(git, "file")  # not what it leads to: that has a shape of its own
    real = git_directory(git)
    if real is not None and real.is_relative_to(workspace):
        yield from _of_git_directory(real, root)


def git_directory(git: Path) -> Path | None:
    """Where a `.git` leads: it may be the directory itself, a link, or a file with a pointer."""
    if is_file(git):
        line = _text(git).strip()
        if not line.startswith(_POINTER):
            return None
        git = git.parent / line.removeprefix(_POINTER).strip()
    real = Path(os.path.realpath(git))
    return real if is_directory(real) else None


def _of_git_directory(git: Path, root: Path) -> Iterator[Guarded]:
    yield from _guards(git / "hooks", "directory")
    yield from _guards(git / "config", "file")
    # Not read as long as the settings do not say so, but `git sparse-checkout` has them say so.
    yield from _guards(git / "config.worktree", "file")
    # It would have git take hooks and settings from another directory; "." changes nothing.
    yield from _guards(git / "commondir", "file", b".\n")
    yield from _referenced(git / "config", root)
    for settings in _of_the_person():
        yield from _hooks_named_in(settings, root)
    for linked in _subdirectories(git / "worktrees")[:_MOST_OF_A_KIND]:
        yield from _of_linked_worktree(linked)
    for module in islice(_modules(git / "modules"), _MOST_OF_A_KIND):
        yield from _of_git_directory(module, root)


def _of_linked_worktree(git: Path) -> Iterator[Guarded]:
    for name in ("commondir", "gitdir"):
        if is_file(git / name):
            yield Guarded(git / name, "file")
    yield from _guards(git / "config.worktree", "file")


def _guards(
    path: Path, kind: Literal["file", "directory"], filler: bytes = b""
) -> Iterator[Guarded]:
    """As what it is; `kind` is for what does not exist. A link, and also what it leads to."""
    if is_link(path):
        yield Guarded(path, "entry")
        path = Path(os.path.realpath(path))
        if not exists(path):
            return
    if is_directory(path):
        yield Guarded(path, "directory")
    elif is_file(path):
        yield Guarded(path, "file", filler)
    else:
        yield Guarded(path, "entry") if exists(path) else Guarded(path, kind, filler)


def _referenced(config: Path, root: Path) -> Iterator[Guarded]:
    """Hooks and further settings that the settings themselves place in the workspace."""
    yield from _hooks_named_in(config, root)
    for key, value in _REFERENCE.findall(_text(config)):
        included = _real(value, config.parent)
        if key.lower() == "path" and is_directory(included.parent):
            yield from _guards(included, "file")


def _hooks_named_in(config: Path, root: Path) -> Iterator[Guarded]:
    for key, value in _REFERENCE.findall(_text(config)):
        if key.lower() == "hookspath":
            real = _real(value, root)
            # husky: the scripts in `_` only call those beside it
            yield from _guards(real.parent if real.name == "_" else real, "directory")


def _real(value: str, base: Path) -> Path:
    named = value.strip()
    path = Path.home() / named[2:] if named.startswith("~/") else base / named
    return Path(os.path.realpath(path))


def _of_the_person() -> tuple[Path, ...]:
    """Settings that hold for every repository."""
    home = Path.home()
    elsewhere = Path(os.environ.get("XDG_CONFIG_HOME") or home / ".config")
    return home / ".gitconfig", elsewhere / "git/config"


def _modules(directory: Path, depth: int = 0) -> Iterator[Path]:
    """Git directories of submodules, whose names may have slashes in them."""
    for child in _subdirectories(directory):
        if is_file(child / "HEAD"):
            yield child
        elif depth < _SEARCH_DEPTH:
            yield from _modules(child, depth + 1)


def _outside_repository(workspace: Path) -> Protection:
    """What a commit needs where the workspace's `.git` only points to its repository.

    The pointer stands in the workspace, so the repository must point back before it is believed.
    """
    git = workspace / ".git"
    target = git_directory(git) if is_file(git) and not is_link(git) else None
    if target is None or target.is_relative_to(workspace):
        return Protection(guarded=())
    common = Path(os.path.realpath(target / _text(target / "commondir").strip()))
    is_linked = target.parent == common / "worktrees" and _is_repository(common)
    if is_linked and _points_back(target / "gitdir", git):
        return Protection(
            guarded=tuple(_of_linked_worktree(target)),
            readable=(common,),
            writable=(target, common / "objects", common / "refs", common / "logs"),
        )
    named = _WORKTREE.search(_text(target / "config")) if _is_repository(target) else None
    if named and os.path.realpath(target / named[1].strip()) == str(workspace):
        return Protection(guarded=tuple(_of_git_directory(target, target)), writable=(target,))
    return Protection(guarded=())


def _is_repository(git: Path) -> bool:
    return is_file(git / "HEAD") and is_directory(git / "objects") and is_directory(git / "refs")


def _points_back(pointer: Path, git: Path) -> bool:
    return os.path.realpath(pointer.parent / _text(pointer).strip()) == str(git)


def _subdirectories(directory: Path) -> list[Path]:
    try:
        with os.scandir(directory) as entries:
            return sorted(
                Path(entry.path) for entry in entries if entry.is_dir(follow_symlinks=False)
            )
    except OSError:
        return []


def _text(path: Path) -> str:
    """A small regular file's text; anything else says nothing."""
    if not is_file(path):
        return ""
    try:
        with path.open(encoding="utf-8", errors="surrogateescape") as file:
            # No path has a NUL in it: what follows one is not meant for git either.
            return file.read(_SMALL_FILE_CHARS).partition("\0")[0]
    except OSError:
        return ""
