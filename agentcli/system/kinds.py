"""The kind of a path. One that may not be accessed does not exist; pathlib would raise."""

import stat
from pathlib import Path


def exists(path: Path) -> bool:
    return _mode(path) != 0


def is_directory(path: Path) -> bool:
    return stat.S_ISDIR(_mode(path))


def is_file(path: Path) -> bool:
    return stat.S_ISREG(_mode(path))


def is_link(path: Path) -> bool:
    return stat.S_ISLNK(_mode(path, follow_symlinks=False))


def _mode(path: Path, *, follow_symlinks: bool = True) -> int:
    try:
        return path.stat(follow_symlinks=follow_symlinks).st_mode
    except (OSError, ValueError):
        return 0
