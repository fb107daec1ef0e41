import json
from pathlib import Path
from typing import Any

import pytest

from agentcli.features.mcp.entries import (
    Entries,
    ServerEntry,
    join_entries,
    parse_entries,
    parse_foreign_entries,
)


def parsed(document: Any, **environ: str) -> Entries:
    return parse_entries(json.dumps(document), where="f", environ=environ)


def test_common_shape_is_read() -> None:
    document = {
        "mcpServers": {
            "files": {
                "command": "npx",
                "args": ["-y", "server", "${HOME}/docs"],
                "env": {"KEY": "${KEY:-none}"},
                "autoApprove": ["*"],
            },
            "web": {"type": "http", "url": "https://x/mcp", "headers": {"A": "Bearer ${TOKEN}"}},
            "off": {"command": "x", "disabled": True},
        }
    }
    assert parsed(document, HOME="/h", TOKEN="t") == Entries(
        servers=(
            ServerEntry(
                name="files",
                command="npx",
                args=("-y", "server", "/h/docs"),
                env=(("KEY", "none"),),
                ignored=("autoApprove",),
                where="f",
                written="npx -y server ${HOME}/docs",
            ),
            ServerEntry(
                name="web",
                url="https://x/mcp",
                headers=(("A", "Bearer t"),),
                where="f",
                written="https://x/mcp",
            ),
        )
    )


def test_what_agentcli_adds_to_the_shape_is_read() -> None:
    entry = {
        "command": "x",
        "sandbox": False,
        "network": False,
        "writable": ["/d"],
        "reads": ["get_*"],
        "timeout_s": 5,
        "start_timeout_s": 7,
    }
    (server,) = parsed({"own": entry}).servers
    assert server == ServerEntry(
        name="own",
        command="x",
        is_confined=False,
        network=False,
        writable=("/d",),
        reads=("get_*",),
        call_timeout_s=5.0,
        start_timeout_s=7.0,
        where="f",
        written="x",
    )
    assert (server.only_reads("get_time"), server.only_reads("set_time")) == (True, False)


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        (3, "it must be an object"),
        ({}, 'either a "command" or a "url"'),
        ({"command": "x", "url": "https://x"}, 'either a "command" or a "url"'),
        ({"command": 3}, "command must be a string"),
        ({"command": "x\0y"}, "command must be a string"),
        ({"command": "x", "args": "y"}, "args must be a list of strings"),
        ({"command": "x", "env": {"A": 1}}, "env must be an object of strings"),
        ({"command": "x", "timeout_s": -1}, "timeout_s must be a number of seconds above 0"),
        ({"command": "x", "network": "no"}, "network must be true or false"),
        ({"command": "${GONE}"}, "the variable GONE is not set"),
        ({"url": "ftp://x"}, "url must begin with https:// or http://"),
        ({"url": "https://x", "type": "sse"}, "unknown type 'sse'"),
    ],
)
def test_bad_entry_costs_one_sentence(entry: Any, why: str) -> None:
    found = parsed({"bad": entry, "good": {"command": "x"}})
    assert [server.name for server in found.servers] == ["good"]
    (problem,) = found.problems
    assert problem.startswith("f: server 'bad': ")
    assert why in problem


@pytest.mark.parametrize("name", ["", "a b", "a__b", "_a", "a_", "é", "x" * 33, "a/b"])
def test_name_that_could_be_taken_for_another_is_refused(name: str) -> None:
    assert parsed({name: {"command": "x"}}).servers == ()


@pytest.mark.parametrize("text", ["", "[]", "3", '{"mcpServers": []}', "[" * 100_000])
def test_file_that_is_no_list_of_servers_is_a_problem(text: str) -> None:
    found = parse_entries(text, where="f", environ={})
    assert (found.servers, len(found.problems)) == ((), 1)


def test_project_may_not_loosen() -> None:
    text = '{"a": {"command": "x", "reads": ["*"]}, "b": {"command": "x", "network": false}}'
    found = parse_entries(text, where="f", environ={}, may_loosen=False)
    assert [server.name for server in found.servers] == ["b"]
    assert len(found.problems) == 1


FOREIGN = """{
  // written by hand
  "inputs": [{"id": "key"}],
  "servers": {
    "My Server": {"command": "srv", "args": ["${workspaceFolder}/x"], "gallery": 1},
    "keyed": {"command": "srv", "env": {"KEY": "${input:key}"}},
    "env": {"command": ["npx", "-y", "pkg"], "env": {"A": "${env:HOME}", "N": 5, "B": true},},
    "remote": {"serverUrl": "https://x.example/mcp", "headers": null},
    "off": {"command": "srv", "enabled": false},
    "no": {"command": "srv"},
    "old": {"type": "sse", "url": "https://x.example/sse"}
  }
}"""


def test_servers_of_editors_are_read_and_others_are_named(tmp_path: Path) -> None:
    found = parse_foreign_entries(
        FOREIGN.encode(),
        path=tmp_path / ".vscode/mcp.json",
        environ={"HOME": "/home/me"},
        disabled={"no"},
    )
    assert [(one.name, one.command or one.url, one.args) for one in found.servers] == [
        ("My-Server", "srv", (f"{tmp_path}/x",)),
        ("env", "npx", ("-y", "pkg")),
        ("remote", "https://x.example/mcp", ()),
    ]
    assert found.servers[1].env == (("A", "/home/me"), ("N", "5"), ("B", "true"))
    assert "'keyed': only an editor can ask for ${input:key}" in found.problems[0]
    assert "'old': unknown type 'sse'" in found.problems[1]
    assert all(one.is_confined for one in found.servers)


def test_the_first_of_two_servers_wins_and_says_so() -> None:
    def parse(where: str, command: str) -> Entries:
        text = f'{{"mcpServers": {{"db": {{"command": "{command}"}}}}}}'
        return parse_entries(text, where=where, environ={})

    found = join_entries([parse("a", "one"), parse("b", "two"), parse("c", "one")])
    assert [one.command for one in found.servers] == ["one"]
    assert found.problems == ("server 'db': a wins over b",)
