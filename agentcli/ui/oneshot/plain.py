"""Plain text output of a one-shot run: progress on stderr, one line an event; answer on stdout."""

import json
import time
from collections.abc import Callable, Sequence
from typing import Protocol

from agentcli.system.plain_text import show_controls
from agentcli.types.agents import (
    AgentEnded,
    PatchDecided,
    describe_agent_fact,
)
from agentcli.types.answers import AnswerParts
from agentcli.types.checks import Verified
from agentcli.types.deltas import RetryDelta, ServersAwaited
from agentcli.types.errors import Ending, Exit, RunOutcome
from agentcli.types.events import (
    CallFinished,
    CallJudged,
    Compacted,
    ContextNote,
    Event,
    FileAttached,
    ModelReplied,
    NoteReason,
    ResultsTrimmed,
    SessionResumed,
    SessionStarted,
    Warned,
)
from agentcli.types.messages import AssistantMessage, ToolCall
from agentcli.types.spending import NO_SPENDING
from agentcli.types.tools import Command, Diff, FileView, Matches
from agentcli.ui.render.wording import (
    describe_check,
    describe_context_note,
    describe_hosted,
    describe_retry,
    describe_run_changes,
    describe_shortening,
    describe_waiting,
    format_call,
    format_duration,
    format_target,
)
from agentcli.ui.streams import (
    escape_service_messages,
    out_is_file,
    out_is_terminal,
    write_err,
    write_out,
)
from agentcli.ui.tally import Tally

BODY_INDENT = "    "


class ProgressSink(Protocol):
    """An output for progress lines. All text passed to it is printable already."""

    def write_line(self, text: str) -> None: ...

    def write_card(self, title: str, body: Sequence[str]) -> None:
        """Write the outcome of one call or check, with its details if they are wanted."""
        ...


class StderrSink:
    def __init__(self, *, bodies: bool) -> None:
        self._bodies = bodies

    def write_line(self, text: str) -> None:
        write_err(text + "\n")

    def write_card(self, title: str, body: Sequence[str]) -> None:
        self.write_line(title)
        for line in body if self._bodies else ():
            self.write_line(f"{BODY_INDENT}{line}".rstrip())


