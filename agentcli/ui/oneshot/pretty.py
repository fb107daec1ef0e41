"""Terminal output of a one-shot run: the cards of the interactive session, without an input line.

The view is opened when there is something to draw, so the first request does not wait for it.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from agentcli.system.plain_text import show_controls
from agentcli.types.answers import AnswerParts
from agentcli.types.errors import Exit, RunOutcome
from agentcli.types.events import CallFinished, CallJudged, Event, ModelReplied
from agentcli.types.messages import ToolCall
from agentcli.types.spending import NO_SPENDING
from agentcli.ui.oneshot.plain import ProgressRenderer, print_error
from agentcli.ui.render.wording import describe_hosted
from agentcli.ui.streams import write_err
from agentcli.ui.tally import Tally

if TYPE_CHECKING:
    from agentcli.ui.oneshot.pretty_view import TerminalView

BODY_LINES = 3

_ERASE_ROW = "\r\x1b[K"


class TerminalRenderer:
    """The progress of a run, on a terminal at stderr."""

    def __init__(self, open_view: "Callable[[], TerminalView]") -> None:
        self._open_view = open_view
        self._view: TerminalView | None = None
        self._remarks = ProgressRenderer(_RemarkSink(self), timed=False)
        self._said = AnswerParts()
        self._calls: dict[str, ToolCall] = {}
        self._judged: dict[str, CallJudged] = {}
        self._running = ""
        self._is_first = True

    def __call__(self, event: Event) -> None:
        self._said(event)
        match event:
            case ModelReplied(message=message):
                self._calls.update((call.id, call) for call in message.tool_calls)
                if message.tool_calls and (text := self._said.whole).strip():
                    self.write_block(self.view.render_prose(text))
                for line in describe_hosted(message):
                    self.write_block(f"{line}\n")
            case CallJudged(call=call, verdict=verdict):
                self._judged[call.id] = event
                if verdict.decision != "deny":
                    self._show_running(call)
            case CallFinished(result=result):
                asked = self._calls.get(result.call_id)
                self._write(
                    self.view.render_card(self._judged.get(result.call_id), event, call=asked)
                )
            case _:
                self._remarks(event)

    def finish(self, outcome: RunOutcome, tally: Tally) -> None:
        for warning in tally.warn_changed_checks():
            self.write_block(f"warning: {show_controls(warning)}\n")
        if tally.spending != NO_SPENDING:
            self.write_block(self.view.render_summary(tally))
        if outcome.exit_code is not Exit.DONE:
            if tally.answer.strip():
                self.write_block(self.view.render_prose(tally.answer))
            lines: list[str] = []
            print_error(outcome.message or outcome.ending, outcome.hint, write=lines.append)
            self.write_block("".join(f"{line}\n" for line in lines))
        else:
            self._write("", apart=not self._is_first)

    @property
    def view(self) -> "TerminalView":
        if self._view is None:
            self._view = self._open_view()
        return self._view

    def write_block(self, text: str) -> None:
        """Write something that is not a card, after the cards that were held back."""
        if self._view is not None:
            self._write(self._view.flush_cards())
        self._write(text)

    def write_remark(self, lines: Sequence[str]) -> None:
        """Write dim lines.

        Before the view is open they are written unstyled: it is not opened for them.
        """
        if self._view is None:
            write_err("".join(f"{line}\n" for line in lines))
            self._is_first = False
        else:
            self.write_block("".join(map(self._view.render_remark, lines)))

    def _show_running(self, call: ToolCall) -> None:
        self._erase()
        self._running = self.view.render_running(call)
        write_err(self._running)

    def _erase(self) -> None:
        if self._running:
            write_err(_ERASE_ROW)
            self._running = ""

    def _write(self, text: str, *, apart: bool = False) -> None:
        self._erase()
        if text or apart:
            write_err(text if self._is_first else f"\n{text}")
            self._is_first = False


class _RemarkSink:
    """A `ProgressSink` for what is neither prose nor a card: dim lines."""

    def __init__(self, renderer: TerminalRenderer) -> None:
        self._renderer = renderer

    def write_line(self, text: str) -> None:
        self._renderer.write_remark([text])

    def write_card(self, title: str, body: Sequence[str]) -> None:
        self._renderer.write_remark([title, *(f"  {line}" for line in body[-BODY_LINES:])])
