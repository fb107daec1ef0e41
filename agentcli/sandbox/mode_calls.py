"""Modes and owners of files under Landlock: we change them, within what a command may change.

Landlock has no right for these calls, and a filter sees the address of a path, not the path. So the
kernel hands them over to us. We open the file that is meant, look where it is, and make the call on
what we opened: a path or a link that is changed meanwhile does not matter.
"""

import errno
import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path

from agentcli.sandbox import kernel
from agentcli.types.fast_dataclass import dataclass

CALLS = ("chmod", "fchmod", "fchmodat", "fchmodat2", "chown", "lchown", "fchown", "fchownat")

_HERE = 0xFFFFFF9C
"""AT_FDCWD as the kernel gets it: the working directory."""
_NO_FOLLOW, _EMPTY_PATH = 0x100, 0x1000
_LONGEST_BYTES = 4096
_BITS = 0o7777
_NOBODY = 0xFFFFFFFF
"""The number of a user or group that stays as it is."""
_OWN_PROCESS = re.compile(r"\A/+(?:proc/+(?:self|thread-self)/|dev/(?=fd/))")
_NOT_IN_A_DIRECTORY = re.compile(r"[^/]|/memfd:")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Request:
    """A call, read from its arguments."""

    base: int
    """The handle of the file itself, or of the directory that the path starts from."""
    path: int | None
    """The address of the path; None if the handle is the file."""
    values: tuple[int, ...]
    """A mode, or a user and a group."""
    flags: int = 0


def make_call(
    name: str,
    arguments: Sequence[int],
    *,
    thread_id: int,
    directories: Sequence[Path],
    check_caller: Callable[[], object],
) -> int:
    """Change a file that is in one of the directories, or in no directory. Return an error code.

    Raise OSError. `check_caller` raises it if the thread is not the caller any more."""
    request = _parse(name, tuple(argument & 0xFFFFFFFF for argument in arguments), arguments)
    if request.flags & ~(_NO_FOLLOW | _EMPTY_PATH):
        return errno.EINVAL
    itself = os.O_NOFOLLOW if request.flags & _NO_FOLLOW else 0
    with kernel.hold_file(_locate(request, thread_id), itself) as (held, at):
        check_caller()
        is_free = _NOT_IN_A_DIRECTORY.match(str(at)) is not None
        if not is_free and not any(at.is_relative_to(one) for one in directories):
            return errno.EPERM
        if len(request.values) == 1:
            held.chmod(request.values[0] & _BITS)
        else:
            user, group = (-1 if one == _NOBODY else one for one in request.values)
            os.chown(held, user, group)
        return 0


def _parse(name: str, short: tuple[int, ...], long: Sequence[int]) -> _Request:
    """Read the arguments: numbers have 32 bits, addresses 64."""
    match name:
        case "chmod":
            return _Request(base=_HERE, path=long[0], values=short[1:2])
        case "fchmod":
            return _Request(base=short[0], path=None, values=short[1:2])
        case "fchmodat":
            return _Request(base=short[0], path=long[1], values=short[2:3])
        case "fchmodat2":
            return _Request(base=short[0], path=long[1], values=short[2:3], flags=short[3])
        case "chown":
            return _Request(base=_HERE, path=long[0], values=short[1:3])
        case "lchown":
            return _Request(base=_HERE, path=long[0], values=short[1:3], flags=_NO_FOLLOW)
        case "fchown":
            return _Request(base=short[0], path=None, values=short[1:3])
        case _:
            return _Request(base=short[0], path=long[1], values=short[2:4], flags=short[4])


def _locate(request: _Request, thread_id: int) -> str:
    """Return a path that means for us what the caller's path means for it. Raise OSError."""
    caller = f"/proc/{thread_id}"
    base = f"{caller}/cwd" if request.base == _HERE else f"{caller}/fd/{request.base}"
    if request.path is None:
        return base
    data, is_whole, _ = kernel.read_memory(thread_id, request.path, _LONGEST_BYTES).partition(b"\0")
    if not is_whole:
        raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG))
    if data:
        path = _OWN_PROCESS.sub(f"{caller}/", os.fsdecode(data), count=1)
        return path if path.startswith("/") else f"{base}/{path}"
    if request.flags & _EMPTY_PATH:
        return base
    raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
