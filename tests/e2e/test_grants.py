import json
import shutil
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from agentcli.sandbox.choose import SandboxScope, choose_sandbox
from agentcli.types.errors import SettingsError
from tests.support.confined import LAYERS, confined
from tests.support.granted import skip_without_hosts
from tests.support.program import agentcli, script
from tests.support.serving import serve


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


PROBE = """
curl -s --max-time 20 http://localhost:{port}/ | grep -q reached && echo hosts
: > {write}/file && echo writable
: < {read}/file && echo readable
: < {secret} && echo outside
true
"""
SPACES = {"network": "hosts", "writable": "writable", "readable": "readable", "outside": "outside"}


class _Reached(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"reached")

    def log_message(self, format: str, *arguments: object) -> None:
        """Say nothing."""


@pytest.mark.parametrize("layer", LAYERS)
def test_rules_explanation_log_and_kernel_agree_in_every_combination(
    layer: str, home: Path, workspace: Path, tmp_path: Path
) -> None:
    if shutil.which("curl") is None:
        pytest.skip("not installed: curl")
    skip_without_hosts(layer, tmp_path / "probe")
    write, read, secret = (tmp_path / name for name in ("write", "read", "secret"))
    for directory in (write, read):
        directory.mkdir()
        (directory / "file").touch()
    secret.touch()
    rules = home / ".config/agentcli/rules.toml"
    rules.parent.mkdir(parents=True)
    with serve(ThreadingHTTPServer(("127.0.0.1", 0), _Reached)) as server:
        port = server.server_address[1]
        paths = {"write": write, "read": read, "secret": secret}
        (workspace / "probe.sh").write_text(PROBE.format(port=port, **paths))
        lines = {
            "network": f'network = ["localhost:{port}"]',
            "writable": f'writable = ["{write}"]',
            "readable": f'readable = ["{read}"]',
            "outside": "outside = true",
        }
        kinds = [kind for kind in lines if kind != "outside"]
        chosen = [names for count in range(4) for names in combinations(kinds, count)]
        chosen.append(("outside",))
        commands = [f"bash probe.sh {number}" for number in range(len(chosen))]
        rules.write_text(
            "".join(
                f'[[rule]]\ndecision = "allow"\nrule = "bash({command})"\n'
                + "".join(f"{lines[name]}\n" for name in names)
                for command, names in zip(commands, chosen, strict=True)
            )
        )
        # Each is a start of the program: nothing, all three kinds, and no sandbox.
        some = (0, len(chosen) - 2, len(chosen) - 1)
        explained = {at: explain(home, workspace, commands[at], layer) for at in some}
        model = script(
            home / "s.json", [*({"calls": [{"bash": {"command": one}}]} for one in commands), "ok"]
        )
        agentcli("run", "-C", workspace, "--sandbox", layer, "--model", model, "x", home=home)
    logged = [list_given(one["verdict"].get("grants", {})) for one in facts(home, "call_judged")]
    results = [one["result"]["content"][0]["text"] for one in facts(home, "call_finished")]
    for at, (names, given, text) in enumerate(zip(chosen, logged, results, strict=True)):
        expected = {SPACES[name] for name in names}
        reached = set(text.split("\n")) & set(SPACES.values())
        assert given == explained.get(at, given) == expected
        assert reached == (set(SPACES.values()) if "outside" in names else expected)


def explain(home: Path, workspace: Path, command: str, layer: str) -> set[str]:
    """Return the kinds of grants that a command would get."""
    options = ("-C", workspace, "--sandbox", layer, "-o", "json")
    ran = agentcli("policy", "explain", *options, f"bash: {command}", home=home)
    return list_given(json.loads(ran.out)["sandbox"])


def list_given(grants: Mapping[str, Any]) -> set[str]:
    return {kind for kind in SPACES.values() if grants.get(kind)}
