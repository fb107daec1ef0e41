"""A terminal that is written to and never read: prose, cards and remarks, one below the other."""

import locale
import os
from collections.abc import Mapping

from agentcli.types.events import CallFinished, CallJudged
from agentcli.types.messages import ToolCall
from agentcli.ui.lines import subject
from agentcli.ui.render.card import State
from agentcli.ui.render.cards import Cards
from agentcli.ui.render.header import header
from agentcli.ui.render.markdown import MarkdownStream
from agentcli.ui.render.paint import Paint
from agentcli.ui.render.summary import turn_line
from agentcli.ui.render.theme import choose_theme
from agentcli.ui.tally import Tally

DEFAULT_SIZE = os.terminal_size((80, 24))


class View:
    """Everything returned ends with a newline, unless there is nothing to be shown."""

    def __init__(self, paint: Paint) -> None:
        self._paint = paint
        self._cards = Cards(paint, numbered=False)

    def prose(self, markdown: str) -> str:
        stream = MarkdownStream(self._paint)
        return stream.feed(markdown) + stream.finish()

    def card(self, judged: CallJudged | None, finished: CallFinished, call: ToolCall | None) -> str:
        return self._cards.finished(judged, finished, call=call)

    def held(self) -> str:
        return self._cards.flush()

    def running(self, call: ToolCall) -> str:
        """One row without a newline, to be erased again; empty where nothing can be erased."""
        if self._paint.accessible:
            return ""
        lines, _ = header(State.RUNNING, call.name, subject(call), ["running"], self._paint)
        return self._paint.lines(lines[:1]).removesuffix("\n")

    def remark(self, text: str) -> str:
        return self._paint.styled(text, self._paint.theme.dim) + "\n"

    def summary(self, tally: Tally) -> str:
        return turn_line(self._paint, tally, tools=tally.calls, duration_s=tally.duration_s)


def view_on(descriptor: int, environ: Mapping[str, str]) -> View:
    """For the terminal behind a descriptor, which is not asked anything."""
    theme, depth = choose_theme("auto", None, environ, True)
    try:
        size = os.get_terminal_size(descriptor)
    except OSError:
        size = DEFAULT_SIZE
    return View(
        Paint(
            columns=size.columns or DEFAULT_SIZE.columns,
            rows=size.lines or DEFAULT_SIZE.lines,
            theme=theme,
            color=depth,
            ascii="utf" not in locale.getpreferredencoding(False).lower(),
            accessible=environ.get("ACCESSIBLE", "") not in ("", "0") or _is_dumb(environ),
        )
    )


def _is_dumb(environ: Mapping[str, str]) -> bool:
    return environ.get("TERM", "dumb") == "dumb"
