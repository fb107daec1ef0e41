import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from tests.support import anthropic_streams as anthropic
from tests.support.mcp_links import describe_asking_server
from tests.support.outcomes import run_against
from tests.support.program import Ran, agentcli, script
from tests.support.provider import Provider, answer, error_of_anthropic

REFERENCE = Path(__file__).parents[2] / "docs/reference"
SCHEMA = json.loads((REFERENCE / "stream-json.schema.json").read_text())
COMMAND = {"command": "echo one; echo two; exit 3"}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "a.txt").write_text("one\ntwo\n")
    return tmp_path


def violations(ran: Ran) -> list[str]:
    checker = Draft202012Validator(SCHEMA)
    return [
        f"{row['type']}: {error.json_path}: {error.message}"
        for row in ran.events
        for error in checker.iter_errors(row)
    ]


def types(ran: Ran) -> set[str]:
    return {row["type"] for row in ran.events}


RICH: list[Any] = [
    {
        "text": "Go.",
        "calls": [
            {"read_file": {"path": "a.txt"}},
            {"edit_file": {"path": "a.txt", "old_text": "two", "new_text": "2"}},
            {"bash": COMMAND},
            {"bash": {"command": "curl x", "timeout": "soon"}},
            {"grep": {"pattern": "one"}},
            {"no_such_tool": {}},
        ],
    },
    "I edited `a.txt`. All tests pass.",
    "Done.",
    "Done.",
]


def test_schema_is_a_schema() -> None:
    Draft202012Validator.check_schema(SCHEMA)


def test_lines_of_a_rich_run_have_the_published_form(home: Path) -> None:
    options = ("--mode", "auto", "--partial", "--verify", "grep -q 2 a.txt", "--deny", "grep")
    model = script(home / "s.json", RICH)
    ran = agentcli("run", "-o", "stream-json", *options, "--model", model, "x", home=home)
    assert violations(ran) == []
    assert ran.code == 0, ran.err
    assert types(ran) == {
        "session.started",
        "told",
        "turn.started",
        "message.delta",
        "message",
        "usage",
        "tool.requested",
        "approval",
        "tool.started",
        "tool.output",
        "tool.finished",
        "verify",
        "result",
    }


def test_lines_of_runs_that_fail_have_it_too(home: Path) -> None:
    edit = {"edit_file": {"path": "a.txt", "old_text": "two", "new_text": "2"}}
    model = script(home / "s.json", [{"calls": [edit]}, "x"])
    denied = agentcli("run", "-o", "stream-json", "--model", model, "x", home=home)
    again = agentcli("run", "-o", "stream-json", "--model", model, "--continue", "x", home=home)
    usage = agentcli("run", "-o", "stream-json", "--max-turns", "x", "x", home=home)
    assert [violations(ran) for ran in (denied, again, usage)] == [[], [], []]
    assert [ran.code for ran in (denied, again, usage)] == [5, 5, 2]
    assert again.events[0]["type"] == "session.resumed"


def test_waits_and_warnings_have_it_too(home: Path) -> None:
    headers = {"retry-after": "0.01"}
    busy = answer(error_of_anthropic("slow down"), status=429, headers=headers)
    with Provider([busy, anthropic.says("Hi.")]) as provider:
        options = ("-o", "stream-json", "--sandbox", "off")
        ran = run_against(provider, *options, "x", home=home)
    assert violations(ran) == []
    assert {"retry", "warning", "result"} <= types(ran)


def test_json_is_the_result_in_the_same_form(home: Path) -> None:
    model = script(home / "s.json", ["Hi."])
    ran = agentcli("run", "-o", "json", "--model", model, "x", home=home)
    assert violations(ran) == []
    assert types(ran) == {"result"}


def test_text_comes_once_as_deltas_and_once_whole(home: Path) -> None:
    pieces = [f"word{n} " for n in range(300)]
    with Provider([anthropic.says(*pieces)]) as provider:
        ran = run_against(provider, "-o", "stream-json", "--partial", "x", home=home)
    deltas = [row["text"] for row in ran.events if row["type"] == "message.delta"]
    (message,) = [row["text"] for row in ran.events if row["type"] == "message"]
    assert "".join(deltas) == message == "".join(pieces)
    assert sum(map(len, deltas)) == len(message)
    assert len(ran.out) <= 4 * len(message)


def test_output_of_a_command_comes_once(home: Path) -> None:
    command = "for n in $(seq 1 300); do echo line $n of the output; done; sleep 0.3; echo end"
    model = script(home / "s.json", [{"calls": [{"bash": {"command": command}}]}, "Done."])
    options = ("--mode", "auto", "--sandbox", "off", "--partial", "--model", model)
    ran = agentcli("run", "-o", "stream-json", *options, "x", home=home)
    shown = "".join(row["text"] for row in ran.events if row["type"] == "tool.output")
    lines = [line for line in shown.split("\n") if line.startswith("line ")]
    assert len(lines) == len(set(lines))


def test_without_partial_there_are_no_deltas(home: Path) -> None:
    with Provider([anthropic.says("a", "b")]) as provider:
        ran = run_against(provider, "-o", "stream-json", "x", home=home)
    assert "message.delta" not in types(ran)


def test_resource_that_goes_along_is_told(home: Path) -> None:
    servers = {"mcpServers": {"asking": describe_asking_server()}}
    (home / "servers.json").write_text(json.dumps(servers))
    model = script(home / "s.json", ["Milk."])
    ran = agentcli(
        *("run", "-o", "stream-json", "--mcp-config", home / "servers.json", "--model", model),
        "what is on @asking:note://today",
        home=home,
    )
    assert (ran.code, violations(ran)) == (0, [])
    (row,) = [row for row in ran.events if row["type"] == "attached"]
    assert (row["name"], row["origin"], row["bytes"]) == (
        "the resource note://today of the MCP server asking",
        "the MCP server asking",
        66,
    )


def test_every_type_is_described() -> None:
    text = (REFERENCE / "stream-json.md").read_text()
    published = {
        rule["if"]["properties"]["type"]["const"] for rule in SCHEMA["allOf"] if "if" in rule
    }
    assert [name for name in published if f"`{name}`" not in text] == []
