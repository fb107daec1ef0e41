"""The paths inside a workspace that tools never write: git's own files and agentcli's settings.

Files there would run later with the user's rights (hooks, filters, settings). So a path is
protected by its name, at any depth, whether it exists yet or not.
"""

import os
import unicodedata
from collections.abc import Sequence
from pathlib import Path

_NAMES = frozenset({".git", ".agentcli", "git~1"})
_POINTER = "gitdir:"
_POINTER_LIMIT_CHARS = 4096


def is_protected(root: Path, parts: Sequence[str]) -> bool:
    if any(_fold(part) in _NAMES for part in parts):
        return True
    elsewhere = _find_git_directory(root)
    return bool(elsewhere) and tuple(parts[: len(elsewhere)]) == elsewhere


def _fold(name: str) -> str:
    """Return the name as the least exact file systems compare it.

    They ignore case, invisible characters, and dots and blanks at the end of a name.
    """
    shown = "".join(char for char in name if unicodedata.category(char) != "Cf")
    return shown.casefold().rstrip(" .")


def _find_git_directory(root: Path) -> tuple[str, ...]:
    """Return the target of the root's `.git`, if it is a link or pointer into the workspace."""
    git = root / ".git"
    if git.is_symlink():
        target = git
    elif git.is_file():
        target = _follow_pointer(git)
    else:
        return ()
    real = Path(os.path.realpath(target))
    return real.relative_to(root).parts if real.is_relative_to(root) else ()


def _follow_pointer(git: Path) -> Path:
    with git.open(encoding="utf-8", errors="surrogateescape") as file:
        line = file.read(_POINTER_LIMIT_CHARS).strip()
    return git.parent / line.removeprefix(_POINTER).strip() if line.startswith(_POINTER) else git
