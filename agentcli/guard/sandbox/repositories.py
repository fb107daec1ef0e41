"""Repositories in the workspace: those that a search finds, and those that git itself would enter.

A search has limits, which a command can exhaust. Where git goes from a repository without being
told to, its submodules, there is none: what stands in their settings runs at `git status`.
"""

import os
import re
from collections import deque
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from agentcli.guard.sandbox.gitfiles import git_directory, small_text
from agentcli.guard.sandbox.gitlinks import find_gitlinks
from agentcli.guard.sandbox.kinds import is_link

_SEARCH_DEPTH = 3
_SEARCH_DIRECTORIES = 2000
_NOT_SEARCHED = frozenset({"node_modules", ".git", ".venv", "venv", "__pycache__", "target"})
_SUBMODULE = re.compile(r'^\s*path\s*=\s*"?([^"\n]+?)"?\s*$', re.IGNORECASE | re.MULTILINE)


def find_repositories(workspace: Path, *, most_searched: int | None = None) -> Iterator[Path]:
    """The workspace, what is found without a long search, and all that git enters from these."""
    seen: set[Path] = set()
    waiting = deque([workspace, *_find_submodules(workspace)])
    waiting += islice(_search(workspace), most_searched)
    while waiting:
        root = waiting.popleft()
        if root not in seen:
            seen.add(root)
            yield root
            waiting += _find_linked(root, workspace)


def _find_submodules(workspace: Path) -> Iterator[Path]:
    for path in _SUBMODULE.findall(small_text(workspace / ".gitmodules")):
        submodule = Path(os.path.realpath(workspace / path))
        if submodule.is_relative_to(workspace):
            yield submodule


def _find_linked(root: Path, workspace: Path) -> Iterator[Path]:
    git = git_directory(root / ".git")
    for name in find_gitlinks(git) if git else ():
        if os.path.lexists(root / name / ".git"):
            linked = Path(os.path.realpath(root / name))
            if linked.is_relative_to(workspace):
                yield linked


def _search(workspace: Path) -> Iterator[Path]:
    waiting = deque([(workspace, 0)])
    for _ in range(_SEARCH_DIRECTORIES):
        if not waiting:
            return
        directory, depth = waiting.popleft()
        children, has_git = _look(directory)
        if has_git and directory != workspace and _leads_somewhere(directory / ".git"):
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


def _leads_somewhere(git: Path) -> bool:
    """What git would not take for a repository must not use up what is looked at."""
    real = git_directory(git)
    return is_link(git) if real is None else os.path.lexists(real / "HEAD")
