"""One shot for programs: every event as a line of JSON, or the final result alone.

`result` is the last line, exactly once, whatever happened. Readers ignore types and fields they do
not know. The published form is `docs/reference/stream-json.schema.json`.
"""

import json
from collections.abc import Callable
from typing import Any, TypeAlias

from agentcli.machine import clock
from agentcli.types.checks import Verified
from agentcli.types.deltas import CallProgress, RetryDelta, TextDelta
from agentcli.types.errors import Outcome
from agentcli.types.events import (
    Attached,
    CallFinished,
    CallJudged,
    Compacted,
    Event,
    HookRan,
    ModelChanged,
    ModelReplied,
    ResultsTrimmed,
    ServerAsked,
    SessionResumed,
    SessionStarted,
    TokensSpent,
    Told,
    Warned,
)
from agentcli.types.messages import ToolCall
from agentcli.types.spending import spent_on
from agentcli.types.tools import Command, Diff, ErrorKind, ToolResult
from agentcli.ui.streams import write_out
from agentcli.ui.tally import Tally, cost_json, usage_json

VERSION = 1

Row: TypeAlias = dict[str, Any]


class JsonFace:
    def __init__(
        self,
        *,
        stream: bool,
        partial: bool = False,
        window_of: Callable[[str], int | None] = lambda model: None,
    ) -> None:
        """`stream`: every event, not the result alone. `partial`: deltas, too.

        `window_of`: tokens that a model takes, where it is known."""
        self._stream = stream
        self._window_of = window_of
        self._model = ""
        self._partial = partial
        self._seq = 0
        self._session = ""
        self._turn = 0
        self._replies = 0

    def __call__(self, event: Event) -> None:
        if isinstance(event, SessionStarted | SessionResumed):
            self._session = event.session
        if isinstance(event, SessionStarted | SessionResumed | ModelChanged):
            self._model = event.model
        if self._stream:
            self._tell(event)

    def finish(self, outcome: Outcome, tally: Tally) -> None:
        result = tally.result(outcome)
        if self._stream:
            self._line(result)
        else:
            self._write({"v": VERSION, "session": self._session, **result})

    def _tell(self, event: Event) -> None:
        match event:
            case TextDelta(text=text):
                if self._partial:
                    self._begin_turn(self._replies + 1)
                    self._line({"type": "message.delta", "turn": self._turn, "text": text})
            case ModelReplied() | TokensSpent() | Compacted():
                self._begin_turn(self._replies + 1)
                self._used(event)
            case CallProgress():
                if self._partial:
                    self._line(_output(event))
            case _:
                for row in _rows(event):
                    self._line(row)

    def _used(self, event: ModelReplied | TokensSpent | Compacted) -> None:
        if not isinstance(event, ModelReplied):
            self._line(_usage(event, self._turn))
            return
        self._replies += 1
        for row in _replied(event, self._turn, self._window_of(self._model)):
            self._line(row)

    def _begin_turn(self, turn: int) -> None:
        if turn != self._turn:
            self._turn = turn
            self._line({"type": "turn.started", "turn": turn})

    def _line(self, fields: Row) -> None:
        self._seq += 1
        head = {"v": VERSION, "seq": self._seq, "ts": clock.now(), "session": self._session}
        self._write({**head, **fields})

    def _write(self, record: Row) -> None:
        text = json.dumps(record, ensure_ascii=False, separators=(",", ":"))
        # A CI that looks for commands in what it is shown finds them inside a line, too.
        write_out(text.replace("##[", "#\\u0023[") + "\n", encoding="utf-8")


def _rows(event: Event) -> list[Row]:
    """The lines of an event that stands for itself."""
    match event:
        case SessionStarted():
            return [_started(event)]
        case SessionResumed(repaired=repaired):
            return [{**_started(event), "type": "session.resumed", "repaired": list(repaired)}]
        case CallJudged():
            return _judged(event)
        case CallFinished(result=result, duration_s=duration_s):
            return [_finished(result, duration_s)]
        case RetryDelta():
            return [_retry(event)]
        case Verified():
            return [_verified(event)]
        case _:
            return _remarks(event)