class ProgressRenderer:
    def __init__(
        self, sink: ProgressSink, *, quiet: bool = False, timed: bool = True, is_kept: bool = True
    ) -> None:
        """`quiet` shows errors only; `timed` starts each line with the seconds since the start.

        `is_kept` is False if the session is thrown away, so that nothing can be undone."""
        self._sink = sink
        self._quiet = quiet
        self._is_kept = is_kept
        self._is_timed = timed
        self._began = self._last_line_at = time.monotonic()
        self._said = AnswerParts()
        self._calls: dict[str, ToolCall] = {}
        self._running: dict[str, tuple[ToolCall, float]] = {}

    def __call__(self, event: Event) -> None:
        if self._quiet:
            return
        self._said(event)
        match event:
            case SessionStarted() | SessionResumed():
                self._render_session_start(event)
            case ModelReplied(message=message):
                self._render_reply(message)
            case CallJudged(call=call):
                self._calls.setdefault(call.id, call)
                self._running[call.id] = (call, time.monotonic())
            case CallFinished(result=result):
                self._running.pop(result.call_id, None)
                self._render_call(event)
            case ResultsTrimmed() | Compacted():
                self._say(describe_shortening(event))
            case Verified():
                self._write_card(describe_check(event), event.output)
            case _:
                self._render_remark(event)

    def _render_reply(self, message: AssistantMessage) -> None:
        self._calls.update((call.id, call) for call in message.tool_calls)
        if message.tool_calls and (text := self._said.whole.strip()):
            self._say(show_controls(text))
        for line in describe_hosted(message):
            self._say(line)

    def report_alive(self, every_s: float) -> None:
        """Write a line if nothing was written for `every_s` seconds. Used in CI alone."""
        now = time.monotonic()
        if now - self._last_line_at < every_s:
            return
        if not self._running:
            self._say("still working: waiting for the model")
            return
        call, since = list(self._running.values())[-1]
        self._say(
            f"still working: {call.name} {format_target(call)}, "
            f"{format_duration(now - since)} so far"
        )

    def finish(self, outcome: RunOutcome, tally: Tally) -> None:
        for warning in tally.warn_changed_checks():
            self._say(f"warning: {show_controls(warning)}")
        if tally.spending != NO_SPENDING:
            self._say(_format_summary(tally))
        if self._is_kept and (changes := describe_run_changes(tally)):
            self._say(changes)
        if checked := tally.verification:
            self._say(show_controls(checked.text))
        if outcome.exit_code is Exit.DONE:
            return
        if tally.answer.strip():
            self._say(show_controls(tally.answer.strip()))
        if outcome.ending is Ending.INTERNAL:
            return  # a bug is reported where it is caught, with the file to send
        print_error(outcome.message or outcome.ending, outcome.hint, write=self._sink.write_line)

    def _render_session_start(self, event: SessionStarted | SessionResumed) -> None:
        self._say(f"agentcli {event.version} · {event.model} · {event.mode} mode")
        again = f", session {event.session} resumed" if isinstance(event, SessionResumed) else ""
        self._say(f"workspace {show_controls(event.workspace)}{again}")
        for repair in event.repaired if isinstance(event, SessionResumed) else ():
            self._say(f"repaired: {show_controls(repair)}")

    def _render_remark(self, event: Event) -> None:
        match event:
            case ContextNote(why=why) if why != NoteReason.ENVIRONMENT:  # the user knows that
                self._say(describe_context_note(event))
            case Warned(message=message):
                self._say(f"warning: {show_controls(message)}")
            case AgentEnded() | PatchDecided():
                self._say(show_controls(describe_agent_fact(event)))
            case FileAttached(name=name, size_bytes=size_bytes):
                self._say(f"attached {show_controls(name)} ({size_bytes} bytes)")
            case RetryDelta():
                self._say(describe_retry(event))
            case ServersAwaited():
                self._say(describe_waiting(event))
            case _:
                pass

    def _render_call(self, event: CallFinished) -> None:
        result = event.result
        unknown = ToolCall(id=result.call_id, name=result.name, input=None)
        call = self._calls.get(result.call_id, unknown)
        if call.caller and isinstance(result.details, FileView | Matches):
            return  # a program only reads: its own line counts its calls
        line = format_call(call, result, duration_s=event.duration_s)
        match result.details:
            case Diff(unified=unified):
                self._write_card(line, unified)
            case Command(head=head, tail=tail):
                self._write_card(line, head + (f"\n…\n{tail}" if tail else ""))
            case _:
                self._write_card(line, "")

    def _say(self, line: str) -> None:
        self._last_line_at = time.monotonic()
        if not self._quiet:
            self._sink.write_line(self._add_time(line))

    def _write_card(self, title: str, body: str) -> None:
        self._last_line_at = time.monotonic()
        if not self._quiet:
            lines = show_controls(body).rstrip("\n").split("\n") if body else []
            self._sink.write_card(self._add_time(title), lines)

    def _add_time(self, line: str) -> str:
        return f"[{time.monotonic() - self._began:.1f}s] {line}" if self._is_timed else line


class TextAnswer:
    """The final answer alone, and only if there is one."""

    def __init__(
        self,
        get_answer: Callable[[Tally], str] | None = None,
        *,
        draw: Callable[[str], str] = show_controls,
        guard: Callable[[str], str] = str,
    ) -> None:
        """`draw` formats the answer for a terminal, and `guard` for the program behind a pipe."""
        self._get_answer = get_answer or format_answer
        self._draw = draw
        self._guard = guard

    def __call__(self, event: Event) -> None:
        """Ignore the event: the answer is known at the end."""

    def finish(self, outcome: RunOutcome, tally: Tally) -> None:
        if outcome.exit_code is not Exit.DONE:
            return
        answer = self._get_answer(tally).rstrip("\n")
        if not out_is_terminal():
            answer = answer if out_is_file() else self._guard(answer)
        elif tally.structured is None:
            answer = self._draw(answer).rstrip("\n")
        write_out(answer + "\n")


def format_answer(tally: Tally) -> str:
    """Return the last answer of the model, as JSON if a schema was given."""
    if tally.structured is None:
        return tally.answer
    return escape_service_messages(json.dumps(tally.structured, ensure_ascii=False, indent=2))


def print_error(
    message: str, hint: str = "", *, write: Callable[[str], None] | None = None
) -> None:
    """Write what happened and how to fix it: two lines, the form of every error on a terminal."""
    say = write or StderrSink(bodies=False).write_line
    say(f"error: {show_controls(message)}")
    if hint:
        say(f"  fix: {show_controls(hint)}")


def _format_summary(tally: Tally) -> str:
    usage = tally.usage
    cached = f" ({usage.cache_read_tokens} cached)" if usage.cache_read_tokens else ""
    thought = f" ({usage.reasoning_tokens} thinking)" if usage.reasoning_tokens else ""
    return (
        f"{tally.spending.request_summary} · {usage.prompt_tokens} tokens in{cached}, "
        f"{usage.output_tokens} out{thought} · {tally.spending.cost_text}"
    )
