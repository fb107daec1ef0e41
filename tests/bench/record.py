"""How long a long log takes to write, list, verify, load and fold, as a resumed session does."""

import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from agentcli.agent.history import build_messages
from agentcli.agent.journal import Journal
from agentcli.log.audit import audit_log
from agentcli.log.paths import SessionPaths
from agentcli.log.reader import read_log
from agentcli.log.sessions import summarize
from agentcli.log.writer import LogWriter
from agentcli.types.errors import Ending
from agentcli.types.events import (
    CallFinished,
    CallJudged,
    Compacted,
    ModelReplied,
    SessionStarted,
    TurnEnded,
    TurnStarted,
)
from agentcli.types.messages import AssistantMessage, Block, Text, ToolCall, UserMessage
from agentcli.types.tools import Effect, FileView, ToolResult
from agentcli.types.verdicts import Verdict
from tests.bench.figures import Figure, wall_ms

RECORDS = 10_000
OUTPUT = "a line of a file that was read\n" * 60


SUMMARISED_TURNS = 40
"""The turns after which a long session is summarised: some 750 kB of its log."""


def write(path: Path, *, size_bytes: int = 0, version: str = "0") -> None:
    """Turns of three steps with two calls each, as sessions are, up to this size if one is given.

    No window holds a session of such a size, so it is summarised now and then."""
    log = LogWriter(path)
    journal = Journal("bench", record=log.append)
    journal.append(
        SessionStarted(
            session="bench", version=version, workspace="/", model="m", mode="ask", tools=(),
            tools_sha256="",
        )
    )  # fmt: skip
    turns = 0
    while path.stat().st_size < size_bytes if size_bytes else len(journal.facts) < RECORDS:
        turn(journal)
        turns += 1
        if size_bytes and turns % SUMMARISED_TURNS == 0:
            journal.append(Compacted(summary="All of it was read.", tokens_before=180_000))
    log.close()


def turn(journal: Journal) -> None:
    journal.append(TurnStarted(message=UserMessage(content=(Text(text="go on"),))))
    for step in range(3):
        calls = [
            ToolCall(id=f"{len(journal.facts)}.{step}.{n}", name="read_file", input={"path": "a"})
            for n in range(2)
        ]
        content: tuple[Block, ...] = (Text(text="I will look."), *calls)
        journal.append(
            ModelReplied(
                message=AssistantMessage(
                    content=content, stop="tool_calls", protocol="p", model="m"
                )
            )
        )
        for call in calls:
            verdict = Verdict(decision="allow", by="mode", reason="reading is allowed")
            journal.append(CallJudged(call=call, effect=Effect.READ, verdict=verdict))
            journal.append(
                CallFinished(
                    result=ToolResult(
                        call_id=call.id,
                        name=call.name,
                        status="ok",
                        content=(Text(text=OUTPUT),),
                        details=FileView(path="a", media="text", size_bytes=len(OUTPUT)),
                    )
                )
            )
    journal.append(TurnEnded(ending=Ending.DONE))


def figures() -> Iterator[Figure]:
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "log.jsonl"
        yield Figure(what=f"log, write {RECORDS} records", value=wall_ms(partial(write, path)))
        place = SessionPaths(id="bench", directory=Path(scratch))
        yield Figure(what="log, summarise", value=wall_ms(partial(summarize, place)))
        yield Figure(what="log, load", value=wall_ms(partial(read_log, path)), at_most=1000)
        yield Figure(what="log, verify", value=wall_ms(partial(audit_log, path)))
        facts = [entry.fact for entry in read_log(path).entries]
        yield Figure(what="log, fold into messages", value=wall_ms(partial(build_messages, facts)))