def _remarks(event: Event) -> list[Row]:
    match event:
        case Told(text=text, why=why):
            return [{"type": "told", "text": text, "why": why}]
        case Warned(code=code, message=message):
            return [{"type": "warning", "code": code, "message": message}]
        case HookRan():
            return [_hook(event)]
        case ResultsTrimmed(results=results, freed_tokens=freed_tokens):
            ids = [result.call_id for result in results]
            return [{"type": "shortened", "results": ids, "freed_tokens": freed_tokens}]
        case Attached(name=name, origin=origin, size_bytes=size_bytes):
            return [{"type": "attached", "name": name, "origin": origin, "bytes": size_bytes}]
        case ServerAsked():
            return [_server_asked(event)]
        case _:
            return []


def _server_asked(event: ServerAsked) -> Row:
    return {
        "type": "server.asked",
        "server": event.server,
        "kind": event.kind,
        "message": event.message,
        "answer": event.answer,
        "fields": list(event.fields),
    }


def _hook(event: HookRan) -> Row:
    return {
        "type": "hook",
        "event": event.event,
        "id": event.call_id or None,
        "hook": event.hook,
        "decision": event.decision,
        "reason": event.reason,
    }


def _started(event: SessionStarted | SessionResumed) -> Row:
    return {
        "type": "session.started",
        "cwd": event.workspace,
        "model": event.model,
        "provider": event.model.partition("/")[0],
        "mode": event.mode,
        "tools": list(event.tools),
        "version": event.version,
    }


def _replied(event: ModelReplied, turn: int, window_tokens: int | None) -> list[Row]:
    message = event.message
    said = [{"type": "message", "turn": turn, "text": message.text}] if message.text else []
    filled = message.usage.prompt_tokens + message.usage.output_tokens
    share_pct = round(100 * filled / window_tokens, 1) if window_tokens else None
    return [
        *said,
        {**_usage(event, turn), "context_pct": share_pct},
        *map(_requested, message.tool_calls),
    ]


_OF = {"model_replied": "reply", "compacted": "summary"}


def _usage(event: ModelReplied | TokensSpent | Compacted, turn: int) -> Row:
    spent = spent_on(event)
    return {
        "type": "usage",
        "turn": turn,
        "of": event.why if isinstance(event, TokensSpent) else _OF[event.type],
        **usage_json(spent.usage),
        **cost_json(spent),
        "context_pct": None,
    }


def _requested(call: ToolCall) -> Row:
    row: Row = {"type": "tool.requested", "id": call.id, "tool": call.name, "input": call.input}
    return {**row, "caller": call.caller} if call.caller else row


def _judged(event: CallJudged) -> list[Row]:
    verdict, call_id = event.verdict, event.call.id
    allowed = verdict.decision in ("allow", "modify")
    approval: Row = {
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
    return [_requested(event.call), *rows] if event.call.caller else rows


def _verified(run: Verified) -> Row:
    return {
        "type": "verify",
        "cmd": run.command,
        "attempt": run.attempt,
        "exit_code": run.exit_code,
        "duration_ms": round(run.duration_s * 1000),
        "output": run.output,
        "log": run.log_path or None,
    }


def _output(event: CallProgress) -> Row:
    return {"type": "tool.output", "id": event.call_id, "stream": "stdout", "text": event.text}


_STATUS: dict[ErrorKind, str] = {
    ErrorKind.DENIED: "denied",
    ErrorKind.TIMEOUT: "timeout",
    ErrorKind.CANCELLED: "interrupted",
}


def _finished(result: ToolResult, duration_s: float) -> Row:
    status = "ok" if result.error is None else _STATUS.get(result.error, "failed")
    fields: Row = {
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
    match result.details:
        case Command() as command:
            fields |= {
                "exit_code": command.exit_code,
                "log": command.log_path,
                "display": {"kind": "command", "lines": command.output_lines},
            }
        case Diff() as diff:
            fields["display"] = {
                "kind": "diff",
                "path": diff.path,
                "added": diff.added,
                "removed": diff.removed,
                "unified": diff.unified,
            }
        case None:
            pass
        case other:
            fields["display"] = {"kind": other.type}
    return fields


def _retry(event: RetryDelta) -> Row:
    return {
        "type": "retry",
        "reason": event.reason,
        "http": event.status,
        "wait_s": event.wait_s,
        "attempt": event.attempt,
        "of": event.attempts,
    }
