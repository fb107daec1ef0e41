"""Guarded places made to exist while commands run, so that the kernel can hold them read-only.

Only what exists can be mounted. What does not is made, empty or with what leaves git as it is, and
removed when no command runs any more: removed earlier, it would open for the others.
"""

import os
import stat
from collections.abc import Iterable
from contextlib import suppress
from threading import Lock

from agentcli.guard.sandbox.protect import Guarded


class Holding:
    def __init__(self, guarded: Iterable[Guarded]) -> None:
        self._guarded = tuple(guarded)
        self._made: list[Guarded] = []
        self._holders = 0
        self._lock = Lock()

    def take(self) -> None:
        """OSError where a place cannot be held as what it is."""
        with self._lock:
            for one in self._guarded:
                if _is_missing(one):
                    _make(one)
                    self._made.append(one)
                elif _is_left_over(one) and one not in self._made:
                    self._made.append(one)
            self._holders += 1

    def release(self) -> None:
        with self._lock:
            self._holders -= 1
            if self._holders == 0:
                while self._made:
                    _unmake(self._made.pop())


def _is_missing(one: Guarded) -> bool:
    try:
        mode = one.path.lstat().st_mode
    except FileNotFoundError:
        return True
    expected = stat.S_ISDIR(mode) if one.kind == "directory" else stat.S_ISREG(mode)
    if not expected:
        raise OSError(f"{one.path} is no {one.kind} any more, so it cannot be protected")
    return False


def _is_left_over(one: Guarded) -> bool:
    """Of a run that was killed while it held the place."""
    return bool(one.filler) and one.path.read_bytes() == one.filler


def _make(one: Guarded) -> None:
    if one.kind == "directory":
        one.path.mkdir()
    else:
        handle = os.open(one.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
        try:
            os.write(handle, one.filler)
        finally:
            os.close(handle)


def _unmake(one: Guarded) -> None:
    """Unless somebody else has put something there meanwhile."""
    with suppress(OSError):
        if one.kind == "directory":
            one.path.rmdir()
        elif one.path.read_bytes() == one.filler:
            one.path.unlink()
