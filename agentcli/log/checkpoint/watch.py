"""The directories of a tree in which something changed, as the Linux kernel reports it.

This is a hint where to look, not a proof: the caller looks at the files. If the kernel cannot
report (its limit of watches, a flood of events), everything has to be looked at.
"""

import ctypes
import os
import struct
import sys
from pathlib import Path

_MASK = (
    0x2  # modified
    | 0x4  # permissions, owner, times
    | 0x8  # closed after writing: also the end of a shared mapping
    | 0x40
    | 0x80  # moved out, moved in
    | 0x100
    | 0x200  # created, deleted
    | 0x01000000  # only directories
    | 0x02000000  # links are not followed
)
_OVERFLOW = 0x4000
_IGNORED = 0x8000
_HEAD = struct.Struct("iIII")
_READ_BYTES = 1 << 16


class DirectoryWatch:
    """A set of watched directories. Raises OSError if the system has no such interface."""

    def __init__(self) -> None:
        if sys.platform != "linux":
            raise OSError("the system does not tell of changes")
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._fd = self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self._fd < 0:
            raise _failure()
        self._paths: dict[int, bytes] = {}
        self._numbers: dict[bytes, int] = {}

    def add(self, path: bytes, root: Path) -> None:
        """Watch a directory. Call before looking at it, so that no change is missed."""
        whole = os.fsencode(root) + b"/" + path
        number = self._libc.inotify_add_watch(self._fd, whole, _MASK)
        if number < 0:
            raise _failure()
        # A directory that was moved keeps its number.
        self._paths[number] = path
        self._numbers[path] = number

    def remove(self, path: bytes) -> None:
        number = self._numbers.pop(path, -1)
        if self._paths.get(number) == path:
            del self._paths[number]
            self._libc.inotify_rm_watch(self._fd, number)

    def take_changed(self) -> set[bytes] | None:
        """Return the directories that changed since the last call; None if events were lost."""
        found: set[bytes] = set()
        while True:
            try:
                data = os.read(self._fd, _READ_BYTES)
            except BlockingIOError:
                return found
            at = 0
            while at < len(data):
                number, mask, _, name_bytes = _HEAD.unpack_from(data, at)
                at += _HEAD.size + name_bytes
                if mask & _OVERFLOW:
                    self._drain()
                    self._numbers.clear()  # which of them are gone is not known either
                    return None
                path = self._paths.get(number)
                if path is None:
                    continue
                found.add(path)
                if mask & _IGNORED:  # it is gone, though another may have its name by now
                    self._lose(number, path)

    def holds(self, path: bytes) -> bool:
        return path in self._numbers

    def close(self) -> None:
        os.close(self._fd)

    def _lose(self, number: int, path: bytes) -> None:
        del self._paths[number]
        if self._numbers.get(path) == number:
            del self._numbers[path]

    def _drain(self) -> None:
        try:
            while os.read(self._fd, _READ_BYTES):
                pass
        except BlockingIOError:
            return


def _failure() -> OSError:
    number = ctypes.get_errno()
    return OSError(number, os.strerror(number))
