"""One shot in plain words: the answer on stdout, the story on stderr, one line an event."""

import sys
import time
from collections.abc import Callable

from agentcli.machine.plain import visible
from agentcli.types.errors import AgentError, Exit
from agentcli.types.events import (
    CallFinished,
    Event,
    ModelReplied,
    RetryDelta,
    SessionStarted,
    Told,
    Warned,
)
from agentcli.types.messages import ToolCall
from agentcli.types.tools import Command, Diff, ToolResult
from agentcli.ui.lines import call_line
from agentcli.ui.tally import Tally

BODY_INDENT = "    "


class PlainFace:
    """`verbosity`: 0 errors only, 1 a line an event, 2 with the bodies of cards."""

    def __init__(self, *, verbosity: int = 1) -> None:
        self._verbosity = verbosity
        self._tally = Tally()
        self._calls: dict[str, ToolCall] = {}

    def __call__(self, event: Event) -> None:
        self._tally(event)
        match event:
            case SessionStarted():
                self._story(f"agentcli {event.version} · {event.model} · {event.mode} mode")
                self._story(f"workspace {visible(event.workspace)}")
            case ModelReplied(message=message):
                self._calls.update((call.id, call) for call in message.tool_calls)
                if message.tool_calls and message.text.strip():
                    self._story(visible(message.text.strip()))
            case Told(text=text):
                self._story(f"told the model: {visible(text)}")
            case Warned(message=message):
                self._story(f"warning: {visible(message)}")
            case CallFinished(result=result, duration_s=duration_s):
                self._call(self._calls[result.call_id], result, duration_s)
            case RetryDelta():
                self._story(
                    f"{visible(event.reason)}: retrying in {event.wait_s:g}s, "
                    f"try {event.attempt} of {event.attempts}"
                )
            case _:
                pass

    def finish(self, error: AgentError | None) -> Exit:
        """The last words. Returns the exit code."""
        tally = self._tally
        if error is not None:
            say_error(str(error), error.hint)
            return error.exit_code
        ended, code = tally.ended, tally.exit_code
        self._story(_summary(tally))
        if code is Exit.DONE:
            answer = tally.answer.rstrip("\n")
            sys.stdout.write((visible(answer) if sys.stdout.isatty() else answer) + "\n")
            sys.stdout.flush()
            return code
        if tally.answer.strip():
            self._story(visible(tally.answer.strip()))
        if ended is not None:
            say_error(ended.message, ended.hint)
        return code

    def _call(self, call: ToolCall, result: ToolResult, duration_s: float) -> None:
        self._story(call_line(call, result, duration_s))
        if self._verbosity < 2:
            return
        match result.details:
            case Diff(unified=unified):
                self._body(unified)
            case Command(head=head, tail=tail):
                self._body(head + (f"\n…\n{tail}" if tail else ""))
            case _:
                pass

    def _body(self, text: str) -> None:
        for line in visible(text).rstrip("\n").split("\n"):
            _write(f"{BODY_INDENT}{line}".rstrip())

    def _story(self, line: str) -> None:
        if self._verbosity >= 1:
            _write(f"[{time.monotonic() - self._tally.began:.1f}s] {line}")


def _summary(tally: Tally) -> str:
    usage = tally.usage
    cached = f" ({usage.cache_read_tokens} cached)" if usage.cache_read_tokens else ""
    thought = f" ({usage.reasoning_tokens} thinking)" if usage.reasoning_tokens else ""
    cost = "price not known" if tally.cost_usd is None else f"${tally.cost_usd:.4f}"
    return (
        f"{tally.turns} requests · {usage.prompt_tokens} tokens in{cached}, "
        f"{usage.output_tokens} out{thought} · {cost}"
    )


def say_error(message: str, hint: str = "", *, write: Callable[[str], None] | None = None) -> None:
    """What happened and how to fix it: two lines, the one form of an error on a terminal."""
    say = write or _write
    say(f"error: {visible(message)}")
    if hint:
        say(f"  fix: {visible(hint)}")


def _write(line: str) -> None:
    sys.stderr.write(line + "\n")
    sys.stderr.flush()
