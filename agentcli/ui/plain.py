"""One shot in plain words: the story on stderr, one line an event, and the answer on stdout."""

import json
import time
from collections.abc import Callable, Sequence
from typing import Protocol

from agentcli.machine.plain import visible
from agentcli.types.answers import AnswerParts
from agentcli.types.checks import ClaimsChecked, Verified
from agentcli.types.deltas import RetryDelta
from agentcli.types.errors import Exit, Outcome
from agentcli.types.events import (
    Attached,
    CallFinished,
    CallJudged,
    Compacted,
    Ending,
    Event,
    ModelReplied,
    ResultsTrimmed,
    SessionResumed,
    SessionStarted,
    Told,
    Warned,
    Why,
)
from agentcli.types.messages import ToolCall
from agentcli.types.spending import NOTHING
from agentcli.types.tools import Command, Diff, FileView, Matches
from agentcli.ui.lines import call_line, duration, shortened_line, target
from agentcli.ui.streams import out_is_terminal, write_err, write_out
from agentcli.ui.tally import Tally

BODY_INDENT = "    "


class Page(Protocol):
    """Where a story is written. Everything it is given is printable already."""

    def line(self, text: str) -> None: ...

    def card(self, title: str, body: Sequence[str]) -> None:
        """What one call or check came to, with its details, where they are wanted."""
        ...


class PlainPage:
    def __init__(self, *, bodies: bool) -> None:
        self._bodies = bodies

    def line(self, text: str) -> None:
        write_err(text + "\n")

    def card(self, title: str, body: Sequence[str]) -> None:
        self.line(title)
        for line in body if self._bodies else ():
            self.line(f"{BODY_INDENT}{line}".rstrip())


class Story:
    def __init__(self, page: Page, *, quiet: bool = False, timed: bool = True) -> None:
        """`quiet`: errors only; `timed`: a line says when it was written."""
        self._page = page
        self._quiet = quiet
        self._is_timed = timed
        self._began = self._said_at = time.monotonic()
        self._said = AnswerParts()
        self._calls: dict[str, ToolCall] = {}
        self._running: dict[str, tuple[ToolCall, float]] = {}

    def __call__(self, event: Event) -> None:
        self._said(event)
        match event:
            case SessionStarted() | SessionResumed():
                self._opened(event)
            case ModelReplied(message=message):
                self._calls.update((call.id, call) for call in message.tool_calls)
                if message.tool_calls and (said := self._said.whole.strip()):
                    self._say(visible(said))
            case CallJudged(call=call):
                self._calls.setdefault(call.id, call)
                self._running[call.id] = (call, time.monotonic())
            case CallFinished(result=result):
                self._running.pop(result.call_id, None)
                self._called(event)
            case ResultsTrimmed() | Compacted():
                self._say(shortened_line(event))
            case Verified():
                self._card(_verified_line(event), event.output)
            case _:
                self._remark(event)

    def beat(self, every_s: float) -> None:
        """A sign of life, where nothing else was said for so long."""
        now = time.monotonic()
        if now - self._said_at < every_s:
            return
        if not self._running:
            self._say("still working: waiting for the model")
            return
        call, since = list(self._running.values())[-1]
        self._say(f"still working: {call.name} {target(call)}, {duration(now - since)} so far")

    def finish(self, outcome: Outcome, tally: Tally) -> None:
        if tally.spending != NOTHING:
            self._say(_summary(tally))
        if outcome.exit_code is Exit.DONE:
            return
        if tally.answer.strip():
            self._say(visible(tally.answer.strip()))
        if outcome.ending is Ending.INTERNAL:
            return  # a bug is told where it ends up, with the report to send
        say_error(outcome.message or outcome.ending, outcome.hint, write=self._page.line)

    def _opened(self, event: SessionStarted | SessionResumed) -> None:
        self._say(f"agentcli {event.version} · {event.model} · {event.mode} mode")
        again = f", session {event.session} resumed" if isinstance(event, SessionResumed) else ""
        self._say(f"workspace {visible(event.workspace)}{again}")
        for repair in event.repaired if isinstance(event, SessionResumed) else ():
            self._say(f"repaired: {visible(repair)}")

    def _remark(self, event: Event) -> None:
        match event:
            case Told(text=text, why=why) if why != Why.ENVIRONMENT:  # that is no news to a person
                first, *more = text.strip().split("\n")
                self._say(f"told the model ({why}): {visible(first)}{' …' if more else ''}")
            case Warned(message=message):
                self._say(f"warning: {visible(message)}")
            case Attached(name=name, size_bytes=size_bytes):
                self._say(f"attached {visible(name)} ({size_bytes} bytes)")
            case ClaimsChecked(claims=claims):
                for claim in claims:
                    if claim.verdict == "not_supported":
                        self._say(visible(f"not supported: {claim.text!r}: {claim.evidence}"))
            case RetryDelta():
                self._say(
                    f"{visible(event.reason)}: retrying in {event.wait_s:.1f} s, "
                    f"try {event.attempt} of {event.attempts}"
                )
            case _:
                pass

    def _called(self, event: CallFinished) -> None:
        result = event.result
        unknown = ToolCall(id=result.call_id, name=result.name, input=None)
        call = self._calls.get(result.call_id, unknown)
        if call.caller and isinstance(result.details, FileView | Matches):
            return  # a program looks around: its own line counts its calls
        line = call_line(call, result, event.duration_s)
        match result.details:
            case Diff(unified=unified):
                self._card(line, unified)
            case Command(head=head, tail=tail):
                self._card(line, head + (f"\n…\n{tail}" if tail else ""))
            case _:
                self._card(line, "")

    def _say(self, line: str) -> None:
        self._said_at = time.monotonic()
        if not self._quiet:
            self._page.line(self._timed(line))

    def _card(self, title: str, body: str) -> None:
        self._said_at = time.monotonic()
        if not self._quiet:
            lines = visible(body).rstrip("\n").split("\n") if body else []
            self._page.card(self._timed(title), lines)

    def _timed(self, line: str) -> str:
        return f"[{time.monotonic() - self._began:.1f}s] {line}" if self._is_timed else line


