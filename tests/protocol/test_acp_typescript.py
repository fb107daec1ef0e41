"""The official TypeScript SDK, where it is: `npm install -g @agentclientprotocol/sdk`."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.program import PROGRAM, environment, script

CLIENT = Path(__file__).parents[1] / "support/acp_client.mjs"


def find_sdk() -> Path | None:
    """Return the main file of the SDK, in the global packages of npm."""
    npm, node = shutil.which("npm"), shutil.which("node")
    if npm is None or node is None:
        return None
    root = subprocess.run([npm, "root", "-g"], capture_output=True, text=True).stdout.strip()
    package = Path(root, "@agentclientprotocol/sdk")
    if not (package / "package.json").is_file():
        return None
    described = json.loads((package / "package.json").read_text())
    return package / str(described.get("main", "dist/index.js"))


def test_typescript_sdk_drives_a_session(tmp_path: Path) -> None:
    sdk = find_sdk()
    if sdk is None:
        pytest.skip("the npm package @agentclientprotocol/sdk is not installed")
    work, home = tmp_path / "work", tmp_path / "home"
    work.mkdir()
    home.mkdir()
    (work / "a.py").write_text("x = 1\n")
    (work / ".claude/commands").mkdir(parents=True)
    (work / ".claude/commands/fix.md").write_text("Fix it.\n")
    edit = {"edit_file": {"path": "a.py", "old_text": "x = 1", "new_text": "x = 2"}}
    model = script(tmp_path / "s.json", [{"calls": [edit]}, "Done."])
    ran = subprocess.run(
        ["node", str(CLIENT), str(sdk), str(PROGRAM), model, str(work)],
        env=environment(home),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert ran.returncode == 0, ran.stderr
    found = json.loads(ran.stdout)
    assert (found["stop"], found["options"], found["listed"]) == (
        "end_turn",
        ["model", "effort"],
        [True],
    )
    assert (work / "a.py").read_text() == "x = 2\n"
    wanted = {"asked", "tool_call", "agent_message_chunk", "current_mode_update"}
    assert wanted | {"available_commands_update", "config_option_update"} <= set(found["updates"])
