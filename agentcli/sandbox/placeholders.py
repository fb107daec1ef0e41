"""Guarded paths made to exist while commands run, so that the kernel can hold them read-only.

Only what exists can be mounted. A missing path is created, empty or with content that changes
nothing for git. It is removed when no command runs any more, of this session or another: removed
earlier, it would be open to the others. If we are killed, a process outside removes it, or else
the next session here.
"""

import atexit
import os
import stat
import sys
from collections.abc import Iterable
from contextlib import suppress
from functools import cache
from threading import Lock

from agentcli.sandbox import placeholder
from agentcli.sandbox.placeholder import Placeholder
from agentcli.sandbox.protect import GuardedPath
from agentcli.system.orphan_reaper import ReaperProcess

_TRIES = 10
_WILL = (
    *("/bin/sh", "-c", 'sleep 2; exec "$@"', "sh"),  # the session's commands are gone by then
    *(sys.executable, "-I", "-S", placeholder.__file__),
)


class PlaceholderHolder:
    def __init__(self, guarded: Iterable[GuardedPath]) -> None:
        self._places = tuple(Placeholder(one.path, one.kind, one.filler) for one in guarded)
        self._claims: dict[Placeholder, int] = {}
        self._has_will = False
        self._holders = 0
        self._lock = Lock()

    def take(self) -> None:
        """Hold every path. Raise OSError if one cannot be held as what it is."""
        with self._lock:
            self._holders += 1
            try:
                for place in self._places:
                    self._hold(place)
                if self._claims and not self._has_will:
                    self._arm_reaper()
            except BaseException:
                self._leave()
                raise

    def release(self) -> None:
        with self._lock:
            self._leave()

    def _hold(self, place: Placeholder) -> None:
        for _ in range(_TRIES):
            try:
                if _is_missing(place):
                    self._forget(place)
                    place.make()
                if place not in self._claims and (handle := place.claim()) is not None:
                    self._claims[place] = handle
            except (FileExistsError, FileNotFoundError):
                continue  # another session creates or removes it
            else:
                return
        raise OSError(f"{place.path} can neither be made nor held, so it cannot be protected")

    def _leave(self) -> None:
        self._holders -= 1
        if self._holders:
            return
        while self._claims:
            place, handle = self._claims.popitem()
            place.give_up(handle)

    def _arm_reaper(self) -> None:
        """Register all paths with the reaper. It leaves missing ones and the user's alone."""
        self._has_will = True
        with suppress(OSError):  # there is none, or somebody has ended it
            _start_reaper().send([word for one in self._places for word in one.words])

    def _forget(self, place: Placeholder) -> None:
        """Drop the claim on a placeholder that somebody has removed, whoever held it."""
        handle = self._claims.pop(place, None)
        if handle is not None:
            os.close(handle)


def _is_missing(place: Placeholder) -> bool:
    try:
        mode = place.path.lstat().st_mode
    except FileNotFoundError:
        return True
    expected = stat.S_ISDIR(mode) if place.kind == placeholder.DIRECTORY else stat.S_ISREG(mode)
    if not expected:
        raise OSError(f"{place.path} is no {place.kind} any more, so it cannot be protected")
    return False


@cache
def _start_reaper() -> ReaperProcess:
    """Start the reaper, one for all sessions of this process."""
    executor = ReaperProcess(_WILL)
    atexit.register(executor.dismiss)
    return executor
