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

from agentcli.log.reader import read_log
from agentcli.types.events import CallFinished, SessionEnded
from tests.support.confined import LAYERS, confined
from tests.support.mcp_links import describe_asking_server
from tests.support.processes import running, unique_seconds, until
from tests.support.program import agentcli, environment, script, write_fork_command

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
    server = StdioServerParameters(command=write_fork_command(), args=args, env=environment(home))
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
    told = [[entry.fact for entry in read_log(log).entries] for log in logs]
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

    assert used(home, use, "--mode", "auto") == "1\tone"
    assert running(sleeping) == []
    ((cancelled, read_one),) = results(home)
    assert (cancelled.error, read_one.status) == ("cancelled", "ok")


def test_added_directory_is_read_and_changed_like_the_workspace(home: Path) -> None:
    other = home.with_name("other")
    other.mkdir()
    (other / "b.txt").write_text("two\n")
    edit = {"path": str(other / "b.txt"), "old_text": "two", "new_text": "three"}

    async def use(server: Client) -> list[str]:
        calls = [
            server.call_tool("read_file", {"path": str(other / "b.txt")}),
            server.call_tool("edit_file", edit),
            server.call_tool("bash", {"command": f"cat {other}/b.txt && touch {other}/made"}),
        ]
        return [said(await call) for call in calls]

    read, _, ran = used(home, use, "--mode", "auto", "--add-dir", str(other))
    assert read == "1\ttwo"
    assert ran.startswith("three\n")
    assert [one.status for one in results(home)[0]] == ["ok", "ok", "ok"]
    assert sorted(path.name for path in other.iterdir()) == ["b.txt", "made"]
    assert agentcli("undo", "-C", home.with_name("work"), home=home).code == 0
    assert [path.name for path in other.iterdir()] == ["b.txt"]


def test_model_judges_where_a_rule_says_so(home: Path) -> None:
    evaluator = script(home / "s.json", ['{"decision": "allow", "reason": "harmless"}', "Hm."])
    files = home / ".config/agentcli"
    files.mkdir(parents=True)
    (files / "rules.toml").write_text('[[rule]]\ndecision = "judge"\nrule = "bash(touch:*)"\n')
    (files / "settings.toml").write_text(f'evaluator = "{evaluator}"\n')

    async def use(server: Client) -> list[str]:
        names = ("one", "two")
        calls = [server.call_tool("bash", {"command": f"touch {name}"}) for name in names]
        return [said(await call) for call in calls]

    _, denied = used(home, use)
    assert denied.startswith("Denied: ")
    assert sorted(path.name for path in home.with_name("work").iterdir()) == ["a.txt", "one"]


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


def test_task_that_runs_a_prompt_that_is_not_there_is_an_answer(home: Path) -> None:
    servers = home / ".config" / "agentcli" / "mcp.json"
    servers.parent.mkdir(parents=True)
    servers.write_text(json.dumps({"mcpServers": {"asking": describe_asking_server()}}))

    async def use(server: Client) -> list[str]:
        tasks = ("/asking:sing", "/asking:greet Ada")
        return [said(await server.call_tool("run", {"task": task})) for task in tasks]

    assert used(home, use, "--model", script(home / "s.json", ["Hello."])) == [
        "the MCP server asking has no prompt sing (its prompts: greet)",
        "Hello.",
    ]


START = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "odd", "version": "1"},
}
HANDSHAKE = (
    json.dumps({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": START}).encode(),
    b'{"jsonrpc": "2.0", "method": "notifications/initialized"}',
)
LAST = b'{"jsonrpc": "2.0", "id": 99, "method": "tools/list"}'


def exchanged(home: Path, *lines: bytes) -> tuple[list[dict[str, Any]], bytes]:
    """All answers to these lines and to a last one, and what was said on stderr."""
    ran = subprocess.Popen(
        [write_fork_command(), "mcp", "serve", "-C", home.with_name("work")],
        env=environment(home),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert ran.stdin is not None
    assert ran.stdout is not None
    ran.stdin.write(b"\n".join([*HANDSHAKE, *lines, LAST, b""]))
    ran.stdin.flush()
    answers: list[dict[str, Any]] = []
    while not answers or answers[-1].get("id") != 99:
        answers.append(json.loads(ran.stdout.readline()))
    _, errors = ran.communicate(timeout=30)
    assert ran.returncode == 0
    return answers, errors


def test_what_is_no_protocol_costs_nothing_but_itself(home: Path) -> None:
    name_7 = b'{"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": {"name": 7}}'
    no_method = b'{"jsonrpc": "2.0", "id": 1, "method": "tools/nothing"}'
    answers, errors = exchanged(home, no_method, name_7)
    by_id = {answer["id"]: answer for answer in answers}
    assert (by_id[1]["error"]["code"], by_id[3]["error"]["code"]) == (-32601, -32602)
    assert len(by_id[99]["result"]["tools"]) == 8
    assert errors == b""


def called(name: str, path: bytes) -> bytes:
    call = b'{"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": {"name": "%s", '
    return call % name.encode() + b'"arguments": {"path": %s}}}' % path


@pytest.mark.parametrize(
    ("line", "answered_to", "code"),
    [
        (b"hello", None, -32700),
        (b"\xff\xfe", None, -32700),
        (called("read_file", b'"a\\ud800"'), 5, -32700),
        (called("read_file", b"[" * 100_000 + b"]" * 100_000), None, -32700),
        (b"[1, 2]", None, -32600),
        (b'{"jsonrpc": "2.0", "id": 5, "method": 7}', 5, -32600),
        (b'{"id": "e", "method": "ping"}', "e", -32600),
        (called("nothing", b'"a.txt"'), 5, -32602),
    ],
)
def test_request_that_cannot_be_used_is_answered_with_an_error(
    line: bytes, answered_to: str | int | None, code: int, home: Path
) -> None:
    answers, errors = exchanged(home, line)
    refused = [(one["id"], one["error"]["code"]) for one in answers if "error" in one]
    assert refused == [(answered_to, code)]
    assert errors == b""


def test_number_that_json_does_not_have_is_an_answer_and_not_in_the_log(home: Path) -> None:
    line = called("read_file", b'"a.txt", "limit": 1e400')
    (answer,) = [one for one in exchanged(home, line)[0] if one["id"] == 5]
    told = answer["result"]["content"][0]["text"]
    assert told.startswith("Invalid input: limit must be a valid integer")
    (log,) = home.rglob("log.jsonl")
    assert '"limit":"Infinity"' in log.read_text()


@pytest.mark.parametrize(
    "line",
    [b"", b"  ", b'{"jsonrpc": "2.0", "id": 5, "result": 7}', b'{"jsonrpc": "2.0", "error": 7}'],
)
def test_what_wants_no_answer_gets_none(line: bytes, home: Path) -> None:
    assert len(exchanged(home, line)[0]) == 2


def test_tools_say_which_of_them_only_read(home: Path) -> None:
    listed = used(home, lambda connected: connected.list_tools()).tools
    hints = {tool.name: tool.annotations for tool in listed}
    read_only = {name for name, hint in hints.items() if hint and hint.read_only_hint}
    outside = {name for name, hint in hints.items() if hint and hint.open_world_hint}
    assert read_only == {"read_file", "grep", "find_files"}
    assert outside == {"bash", "write_stdin", "run"}


def test_unknown_tool_is_named_with_those_there_are(home: Path) -> None:
    (*_, refused, _), _ = exchanged(home, called("nothing", b'"a.txt"'))
    assert refused["error"]["message"] == (
        "Unknown tool: nothing; the tools are read_file, write_file, edit_file, grep, find_files, "
        "bash, write_stdin, run"
    )


def instructions(home: Path, *options: str) -> str:
    async def use(server: Client) -> str:
        return server.instructions or ""

    workspace = home.with_name("work")
    start = f"Tools of agentcli for the workspace {workspace}. "
    end = " A denied call names the option that would allow it."
    return used(home, use, *options).removeprefix(start).removesuffix(end)


def test_client_is_told_that_commands_are_not_confined(home: Path) -> None:
    assert instructions(home, "--sandbox", "off") == (
        "Commands run without a sandbox: they can do everything that the user can, to all files "
        "and over the network."
    )


@pytest.mark.parametrize("layer", LAYERS)
def test_client_is_told_what_confines_commands(layer: str, home: Path, tmp_path: Path) -> None:
    with confined(layer, tmp_path / "try"):  # skips where it does not work
        assert instructions(home, "--sandbox", layer) == (
            f"Commands run in a sandbox ({layer}), without network access unless a rule grants it."
        )
