import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from agentcli.features.undo.session_undo import build_undo, open_closed_session
from agentcli.log.reader import read_log
from agentcli.session.builder import open_session
from agentcli.session.session import Session
from agentcli.types.errors import UsageError
from agentcli.types.events import CallFinished, TurnEnded, Undone
from agentcli.types.settings import Settings
from tests.support.program import script

WRITE = {"write_file": {"path": "b.txt", "content": "b\n"}}


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    workspace = tmp_path / "work"
    workspace.mkdir()
    model = script(tmp_path / "s.json", [{"calls": [WRITE]}, "Done.", "I see."])
    return Settings(
        workspace=workspace, model=model, mode="auto", sessions=tmp_path / "state" / "sessions"
    )


def in_session(settings: Settings) -> Session:
    return open_session(settings, listeners=())


def test_running_session_undoes_and_redoes_between_turns(settings: Settings) -> None:
    made = settings.workspace / "b.txt"

    async def talk() -> list[bool]:
        session = in_session(settings)
        there = []
        await session.run_turn("write b")
        there.append(made.exists())
        undoing = build_undo(session)
        latest = undoing.build_stack().find_latest()
        assert latest is not None
        undoing.undo([latest])
        there.append(made.exists())
        await session.run_turn("what now?")
        undoing.redo(undoing.build_stack().redoable[-1])
        there.append(made.exists())
        assert undoing.build_stack().redoable == ()
        await session.close(0)
        return there

    assert asyncio.run(talk()) == [True, False, True]


def test_undo_waits_for_the_end_of_a_turn(settings: Settings, tmp_path: Path) -> None:
    model = script(tmp_path / "hang.json", [{"calls": [WRITE, {"bash": {"command": "sleep 60"}}]}])

    async def talk() -> None:
        began = asyncio.Event()

        def listen(event: object) -> None:
            if isinstance(event, CallFinished):
                began.set()

        chosen = replace(settings, model=model, sandbox="off")
        session = open_session(chosen, listeners=(listen,))
        turn = asyncio.create_task(session.run_turn("go"))
        await began.wait()
        undoing = build_undo(session)
        latest = undoing.build_stack().find_latest()
        assert latest is not None
        with pytest.raises(UsageError, match="a turn is running"):
            undoing.undo([latest])
        turn.cancel()
        with pytest.raises(asyncio.CancelledError):
            await turn
        undoing.undo([latest])
        await session.close(0)

    asyncio.run(talk())
    assert not (settings.workspace / "b.txt").exists()


def test_undo_in_a_session_that_was_killed_ends_its_turn_first(settings: Settings) -> None:
    async def talk() -> Session:
        session = in_session(settings)
        await session.run_turn("write b")
        await session.close(0)
        return session

    place = asyncio.run(talk()).paths
    lines = place.log.read_bytes().splitlines(keepends=True)
    kept = next(number for number, line in enumerate(lines) if b'"checkpointed"' in line)
    place.log.write_bytes(b"".join(lines[: kept + 1]))
    with open_closed_session(place, None) as undoing:
        latest = undoing.build_stack().find_latest()
        assert latest is not None
        undoing.undo([latest])
    facts = [entry.fact for entry in read_log(place.log).entries]
    kinds = [type(fact) for fact in facts[kept + 1 :]]
    assert kinds[:3] == [CallFinished, TurnEnded, Undone]
    assert not (settings.workspace / "b.txt").exists()
