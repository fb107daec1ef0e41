"""The kind of a path. One that may not be accessed does not exist; pathlib would raise."""

import os
import stat
from pathlib import Path


def exists(path: Path) -> bool:
    return _read_mode(path) != 0


def is_directory(path: Path) -> bool:
    return stat.S_ISDIR(_read_mode(path))


def is_file(path: Path) -> bool:
    return stat.S_ISREG(_read_mode(path))


def is_socket(path: Path) -> bool:
    return stat.S_ISSOCK(_read_mode(path))


def is_link(path: Path) -> bool:
    return stat.S_ISLNK(_read_mode(path, follow_symlinks=False))


def _read_mode(path: Path, *, follow_symlinks: bool = True) -> int:
    try:
        return path.stat(follow_symlinks=follow_symlinks).st_mode
    except (OSError, ValueError):
        return 0


def can_be_entered(directory: Path, root: Path) -> bool:
    """Return whether a command may enter the directory with no more rights than its owner.

    Root itself could enter any directory."""
    below = directory.relative_to(root).parts
    way = [root.joinpath(*below[:count]) for count in range(len(below) + 1)]
    try:
        return os.access(directory, os.X_OK) and all(one.stat().st_mode & 0o111 for one in way)
    except OSError:
        return False
