import json
import sys
from pathlib import Path

import pytest

from agentcli.types.errors import Exit
from tests.support.mcp_links import NASTY
from tests.support.program import agentcli


def mcp(home: Path, *arguments: str) -> tuple[int, str]:
    ran = agentcli("mcp", *arguments, home=home)
    return ran.code, ran.out + ran.err


def test_server_is_added_listed_tested_and_removed(home: Path) -> None:
    file = home / ".config/agentcli/mcp.json"
    command = ("--", sys.executable, str(NASTY), "plain")
    code, told = mcp(home, "add", "one", "--env", "A=b=c", "--no-network", *command)
    assert (code, told) == (
        0,
        f"added one to {file}; test it: agentcli mcp test one\n",
    )
    assert json.loads(file.read_text()) == {
        "mcpServers": {
            "one": {
                "command": sys.executable,
                "args": [str(NASTY), "plain"],
                "env": {"A": "b=c"},
                "network": False,
            }
        }
    }
    assert file.stat().st_mode & 0o777 == 0o600

    code, told = mcp(home, "list")
    assert "not tested yet; sandboxed, no network" in told

    code, told = mcp(home, "test")
    assert code == 0
    assert told.startswith("  echo  Says the text again.\n  other\none: 2 tools, ")
    assert "protocol 2025-11-25, ready in " in told

    code, told = mcp(home, "list")
    assert "tested " in told
    assert ": 2 tools, not approved yet; sandboxed, no network" in told
    assert mcp(home, "approve", "one", "--yes")[1].startswith("new      echo")
    assert "  2 tools, " in mcp(home, "list")[1]

    assert mcp(home, "remove", "one") == (0, f"removed one from {file}\n")
    assert mcp(home, "list")[1].startswith("no servers")


def test_server_that_failed_its_test_is_listed_so_until_it_is_another(home: Path) -> None:
    mcp(home, "add", "one", "--", "false")
    assert mcp(home, "test")[0] == Exit.PROVIDER
    assert "  test failed " in mcp(home, "list")[1]
    mcp(home, "remove", "one")
    mcp(home, "add", "one", "--", "true")
    assert "  not tested yet; " in mcp(home, "list")[1]


def test_password_in_an_address_is_not_printed(home: Path) -> None:
    address = "http://me:hunter-2-password@127.0.0.1:1/mcp?api_key=hunter-2-key"
    mcp(home, "add", "web", "--url", address)
    code, told = mcp(home, "list")
    assert (code, "hunter" in told) == (0, False)
    assert "127.0.0.1:1/mcp" in told
    code, told = mcp(home, "test")
    assert (code, "hunter" in told) == (Exit.PROVIDER, False)
    assert "cannot be reached at http://me:" in told
    assert "hunter" not in mcp(home, "approve", "web", "--yes")[1]


def test_server_elsewhere_is_added_by_its_address(home: Path) -> None:
    mcp(home, "add", "web", "--url", "https://x.test/mcp", "--header", "A: Bearer ${T:-none}")
    assert json.loads((home / ".config/agentcli/mcp.json").read_text()) == {
        "mcpServers": {
            "web": {
                "type": "http",
                "url": "https://x.test/mcp",
                "headers": {"A": "Bearer ${T:-none}"},
            }
        }
    }


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("add", "a"), "give either a command or a --url"),
        (("add", "a b", "--", "x"), "a server's name is 1 to 32 letters"),
        (("add", "a", "--url", "x"), "url must begin with"),
        (("add", "a", "--env", "A", "--", "x"), "'A' is not NAME=VALUE"),
        (("remove", "a"), "no server a in"),
        (("test", "a"), "there is no server a"),
        (("test",), "no servers to test"),
        (("approve", "a"), "there is no server a"),
        (("list", "--mcp-config", "/no/such/file"), "file not found: /no/such/file"),
    ],
)
def test_mistake_is_one_clear_error(arguments: tuple[str, ...], why: str, home: Path) -> None:
    code, told = mcp(home, *arguments)
    assert code in (2, 3)
    assert why in told
    assert "Traceback" not in told


def test_failing_server_shows_its_last_words(home: Path) -> None:
    mcp(home, "add", "dead", "--", sys.executable, str(NASTY), "dies_at_once")
    code, told = mcp(home, "test", "dead")
    assert code == 4
    assert told.startswith("dead: The MCP server dead ended the connection (exit code 7)")
    assert told.endswith("  | no licence\n")
    assert ".log" not in told  # it is deleted with the directory of the test


def test_broken_file_is_never_written_over(home: Path) -> None:
    file = home / ".config/agentcli/mcp.json"
    file.parent.mkdir(parents=True)
    file.write_text("{ not json")
    code, told = mcp(home, "add", "one", "--", "x")
    assert (code, f"cannot read {file}" in told) == (3, True)
    assert file.read_text() == "{ not json"


def test_tools_are_listed_with_what_each_server_costs(home: Path) -> None:
    mcp(home, "add", "many", "--", sys.executable, str(NASTY), "many")
    assert mcp(home, "approve", "many", "--yes")[0] == 0
    listed = agentcli("tools", home=home).out
    assert "many__find_invoice" in listed
    assert "(found by search_tools)" in listed
    assert "mcp many: " in listed
