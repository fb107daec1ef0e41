"""JSON output of a one-shot run: every event as a line, or the final result alone.

`result` is the last line, exactly once, whatever happened. Readers ignore types and fields that
they do not know. The published schema is `docs/reference/stream-json.schema.json`.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

from agentcli.types import events
from agentcli.types.agents import AgentEnded, AgentStarted, PatchDecided
from agentcli.types.checks import Verified
from agentcli.types.deltas import CallProgress, RetryDelta, ServersAwaited, TextDelta
from agentcli.types.errors import RunOutcome
from agentcli.types.events import (
    CallFinished,
    CallJudged,
    Compacted,
    ContextNote,
    Event,
    FileAttached,
    HookRan,
    HostJudged,
    ModelChanged,
    ModelReplied,
    ResultsTrimmed,
    ServerAsked,
    SessionResumed,
    SessionStarted,
    SignatureJudged,
    TokensSpent,
    Warned,
)
from agentcli.types.messages import AssistantMessage, ToolCall
from agentcli.types.spending import compute_spending
from agentcli.types.tools import Command, Details, Diff, ErrorKind, Structured, ToolResult
from agentcli.ui.oneshot.request import OutputFormat
from agentcli.ui.streams import write_json
from agentcli.ui.tally import Tally, build_base_json, build_cost_json, build_usage_json

VERSION = 1
PIECE_CHARS = 240
"""The least characters in a line with a piece of text: its other fields take about 130."""

JsonRow: TypeAlias = dict[str, Any]


class JsonRenderer:
    def __init__(
        self,
        *,
        stream: bool,
        partial: bool = False,
        get_window: Callable[[str], int | None] = lambda model: None,
    ) -> None:
        """`stream` writes every event, not only the result; `partial` adds the deltas.

        `get_window` returns the context window of a model in tokens, or None if it is not known.
        """
        self._stream = stream
        self._get_window = get_window
        self._model = ""
        self._partial = partial
        self._seq = 0
        self._session = ""
        self._turn = 0
        self._replies = 0
        self._pieces: JsonRow = {}
        """Text of one kind that is not written yet: a line for each token would be 20 times it."""
        self._shown: dict[str, str] = {}
        """The latest output of each running call."""

    def __call__(self, event: Event) -> None:
        if isinstance(event, SessionStarted | SessionResumed):
            self._session = event.session
        if isinstance(event, SessionStarted | SessionResumed | ModelChanged):
            self._model = event.model
        if self._stream:
            self._render_event(event)

    def finish(self, outcome: RunOutcome, tally: Tally) -> None:
        self._flush_pieces()
        result = tally.build_result(outcome)
        if self._stream:
            self.write_line(result)
        else:
            write_json({"v": VERSION, "session": self._session, **result})

    def _render_event(self, event: Event) -> None:
        match event:
            case TextDelta(text=text):
                if self._partial:
                    self._begin_turn(self._replies + 1)
                    self._add_piece({"type": "message.delta", "turn": self._turn}, text)
            case ModelReplied() | TokensSpent() | Compacted():
                self._begin_turn(self._replies + 1)
                self._render_usage(event)
            case CallProgress(call_id=call_id, text=text):
                if self._partial:
                    new = _find_new_text(self._shown.get(call_id, ""), text)
                    self._shown[call_id] = text
                    self._add_piece({"type": "tool.output", "id": call_id, "stream": "stdout"}, new)
            case _:
                for row in _build_rows(event):
                    self.write_line(row)

    def _render_usage(self, event: ModelReplied | TokensSpent | Compacted) -> None:
        if not isinstance(event, ModelReplied):
            self.write_line(_build_usage(event, self._turn))
            return
        self._replies += 1
        for row in _build_reply(event, self._turn, window_tokens=self._get_window(self._model)):
            self.write_line(row)

    def _add_piece(self, row: JsonRow, text: str) -> None:
        """Add text to the line that is being collected. Write the line when it is long enough."""
        if {**self._pieces, **row} != self._pieces:
            self._flush_pieces()
            self._pieces = {**row, "text": ""}
        self._pieces["text"] += text
        if len(self._pieces["text"]) >= PIECE_CHARS:
            self._flush_pieces()

    def _flush_pieces(self) -> None:
        row, self._pieces = self._pieces, {}
        if row.get("text"):
            self.write_line(row)

    def _begin_turn(self, turn: int) -> None:
        if turn != self._turn:
            self._turn = turn
            self.write_line({"type": "turn.started", "turn": turn})

    def write_line(self, fields: JsonRow) -> None:
        """Write a line of the stream, after the text that is being collected."""
        self._flush_pieces()
        self._seq += 1
        head = {"v": VERSION, "seq": self._seq, "ts": events.read_clock(), "session": self._session}
        write_json({**head, **fields})


def _build_rows(event: Event) -> list[JsonRow]:
    """Return the lines of an event that needs no state of the renderer."""
    match event:
        case SessionStarted():
            return [_build_session_start(event)]
        case SessionResumed(repaired=repaired):
            return [
                {
                    **_build_session_start(event),
                    "type": "session.resumed",
                    "repaired": list(repaired),
                }
            ]
        case CallJudged():
            return _build_approval(event)
        case CallFinished(result=result, duration_s=duration_s):
            return [_build_tool_result(result, duration_s)]
        case RetryDelta():
            return [_build_retry(event)]
        case ServersAwaited(names=names, limit_s=limit_s):
            return [{"type": "waiting", "servers": list(names), "limit_s": limit_s}]
        case Verified():
            return [_build_check(event)]
        case _:
            return _build_remarks(event)


def _build_remarks(event: Event) -> list[JsonRow]:
    match event:
        case ContextNote(text=text, why=why):
            return [{"type": "told", "text": text, "why": why}]
        case Warned(code=code, message=message):
            return [{"type": "warning", "code": code, "message": message}]
        case HookRan():
            return [_build_hook(event)]
        case HostJudged() | SignatureJudged():
            return [_build_access(event)]
        case ResultsTrimmed(results=results, freed_tokens=freed_tokens):
            ids = [result.call_id for result in results]
            return [{"type": "shortened", "results": ids, "freed_tokens": freed_tokens}]
        case FileAttached(name=name, origin=origin, size_bytes=size_bytes):
            return [{"type": "attached", "name": name, "origin": origin, "bytes": size_bytes}]
        case ServerAsked():
            return [_build_server_question(event)]
        case _:
            return _build_agent_rows(event)


def _build_agent_rows(event: Event) -> list[JsonRow]:
    """Return the line of an agent that works beside the session."""
    match event:
        case AgentStarted():
            row: JsonRow = {
                "type": "agent.started",
                "agent": event.agent,
                "role": event.role,
                "task": event.task,
                "id": event.call_id,
                "worktree": event.worktree,
                "max_cost_usd": event.max_cost_usd,
                "log": event.log_path,
            }
        case AgentEnded(turn=turn):
            row = {
                "type": "agent.ended",
                "agent": event.agent,
                "role": turn.role,
                "ending": turn.ending,
                "message": event.message,
                "answer": event.answer,
                "files": list(event.paths),
                "added": event.added,
                "removed": event.removed,
                **build_usage_json(turn.usage),
                **build_cost_json(compute_spending(event)),
            }
        case PatchDecided(verdict=verdict):
            row = {
                "type": "agent.patch",
                "agent": event.agent,
                "decision": verdict.decision if verdict.decision in ("allow", "modify") else "deny",
                "by": verdict.by,
                "reason": verdict.reason,
                "files": list(event.paths),
                "conflicts": list(event.conflicts),
            }
        case _:
            return []
    return [row]


def _build_server_question(event: ServerAsked) -> JsonRow:
    return {
        "type": "server.asked",
        "server": event.server,
        "kind": event.kind,
        "message": event.message,
        "answer": event.answer,
        "fields": list(event.fields),
    }


def _build_hook(event: HookRan) -> JsonRow:
    return {
        "type": "hook",
        "event": event.event,
        "id": event.call_id or None,
        "hook": event.hook,
        "decision": event.decision,
        "reason": event.reason,
    }


def _build_access(event: HostJudged | SignatureJudged) -> JsonRow:
    verdict = event.verdict
    judged = {"decision": verdict.decision, "by": verdict.by, "reason": verdict.reason}
    if isinstance(event, HostJudged):
        asked = {"id": event.call_id or None, "server": event.server}
        host = {"host": event.host, "port": event.port, "credential": event.credential}
        return {"type": "host", **asked, **host, **judged}
    signed = {"key": event.key, "purpose": event.purpose}
    return {"type": "signature", "id": event.call_id, **signed, **judged}


def _build_session_start(event: SessionStarted | SessionResumed) -> JsonRow:
    return {
        "type": "session.started",
        "cwd": event.workspace,
        "model": event.model,
        "provider": event.model.partition("/")[0],
        "mode": event.mode,
        "tools": list(event.tools),
        "version": event.version,
    }


def _build_reply(event: ModelReplied, turn: int, *, window_tokens: int | None) -> list[JsonRow]:
    message = event.message
    messages = [{"type": "message", "turn": turn, "text": message.text}] if message.text else []
    filled = message.usage.prompt_tokens + message.usage.output_tokens
    share_pct = round(100 * filled / window_tokens, 1) if window_tokens else None
    return [
        *messages,
        *_build_hosted(message, turn),
        {**_build_usage(event, turn), "context_pct": share_pct},
        *map(_build_tool_request, message.tool_calls),
    ]


def _build_hosted(message: AssistantMessage, turn: int) -> list[JsonRow]:
    """Return a row for the calls that the provider made itself, if there are any."""
    if not message.hosted and not message.sources:
        return []
    calls = [
        {"tool": call.tool, "subject": call.subject, "results": call.results, "error": call.error}
        for call in message.hosted
    ]
    sources = [{"url": source.url, "title": source.title} for source in message.sources]
    return [{"type": "hosted", "turn": turn, "calls": calls, "sources": sources}]


_PUBLISHED = {"model_replied": "reply", "compacted": "summary", "evaluation": "opinion"}
"""The words of this format for a fact's type or reason; others are the same."""


