"""The official TypeScript SDK drives a session."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.mcp_install import find_acp_sdk
from tests.support.processes import running, unique_seconds
from tests.support.program import PROGRAM, environment, script

CLIENT = Path(__file__).parents[1] / "support/acp_client.mjs"


def test_typescript_sdk_drives_a_session(tmp_path: Path) -> None:
    if shutil.which("node") is None:
        pytest.skip("node is not installed")
    package = find_acp_sdk()
    described = json.loads((package / "package.json").read_text())
    sdk = package / str(described.get("main", "dist/index.js"))
    work, home = tmp_path / "work", tmp_path / "home"
    work.mkdir()
    home.mkdir()
    (work / "a.py").write_text("x = 1\n")
    (work / ".claude/commands").mkdir(parents=True)
    (work / ".claude/commands/fix.md").write_text("Fix it.\n")
    edit = {"edit_file": {"path": "a.py", "old_text": "x = 1", "new_text": "x = 2"}}
    sleeping = f"sleep {unique_seconds()}"
    replies = [
        "1. Change x\n2. Test it",
        {"calls": [edit]},
        "[x] 1\n\nDone.",
        {"calls": [{"bash": {"command": sleeping}}]},
        "Again.",
    ]
    model = script(tmp_path / "s.json", replies)
    ran = subprocess.run(
        ["node", str(CLIENT), str(sdk), str(PROGRAM), model, str(work)],
        env=environment(home),
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert ran.returncode == 0, ran.stderr
    found = json.loads(ran.stdout)
    assert found["stops"] == ["end_turn", "end_turn", "cancelled", "end_turn"]
    assert (found["options"], found["listed"]) == (["model", "effort"], [True])
    assert found["isForked"]
    assert found["plans"][:3] == [
        ["pending", "pending"],
        ["in_progress", "pending"],
        ["completed", "in_progress"],
    ]
    assert found["saved"] == [(work / "a.py").read_text()] == ["x = 2\n# unsaved\n"]
    assert running(sleeping) == []
    wanted = {"asked", "tool_call", "agent_message_chunk", "current_mode_update"}
    assert wanted | {"config_option_update", "plan"} <= set(found["updates"])
