"""How long a long log takes to write, list, verify and load. Run: python tests/bench/record.py"""

import tempfile
import time
from pathlib import Path

from agentcli.agent.journal import Journal
from agentcli.record.audit import audit
from agentcli.record.log import Log
from agentcli.record.place import SessionPlace
from agentcli.record.reading import read
from agentcli.record.sessions import summary_of
from agentcli.types.events import (
    CallFinished,
    CallJudged,
    Ending,
    ModelReplied,
    SessionStarted,
    TurnEnded,
    TurnStarted,
)
from agentcli.types.messages import AssistantMessage, Block, Text, ToolCall, UserMessage
from agentcli.types.tools import Effect, FileView, ToolResult
from agentcli.types.verdicts import Verdict

RECORDS = 10_000
OUTPUT = "a line of a file that was read\n" * 60


def write(path: Path) -> None:
    """Turns of three steps with two calls each, as sessions are."""
    log = Log(path)
    journal = Journal("bench", record=log.append)
    journal.tell(
        SessionStarted(
            session="bench", version="0", workspace="/", model="m", mode="ask", tools=(),
            tools_sha256="",
        )
    )  # fmt: skip
    while len(journal.facts) < RECORDS:
        turn(journal)
    log.close()


def turn(journal: Journal) -> None:
    journal.tell(TurnStarted(message=UserMessage(content=(Text(text="go on"),))))
    for step in range(3):
        calls = [
            ToolCall(id=f"{len(journal.facts)}.{step}.{n}", name="read_file", input={"path": "a"})
            for n in range(2)
        ]
        content: tuple[Block, ...] = (Text(text="I will look."), *calls)
        journal.tell(
            ModelReplied(
                message=AssistantMessage(
                    content=content, stop="tool_calls", protocol="p", model="m"
                )
            )
        )
        for call in calls:
            verdict = Verdict(decision="allow", by="mode", reason="reading is allowed")
            journal.tell(CallJudged(call=call, effect=Effect.READ, verdict=verdict))
            journal.tell(
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
    journal.tell(TurnEnded(ending=Ending.DONE))


def timed(what: str, began: float) -> None:
    print(f"{what:<28}{(time.perf_counter() - began) * 1000:8.0f} ms")


def main() -> None:
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "log.jsonl"
        began = time.perf_counter()
        write(path)
        timed(f"write {RECORDS} records", began)
        print(f"{path.stat().st_size / 1e6:.1f} MB")

        began = time.perf_counter()
        summary_of(SessionPlace(id="bench", directory=Path(scratch)))
        timed("summarise", began)

        began = time.perf_counter()
        recorded = read(path)
        timed("load", began)

        began = time.perf_counter()
        audit(path)
        timed("verify", began)

        began = time.perf_counter()
        Journal("bench", record=lambda entry: None, before=recorded.entries).messages()
        timed("fold into messages", began)


if __name__ == "__main__":
    main()
