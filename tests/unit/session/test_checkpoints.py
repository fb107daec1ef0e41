import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentcli.log.checkpoint import scan
from agentcli.log.paths import SessionPaths
from agentcli.session import checkpoints
from agentcli.session.checkpoints import FIRST_LOOK, Checkpoints
from agentcli.tools.apply_patch import Patch
from agentcli.tools.edit_file import EditFileArgs
from agentcli.tools.patch.parser import parse_patch
from agentcli.tools.write_file import WriteFileArgs
from agentcli.types.errors import ToolError
from agentcli.types.events import Checkpointed, CheckpointFailed, Event, Warned
from agentcli.types.tools import Effect, Output, Tool, ToolContext
from tests.support.session import FunctionTool


class Ground:
    def __init__(self, tmp_path: Path, session: str = "s1") -> None:
        self.workspace = tmp_path / "work"
        self.workspace.mkdir(exist_ok=True)
        directory = tmp_path / "state" / "sessions" / session
        directory.mkdir(parents=True)
        self.kept = tmp_path / "state" / "checkpoints"
        self.told: list[Event] = []
        self.progress: list[str] = []
        self.checkpoints = Checkpoints(
            SessionPaths(id=session, directory=directory),
            workspace=self.workspace,
            emit=self.told.append,
        )

    def open_later(self, tmp_path: Path) -> "Ground":
        """The same workspace in a session after this one."""
        self.checkpoints.close()
        return Ground(tmp_path, "s2")

    def tool(self, act: Callable[..., Any], effect: Effect = Effect.EXECUTE) -> Tool:
        plain = FunctionTool("act", act, kind=effect)
        ((_, load),) = self.checkpoints.wrap_offers([(plain.spec, lambda: plain)])
        return load()

    async def run(self, tool: Tool, args: Any = None) -> Output:
        context = ToolContext(
            call_id="c1",
            workspace=self.workspace,
            progress=self.progress.append,
            effect=tool.effect({}),
        )
        return await tool.run(args or {}, context)

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


def test_files_are_stored_whatever_else_a_patch_names(ground: Ground, tmp_path: Path) -> None:
    old = ground.workspace / "old"
    old.write_text("x\n")
    text = f"*** Update File: old\n*** Move to: {tmp_path}/elsewhere\n@@\n-x\n+y\n"
    patch = Patch(changes=parse_patch(f"*** Begin Patch\n{text}*** End Patch\n"))

    def move(*ignored: object) -> str:
        old.unlink()
        return "moved"

    plain = FunctionTool("apply_patch", move, kind=Effect.WRITE)
    ((_, load),) = ground.checkpoints.wrap_offers([(plain.spec, lambda: plain)])
    asyncio.run(ground.run(load(), patch))
    assert paths(ground.told) == [("old",)]


PATCH = "*** Begin Patch\n*** Add File: made\n+x\n*** Update File: old\n@@\n-x\n+y\n*** End Patch\n"


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("edit_file", EditFileArgs(path="made", old_text="", new_text="x\n")),
        ("write_file", WriteFileArgs(path="made", content="x\n")),
        ("apply_patch", Patch(changes=parse_patch(PATCH))),
    ],
)
def test_file_that_the_user_writes_meanwhile_is_not_a_change_of_a_file_tool(
    name: str, args: Any, ground: Ground
) -> None:
    by_user = iter(("one", "two"))

    def write(*ignored: object) -> str:
        (ground.workspace / next(by_user)).write_text("mine\n")
        return ground.write()

    plain = FunctionTool(name, write, kind=Effect.WRITE)
    ((_, load),) = ground.checkpoints.wrap_offers([(plain.spec, lambda: plain)])
    asyncio.run(ground.run(load(), args))
    assert paths(ground.told) == [("made",)]
    asyncio.run(ground.run(ground.tool(write)))
    assert paths(ground.told)[1:] == [("two",)], "commands and users are not told apart"


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
    warned, failed = ground.told
    assert isinstance(warned, Warned)
    assert warned.message.startswith("the changes of this call cannot be undone: not a directory: ")
    assert isinstance(failed, CheckpointFailed)
    assert (failed.call_id, failed.root) == ("c1", "")


