import asyncio
import os
import re
import signal
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from textwrap import dedent
from typing import Any, TypeVar

import pytest

from agentcli.features.programs import run_program
from agentcli.features.programs.run_program import ProgramHost, RunProgram, RunProgramArgs
from agentcli.system.process_table import ProcessTable
from agentcli.types.errors import SettingsError
from agentcli.types.messages import Text, ToolCall
from agentcli.types.tools import Command, ErrorKind, Output, ToolContext, ToolResult, ToolSpec

T = TypeVar("T")


class Unfiltered:
    def feed(self, chunk: bytes) -> bytes:
        return chunk

    def close(self) -> bytes:
        return b""


@dataclass
class Session:
    """Answers calls by name, and keeps them."""

    home: Path
    calls: list[ToolCall] = field(default_factory=list)
    ledger: ProcessTable = field(default_factory=ProcessTable)
    called: asyncio.Event = field(default_factory=asyncio.Event)

    async def dispatch(self, call: ToolCall) -> ToolResult:
        self.calls.append(call)
        self.called.set()
        answer = ToolResult(
            call_id=call.id, name=call.name, status="ok", content=(Text(text=str(call.input)),)
        )
        match call.name:
            case "deny":
                return replace(
                    answer,
                    status="error",
                    error=ErrorKind.DENIED,
                    content=(Text(text="Denied: a rule says so"),),
                )
            case "fetch":
                return replace(answer, origin="the network")
            case "slow":
                await asyncio.sleep(4)
            case "hang":
                await asyncio.Event().wait()
            case _:
                pass
        return answer

    @property
    def tool(self) -> RunProgram:
        ground = ProgramHost(
            workspace=self.home,
            out_dir=self.home,
            sandbox=None,
            environ=os.environ,
            processes=self.ledger,
            clean=Unfiltered,
        )
        names = ("echo", "deny", "fetch", "slow", "hang", "a-b")
        schema: Any = {"type": "object", "properties": {"first": {}, "second": {}}}
        specs = {name: ToolSpec(name=name, description="", schema=schema) for name in names}
        return RunProgram(ground, functions=lambda: specs)

    async def run(self, program: str, timeout: int = 60) -> Output:
        context = ToolContext(
            call_id="c1",
            workspace=self.home,
            progress=lambda text: None,
            dispatch=self.dispatch,
        )
        return await self.tool.run(
            RunProgramArgs(program=dedent(program), timeout=timeout), context
        )


def in_session(home: Path, play: Callable[[Session], Awaitable[T]]) -> T:
    async def main() -> T:
        session = Session(home)
        try:
            return await play(session)
        finally:
            await session.ledger.close()

    return asyncio.run(main())


def ran(home: Path, program: str, timeout: int = 60) -> Output:
    return in_session(home, lambda session: session.run(program, timeout))


def text(output: Output) -> str:
    (block,) = output.content
    assert isinstance(block, Text)
    return block.text


def test_calls_are_the_programs_and_only_what_it_prints_comes_back(tmp_path: Path) -> None:
    async def play(session: Session) -> tuple[str, list[ToolCall]]:
        output = await session.run(
            """
            texts = [echo(number, second="x") for number in range(3)]
            print(len(texts), call("a-b", first=[1, None]))
            """
        )
        return text(output), session.calls

    said, calls = in_session(tmp_path, play)
    assert said == "3 {'first': [1, None]}\n[4 calls]\n[exit code 0]"
    assert calls == [
        *(
            ToolCall(
                id=f"c1.{number + 1}",
                name="echo",
                input={"first": number, "second": "x"},
                caller="c1",
            )
            for number in range(3)
        ),
        ToolCall(id="c1.4", name="a-b", input={"first": [1, None]}, caller="c1"),
    ]


def test_denied_call_raises_in_the_program(tmp_path: Path) -> None:
    said = text(
        ran(
            tmp_path,
            """
            try:
                deny()
            except ToolError as error:
                print(error.kind, "-", error)
            deny()
            """,
        )
    )
    marks = re.compile(r"^ +~+\^+\n", re.MULTILINE)  # Python 3.13 underlines the call
    assert marks.sub("", said) == (
        "denied - Denied: a rule says so\n"
        "Traceback (most recent call last):\n"
        '  File "<program>", line 6, in <module>\n'
        "    deny()\n"
        "ToolError: Denied: a rule says so\n"
        "[2 calls]\n"
        "[exit code 1]"
    )


@pytest.mark.parametrize(
    ("program", "message"),
    [
        ("echo(1, 2, 3)", "TypeError: echo takes first, second"),
        ("echo(1, first=2)", "TypeError: echo got first twice"),
        ("echo({1})", "TypeError: Object of type set is not JSON serializable"),
        ("call('bash', command='ls')", "ToolError: No bash here, but echo, deny, fetch, slow"),
        ("def broken(:", "SyntaxError: invalid syntax"),
        ("1/0", "ZeroDivisionError: division by zero"),
        ("input()", "EOFError: EOF when reading a line"),
    ],
)
def test_fault_of_a_program_is_told(program: str, message: str, tmp_path: Path) -> None:
    output = ran(tmp_path, program)
    assert message in text(output)
    assert isinstance(output.details, Command)
    assert output.details.exit_code == 1


