"""A client that nobody here wrote, where it is installed: `npm install -g acpx`."""

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.program import PROGRAM, environment, script

ACPX = shutil.which("acpx")


@pytest.mark.skipif(ACPX is None, reason="the npm package acpx is not on the PATH")
@pytest.mark.parametrize(
    ("answer", "text"), [("--approve-all", "x = 2\n"), ("--deny-all", "x = 1\n")]
)
def test_acpx_drives_a_session(answer: str, text: str, tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (work / "a.py").write_text("x = 1\n")
    edit = {"path": "a.py", "old_text": "x = 1", "new_text": "x = 2"}
    replies = [
        {"text": "Let me look.", "calls": [{"read_file": {"path": "a.py"}}]},
        {"calls": [{"edit_file": edit}]},
        "That is all.",
    ]
    model = script(tmp_path / "s.json", replies)
    ran = subprocess.run(
        [str(ACPX), "--agent", f"{PROGRAM} acp --model {model}", answer, "exec", "change it"],
        cwd=work,
        env=environment(tmp_path),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert "Let me look." in ran.stdout
    assert "read_file: a.py (completed)" in ran.stdout
    assert ran.stdout.rstrip().endswith("[done] end_turn")
    assert (work / "a.py").read_text() == text
