import asyncio
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from agentcli.features.recall.engine import TurnNotes
from agentcli.features.recall.recall import Recall
from agentcli.features.recall.store import MemoryEntry, MemoryStore
from agentcli.types.events import (
    CallFinished,
    CallJudged,
    Compacted,
    ContextNote,
    Event,
    NoteReason,
    TurnStarted,
    TurnWithdrawn,
)
from agentcli.types.messages import Text, ToolCall, UserMessage
from agentcli.types.tools import Diff, Effect, FileView, KnownFile, ToolContext, ToolResult
from agentcli.types.verdicts import Verdict

ENTRY = MemoryEntry(session="s", workspace="/w", at="now", asked="", files="", learned="")


def started(text: str) -> Event:
    return TurnStarted(message=UserMessage(content=(Text(text=text), Text(text="an attachment"))))


def finished(details: Diff | FileView) -> Event:
    return CallFinished(
        result=ToolResult(call_id="1", name="x", status="ok", content=(), details=details)
    )


def judged(verdict: Verdict) -> Event:
    return CallJudged(
        call=ToolCall(id="1", name="bash", input={}), effect=Effect.EXECUTE, verdict=verdict
    )


def test_entry_has_what_was_asked_the_files_and_what_was_learned() -> None:
    notes = TurnNotes(lambda text: text.replace("hunter2", "***"))
    changed = Diff(
        path="b.py",
        unified="",
        added=1,
        removed=0,
        known=(KnownFile(path="c.py", sha256=""),),
    )
    denied = Verdict(decision="deny", by="user", reason="the user denied it", instead="use make")
    modified = Verdict(decision="modify", by="user", reason="", input={"command": "make"})
    for event in (
        started(" log in with hunter2 "),
        finished(FileView(path="a.py", media="text", size_bytes=1)),
        finished(changed),
        finished(FileView(path="b.py", media="text", size_bytes=1)),
        Compacted(summary="The password hunter2 is old.", tokens_before=1),
        ContextNote(text="[note]", why=NoteReason.ENVIRONMENT),
        ContextNote(text="rather use tabs", why=NoteReason.USER),
        judged(denied),
        judged(modified),
        judged(Verdict(decision="allow", by="user", reason="")),
        judged(Verdict(decision="deny", by="rule", reason="rule deny bash: no")),
    ):
        notes.hear(event)
    entry = notes.build_entry(session="s", workspace=Path("/w"))
    assert entry == replace(
        ENTRY,
        at=entry.at,
        asked="log in with ***",
        files="c.py\nb.py\na.py",
        learned="The password *** is old.\n\nThe user said: rather use tabs\n\n"
        'The user denied bash and said: use make\n\nThe user changed bash to: {"command": "make"}',
    )


def test_withdrawn_turn_is_not_remembered() -> None:
    notes = TurnNotes(str)
    notes.hear(started("hello"))
    assert not notes.is_empty
    notes.hear(TurnWithdrawn())
    assert notes.is_empty


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("login", [1, 3]),
        ("LOGIN tests", [3]),
        ("login nowhere", [1, 3]),
        ("src/auth.py", [2]),
        ('"', []),
        ("NEAR( OR *", []),
        ("naïve", [2]),
        ("", []),
    ],
)
def test_search_takes_any_words(words: str, found: list[int], tmp_path: Path) -> None:
    store = MemoryStore(tmp_path / "memory.sqlite")
    for asked, files, learned in (
        ("mend the login", "", ""),
        ("look", "src/auth.py", "The naive way fails."),
        ("write tests", "", "The login is slow."),
    ):
        store.add(replace(ENTRY, asked=asked, files=files, learned=learned))
    store.add(replace(ENTRY, workspace="/other", asked="login tests"))
    assert sorted(one.id for one in store.search(words, workspace="/w")) == found


def test_sessions_write_at_the_same_time(tmp_path: Path) -> None:
    path = tmp_path / "memory.sqlite"
    with ThreadPoolExecutor(8) as threads:
        ids = list(threads.map(lambda n: MemoryStore(path).add(ENTRY), range(40)))
    assert sorted(ids) == list(range(1, 41))


def test_tool_says_that_nothing_matches_and_makes_no_file(tmp_path: Path) -> None:
    tool = Recall(MemoryStore(tmp_path / "memory.sqlite"), workspace="/w")
    context = ToolContext(call_id="1", workspace=tmp_path, progress=lambda text: None)
    output = asyncio.run(tool.run(tool.parse({"query": "x"}), context))
    assert output.content == (Text(text="Nothing of earlier sessions matches."),)
    assert list(tmp_path.iterdir()) == []
