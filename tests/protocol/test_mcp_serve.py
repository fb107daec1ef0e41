"""`agentcli mcp serve` as the official client uses it, and as nobody should."""

import asyncio
import json
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import pytest
from mcp import Client, StdioServerParameters
from mcp_types import CallToolResult

from agentcli.record.reading import read
from agentcli.types.events import CallFinished, SessionEnded
from tests.support.processes import running, unique_seconds, until
from tests.support.program import PROGRAM, environment, script

T = TypeVar("T")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "a.txt").write_text("one\n")
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


@asynccontextmanager
async def client(home: Path, *options: str) -> AsyncIterator[Client]:
    work = str(home.with_name("work"))
    args = ["mcp", "serve", "-C", work, *options]
    server = StdioServerParameters(command=str(PROGRAM), args=args, env=environment(home))
    async with asyncio.timeout(60), Client(server) as connected:
        yield connected


def used(home: Path, use: Callable[[Client], Awaitable[T]], *options: str) -> T:
    async def scenario() -> T:
        async with client(home, *options) as connected:
            return await use(connected)

    return asyncio.run(scenario())


def said(result: CallToolResult) -> str:
    return "".join(getattr(block, "text", "") for block in result.content)


def results(home: Path) -> list[list[Any]]:
    logs = sorted(home.glob(".local/state/agentcli/sessions/*/log.jsonl"))
    told = [[entry.fact for entry in read(log).entries] for log in logs]
    assert all(isinstance(facts[-1], SessionEnded) for facts in told)
    return [[fact.result for fact in facts if isinstance(fact, CallFinished)] for facts in told]


def test_bad_arguments_are_answers_and_the_server_goes_on(home: Path) -> None:
    wrong: list[tuple[str, dict[str, Any]]] = [
        ("read_file", {}),
        ("read_file", {"path": 7}),
        ("read_file", {"path": "a.txt", "colour": "red"}),
        ("read_file", {"path": "a\x00b"}),
        ("edit_file", {"path": "a.txt", "old_text": "none", "new_text": "x"}),
        ("bash", {"command": "ls\x00"}),
    ]

    async def use(server: Client) -> tuple[list[CallToolResult], CallToolResult]:
        answers = [await server.call_tool(name, given) for name, given in wrong]
        return answers, await server.call_tool("read_file", {"path": "a.txt"})

    answers, last = used(home, use, "--mode", "auto")
    assert [answer.is_error for answer in answers] == [True] * len(wrong)
    assert said(last) == "1\tone"


def test_cancelled_call_ends_its_command_and_the_server_goes_on(home: Path) -> None:
    seconds = unique_seconds()
    sleeping = f"sleep {seconds}"

    async def use(server: Client) -> str:
        calling = asyncio.ensure_future(server.call_tool("bash", {"command": f"exec {sleeping}"}))
        await until(lambda: running(sleeping))
        calling.cancel()
        await asyncio.wait([calling])
        return said(await server.call_tool("read_file", {"path": "a.txt"}))

    assert used(home, use, "--mode", "auto", "--sandbox", "off") == "1\tone"
    assert running(sleeping) == []
    ((cancelled, read_one),) = results(home)
    assert (cancelled.error, read_one.status) == ("cancelled", "ok")


def test_two_clients_have_a_server_and_a_session_each(home: Path) -> None:
    async def scenario() -> list[str]:
        async with client(home) as one, client(home, "--mode", "auto-edit") as other:
            write = {"path": "b.txt", "content": "two\n"}
            calls = [one.call_tool("write_file", write), other.call_tool("write_file", write)]
            return [said(result) for result in await asyncio.gather(*calls)]

    denied, _ = asyncio.run(scenario())
    assert denied.startswith("Denied: ")
    assert (home.with_name("work") / "b.txt").read_text() == "two\n"
    assert sorted(one.status for (one,) in results(home)) == ["error", "ok"]


def test_task_is_told_as_it_goes(home: Path) -> None:
    replies = [{"calls": [{"read_file": {"path": "a.txt"}}]}, "It says one."]
    heard: list[str | None] = []

    async def use(server: Client) -> str:
        async def listen(progress: float, total: float | None, message: str | None) -> None:
            heard.append(message)

        task = {"task": "What does it say?"}
        return said(await server.call_tool("run", task, progress_callback=listen))

    model = script(home / "s.json", replies)
    assert used(home, use, "--model", model) == "It says one."
    assert heard == ['read_file {"path": "a.txt"}']


def test_what_is_no_protocol_costs_nothing_but_itself(home: Path) -> None:
    start = {"protocolVersion": "2025-11-25", "capabilities": {}}
    start |= {"clientInfo": {"name": "odd", "version": "1"}}
    lines = [
        b"hello",
        b"\xff\xfe",
        b"[]",
        b'{"jsonrpc": "2.0", "id": 1, "method": "tools/nothing"}',
        json.dumps({"jsonrpc": "2.0", "id": 2, "method": "initialize", "params": start}).encode(),
        b'{"jsonrpc": "2.0", "method": "notifications/initialized"}',
        b'{"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": {"name": 7}}',
        b'{"jsonrpc": "2.0", "id": 4, "method": "tools/list"}',
    ]
    ran = subprocess.Popen(
        [PROGRAM, "mcp", "serve", "-C", home.with_name("work")],
        env=environment(home),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert ran.stdin is not None
    assert ran.stdout is not None
    ran.stdin.write(b"\n".join([*lines, b""]))
    ran.stdin.flush()
    answers = {}
    while 4 not in answers:
        answer = json.loads(ran.stdout.readline())
        answers[answer.get("id")] = answer
    ran.stdin.close()
    assert ran.wait(timeout=30) == 0
    ran.stdout.close()
    assert ("error" in answers[3], len(answers[4]["result"]["tools"])) == (True, 7)
