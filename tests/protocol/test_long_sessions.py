"""Sessions of many turns, whole, over HTTP: what was sent once is sent the same way for ever."""

import asyncio
import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from agentcli.session.builder import open_session
from agentcli.types.errors import Ending
from agentcli.types.events import ContextNote, NoteReason, TurnEnded
from agentcli.types.settings import Settings
from tests.support.pictures import png
from tests.support.provider import Reply
from tests.support.voices import VOICES, Called, Voice, choir

TURNS = 50
RULE = "In here everything is written in lower case."


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    (folder / "deep").mkdir(parents=True)
    (folder / "deep" / "AGENTS.md").write_text(RULE)
    (folder / "deep" / "b.py").write_text("2\n")
    (folder / "a.py").write_text("1\n")
    (folder / "shot.png").write_bytes(png(30, 20))
    on_branch(folder, "main")
    return folder


def on_branch(folder: Path, name: str) -> None:
    (folder / ".git").mkdir(exist_ok=True)
    (folder / ".git" / "HEAD").write_text(f"ref: refs/heads/{name}\n")


def calls_of(turn: int) -> list[Called]:
    """None, one, or several at once; some fail, some show an image."""
    read: list[Called] = [("read_file", {"path": "a.py"}), ("grep", {"pattern": "1"})]
    match turn % 5:
        case 0:
            return []
        case 1:
            return read
        case 2:
            return [*read, ("read_file", {"path": "shot.png"}), ("read_file", {"path": "none"})]
        case 3:
            path = "deep/b.py" if turn > TURNS // 2 else "a.py"
            return [("read_file", {"path": path})]
        case _:
            return [("edit_file", {"path": "a.py", "old_text": "1", "new_text": "1"})]


def script(voice: Voice) -> list[Reply]:
    replies = []
    for turn in range(TURNS):
        calls = calls_of(turn)
        if calls:
            replies.append(voice.says(2 * turn, f"Looking, {turn}.", calls))
        replies.append(voice.says(2 * turn + 1, f"Done, {turn}.", []))
    return replies


async def talk(settings: Settings) -> list[TurnEnded]:
    session = open_session(settings, listeners=())
    ended = []
    for turn in range(TURNS):
        if turn % 10 == 7:
            session.add_note(f"[the person ran: make {turn}]", reason=NoteReason.SHELL)
        if turn == TURNS * 3 // 5:
            on_branch(settings.workspace, "other")
        ended.append(await session.run_turn(f"Turn {turn}, please.", attachments=["[a.py:]\n1\n"]))
    told = [fact for fact in session.facts if isinstance(fact, ContextNote)]
    assert sum(RULE in fact.text for fact in told) == 1
    assert sum("git branch other" in fact.text for fact in told) == 1
    await session.close(0)
    return ended


@pytest.mark.parametrize("kind", VOICES)
def test_each_request_of_fifty_turns_begins_with_the_one_before(
    kind: type[Voice], workspace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    voice = kind()
    monkeypatch.setenv("HOME", str(tmp_path))
    settings = Settings(
        workspace=workspace, model=voice.model, mode="auto", sessions=tmp_path / "sessions"
    )
    with choir([voice], script(voice)) as providers:
        for name, value in providers.environ.items():
            monkeypatch.setenv(name, value)
        ended = asyncio.run(talk(settings))
    assert [turn.message for turn in ended if turn.ending is not Ending.DONE] == []
    assert providers.server.complaints == []
    bodies = [unmarked(body) for body in providers.requests(voice)]
    assert len(bodies) == TURNS + TURNS * 4 // 5
    for before, now in pairwise(bodies):
        assert written(now, voice).startswith(written(before, voice))


def written(body: dict[str, Any], voice: Voice) -> str:
    """All that precedes the conversation, then the conversation, open at its end."""
    fixed = {key: value for key, value in body.items() if key != voice.history}
    return json.dumps(fixed) + json.dumps(body[voice.history]).removesuffix("]")


def unmarked(value: Any) -> Any:
    """Without what says where to cache: that may move."""
    if isinstance(value, dict):
        return {key: unmarked(item) for key, item in value.items() if key != "cache_control"}
    return [unmarked(item) for item in value] if isinstance(value, list) else value
