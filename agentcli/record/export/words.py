"""The words that both written forms share: targets, verdicts, outcomes, sums."""

import json

from agentcli.record.export.transcript import (
    Transcript,
    TranscriptCall,
    TranscriptReply,
    describe_spending,
)
from agentcli.types.messages import ToolCall
from agentcli.types.tools import Command, Diff, ToolResult

ALLOWED = ("allow", "modify")


def target(call: ToolCall) -> str:
    """What the call is about, on one line."""
    if isinstance(call.input, dict):
        for key in ("command", "path", "pattern", "glob"):
            value = call.input.get(key)
            if isinstance(value, str):
                return " ".join(value.split())
    return "" if call.input in ({}, None) else arguments(call)


def arguments(call: ToolCall) -> str:
    if isinstance(call.input, str):
        return call.input
    return json.dumps(call.input, ensure_ascii=False)


def outcome(called: TranscriptCall) -> str:
    result = called.result
    if result is None:
        return "never ran"
    if called.verdict is not None and called.verdict.decision not in ALLOWED:
        return "denied"
    match result.details:
        case Diff() as diff:
            return f"{'new file, ' if diff.created else ''}+{diff.added} −{diff.removed}"
        case Command(background_pid=pid) if pid is not None:
            return "in the background"
        case Command(exit_code=exit_code, signal=signal):
            return f"killed by {signal}" if signal else f"exit {exit_code}"
        case _:
            return result.error.value.replace("_", " ") if result.error else "ok"


def verdict(called: TranscriptCall) -> str:
    given = called.verdict
    if given is None:
        return "not judged"
    word = "allowed" if given.decision in ALLOWED else "denied"
    rule = f" ({given.rule})" if given.rule else ""
    return f"{word} by {given.by}{rule}: {given.reason}"


def result_body(result: ToolResult) -> str:
    """What a person wants to see of it."""
    if isinstance(result.details, Diff) and result.details.unified:
        return result.details.unified
    return result.text


def duration(seconds: float) -> str:
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    return f"{seconds:.1f} s" if seconds < 60 else f"{seconds / 60:.1f} min"


def reply_sums(said: TranscriptReply) -> str:
    return f"{describe_spending(said.spent)}, {duration(said.duration_s)}"


def session_sums(made: Transcript) -> list[tuple[str, str]]:
    changed = ", ".join(f"{path} +{add} −{cut}" for path, (add, cut) in made.changed.items())
    return [
        ("session", made.session),
        ("workspace", made.workspace),
        ("model", f"{made.model}, {made.mode} mode"),
        ("when", f"{made.started} to {made.last}"),
        ("used", f"{made.spending.request_summary}, {describe_spending(made.spending)}"),
        ("changed", changed or "nothing"),
        ("agentcli", made.version),
    ]