class TextAnswer:
    """The final answer alone, and only where there is one."""

    def __init__(
        self,
        answer_of: Callable[[Tally], str] | None = None,
        *,
        draw: Callable[[str], str] = visible,
    ) -> None:
        """`draw`: how it looks on a terminal."""
        self._answer_of = answer_of or answer_text
        self._draw = draw

    def __call__(self, event: Event) -> None:
        """The answer is known at the end."""

    def finish(self, outcome: Outcome, tally: Tally) -> None:
        if outcome.exit_code is not Exit.DONE:
            return
        answer = self._answer_of(tally).rstrip("\n")
        is_drawn = out_is_terminal() and tally.structured is None
        shown = self._draw(answer).rstrip("\n") if is_drawn else answer
        write_out(shown + "\n")


def answer_text(tally: Tally) -> str:
    """What the model said at last; as data, where it was asked for data."""
    if tally.structured is None:
        return tally.answer
    return json.dumps(tally.structured, ensure_ascii=False, indent=2)


def say_error(message: str, hint: str = "", *, write: Callable[[str], None] | None = None) -> None:
    """What happened and how to fix it: two lines, the one form of an error on a terminal."""
    say = write or PlainPage(bodies=False).line
    say(f"error: {visible(message)}")
    if hint:
        say(f"  fix: {visible(hint)}")


def _verified_line(run: Verified) -> str:
    how = "passed" if run.passed else f"exit {run.exit_code}" if run.exit_code else "did not end"
    command = " ".join(visible(run.command).split())
    return f"verify {command}: {how} ({duration(run.duration_s)})"


def _summary(tally: Tally) -> str:
    usage = tally.usage
    cached = f" ({usage.cache_read_tokens} cached)" if usage.cache_read_tokens else ""
    thought = f" ({usage.reasoning_tokens} thinking)" if usage.reasoning_tokens else ""
    return (
        f"{tally.spending.asked} · {usage.prompt_tokens} tokens in{cached}, "
        f"{usage.output_tokens} out{thought} · {tally.spending.cost}"
    )
