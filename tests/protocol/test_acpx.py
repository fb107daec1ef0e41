"""A client that nobody here wrote: acpx from npm."""

import asyncio
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.support.mcp_install import installed
from tests.support.processes import running, unique_seconds, until
from tests.support.program import PROGRAM, environment, script


class Client:
    """With a session in a project, driven by one command after the other."""

    def __init__(self, tmp_path: Path, replies: list[Any], *options: str) -> None:
        self.home, self.work = tmp_path / "home", tmp_path / "work"
        self.home.mkdir()
        self.work.mkdir()
        (self.work / "a.py").write_text("x = 1\n")
        model = script(tmp_path / "s.json", replies)
        agent = " ".join([str(PROGRAM), "acp", "--model", model, *options])
        # What it leaves waiting for the next command ends by itself.
        self._start = [installed("acpx"), "--ttl", "1", "--agent", agent]

    def begin(self, *words: str) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [*self._start, *words],
            cwd=self.work,
            env=environment(self.home),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(self, *words: str) -> str:
        with self.begin(*words) as client:
            out, _ = client.communicate(timeout=60)
        return out


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        ("--approve-all", "x = 2\n"),
        pytest.param("--deny-all", "x = 1\n", marks=pytest.mark.soak),
    ],
)
def test_acpx_drives_a_session(answer: str, text: str, tmp_path: Path) -> None:
    edit = {"path": "a.py", "old_text": "x = 1", "new_text": "x = 2"}
    replies = [
        {"text": "Let me look.", "calls": [{"read_file": {"path": "a.py"}}]},
        {"calls": [{"edit_file": edit}]},
        "That is all.",
    ]
    client = Client(tmp_path, replies)
    out = client.run(answer, "exec", "change it")
    assert "Let me look." in out
    assert "read_file: a.py (completed)" in out
    assert out.rstrip().endswith("[done] end_turn")
    assert (client.work / "a.py").read_text() == text


@pytest.mark.soak
def test_acpx_cancels_a_command(tmp_path: Path) -> None:
    sleeping = f"sleep {unique_seconds()}"
    client = Client(tmp_path, [{"calls": [{"bash": {"command": sleeping}}]}, "Never."])
    client.run("sessions", "new")
    assert client.run("set-mode", "auto").strip() == "mode set: auto"
    with client.begin("--approve-all", "prompt", "wait") as prompt:
        asyncio.run(until(lambda: running(sleeping)))
        client.run("cancel")
        out, _ = prompt.communicate(timeout=60)
    assert out.rstrip().endswith("[done] cancelled")
    assert running(sleeping) == []


def test_acpx_gets_a_plan(tmp_path: Path) -> None:
    client = Client(tmp_path, ["1. Change x\n2. Test it"], "--mode", "plan")
    lines = client.run("--format", "json", "exec", "plan it").splitlines()
    said = [json.loads(line).get("params", {}).get("update", {}) for line in lines]
    (plan,) = [update for update in said if update.get("sessionUpdate") == "plan"]
    assert [one["status"] for one in plan["entries"]] == ["pending", "pending"]


@pytest.mark.soak
def test_acpx_loads_a_session_whose_agent_has_ended(tmp_path: Path) -> None:
    client = Client(tmp_path, ["One."])
    client.run("sessions", "new")
    said = client.run("prompt", "one")  # by an agent of its own
    assert "session/load" in said
    assert "One." in said
    (log,) = client.home.glob(".local/state/agentcli/sessions/*/log.jsonl")
    assert "session_resumed" in log.read_text()