def _build_usage(event: ModelReplied | TokensSpent | Compacted, turn: int) -> JsonRow:
    spent = compute_spending(event)
    source = event.why if isinstance(event, TokensSpent) else event.type
    return {
        "type": "usage",
        "turn": turn,
        "of": _PUBLISHED.get(source, source),
        **build_usage_json(spent.usage),
        **build_cost_json(spent),
        "context_pct": None,
    }


def _build_tool_request(call: ToolCall) -> JsonRow:
    row: JsonRow = {"type": "tool.requested", "id": call.id, "tool": call.name, "input": call.input}
    return {**row, "caller": call.caller} if call.caller else row


def _build_approval(event: CallJudged) -> list[JsonRow]:
    verdict, call_id = event.verdict, event.call.id
    allowed = verdict.decision in ("allow", "modify")
    approval: JsonRow = {
        "type": "approval",
        "id": call_id,
        "decision": "allow" if allowed else "deny",
        "by": verdict.by,
        "rule": verdict.rule,
        "reason": verdict.reason,
    }
    if verdict.decision == "modify":
        approval["input"] = verdict.input
    rows = [approval, {"type": "tool.started", "id": call_id}] if allowed else [approval]
    return [_build_tool_request(event.call), *rows] if event.call.caller else rows


def _build_check(run: Verified) -> JsonRow:
    return {
        "type": "verify",
        "cmd": run.command,
        "attempt": run.attempt,
        "exit_code": run.exit_code,
        "timed_out": run.timed_out,
        "duration_ms": round(run.duration_s * 1000),
        "output": run.output,
        "log": run.log_path or None,
        "base": build_base_json(run),
    }


