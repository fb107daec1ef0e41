"""A terminal that is written to and never read: prose, cards and remarks, one below the other."""

import locale
import os
from collections.abc import Mapping

from agentcli.types.events import CallFinished, CallJudged
from agentcli.types.messages import ToolCall
from agentcli.ui.render.card_header import CardState, render_header
from agentcli.ui.render.cards import CardRenderer
from agentcli.ui.render.markdown import MarkdownStream
from agentcli.ui.render.paint import Paint
from agentcli.ui.render.theme import choose_theme
from agentcli.ui.render.wording import (
    describe_run_changes,
    read_subject,
    render_turn_summary,
    render_verification,
)
from agentcli.ui.tally import Tally

DEFAULT_SIZE = os.terminal_size((80, 24))


class TerminalView:
    """Renders for one terminal. Every result ends with a newline, unless it is empty."""

    def __init__(self, paint: Paint) -> None:
        self._paint = paint
        self._cards = CardRenderer(paint, numbered=False)

    def render_prose(self, markdown: str) -> str:
        stream = MarkdownStream(self._paint)
        return stream.feed(markdown) + stream.finish()

    def render_card(
        self, judged: CallJudged | None, finished: CallFinished, *, call: ToolCall | None
    ) -> str:
        return self._cards.add_finished(judged, finished, call=call)

    def flush_cards(self) -> str:
        return self._cards.flush()

    def render_running(self, call: ToolCall) -> str:
        """Return one row without a newline, to be erased later; empty if nothing can be erased."""
        if self._paint.accessible:
            return ""
        lines, _ = render_header(
            CardState.RUNNING,
            call.name,
            target=read_subject(call),
            remarks=["running"],
            paint=self._paint,
        )
        return self._paint.render_lines(lines[:1]).removesuffix("\n")

    def render_remark(self, text: str) -> str:
        return self._paint.apply_style(text, self._paint.theme.dim) + "\n"

    def render_summary(self, tally: Tally) -> str:
        paint, dim = self._paint, self._paint.theme.dim
        done = render_turn_summary(paint, tally, tools=tally.calls, duration_s=tally.duration_s)
        changes = describe_run_changes(tally, dot=paint.dot)
        changed = paint.apply_style(changes, dim) + "\n" if changes else ""
        return done + changed + render_verification(paint, tally)


def open_view(descriptor: int, environ: Mapping[str, str]) -> TerminalView:
    """Return a view for the terminal at a descriptor. The terminal is not queried."""
    return TerminalView(build_paint(descriptor, environ))


def build_paint(descriptor: int, environ: Mapping[str, str]) -> Paint:
    """Return a paint for the terminal at a descriptor. The terminal is not queried."""
    theme, depth = choose_theme("auto", None, environ=environ, is_tty=True)
    try:
        size = os.get_terminal_size(descriptor)
    except OSError:
        size = DEFAULT_SIZE
    return Paint(
        columns=size.columns or DEFAULT_SIZE.columns,
        rows=size.lines or DEFAULT_SIZE.lines,
        theme=theme,
        color=depth,
        ascii="utf" not in locale.getpreferredencoding(False).lower(),
        accessible=environ.get("ACCESSIBLE", "") not in ("", "0") or _is_dumb(environ),
    )


def _is_dumb(environ: Mapping[str, str]) -> bool:
    return environ.get("TERM", "dumb") == "dumb"
