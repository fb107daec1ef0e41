"""Files by their path: their kind, the user's home, and reading and writing small ones.

A path that may not be accessed does not exist, where pathlib would raise. A pipe or a device in the
place of a file is refused, and never waited for. A private file is never half written, and nobody
else can read it.
"""

import errno
import json
import os
import secrets
import shutil
import stat
from collections.abc import Mapping
from contextlib import suppress
from io import BufferedReader, BufferedWriter
from pathlib import Path
from typing import Any

from agentcli.types.errors import SettingsError, UsageError

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


def exists(path: Path) -> bool:
    return _read_mode(path) != 0


def is_directory(path: Path) -> bool:
    return stat.S_ISDIR(_read_mode(path))


def is_utf8(path: Path) -> bool:
    """Return whether the path is text in UTF-8: a log can hold no other."""
    try:
        str(path).encode()
    except UnicodeEncodeError:
        return False
    return True


def is_file(path: Path) -> bool:
    return stat.S_ISREG(_read_mode(path))


def is_socket(path: Path) -> bool:
    return stat.S_ISSOCK(_read_mode(path))


def is_pipe(path: Path) -> bool:
    return stat.S_ISFIFO(_read_mode(path))


def is_link(path: Path) -> bool:
    return stat.S_ISLNK(_read_mode(path, follow_symlinks=False))


def resolve_path(path: Path) -> Path:
    """Return the path without links; it need not exist. Raise OSError for a link to itself.

    `Path.resolve` raises RuntimeError for such a link, but only until Python 3.13."""
    try:
        return Path(os.path.realpath(path, strict=True))
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise
    return Path(os.path.realpath(path))


def resolve_directory(path: Path) -> Path:
    """Return the directory that the user means, without links; it need not exist.

    Raise UsageError for a link to itself, and if the current directory was deleted."""
    try:
        return resolve_path(path)
    except OSError as error:
        is_lost = error.errno == errno.ENOENT
        raise UsageError(
            f"cannot open {path}: {error.strerror}",
            hint="cd to a directory that exists" if is_lost else "name a directory that exists",
        ) from error


def _read_mode(path: Path, *, follow_symlinks: bool = True) -> int:
    try:
        return path.stat(follow_symlinks=follow_symlinks).st_mode
    except (OSError, ValueError):
        return 0


_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def open_private(path: Path) -> BufferedWriter:
    """Open an empty file that only the user can read. Raise OSError."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_BINARY", 0)
    return os.fdopen(os.open(path, flags, 0o600), "wb")


def store_private(path: Path, data: bytes) -> None:
    """Write a file that only the user can read. Raise OSError."""
    with open_private(path) as file:
        file.write(data)


def write_private(path: Path, text: str) -> None:
    """Write the file, all or nothing. Raise SettingsError."""
    fresh = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8", errors="surrogateescape") as file:
            file.write(text)
            file.flush()
            os.fsync(handle)
        fresh.replace(path)
    except OSError as error:
        with suppress(OSError):  # the first error is the one to report
            fresh.unlink()
        raise build_unwritable_error(path, error) from error


def write_private_json(path: Path, value: Mapping[str, Any]) -> None:
    """Write the value to the file, all or nothing. Raise SettingsError."""
    write_private(path, json.dumps(value, ensure_ascii=False, indent=2) + "\n")


def remove_private(path: Path) -> None:
    """Remove the file, if it is there. Raise SettingsError."""
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise build_unwritable_error(path, error) from error


def build_unwritable_error(path: Path, error: OSError) -> SettingsError:
    look = "df -h" if error.errno in _FULL else "ls -ld"
    return SettingsError(f"cannot write {path}: {error.strerror}", hint=f"{look} {path.parent}")


def remove_tree(path: Path) -> None:
    """Remove a directory with all that is in it, also in read-only directories, as far as allowed.

    Links are not followed."""
    shutil.rmtree(path, ignore_errors=True)
    if not os.path.lexists(path):
        return
    for folder, names, _ in os.walk(path):  # the names of a directory are read after it was yielded
        for each in (Path(folder), *(Path(folder, name) for name in names)):
            with suppress(OSError):
                if not is_link(each):
                    each.chmod(0o700)
    shutil.rmtree(path, ignore_errors=True)


# The user's home directory. Unlike with `Path.home`, it is no error if there is none.


def locate_home() -> Path:
    return expand_home("~")


def expand_home(written: str) -> Path:
    """Return the path that a user wrote. If there is no such home, `~x` is an ordinary name."""
    return Path(os.path.expanduser(written))  # noqa: PTH111 - Path's raises where there is none


def expand_own_home(written: str) -> Path:
    """Return the path that a model wrote: `~/x` is in the user's home, `~x` an ordinary name."""
    return expand_home(written) if written == "~" or written.startswith("~/") else Path(written)


def locate_config_home() -> Path:
    """Return the directory in which programs, such as git, keep the user's settings."""
    return Path(os.environ.get("XDG_CONFIG_HOME") or locate_home() / ".config")


def shorten_home(path: Path) -> str:
    """Return the path with ~ for the home directory."""
    own = locate_home()
    if not path.is_relative_to(own) or own == Path("/"):
        return str(path)
    return f"~/{path.relative_to(own)}" if path != own else "~"
