"""Files and terminals of the editor, where it offers them: an editor made with the SDK."""

import asyncio
import subprocess
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pytest
from acp import PROTOCOL_VERSION, RequestError, spawn_agent_process
from acp.interfaces import Client
from acp.schema import (
    ClientCapabilities,
    CreateTerminalResponse,
    FileSystemCapabilities,
    ReadTextFileResponse,
    TerminalExitStatus,
    TerminalOutputResponse,
    WaitForTerminalExitResponse,
)

from tests.protocol.test_acp import READ, Desk, Editor
from tests.support.processes import running, unique_seconds
from tests.support.program import agentcli, environment, script, write_fork_command

OFFERED = ClientCapabilities(
    fs=FileSystemCapabilities(read_text_file=True, write_text_file=True), terminal=True
)


@dataclass
class FullEditor(Editor):
    """With open files, and terminals that run what they are told to."""

    buffers: dict[str, str] = field(default_factory=dict)
    saved: list[tuple[str, str]] = field(default_factory=list)
    terminals: list["subprocess.Popen[bytes]"] = field(default_factory=list)
    released: list[str] = field(default_factory=list)

    async def read_text_file(
        self,
        session_id: str,
        path: str,
        line: int | None = None,
        limit: int | None = None,
        **_: Any,
    ) -> ReadTextFileResponse:
        if path not in self.buffers:
            raise RequestError.resource_not_found(path)
        return ReadTextFileResponse(content=self.buffers[path])

    async def write_text_file(self, session_id: str, path: str, content: str, **_: Any) -> None:
        self.buffers[path] = content
        self.saved.append((path, content))
        await asyncio.to_thread(Path(path).write_text, content, newline="")

    async def create_terminal(
        self, session_id: str, command: str, args: list[str] | None = None, **_: Any
    ) -> CreateTerminalResponse:
        argv = [command, *(args or [])]
        self.terminals.append(
            await asyncio.to_thread(subprocess.Popen, argv, stdout=subprocess.PIPE)
        )
        self.changed.set()
        return CreateTerminalResponse(terminal_id=str(len(self.terminals) - 1))

    async def wait_for_terminal_exit(
        self, session_id: str, terminal_id: str, **_: Any
    ) -> WaitForTerminalExitResponse:
        code = await asyncio.to_thread(self.terminals[int(terminal_id)].wait)
        return WaitForTerminalExitResponse(exit_code=max(code, 0))

    async def terminal_output(
        self, session_id: str, terminal_id: str, **_: Any
    ) -> TerminalOutputResponse:
        status = TerminalExitStatus(exit_code=self.terminals[int(terminal_id)].poll())
        return TerminalOutputResponse(output="", truncated=False, exit_status=status)

    async def kill_terminal(self, session_id: str, terminal_id: str, **_: Any) -> None:
        self.terminals[int(terminal_id)].kill()

    async def release_terminal(self, session_id: str, terminal_id: str, **_: Any) -> None:
        self.released.append(terminal_id)
        self.changed.set()


@dataclass
class FullDesk(Desk):
    editor: FullEditor


