"""The paths inside a workspace that tools never write: git's own files and agentcli's settings.

Files there would run later with the user's rights (hooks, filters, settings). So a path is
protected by its name, at any depth, whether it exists yet or not.
"""

import unicodedata
from collections.abc import Sequence
from pathlib import Path

from agentcli.system.git_pointers import find_git_directory

_NAMES = frozenset({".git", ".agentcli", "git~1"})


def is_protected(root: Path, parts: Sequence[str]) -> bool:
    if any(_fold(part) in _NAMES for part in parts):
        return True
    elsewhere = _locate_git_directory(root)
    return bool(elsewhere) and tuple(parts[: len(elsewhere)]) == elsewhere


def _fold(name: str) -> str:
    """Return the name as the least exact file systems compare it.

    They ignore case, invisible characters, and dots and blanks at the end of a name.
    """
    shown = "".join(char for char in name if unicodedata.category(char) != "Cf")
    return shown.casefold().rstrip(" .")


def _locate_git_directory(root: Path) -> tuple[str, ...]:
    """Return the parts of where the root's `.git` leads to, if that is in the workspace."""
    real = find_git_directory(root / ".git")
    is_elsewhere = real is not None and real != root / ".git" and real.is_relative_to(root)
    return real.relative_to(root).parts if real and is_elsewhere else ()