def _find_new_text(before: str, now: str) -> str:
    """Return the part of the latest output that was not in the output before."""
    for size in range(min(len(before), len(now)), 0, -1):
        if before.endswith(now[:size]):
            return now[size:]
    return now


_STATUS: dict[ErrorKind, str] = {
    ErrorKind.DENIED: "denied",
    ErrorKind.TIMEOUT: "timeout",
    ErrorKind.CANCELLED: "interrupted",
}


def _build_tool_result(result: ToolResult, duration_s: float) -> JsonRow:
    status = "ok" if result.error is None else _STATUS.get(result.error, "failed")
    fields: JsonRow = {
        "type": "tool.finished",
        "id": result.call_id,
        "status": status,
        "error": result.error,
        "duration_ms": round(duration_s * 1000),
        "model_text": result.text,
        "truncated": result.truncated,
    }
    if result.origin:
        fields["origin"] = result.origin
    if isinstance(result.details, Command):
        fields |= {"exit_code": result.details.exit_code, "log": result.details.log_path}
    if result.details is not None:
        fields["display"] = build_display(result.details)
    return fields


def build_display(details: Details) -> JsonRow:
    """Return what a call did, or would do, for the user."""
    match details:
        case Command(output_lines=lines):
            return {"kind": "command", "lines": lines}
        case Diff():
            return {
                "kind": "diff",
                "path": details.path,
                "added": details.added,
                "removed": details.removed,
                "unified": details.unified,
            }
        case Structured(data=data, path=path):
            return {"kind": "structured", "data": data, "path": path}
        case _:
            return {"kind": details.type}


def _build_retry(event: RetryDelta) -> JsonRow:
    return {
        "type": "retry",
        "reason": event.reason,
        "http": event.status,
        "wait_s": event.wait_s,
        "attempt": event.attempt,
        "of": event.attempts,
    }


# The JSON result of a run that was refused before its options were parsed.


def write_refusal(outcome: RunOutcome, arguments: Sequence[str]) -> None:
    """Write the result if the arguments ask for JSON; the last `-o` among them counts."""
    form = [OutputFormat.TEXT.value, *_parse_outputs(arguments)][-1]
    if form in (OutputFormat.JSON, OutputFormat.STREAM_JSON):
        JsonRenderer(stream=form == OutputFormat.STREAM_JSON).finish(outcome, Tally())


def _parse_outputs(arguments: Sequence[str]) -> Iterator[str]:
    for word, following in zip(arguments, [*arguments[1:], ""], strict=True):
        if word in ("-o", "--output"):
            yield following
        elif word.startswith("--output="):
            yield word.removeprefix("--output=")
        elif word.startswith("-o"):
            yield word.removeprefix("-o").removeprefix("=")