def drive(
    tmp_path: Path,
    replies: list[Any],
    play: Callable[[FullDesk], Awaitable[None]],
    *options: str,
    text: str = "x = 1\n",
) -> FullDesk:
    home, work = tmp_path / "home", tmp_path / "work"
    home.mkdir()
    work.mkdir()
    (work / "a.py").write_bytes(text.encode())
    model = script(tmp_path / "script.json", replies)

    async def played() -> FullDesk:
        editor = FullEditor()
        async with spawn_agent_process(
            cast(Client, editor),
            *(write_fork_command(), "acp", "--model", model, *options),
            env=environment(home),
            cwd=home,
            use_unstable_protocol=True,
        ) as (agent, _):
            await agent.initialize(protocol_version=PROTOCOL_VERSION, client_capabilities=OFFERED)
            desk = FullDesk(home, work, editor, agent)
            await play(desk)
        return desk

    return asyncio.run(played())


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_unsaved_text_is_read_and_changed_and_given_back(ending: str, tmp_path: Path) -> None:
    edit = {"edit_file": {"path": "a.py", "old_text": "y = 1", "new_text": "y = 2"}}

    async def play(desk: FullDesk) -> None:
        desk.editor.buffers[str(desk.work / "a.py")] = "x = 1\ny = 1\n"  # editors show LF
        assert await desk.say(await desk.new()) == "end_turn"

    replies = [READ, {"calls": [edit]}, "Done."]
    desk = drive(tmp_path, replies, play, text=f"x = 1{ending}")
    (asked, _), path = desk.editor.asked[0], desk.work / "a.py"
    content = cast(Any, asked.content)
    assert [(one.old_text, one.new_text) for one in content] == [
        (f"x = 1{ending}y = 1{ending}", f"x = 1{ending}y = 2{ending}")
    ]
    assert path.read_bytes().decode() == f"x = 1{ending}y = 2{ending}"
    assert desk.editor.saved == [(str(path), f"x = 1{ending}y = 2{ending}")]
    shown = [update for update in desk.editor.of("tool_call_update") if update.get("content")]
    assert "y = 1" in shown[0]["content"][0]["content"]["text"]
    undone = agentcli("undo", home=desk.home, cwd=desk.work)
    assert (undone.code, path.read_bytes().decode()) == (0, f"x = 1{ending}")


def test_saved_and_unknown_files_are_those_on_disk(tmp_path: Path) -> None:
    write = {"write_file": {"path": "new.txt", "content": "new\n"}}

    async def play(desk: FullDesk) -> None:
        desk.editor.buffers[str(desk.work / "a.py")] = "x = 1\n"
        assert await desk.say(await desk.new()) == "end_turn"

    replies = [READ, {"calls": [{"read_file": {"path": "b.py"}}]}, {"calls": [write]}, "Done."]
    desk = drive(tmp_path, replies, play)
    assert desk.editor.saved == [(str(desk.work / "new.txt"), "new\n")]
    assert (desk.work / "new.txt").read_text() == "new\n"


def test_running_command_is_shown_in_a_terminal_and_runs_in_the_sandbox(tmp_path: Path) -> None:
    gate = tmp_path / "work/go-on"
    words = r"printf '\033[31mred\033[0m \033]0;title\007one\n'"
    command = f"{words}; while [ ! -e go-on ]; do sleep 0.05; done; echo two; exit 3"

    async def play(desk: FullDesk) -> None:
        session = await desk.new()
        turn = asyncio.ensure_future(desk.say(session))
        await desk.editor.until(lambda: desk.editor.terminals)
        gate.touch()
        assert await turn == "end_turn"
        await desk.editor.until(lambda: desk.editor.released)

    replies = [{"calls": [{"bash": {"command": command}}]}, "Done."]
    desk = drive(tmp_path, replies, play, "--mode", "auto")
    (terminal,) = desk.editor.terminals
    assert terminal.stdout is not None
    assert terminal.stdout.read() == b"\x1b[31mred\x1b[0m ]0;title\x07one\ntwo\n"
    assert (terminal.returncode, desk.editor.released) == (3, ["0"])
    assert command not in str(terminal.args)
    *_, finished = desk.editor.of("tool_call_update")
    assert finished["content"] == [{"type": "terminal", "terminalId": "0"}]


def test_terminal_that_the_user_stops_stops_the_command(tmp_path: Path) -> None:
    sleeping = f"sleep {unique_seconds()}"

    async def play(desk: FullDesk) -> None:
        turn = asyncio.ensure_future(desk.say(await desk.new()))
        await desk.editor.until(lambda: desk.editor.terminals)
        desk.editor.terminals[0].kill()
        assert await turn == "end_turn"

    drive(tmp_path, [{"calls": [{"bash": {"command": sleeping}}]}, "Done."], play, "--mode", "auto")
    assert running(sleeping) == []
