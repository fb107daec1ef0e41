import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from agentcli.sandbox.choose import SandboxScope, choose_sandbox
from agentcli.types.errors import SettingsError
from tests.support.confined import LAYERS, confined
from tests.support.program import agentcli, script


@pytest.fixture(autouse=True)
def _needs_sandbox(tmp_path: Path) -> None:
    try:
        choose_sandbox(SandboxScope(workspace=tmp_path, private=tmp_path)).close()
    except SettingsError as error:
        pytest.skip(str(error))


def run(home: Path, workspace: Path, call: Mapping[str, Any], *, options: tuple[str, ...]) -> None:
    model = script(home / "s.json", [{"calls": [{"bash": call}]}, "ok"])
    agentcli("run", "-C", workspace, "--model", model, *options, "x", home=home)


def read_log(home: Path) -> list[dict[str, Any]]:
    (log,) = home.rglob("log.jsonl")
    return [json.loads(line) for line in log.read_text().splitlines()]


def facts(home: Path, kind: str) -> list[dict[str, Any]]:
    return [fact for line in read_log(home) if (fact := line.get("fact", line)).get("type") == kind]


def test_run_with_options_gets_the_host_and_records_it(home: Path, workspace: Path) -> None:
    call = {"command": "touch made", "needs": ["network:packages.example.org", "reason:build"]}
    options = ("--allow", "bash(touch:*)", "--network", "packages.example.org")

    run(home, workspace, call, options=options)

    (judged,) = facts(home, "call_judged")
    assert judged["verdict"]["decision"] == "allow"
    assert judged["verdict"]["grants"]["hosts"] == ["packages.example.org"]
    assert (workspace / "made").exists()


def test_run_without_them_is_told_which_options(home: Path, workspace: Path) -> None:
    call = {"command": "touch made", "needs": ["network:packages.example.org"]}

    run(home, workspace, call, options=("--mode", "ask"))

    (judged,) = facts(home, "call_judged")
    assert (
        judged["verdict"]["remedy"] == "--allow 'bash(touch made)' --network packages.example.org"
    )
    assert not (workspace / "made").exists()


@pytest.mark.parametrize(
    "entry",
    ["network:*", "network:2130706433", "write:x", "credentials:aws", "network:a.example:0"],
)
def test_bad_request_is_refused_and_recorded(entry: str, home: Path, workspace: Path) -> None:
    run(home, workspace, {"command": "touch made", "needs": [entry]}, options=("--mode", "auto"))

    (finished,) = facts(home, "call_finished")
    assert finished["result"]["error"] == "invalid_input"
    assert "needs: " in finished["result"]["content"][0]["text"]
    assert not (workspace / "made").exists()


FAILURES = {
    "curl": ("curl -sS https://docs.example.org/", "network docs.example.org"),
    "git": ("git ls-remote https://docs.example.org/x.git", "network docs.example.org"),
    "touch": ("touch /usr/share/x", '"write:/usr/share"'),
    "ssh-add": ("ssh-add -l", '"credentials:ssh-agent"'),
    "docker": ("docker ps", '"outside"'),
}


@pytest.mark.parametrize("program", FAILURES)
def test_failure_for_want_of_a_grant_says_how_to_ask(
    program: str, home: Path, workspace: Path
) -> None:
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not installed")
    command, entry = FAILURES[program]

    run(home, workspace, {"command": command}, options=("--mode", "auto"))

    (finished,) = facts(home, "call_finished")
    text = finished["result"]["content"][0]["text"]
    # The proxy names the option; without one, the name of the host is not resolved.
    assert entry in text.replace("network:docs", "network docs"), text


LIMITS = 'command_processes = 30\ncommand_memory = "200MB"\ncommand_disk = "100MB"\n'
GREEDY = {
    "command_processes": "for i in $(seq 60); do sleep 60 & done; wait",
    "command_memory": "python3 -c 'x = bytearray(300_000_000); import time; time.sleep(60)'",
    "command_disk": "head -c 500M /dev/zero > big; sleep 60",
}


@pytest.mark.parametrize("layer", LAYERS)
def test_limit_of_a_setting_stops_a_command_and_is_named_in_its_result(
    layer: str, home: Path, workspace: Path, tmp_path: Path
) -> None:
    with confined(layer, tmp_path / "probe"):
        pass  # skipped if this layer does not work here
    settings = home / ".config/agentcli/settings.toml"
    settings.parent.mkdir(parents=True)
    settings.write_text(LIMITS)
    calls = [{"calls": [{"bash": {"command": line}}]} for line in GREEDY.values()]
    model = script(home / "s.json", [*calls, "ok"])
    options = ("--sandbox", layer, "--mode", "auto")
    agentcli("run", "-C", workspace, "--model", model, *options, "x", home=home)
    results = [one["result"]["content"][0]["text"] for one in facts(home, "call_finished")]
    for name, text in zip(GREEDY, results, strict=True):
        assert "[Stopped: " in text
        assert f"The limit is the setting {name}." in text
