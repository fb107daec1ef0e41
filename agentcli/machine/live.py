"""Output on its way to where it is kept, with its latest lines told to people now and then."""

import asyncio
from collections.abc import Callable

from agentcli.machine.bound import BoundedOutput

TELL_EVERY_S = 0.1


class LiveOutput:
    """A sink that keeps everything and tells at most ten times a second."""

    def __init__(self, output: BoundedOutput, *, report: Callable[[str], None], lines: int) -> None:
        self._kept = output
        self._tell = report
        self._lines = lines
        self._loop = asyncio.get_running_loop()
        self._not_before = 0.0
        self._due: asyncio.TimerHandle | None = None
        self._is_watched = True

    def feed(self, chunk: bytes) -> None:
        self._kept.feed(chunk)
        if self._is_watched and self._due is None:
            when = max(self._not_before, self._loop.time())
            self._due = self._loop.call_at(when, self._report_latest)

    def close(self) -> None:
        self._kept.close()

    def stop_progress(self) -> None:
        """What comes from now on is only kept."""
        self._is_watched = False
        if self._due is not None:
            self._due.cancel()

    def _report_latest(self) -> None:
        self._due = None
        self._tell(self._kept.last_lines(self._lines))
        self._not_before = self._loop.time() + TELL_EVERY_S
