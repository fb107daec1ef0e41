"""Git's own small files, and the directories that they lead to."""

import os
from pathlib import Path

from agentcli.guard.sandbox.kinds import is_directory, is_file

_POINTER = "gitdir:"
_SMALL_FILE_CHARS = 64 * 1024


def small_text(path: Path) -> str:
    """A small regular file's text; anything else says nothing."""
    if not is_file(path):
        return ""
    try:
        with path.open(encoding="utf-8", errors="surrogateescape") as file:
            # No path has a NUL in it: what follows one is not meant for git either.
            return file.read(_SMALL_FILE_CHARS).partition("\0")[0]
    except OSError:
        return ""


def git_directory(git: Path) -> Path | None:
    """Where a `.git` leads: it may be the directory itself, a link, or a file with a pointer."""
    if is_file(git):
        line = small_text(git).strip()
        if not line.startswith(_POINTER):
            return None
        git = git.parent / line.removeprefix(_POINTER).strip()
    real = Path(os.path.realpath(git))
    return real if is_directory(real) else None


def common_directory(git: Path) -> Path:
    """Where the settings are: for a linked worktree, those of its repository."""
    return Path(os.path.realpath(git / small_text(git / "commondir").strip()))
