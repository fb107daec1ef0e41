"""The paths that deny rules name, so that the sandbox can hold them from commands.

A rule has patterns and a sandbox needs paths. So the workspace is searched once, before the first
command. A directory that matches is held as a whole, with everything that comes into it later.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Literal

from agentcli.permissions.path_patterns import PathPattern
from agentcli.permissions.rules import PermissionRule
from agentcli.types.errors import SettingsError
from agentcli.types.own_tools import EDITING, READING

MOST_PATHS = 500
_MOST_ENTRIES = 300_000
_DEEPEST = 40
_NOT_SEARCHED = frozenset(
    {".git", "node_modules", ".venv", "venv", ".tox", "__pycache__", "target", "site-packages"}
)
"""Directories of dependencies and results. They are held if a rule names them without wildcards."""


class DeniedPaths:
    """The paths that rules deny whatever happens, as they are now."""

    def __init__(self, rules: Iterable[PermissionRule], workspace: Path) -> None:
        denying = [one for one in rules if one.decision == "deny" and one.when == "always"]
        self._root = Path(os.path.realpath(workspace))
        self._reading = _select_patterns(denying, READING)
        self._writing = _select_patterns(denying, EDITING)

    def find_unreadable(self) -> tuple[Path, ...]:
        """Return the paths that no command may read. Raise SettingsError if there are too many."""
        return _find(self._reading, self._root)

    def find_below(self, directory: Path, action: Literal["read", "edit"]) -> tuple[Path, ...]:
        """Return the paths below a directory that no command may read, or change.

        Some may not exist yet. Rules hold elsewhere as in the workspace, for tools and commands."""
        patterns = self._reading if action == "read" else self._writing
        return _find_below(patterns, Path(os.path.realpath(directory)))


def _select_patterns(
    rules: Iterable[PermissionRule], tools: frozenset[str]
) -> tuple[PathPattern, ...]:
    """Return the patterns of rules about all of these tools: `read(x)`, but not `grep(x)`."""
    return tuple(one.path for one in rules if one.path is not None and tools <= one.tools)


def _find_below(patterns: Sequence[PathPattern], root: Path) -> tuple[Path, ...]:
    """Return what patterns match below a directory, and nothing that they match elsewhere."""
    near = [
        pattern
        for pattern in patterns
        if pattern.find_start(root).is_relative_to(root)
        or root.is_relative_to(pattern.find_start(root))
    ]
    return tuple(path for path in _find(near, root, is_alone=True) if root in path.parents)


def _find(
    patterns: Sequence[PathPattern], root: Path, *, is_alone: bool = False
) -> tuple[Path, ...]:
    """Return what the patterns match. With `is_alone` nothing above the root is searched."""
    literal = [Path(root, pattern.literal) for pattern in patterns if pattern.literal]
    wild = [pattern for pattern in patterns if not pattern.literal]
    found = dict.fromkeys(literal)
    starts = {pattern.find_start(root) for pattern in wild}
    if is_alone:
        starts = {root if root.is_relative_to(one) else one for one in starts}
    for start in starts:
        found |= dict.fromkeys(_search(start, wild, root=root))
    if len(found) > MOST_PATHS:
        raise _build_too_many_error(patterns)
    return tuple(found)


def _search(start: Path, patterns: Sequence[PathPattern], *, root: Path) -> Iterator[Path]:
    waiting, seen = [(start, 0)], 0
    while waiting:
        directory, depth = waiting.pop()
        for entry in _list_directory(directory):
            seen += 1
            path = Path(entry.path)
            if any(pattern.matches_widely(path, root) for pattern in patterns):
                yield path
            elif depth < _DEEPEST and _is_searched(entry):
                waiting.append((path, depth + 1))
        if seen > _MOST_ENTRIES:
            raise _build_too_many_error(patterns)


def _is_searched(entry: os.DirEntry[str]) -> bool:
    return entry.is_dir(follow_symlinks=False) and entry.name not in _NOT_SEARCHED


def _list_directory(directory: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(directory) as entries:
            return list(entries)
    except OSError:
        return []


def _build_too_many_error(patterns: Sequence[PathPattern]) -> SettingsError:
    shown = ", ".join(pattern.glob for pattern in patterns)
    return SettingsError(
        f"Commands cannot be kept from the paths that rules deny ({shown}): there are too many.",
        hint="name whole directories in deny rules, such as edit(migrations/**)",
    )
