"""The text a model is writing: finished blocks are put on the screen for good, the rest is a tail.

The tail is laid out anew no more often than its layout can be afforded.
"""

import time
from typing import Protocol

from agentcli.ui.render.markdown import MarkdownStream
from agentcli.ui.render.paint import Paint

RENDER_MIN_S, RENDER_MAX_S = 0.04, 0.5
AFFORDED = 10
"""How much longer the pause between two layouts is than a layout."""


class Put(Protocol):
    def __call__(self, ansi: str, *, apart: bool) -> None:
        """`apart`: after an empty row."""
        ...


class Writing:
    def __init__(self, paint: Paint, *, put: Put) -> None:
        self._put = put
        self._markdown = MarkdownStream(paint)
        self._is_first = True
        self._tail: list[str] = []
        self._next = 0.0
        self.is_open = False
        """Whether more of a text may come."""

    def begin(self, paint: Paint) -> None:
        self._markdown = MarkdownStream(paint)
        self.is_open = self._is_first = True

    def add(self, text: str) -> None:
        self._commit(self._markdown.feed(text))

    def finish(self) -> None:
        if self.is_open:
            self._commit(self._markdown.finish())
            self.is_open, self._tail = False, []

    def use(self, paint: Paint) -> None:
        """For what comes from now on."""
        self._markdown.use(paint)
        self._next = 0.0

    def tail(self, rows: int) -> list[str]:
        """The end of the text, never more than so many rows of it."""
        if not self.is_open or rows <= 0:
            return []
        now = time.monotonic()
        if now >= self._next:
            self._tail = self._markdown.tail(rows).split("\n")
            if self._is_first and any(self._tail):
                self._tail.insert(0, "")
            spent_s = time.monotonic() - now
            self._next = now + min(RENDER_MAX_S, max(RENDER_MIN_S, AFFORDED * spent_s))
        return self._tail[-rows:] if any(self._tail) else []

    def _commit(self, ansi: str) -> None:
        if ansi:
            self._next = 0.0
            self._put(ansi, apart=self._is_first)
            self._is_first = False
