"""Reading a regular file: a pipe or a device in its place is refused, and never waited for.

Not for files that the user names on the command line, which may be pipes: `--schema <(command)`.
"""

import errno
import os
import stat
from io import BufferedReader
from pathlib import Path

_FLAGS = (
    os.O_RDONLY
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_NONBLOCK", 0)  # opening a FIFO must not wait for its other end
    | getattr(os, "O_NOCTTY", 0)
    | getattr(os, "O_BINARY", 0)
)


def read_regular(path: Path, limit_bytes: int = -1) -> bytes:
    """Return the content, up to the limit. Raise OSError for anything but a regular file."""
    with open_regular(path) as file:
        return file.read(limit_bytes)


def open_regular(path: Path) -> BufferedReader:
    """Open a file for reading. Raise OSError for anything but a regular file.

    The null device counts as an empty one: links to it stand for files that are turned off."""
    _require_regular(path, path.stat())  # to open a device may have an effect already
    handle = os.open(path, _FLAGS)
    try:
        _require_regular(path, os.fstat(handle))
    except OSError:
        os.close(handle)
        raise
    return os.fdopen(handle, "rb")


def _require_regular(path: Path, found: os.stat_result) -> None:
    if stat.S_ISDIR(found.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    is_null = stat.S_ISCHR(found.st_mode) and found.st_rdev == Path(os.devnull).stat().st_rdev
    if not (stat.S_ISREG(found.st_mode) or is_null):
        raise OSError(errno.EINVAL, "Not a regular file", str(path))
