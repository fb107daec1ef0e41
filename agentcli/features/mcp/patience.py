"""Time limits for requests to a server, which pause while the server asks the user."""

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager


class PausableTimeout:
    def __init__(self) -> None:
        self._left_s: dict[asyncio.Timeout, float] = {}
        self._pauses = 0

    @asynccontextmanager
    async def limit(self, seconds: float) -> AsyncIterator[None]:
        """Limit the time of the body. Raise TimeoutError when it is used up."""
        async with asyncio.timeout(None) as timeout:
            self._left_s[timeout] = seconds
            if not self._pauses:
                self._run(timeout)
            try:
                yield
            finally:
                del self._left_s[timeout]

    @property
    def is_tried(self) -> bool:
        """Return whether any request is running."""
        return bool(self._left_s)

    @contextmanager
    def pause(self) -> Iterator[None]:
        """Pause all limits: it is not always known which call a question belongs to."""
        self._pauses += 1
        if self._pauses == 1:
            for timeout in self._left_s:
                self._stop(timeout)
        try:
            yield
        finally:
            self._pauses -= 1
            if not self._pauses:
                for timeout in self._left_s:
                    self._run(timeout)

    def _run(self, timeout: asyncio.Timeout) -> None:
        if not timeout.expired():
            timeout.reschedule(asyncio.get_running_loop().time() + self._left_s[timeout])

    def _stop(self, timeout: asyncio.Timeout) -> None:
        until = timeout.when()
        if until is not None and not timeout.expired():
            self._left_s[timeout] = until - asyncio.get_running_loop().time()
            timeout.reschedule(None)


# The library's own log, kept off the screen: faults of servers are reported elsewhere


LIBRARY = ("mcp", "client", "server")
"""The loggers of the library. Not all of its modules log under its name."""


def silence_library_log() -> None:
    for name in LIBRARY:
        logger = logging.getLogger(name)
        logger.addHandler(logging.NullHandler())
        logger.propagate = False
