"""Writes the logs in fixtures/triage: sessions that went wrong, each in a way of its own.

`python -m tests.support.sick_logs` makes them anew after a change of the log's format, together
with what triage says of them. Look at the difference.
"""

import io
from collections.abc import Sequence
from contextlib import redirect_stdout
from pathlib import Path

from agentcli.features.insights.render import show_triage
from agentcli.log.writer import LogWriter
from agentcli.types.errors import Ending
from agentcli.types.events import (
    CallFinished,
    CallJudged,
    Entry,
    Fact,
    ModelReplied,
    SessionEnded,
    SessionStarted,
    TurnEnded,
    TurnStarted,
    Warned,
)
from agentcli.types.messages import AssistantMessage, Json, Text, ToolCall, Usage, UserMessage
from agentcli.types.tools import Command, Effect, ErrorKind, FileView, ToolResult
from agentcli.types.verdicts import By, Decision, Verdict

HERE = Path(__file__).parents[2] / "fixtures" / "triage"

STARTED = SessionStarted(
    session="20260101-090000-7f3a",
    version="0.1.0",
    workspace="/home/person/project",
    model="anthropic/claude-opus-5-5",
    mode="ask",
    tools=("read_file", "bash"),
    tools_sha256="0" * 64,
)


def asked(text: str) -> TurnStarted:
    return TurnStarted(message=UserMessage(content=(Text(text=text),)))


def replied(*content: Text | ToolCall, cached: int = 4000, new: int = 500) -> ModelReplied:
    has_calls = any(isinstance(block, ToolCall) for block in content)
    return ModelReplied(
        message=AssistantMessage(
            content=content,
            stop="tool_calls" if has_calls else "end",
            protocol="anthropic",
            model="anthropic/claude-opus-5-5",
            usage=Usage(input_tokens=new, cache_read_tokens=cached, output_tokens=80),
        ),
        duration_s=2.0,
        cost_usd=0.0125,
    )


def a_call(number: int, name: str, **given: Json) -> ToolCall:
    return ToolCall(id=f"call_{number}", name=name, input=dict(given))


def judged(call: ToolCall, decision: Decision = "allow", by: By = "mode") -> CallJudged:
    reason = "ask mode asks, and nobody is here to be asked" if decision == "deny" else "it reads"
    effect = Effect.EXECUTE if call.name == "bash" else Effect.READ
    return CallJudged(
        call=call, effect=effect, verdict=Verdict(decision=decision, by=by, reason=reason)
    )


def read(call: ToolCall) -> list[Fact]:
    view = FileView(path="a.py", media="text", size_bytes=9, first_line=1, last_line=1)
    result = ToolResult(
        call_id=call.id, name=call.name, status="ok", content=(Text(text="1: x = 1"),), details=view
    )
    return [judged(call), CallFinished(result=result, duration_s=0.002)]


def denied() -> list[Fact]:
    call = a_call(1, "bash", command="pytest -q")
    result = ToolResult(
        call_id="call_1",
        name="bash",
        status="error",
        content=(Text(text="Denied: nobody is here to be asked"),),
        error=ErrorKind.DENIED,
    )
    return [
        STARTED,
        asked("run the tests"),
        replied(call),
        judged(call, "deny", "nobody"),
        CallFinished(result=result),
        replied(Text(text="I could not run the tests.")),
        TurnEnded(
            ending=Ending.DENIED,
            message="bash was denied: nobody is here to be asked",
            hint="--mode auto, or --allow 'bash(pytest:*)'",
        ),
        SessionEnded(exit_code=5),
    ]


def killed() -> list[Fact]:
    call = a_call(1, "bash", command="make release")
    return [STARTED, asked("make a release"), replied(call), judged(call, by="user")]


def circling() -> list[Fact]:
    facts: list[Fact] = [STARTED, asked("what is x?")]
    for number in range(1, 5):
        call = a_call(number, "read_file", path="a.py")
        facts += [replied(call), *read(call)]
    failing = a_call(5, "bash", command="python a.py")
    told = Command(command="python a.py", cwd="/home/person/project", exit_code=1, output_lines=900)
    result = ToolResult(
        call_id="call_5",
        name="bash",
        status="error",
        content=(Text(text="Traceback …\n[exit code 1]"),),
        error=ErrorKind.FAILED,
        truncated=True,
        details=told,
    )
    missed = "9000 prompt tokens were not read from the cache: the system prompt changed"
    return [
        *facts,
        replied(failing),
        judged(failing),
        CallFinished(result=result, duration_s=12.5),
        Warned(code="cache.missed", message=missed),
        replied(Text(text="x is 1."), cached=0, new=9000),
        TurnEnded(ending=Ending.DONE),
        SessionEnded(exit_code=0),
    ]


def healthy() -> list[Fact]:
    call = a_call(1, "read_file", path="a.py")
    return [
        STARTED,
        asked("what is x?"),
        replied(call),
        *read(call),
        replied(Text(text="x is 1.")),
        TurnEnded(ending=Ending.DONE),
        SessionEnded(exit_code=0),
    ]


def write(path: Path, facts: Sequence[Fact]) -> None:
    path.unlink(missing_ok=True)
    log = LogWriter(path)
    for seq, fact in enumerate(facts, start=1):
        at = f"2026-01-01T09:00:{seq:02}.000Z"
        log.append(
            Entry(seq=seq, at=at, session=STARTED.session, parent=seq - 1 or None, fact=fact)
        )
    log.close()
    path.chmod(0o644)


def damage(path: Path) -> None:
    """A record is changed, and another is no longer JSON."""
    lines = path.read_text().splitlines(keepends=True)
    lines[3] = lines[3].replace('"it reads"', '"anything goes"')
    lines[5] = lines[5][:40] + "\n"
    path.write_text("".join(lines))


def told(log: Path) -> str:
    with redirect_stdout(io.StringIO()) as out:
        show_triage(str(log), expected=(), is_strict=False, as_json=False)
    return out.getvalue()


def main() -> None:
    HERE.mkdir(parents=True, exist_ok=True)
    for case in (healthy, denied, killed, circling):
        write(HERE / f"{case.__name__}.jsonl", case())
    write(HERE / "damaged.jsonl", healthy())
    damage(HERE / "damaged.jsonl")
    for log in sorted(HERE.glob("*.jsonl")):
        log.with_suffix(".txt").write_text(told(log))


if __name__ == "__main__":
    main()
