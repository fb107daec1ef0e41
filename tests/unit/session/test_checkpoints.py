import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentcli.log.checkpoint import scan
from agentcli.log.paths import SessionPaths
from agentcli.session import checkpoints
from agentcli.session.checkpoints import FIRST_LOOK, Checkpoints
from agentcli.types.errors import ToolError
from agentcli.types.events import Checkpointed, Event, Warned
from agentcli.types.tools import Effect, Output, Tool, ToolContext
from tests.support.session import FunctionTool


class Ground:
    def __init__(self, tmp_path: Path) -> None:
        self.workspace = tmp_path / "work"
        self.workspace.mkdir()
        directory = tmp_path / "state" / "sessions" / "s1"
        directory.mkdir(parents=True)
        self.kept = tmp_path / "state" / "checkpoints"
        self.told: list[Event] = []
        self.progress: list[str] = []
        self.checkpoints = Checkpoints(
            SessionPaths(id="s1", directory=directory),
            workspace=self.workspace,
            emit=self.told.append,
        )

    def tool(self, act: Callable[..., Any], effect: Effect = Effect.EXECUTE) -> Tool:
        plain = FunctionTool("act", act, kind=effect)
        ((_, load),) = self.checkpoints.wrap_offers([(plain.spec, lambda: plain)])
        return load()

    async def run(self, tool: Tool) -> Output:
        context = ToolContext(
            call_id="c1",
            workspace=self.workspace,
            progress=self.progress.append,
            effect=tool.effect({}),
        )
        return await tool.run({}, context)

    def write(self, *ignored: object) -> str:
        (self.workspace / "made").write_text("x\n")
        return "written"


@pytest.fixture
def ground(tmp_path: Path) -> Ground:
    return Ground(tmp_path)


def paths(told: list[Event]) -> list[tuple[str, ...]]:
    return [event.paths for event in told if isinstance(event, Checkpointed)]


def test_call_that_changes_something_is_told_with_its_paths(ground: Ground) -> None:
    output = asyncio.run(ground.run(ground.tool(ground.write)))
    assert output == Output.of("written")
    assert paths(ground.told) == [("made",)]


def test_look_that_takes_long_is_announced(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoints, "ANNOUNCE_AFTER_S", 0.0)
    asyncio.run(ground.run(ground.tool(ground.write)))
    assert ground.progress == [FIRST_LOOK]


def test_call_that_only_reads_leaves_nothing_behind(ground: Ground) -> None:
    asyncio.run(ground.run(ground.tool(lambda *given: "read", Effect.READ)))
    assert (ground.told, ground.kept.exists()) == ([], False)


def test_call_that_fails_is_kept_all_the_same(ground: Ground) -> None:
    def fail(*given: object) -> str:
        ground.write()
        raise ToolError("halfway")

    with pytest.raises(ToolError, match="halfway"):
        asyncio.run(ground.run(ground.tool(fail)))
    assert paths(ground.told) == [("made",)]


def test_call_that_is_cancelled_is_kept_all_the_same(ground: Ground) -> None:
    began = asyncio.Event()

    async def hang(*given: object) -> str:
        ground.write()
        began.set()
        await asyncio.Event().wait()
        return "never"

    async def interrupted() -> None:
        task = asyncio.create_task(ground.run(ground.tool(hang)))
        await began.wait()
        task.cancel()
        await asyncio.sleep(0)
        task.cancel()  # a person who cannot wait
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(interrupted())
    assert paths(ground.told) == [("made",)]


def test_state_that_cannot_be_kept_is_a_warning_and_the_call_runs(ground: Ground) -> None:
    ground.kept.write_text("a file where the directory should be")
    assert asyncio.run(ground.run(ground.tool(ground.write))) == Output.of("written")
    (warned,) = ground.told
    assert isinstance(warned, Warned)
    assert warned.message.startswith("the changes of this call cannot be undone: ")


def test_workspace_that_is_too_large_is_told_once(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scan, "FILES_MAX", 1)
    for name in ("a", "b", "c"):
        (ground.workspace / name).write_text("x")
    for _ in range(2):
        assert asyncio.run(ground.run(ground.tool(ground.write))) == Output.of("written")
    (warned,) = ground.told
    assert isinstance(warned, Warned)
    assert warned.message.startswith(
        "changes by commands in this workspace cannot be undone: it has"
    )
