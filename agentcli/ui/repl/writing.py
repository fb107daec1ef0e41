"""The text a model is writing: finished blocks are put on the screen for good, the rest is a tail.

The tail is laid out anew no more often than its layout can be afforded.
"""

import time
from typing import Protocol

from agentcli.ui.render.markdown import MarkdownStream
from agentcli.ui.render.paint import Paint

RENDER_MIN_S, RENDER_MAX_S = 0.04, 0.5
PAUSE_FACTOR = 10
"""How much longer the pause between two layouts is than a layout."""


class CommitBlock(Protocol):
    def __call__(self, ansi: str, *, apart: bool) -> None:
        """`apart`: after an empty row."""
        ...


class StreamingText:
    def __init__(self, paint: Paint, *, commit_block: CommitBlock) -> None:
        self._commit_block = commit_block
        self._markdown = MarkdownStream(paint)
        self._is_first = True
        self._tail: list[str] = []
        self._next_render_at = 0.0
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

    def set_paint(self, paint: Paint) -> None:
        """For what comes from now on."""
        self._markdown.set_paint(paint)
        self._next_render_at = 0.0

    def render_tail(self, rows: int) -> list[str]:
        """The end of the text, never more than so many rows of it."""
        if not self.is_open or rows <= 0:
            return []
        now = time.monotonic()
        if now >= self._next_render_at:
            self._tail = self._markdown.render_tail(rows).split("\n")
            if self._is_first and any(self._tail):
                self._tail.insert(0, "")
            spent_s = time.monotonic() - now
            self._next_render_at = now + min(
                RENDER_MAX_S, max(RENDER_MIN_S, PAUSE_FACTOR * spent_s)
            )
        return self._tail[-rows:] if any(self._tail) else []

    def _commit(self, ansi: str) -> None:
        if ansi:
            self._next_render_at = 0.0
            self._commit_block(ansi, apart=self._is_first)
            self._is_first = False
