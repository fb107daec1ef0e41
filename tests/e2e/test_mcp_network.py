import json
import sys
from pathlib import Path

import pytest

from tests.support.confined import LAYERS
from tests.support.granted import GrantedFacts, skip_without_hosts
from tests.support.program import agentcli, script, session_log
from tests.support.registries import API, NPM, PACKAGES, Registries

FETCHING = Path(__file__).parents[1] / "support/mcp_servers/fetching.py"


def write_servers(home: Path, network: object) -> Path:
    path = home / "servers.json"
    server = {"command": sys.executable, "args": [str(FETCHING)], "network": network}
    path.write_text(json.dumps({"mcpServers": {"web": server}}))
    return path


@pytest.mark.parametrize("layer", LAYERS)
def test_server_reaches_the_hosts_of_its_entry_and_no_others(
    layer: str, home: Path, workspace: Path, registries: Registries, tmp_path: Path
) -> None:
    skip_without_hosts(layer, tmp_path / "probe")
    calls = [{"web__fetch": {"url": f"http://{host}/user"}} for host in (API, PACKAGES)]
    model = script(home / "script.json", [*({"calls": [one]} for one in calls), "Done."])
    ran = agentcli(
        *("run", "-C", workspace, "--sandbox", layer, "--model", model, "--allow", "mcp"),
        *("--mcp-config", write_servers(home, [API, NPM]), "x"),
        home=home,
        env=registries.environment,
    )
    assert ran.code == 0, ran.err
    facts = GrantedFacts(session_log(home))
    assert '{"login": "dev"}' in facts.said
    assert "not fetched: HTTP Error 403" in facts.said
    assert not registries.was_asked(PACKAGES)
    judged = [
        (one["server"], one["host"], one["verdict"]["decision"])
        for one in facts.list_facts("host_judged")
    ]
    assert judged == [("web", API, "allow"), ("web", PACKAGES, "deny")]


@pytest.mark.parametrize("layer", LAYERS)
def test_rule_denies_a_server_a_host_of_its_entry(
    layer: str, home: Path, workspace: Path, registries: Registries, tmp_path: Path
) -> None:
    skip_without_hosts(layer, tmp_path / "probe")
    fetch = {"web__fetch": {"url": f"http://{API}/user"}}
    ran = agentcli(
        *("run", "-C", workspace, "--sandbox", layer, "--allow", "mcp"),
        *("--model", script(home / "script.json", [{"calls": [fetch]}, "Done."])),
        *("--deny", f"network({API})", "--mcp-config", write_servers(home, [API, NPM]), "x"),
        home=home,
        env=registries.environment,
    )
    assert ran.code == 0, ran.err
    assert not registries.was_asked(API)
    (judged,) = GrantedFacts(session_log(home)).list_facts("host_judged")
    assert (judged["server"], judged["host"]) == ("web", API)
    assert judged["verdict"]["decision"] == "deny"
    assert judged["verdict"]["rule"] == f"deny network({API})"


def test_hosts_of_a_server_are_shown_and_a_bad_one_is_named(home: Path) -> None:
    servers = write_servers(home, ["docs.example.org"])
    target = home / ".config/agentcli/mcp.json"
    target.parent.mkdir(parents=True, exist_ok=True)
    servers.rename(target)
    assert "sandboxed, network: docs.example.org" in agentcli("mcp", "list", home=home).out
    write_servers(home, ["*"]).rename(target)
    said = agentcli("mcp", "list", home=home)
    assert "network: " in said.out + said.err
    assert "wildcard" in said.out + said.err
