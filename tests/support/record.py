"""Logs to look at: a session of two turns, written as sessions are, and any log chained anew."""

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from agentcli.agent.journal import Journal
from agentcli.log.audit import audit_log
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
)
from agentcli.types.messages import AssistantMessage, Text, ToolCall, UserMessage
from agentcli.types.tools import Effect, ErrorKind, ToolResult
from agentcli.types.verdicts import Verdict
from tests.support import log_verifier

STARTED = SessionStarted(
    session="s", version="0", workspace="/w", model="m/n", mode="ask", tools=(), tools_sha256=""
)
ALLOWED = Verdict(decision="allow", by="mode", reason="the mode allows it")
DENIED = Verdict(decision="deny", by="rule", reason="a rule forbids it")


def asked(text: str) -> TurnStarted:
    return TurnStarted(message=UserMessage(content=(Text(text=text),)))


def replied(*calls: ToolCall, text: str = "I will.") -> ModelReplied:
    return ModelReplied(
        message=AssistantMessage(
            content=(Text(text=text), *calls),
            stop="tool_calls" if calls else "end",
            protocol="p",
            model="m/n",
        )
    )


def call(call_id: str, name: str = "bash") -> ToolCall:
    return ToolCall(id=call_id, name=name, input={"command": "make"})


def judged(one: ToolCall, verdict: Verdict = ALLOWED) -> CallJudged:
    return CallJudged(call=one, effect=Effect.EXECUTE, verdict=verdict)


def finished(one: ToolCall, *, error: ErrorKind | None = None, text: str = "done") -> CallFinished:
    return CallFinished(
        result=ToolResult(
            call_id=one.id,
            name=one.name,
            status="error" if error else "ok",
            content=(Text(text=text),),
            error=error,
        )
    )


A, B, C = call("a"), call("b"), call("c")
DONE = TurnEnded(ending=Ending.DONE)
SESSION: tuple[Fact, ...] = (
    STARTED,
    asked("make it\nwork"),
    replied(A, B),
    judged(A),
    finished(A),
    judged(B, DENIED),
    finished(B, error=ErrorKind.DENIED),
    replied(text="It works."),
    DONE,
    asked("and now?"),
    replied(C),
    judged(C),
    finished(C, error=ErrorKind.TIMEOUT),
    replied(text="It hangs."),
    DONE,
    SessionEnded(exit_code=0),
)


def write(path: Path, facts: Iterable[Fact] = SESSION) -> list[Entry]:
    """A log of these facts, as a journal writes it."""
    entries: list[Entry] = []
    log = LogWriter(path)

    def record(entry: Entry) -> None:
        entries.append(entry)
        log.append(entry)

    journal = Journal("s", record=record)
    for fact in facts:
        journal.append(fact)
    log.close()
    return entries


def rewrite(path: Path, change: Callable[[list[dict[str, Any]]], None]) -> None:
    """As somebody would who can compute hashes: facts changed, numbers and chain made anew."""
    records = [json.loads(line) for line in path.read_text().splitlines()]
    facts = [record["fact"] for record in records]
    change(facts)
    path.unlink()
    log = LogWriter(path)
    for number, fact in enumerate(facts, start=1):
        log.append(Entry(seq=number, at="", session="s", parent=None, fact=fact))
    log.close()


def judge_both(path: Path) -> tuple[tuple[str, int | None], tuple[str, int | None]]:
    """The verdicts of the program and of the page: the status, and the first faulty line."""
    ours, of_page = audit_log(path), log_verifier.verify(path)
    first = ours.faults[0].line if ours.faults else None
    return (ours.status, first), (of_page.status, of_page.faulty_line)
