"""What guarded places were before the first of the commands that run now, and when commands ran.

It is one for all sandboxes of a workspace: a command that begins while another runs must not take
what that one has done for what was there. Between commands it is the person who changes things.
"""

import time
from pathlib import Path
from threading import Lock

from agentcli.guard.sandbox.contents import Entry
from agentcli.guard.sandbox.protect import GuardedPath
from agentcli.guard.sandbox.restore import GuardedPaths, Snapshot

_TICK_S = 0.1
"""The times of files come from a clock that moves in steps, and may be that much behind."""


class OriginalState:
    def __init__(self) -> None:
        self._lock = Lock()
        self._running = 0
        self._began_at = 0.0
        self._spans: list[tuple[float, float]] = []
        self._entries: dict[GuardedPath, Entry | None] = {}

    def begin(self, keeper: GuardedPaths) -> Snapshot:
        """Before a command starts; `end` is due once for each."""
        with self._lock:
            seen = keeper.snapshot()
            if self._running == 0:
                self._entries.clear()
                self._began_at = time.time() - _TICK_S
            self._running += 1
            # What another sandbox guards as something else was replaced before this one was made.
            known = {one.path for one in self._entries}
            self._entries |= {one: entry for one, entry in seen.items() if one.path not in known}
            return {one: self._entries[one] for one in seen if one in self._entries}

    def end(self) -> None:
        with self._lock:
            self._running -= 1
            if self._running == 0:
                self._spans.append((self._began_at, time.time()))

    def saw_command_at(self, at: float) -> bool:
        """Whether a command ran at that time, in seconds since the epoch."""
        with self._lock:
            runs_since_then = self._running > 0 and at >= self._began_at
            return runs_since_then or any(start <= at <= end for start, end in self._spans)


_ORIGINALS: dict[Path, OriginalState] = {}


def find_original(workspace: Path) -> OriginalState:
    return _ORIGINALS.setdefault(workspace, OriginalState())
