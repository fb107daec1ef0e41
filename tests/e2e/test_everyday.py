import json
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.confined import LAYERS
from tests.support.program import agentcli, script
from tests.support.registries import CODE, NPM, PACKAGES, Registries


@dataclass(frozen=True, slots=True)
class Work:
    """A command of every day that needs a host, and what it shows when it has worked."""

    program: str
    host: str
    command: str
    shows: str


FETCH = f"curl -sS --max-time 20 http://{PACKAGES}/simple/hello-agent/"
PIP = (
    "pip3 install -q --disable-pip-version-check --retries 0 --target lib"
    f" --index-url http://{PACKAGES}/simple --trusted-host {PACKAGES} hello-agent"
)
UV = f"uv pip install -q --target lib --default-index http://{PACKAGES}/simple hello-agent"
NODE = f"npm install --no-audit --no-fund --fetch-retries 0 --registry http://{NPM} hello-agent"
EVERY_DAY = (
    Work("curl", PACKAGES, FETCH, "hello_agent-1.0"),
    Work("pip3", PACKAGES, f"{PIP}; cat lib/hello_agent.py", 'WORD = "installed"'),
    Work("uv", PACKAGES, f"{UV} && cat lib/hello_agent.py", 'WORD = "installed"'),
    Work("npm", NPM, f"{NODE} && cat node_modules/hello-agent/index.js", 'exports = "installed"'),
    Work("git", CODE, f"git clone -q http://{CODE}/demo.git copy && cat copy/a.txt", "first line"),
)


def run_in(
    layer: str, work: Work, *options: str, home: Path, workspace: Path, registries: Registries
) -> None:
    if shutil.which(work.program) is None:
        pytest.skip(f"not installed: {work.program}")
    model = script(
        home / "script.json", [{"calls": [{"bash": {"command": work.command}}]}, "Done."]
    )
    agentcli(
        *("run", "-C", workspace, "--sandbox", layer, "--mode", "auto"),
        *("--model", model, *options, "x"),
        home=home,
        env=registries.environment,
    )


def read_result(home: Path) -> str:
    """Return what the model was told in the latest session."""
    logs = home.glob(".local/state/agentcli/sessions/*/log.jsonl")
    log = max(logs, key=lambda path: path.stat().st_mtime_ns)
    facts = [json.loads(line)["fact"] for line in log.read_text().splitlines()]
    results = [fact["result"] for fact in facts if fact["type"] == "call_finished"]
    return "\n".join(block["text"] for one in results for block in one["content"])


@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize("work", EVERY_DAY, ids=[one.program for one in EVERY_DAY])
def test_command_that_needs_a_host_is_refused_with_the_way_to_it_and_works_with_it(
    work: Work, layer: str, home: Path, workspace: Path, registries: Registries
) -> None:
    run_in(layer, work, home=home, workspace=workspace, registries=registries)
    told = read_result(home)
    assert f"{work.host}:80 was refused" in told
    assert f"the user can permit it with --network {work.host}" in told
    assert not registries.was_asked(work.host)
    run_in(
        layer,
        work,
        *("--network", work.host),
        home=home,
        workspace=workspace,
        registries=registries,
    )
    assert work.shows in read_result(home)