def test_warning_is_one_line_of_limited_length(tmp_path: Path) -> None:
    deep = tmp_path.joinpath("\n" + "d" * 200, *["d" * 200] * 5)
    deep.mkdir(parents=True)
    ground = Ground(deep)
    ground.kept.write_text("a file where the directory should be")
    asyncio.run(ground.run(ground.tool(ground.write)))
    warned, failed = ground.told
    assert isinstance(warned, Warned)
    assert isinstance(failed, CheckpointFailed)
    for words in (warned.message, failed.reason):
        assert (len(words.splitlines()), len(words) < 400) == (1, True)


def test_workspace_that_is_too_large_is_told_once(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scan, "FILES_MAX", 1)
    for name in ("a", "b", "c"):
        (ground.workspace / name).write_text("x")
    for _ in range(2):
        assert asyncio.run(ground.run(ground.tool(ground.write))) == Output.of("written")
    warned, *failed = ground.told
    assert [type(one) for one in failed] == [CheckpointFailed, CheckpointFailed]
    assert isinstance(warned, Warned)
    assert warned.message.startswith(
        "changes by commands in this workspace cannot be undone: it has"
    )


def test_new_workspace_is_not_looked_at_ahead(ground: Ground) -> None:
    ground.write()
    ground.checkpoints.prepare(lambda: False)
    assert not ground.kept.exists()


def test_look_ahead_spares_the_call_the_look_and_misses_no_later_change(
    ground: Ground, tmp_path: Path
) -> None:
    (ground.workspace / "old").write_text("1\n")
    asyncio.run(ground.run(ground.tool(ground.write)))
    later = ground.open_later(tmp_path)
    later.checkpoints.prepare(lambda: False)
    (later.workspace / "old").write_text("of the user\n")
    (later.workspace / "new").mkdir()
    (later.workspace / "new" / "file").write_text("of the user\n")

    def remove(*ignored: object) -> str:
        (later.workspace / "old").unlink()
        return "removed"

    asyncio.run(later.run(later.tool(remove)))
    assert paths(later.told) == [("old",)]


def test_look_ahead_writes_the_state_before_the_call(ground: Ground, tmp_path: Path) -> None:
    asyncio.run(ground.run(ground.tool(ground.write)))
    (ground.workspace / "sub").mkdir()
    (ground.workspace / "sub" / "file").write_text("of the user\n")
    later = ground.open_later(tmp_path)
    later.checkpoints.prepare(lambda: False)
    written = stored(ground.kept)

    def read(*ignored: object) -> str:
        assert stored(ground.kept) == written
        return "read"

    asyncio.run(later.run(later.tool(read)))
    assert stored(ground.kept) == written


def stored(kept: Path) -> list[str]:
    """The objects of the only store."""
    (store,) = kept.iterdir()
    return sorted(path.name for path in (store / "objects").rglob("*") if path.is_file())


def test_look_ahead_ends_when_it_is_stopped_and_the_call_looks_itself(
    ground: Ground, tmp_path: Path
) -> None:
    asyncio.run(ground.run(ground.tool(ground.write)))
    later = ground.open_later(tmp_path)
    with pytest.raises(scan.ScanStopped):
        later.checkpoints.prepare(lambda: True)
    (later.workspace / "made").unlink()
    asyncio.run(later.run(later.tool(later.write)))
    assert paths(later.told) == [("made",)]


def test_workspace_too_large_for_the_look_ahead_is_told_once_by_the_call(
    ground: Ground, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asyncio.run(ground.run(ground.tool(ground.write)))
    monkeypatch.setattr(scan, "FILES_MAX", 0)
    later = ground.open_later(tmp_path)
    later.checkpoints.prepare(lambda: False)
    assert later.told == []
    for _ in range(2):
        assert asyncio.run(later.run(later.tool(later.write))) == Output.of("written")
    warned, *failed = later.told
    assert [type(one) for one in failed] == [CheckpointFailed, CheckpointFailed]
    assert isinstance(warned, Warned)
    assert "cannot be undone: it has more than 0 files" in warned.message


def test_files_of_a_workspace_that_is_too_large_are_not_read(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scan, "FILES_MAX", 1)
    for name in ("a", "b", "c"):
        (ground.workspace / name).write_text(name)
    asyncio.run(ground.run(ground.tool(ground.write)))
    (store,) = ground.kept.iterdir()
    assert len([path for path in (store / "objects").rglob("*") if path.is_file()]) == 1
