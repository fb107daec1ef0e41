"""The kind of a path. One that may not be accessed does not exist; pathlib would raise."""

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


def is_pipe(path: Path) -> bool:
    return stat.S_ISFIFO(_read_mode(path))


def is_link(path: Path) -> bool:
    return stat.S_ISLNK(_read_mode(path, follow_symlinks=False))


def _read_mode(path: Path, *, follow_symlinks: bool = True) -> int:
    try:
        return path.stat(follow_symlinks=follow_symlinks).st_mode
    except (OSError, ValueError):
        return 0
