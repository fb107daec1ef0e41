import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.support.program import PROGRAM, agentcli, environment

ROOT = Path(__file__).parents[2]


def test_demo_fixes_the_sample_and_says_that_the_model_is_a_recording(tmp_path: Path) -> None:
    for _ in range(2):
        ran = agentcli("demo", home=tmp_path)
        assert ran.code == 0, ran.err
        assert "Demo: the model's replies are recorded" in ran.err
        assert "-        total = int(number) * UNITS[unit]" in ran.err
        assert "+        total += int(number) * UNITS[unit]" in ran.err
        outcomes = [line for line in ran.err.splitlines() if "bash python3" in line]
        assert ["exit 1" in outcomes[0], "exit 0" in outcomes[1]] == [True, True]
        assert "both tests of the suite are green" in " ".join(ran.out.split())


def test_demo_leaves_nothing_behind(tmp_path: Path) -> None:
    scratch, home = tmp_path / "scratch", tmp_path / "home"
    scratch.mkdir()
    home.mkdir()
    agentcli("demo", home=home, env={"TMPDIR": str(scratch)})
    assert [*scratch.iterdir(), *home.iterdir()] == []


NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]


def test_demo_works_for_a_user_without_a_home() -> None:
    if os.geteuid() != 0 or shutil.which("setpriv") is None:
        pytest.skip("only root, with setpriv, can become another user")
    if subprocess.run([*NOBODY, sys.executable, "-c", ""], capture_output=True).returncode != 0:
        pytest.skip("the interpreter is in a directory that other users cannot enter")
    ran = subprocess.run(
        [*NOBODY, PROGRAM, "demo"],
        cwd="/",
        env=environment(Path("/nonexistent")),
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stderr


def test_wheel_holds_what_the_demo_and_the_tools_need(tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", tmp_path, ROOT],
        check=True,
        capture_output=True,
    )
    (wheel,) = tmp_path.glob("agentcli-*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {
        "agentcli/features/demo/script.yaml",
        "agentcli/features/demo/project/durations.py",
        "agentcli/features/demo/project/test_durations.py",
        "agentcli/agent/prompt.md",
        "agentcli/tools/contracts.json",
    } <= names
