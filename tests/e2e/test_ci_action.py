"""action.yml and the GitLab template, each step run by a shell as a runner would."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support import anthropic_streams as anthropic
from tests.support.program import environment, script, write_fork_command
from tests.support.provider import Provider

ROOT = Path(__file__).parents[2]
ACTION = yaml.safe_load((ROOT / "action.yml").read_text())
TEMPLATE = (ROOT / "docs/templates/gitlab/agentcli.yml").read_text()
EDIT = [{"calls": [{"write_file": {"path": "made.txt", "content": "made\n"}}]}, "Made.", "Made."]
FAKE_PYTHON = """#!/bin/sh
# Stands for a Python: makes an environment whose pip installs nothing, and whose agentcli is ours.
if [ "$1" = -c ]; then exec {python} "$@"; fi
mkdir -p "$3/bin"
printf '#!/bin/sh\\nprintf "%%s\\\\n" "$@" > {log}\\n' > "$3/bin/pip"
printf '#!/bin/sh\\nexec {command} "$@"\\n' > "$3/bin/agentcli"
chmod +x "$3/bin/pip" "$3/bin/agentcli"
"""


@dataclass
class Runner:
    """A runner of composite actions, as far as action.yml needs one."""

    home: Path
    workspace: Path
    limit_s: float = 110.0
    outputs: dict[str, dict[str, str]] = field(default_factory=dict)
    printed: str = ""

    def run(self, inputs: Mapping[str, str], **env: str) -> int:
        """Run all steps until one fails, and return the exit code of the last."""
        values = {name: str(one.get("default", "")) for name, one in ACTION["inputs"].items()}
        values |= {"python": str(self._write_python()), **inputs}
        code = 0
        for step in ACTION["runs"]["steps"]:
            code = self._run_step(step, values, env)
            if code:
                break
        return code

    def read_output(self, name: str) -> str:
        return self._expand(ACTION["outputs"][name]["value"], {})

    @property
    def installed(self) -> list[str]:
        return (self.home / "pip.log").read_text().splitlines()

    def _run_step(self, step: dict[str, Any], values: dict[str, str], env: dict[str, str]) -> int:
        assert step["shell"] == "bash" and "${{" not in step["run"], "inputs are variables only"
        output = self.home / "output"
        output.write_text("")
        file = self.home / "step.sh"
        file.write_text(step["run"])
        given = {name: self._expand(value, values) for name, value in step["env"].items()}
        ran = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", file],
            cwd=self.workspace,
            env=environment(
                self.home,
                CI="true",
                GITHUB_ACTIONS="true",
                GITHUB_ACTION_PATH=str(ROOT),
                GITHUB_OUTPUT=str(output),
                GITHUB_STEP_SUMMARY=str(self.home / "summary.md"),
                RUNNER_TEMP=str(self.home),
                **{**env, **given},
            ),
            capture_output=True,
            text=True,
            timeout=self.limit_s,
        )
        self.printed += ran.stdout + ran.stderr
        if "id" in step:
            self.outputs[step["id"]] = _parse_outputs(output.read_text())
        return ran.returncode

    def _expand(self, text: str, values: Mapping[str, str]) -> str:
        def find(found: re.Match[str]) -> str:
            kind, *names = found[1].split(".")
            if kind == "inputs":
                return values[names[0]]
            return self.outputs[names[0]].get(names[2], "")

        return re.sub(r"\$\{\{ (.*?) \}\}", find, text)

    def _write_python(self) -> Path:
        path = self.home / "python"
        log, command = self.home / "pip.log", write_fork_command()
        path.write_text(FAKE_PYTHON.format(python=sys.executable, log=log, command=command))
        path.chmod(0o755)
        return path


def _parse_outputs(text: str) -> dict[str, str]:
    """Parse `name=value`, and `name<<END` with the lines until END, as the runner does."""
    blocks = re.findall(r"^([\w-]+)<<(.+)\n((?:.*\n)*?)\2$", text, re.MULTILINE)
    singles = re.findall(r"^([\w-]+)=(.*)$", text, re.MULTILINE)
    return {**dict(singles), **{name: value.rstrip("\n") for name, _, value in blocks}}


@pytest.fixture
def runner(home: Path, workspace: Path) -> Runner:
    return Runner(home=home, workspace=workspace)


def test_action_runs_a_task_and_hands_its_results_on(runner: Runner) -> None:
    code = runner.run(
        {
            "prompt": "make it; $(touch hacked) `touch hacked` \"' \n::error::x",
            "model": script(runner.home / "s.json", EDIT),
            "mode": "auto-edit",
            "allow": "bash(ls:*)\n\nedit(docs/**)\n",
            "report": "junit",
            "extras": "mcp,images",
        }
    )
    assert code == 0, runner.printed
    names = ("status", "exit-code", "changed", "answer")
    assert [runner.read_output(name) for name in names] == ["ok", "0", "true", "Made."]
    files = Path(runner.read_output("files"))
    assert {"patch.diff", "answer.md", "log.jsonl", "junit.xml"} <= {
        path.name for path in files.iterdir()
    }
    settings = json.loads((files / "settings.json").read_text())
    assert "edit(docs/**)" in json.dumps(settings)
    assert [path.name for path in runner.workspace.iterdir()] == ["made.txt"]
    commit = f"{ROOT}[mcp,images]"
    assert runner.installed[-1] == commit, "installed from the commit of the action"


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_action_installs_itself_with_a_real_pip(home: Path, workspace: Path) -> None:
    runner = Runner(home=home, workspace=workspace, limit_s=800.0)
    registry = ("PIP_", "SSL_", "REQUESTS_")
    env = {name: value for name, value in os.environ.items() if name.startswith(registry)}
    made = anthropic.call("c1", "write_file", {"path": "made.txt", "content": "made\n"})
    replies = [anthropic.calls(made), *[anthropic.says("Made.")] * 2]
    inputs = {"prompt": "make it", "model": "opus", "mode": "auto-edit", "python": sys.executable}
    with Provider(replies) as provider:
        env |= {"ANTHROPIC_BASE_URL": provider.base_url, "ANTHROPIC_API_KEY": "sk-test-0123456"}
        assert runner.run(inputs, **env) == 0, runner.printed
    assert runner.read_output("answer") == "Made."
    assert (runner.workspace / "made.txt").read_text() == "made\n"
    assert (runner.home / "agentcli-venv/bin/agentcli").is_file()


def test_action_fails_as_the_run_does(runner: Runner) -> None:
    inputs = {"prompt": "make it", "model": script(runner.home / "s.json", EDIT)}
    assert runner.run(inputs) == 5
    assert runner.installed[-1] == str(ROOT)
    assert (runner.read_output("status"), runner.read_output("exit-code")) == ("denied", "5")


def test_action_names_a_python_that_is_too_old(runner: Runner) -> None:
    old = runner.home / "old"
    old.write_text("#!/bin/sh\nexit 1\n")
    old.chmod(0o755)
    assert runner.run({"prompt": "x", "python": str(old)}) == 1
    assert "::error::agentcli needs Python 3.11 or newer" in runner.printed


def test_action_uses_nothing_that_is_not_pinned() -> None:
    used = [step["uses"] for step in ACTION["runs"]["steps"] if "uses" in step]
    assert [one for one in used if not re.search(r"@[0-9a-f]{40}$", one)] == []


def test_gitlab_template_runs_a_task(home: Path, workspace: Path) -> None:
    head, body = TEMPLATE.split("\n---\n")
    declared = yaml.safe_load(head)["spec"]["inputs"]
    inputs = {
        **{name: str(one.get("default", "")) for name, one in declared.items()},
        "prompt": "make it; $(touch hacked)",
        "source": f"git+https://example.org/group/agentcli@{'a' * 40}",
        "model": script(home / "s.json", EDIT),
        "mode": "auto-edit",
        "allow": "bash(ls:*)\\nedit(docs/**)",
    }
    assert re.fullmatch(declared["source"]["regex"], inputs["source"])
    assert re.fullmatch(declared["source"]["regex"], f"agentcli[mcp] @ {inputs['source']}")
    for unpinned in ("agentcli", "agentcli[mcp]", f"evil @ {inputs['source']}"):
        assert not re.fullmatch(declared["source"]["regex"], unpinned)
    filled = re.sub(r"\$\[\[ inputs\.([\w-]+) \]\]", lambda found: inputs[found[1]], body)
    (job,) = yaml.safe_load(filled).values()
    assert not any(variable["expand"] for variable in job["variables"].values())
    fake = Runner(home=home, workspace=workspace)._write_python()
    (home / "bin").mkdir()
    (home / "bin/python3").symlink_to(fake)
    variables = {name: one["value"] for name, one in job["variables"].items()}
    environ = environment(home, CI="true", GITLAB_CI="true", **variables)
    environ["PATH"] = f"{home / 'bin'}:{environ['PATH']}"
    ran = subprocess.run(
        ["sh", "-e", "-c", "\n".join(job["script"])],
        cwd=workspace,
        env=environ,
        capture_output=True,
        text=True,
        timeout=110,
    )
    assert ran.returncode == 0, ran.stderr
    assert (home / "pip.log").read_text().splitlines()[-1] == inputs["source"]
    assert (workspace / "made.txt").exists() and not (workspace / "hacked").exists()
    assert (workspace / "agentcli-out/junit.xml").exists()