@pytest.mark.parametrize(
    "program",
    [
        "open('secret').read()",
        "open('new', 'w')",
        "import pathlib; pathlib.Path('secret').read_text()",
        "import os; os.system('touch new')",
        "import os; os.execv('/bin/sh', ['sh', '-c', 'touch new'])",
        "import os; os.fork()",
        "import os; os.listdir('.')",
        "import os; os.remove('secret')",
        "import subprocess; subprocess.run(['touch', 'new'])",
        "import ctypes",
        "import _posixsubprocess",
        "import multiprocessing",
        "import socket; socket.create_connection(('127.0.0.1', 1))",
        "import sys; open(sys.path[-1] + '/new', 'w')",
    ],
)
def test_program_reaches_files_commands_and_network_by_tools_alone(
    program: str, tmp_path: Path
) -> None:
    (tmp_path / "secret").write_text("hidden")
    said = text(ran(tmp_path, program))
    assert "PermissionError" in said and "by tools alone" in said
    assert "hidden" not in said
    assert (tmp_path / "secret").exists() and not (tmp_path / "new").exists()


def test_libraries_can_be_imported_and_threads_call_one_by_one(tmp_path: Path) -> None:
    said = text(
        ran(
            tmp_path,
            """
            import collections, csv, decimal, re, statistics
            from concurrent.futures import ThreadPoolExecutor
            with ThreadPoolExecutor(8) as pool:
                print(sorted(pool.map(echo, range(40))) == sorted(map(echo, range(40))))
            """,
        )
    )
    assert said == "True\n[80 calls]\n[exit code 0]"


def test_time_of_calls_is_not_the_programs(tmp_path: Path) -> None:
    assert text(ran(tmp_path, "slow(); print('on time')", timeout=3)).startswith("on time\n")


@pytest.mark.parametrize(
    "program",
    [
        "print('begun')\nwhile True: pass",
        "import os, time\nprint('begun')\nos.closerange(3, 50)\ntime.sleep(600)",
    ],
)
def test_program_without_end_is_killed(program: str, tmp_path: Path) -> None:
    output = ran(tmp_path, program, timeout=3)
    assert output.error is ErrorKind.TIMEOUT
    last = "[timed out after 3 s, killed; raise timeout or do less]"
    assert text(output) == f"begun\n[0 calls]\n{last}"


@pytest.mark.parametrize(
    "sent",
    [
        b"no call\n",
        b"[1]\n",
        b'{"name": 1, "input": {}}\n',
        b'{"name": "echo", "input": {"text": 1e400}}\n',
        b"\n",
    ],
)
def test_program_that_sends_nonsense_is_ended(sent: bytes, tmp_path: Path) -> None:
    program = f"import os, time\nos.write(4, {sent!r})\ntime.sleep(600)"
    output = ran(tmp_path, program)
    assert "[something was sent that is no call]\n" in text(output)
    assert output.error is ErrorKind.FAILED


def test_number_that_json_does_not_have_is_an_error_of_the_program(tmp_path: Path) -> None:
    output = ran(tmp_path, "echo(float('inf'))")
    assert "ValueError: Out of range float values are not JSON compliant" in text(output)
    assert "[0 calls]" in text(output)


def test_calls_and_their_size_are_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_program, "CALLS_MAX", 2)
    monkeypatch.setattr(run_program, "CALL_LIMIT_BYTES", 100_000)
    said = text(ran(tmp_path, "for number in range(3):\n    echo(number)"))
    assert "ToolError: A program may make 2 calls. Run another one.\n[2 calls]" in said
    assert "[a call may have 100000 bytes]" in text(ran(tmp_path, "echo('x' * 1_000_000)"))


def test_large_answers_and_outputs_are_carried_and_bounded(tmp_path: Path) -> None:
    output = ran(tmp_path, "text = echo('x' * 3_000_000)\nprint(len(text))\nprint(text)")
    said = text(output)
    assert said.startswith("3000013\n")
    assert (len(said) < 40_000, output.truncated) == (True, True)


def test_origin_of_what_it_was_given_is_kept(tmp_path: Path) -> None:
    assert ran(tmp_path, "fetch(); print('x')").origin == "the network"


def test_cancelled_program_and_its_call_are_ended(tmp_path: Path) -> None:
    async def play(session: Session) -> Output:
        running = asyncio.ensure_future(session.run("print('begun')\nhang()"))
        await session.called.wait()
        (started,) = session.ledger.list_running()
        running.cancel()
        with pytest.raises(asyncio.CancelledError) as stopped:
            await running
        with pytest.raises(ProcessLookupError):
            os.killpg(started.pid, signal.SIG_DFL)
        partial: Output = stopped.value.args[0]
        return partial

    output = in_session(tmp_path, play)
    assert (output.error, text(output).startswith("begun\n[interrupted")) == (
        ErrorKind.CANCELLED,
        True,
    )


def test_fault_of_the_session_is_not_swallowed(tmp_path: Path) -> None:
    class Broken(Session):
        async def dispatch(self, call: ToolCall) -> ToolResult:
            raise SettingsError("the disk is full")

    async def main() -> None:
        session = Broken(tmp_path)
        with pytest.raises(SettingsError, match="the disk is full"):
            await session.run("echo()")
        await session.ledger.close()

    asyncio.run(main())
