import os
import shutil
import subprocess
import sys
import zipfile
from importlib.util import find_spec
from pathlib import Path

import pytest

from agentcli.features.demo import player
from agentcli.types.errors import Exit
from tests.support.program import PROGRAM, agentcli, environment
from tests.support.repl import answer_question
from tests.support.terminal import PyteTerm

ROOT = Path(__file__).parents[2]


def test_demo_fixes_the_sample_and_says_that_the_model_is_a_recording(tmp_path: Path) -> None:
    for _ in range(2):
        ran = agentcli("demo", home=tmp_path)
        assert ran.code == 0, ran.err
        assert "Demo: the model's replies are recorded" in ran.err
        assert "-        total=$((number * unit))" in ran.err
        assert "+        total=$((total + number * unit))" in ran.err
        outcomes = [line for line in ran.err.splitlines() if "bash sh " in line]
        assert ["exit 1" in outcomes[0], "exit 0" in outcomes[1]] == [True, True]
        assert "all three checks are green" in " ".join(ran.out.split())


def test_demo_leaves_nothing_behind(tmp_path: Path) -> None:
    scratch, home = tmp_path / "scratch", tmp_path / "home"
    scratch.mkdir()
    home.mkdir()
    agentcli("demo", home=home, env={"TMPDIR": str(scratch)})
    assert [*scratch.iterdir(), *home.iterdir()] == []


def test_demo_needs_no_python_on_the_path(tmp_path: Path) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("sh", "bash", "bwrap", "git"):
        if found := shutil.which(name):
            (programs / name).symlink_to(found)
    ran = agentcli("demo", home=tmp_path, env={"PATH": str(programs)})
    assert ran.code == 0, ran.err
    assert "all three checks are green" in " ".join(ran.out.split())


def test_demo_claims_no_success_where_the_tests_fail(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    shipped = tmp_path / "demo"
    shutil.copytree(player.SHIPPED, shipped)
    (shipped / "project/test_durations.sh").write_text("exit 127\n")
    assert player.play_demo(shipped) is Exit.VERIFY_FAILED
    said = capfd.readouterr()
    assert "green" not in said.out
    assert "could not be run to their end here" in " ".join(said.out.split())
    assert "Next" not in said.err


def test_demo_on_a_terminal_is_a_session_with_one_approval(tmp_path: Path) -> None:
    term = PyteTerm(["demo"], home=tmp_path, cwd=tmp_path)
    try:
        term.wait("> fix the failing test")
        term.key("enter")
        answer_question(term, "y")
        term.wait("all three checks are green")
        assert not term.shows("[n] no")
        assert not term.shows("`")
        term.send("and now?")
        term.wait("This is a recording, and it ends here.")
        term.key("c-d")
        assert term.code() == 0
        assert term.shows("agentcli login")
        assert not term.shows("--resume")
        assert [*tmp_path.iterdir()] == []
    finally:
        term.close()


def test_demo_believes_a_user_who_says_no(tmp_path: Path) -> None:
    term = PyteTerm(["demo"], home=tmp_path, cwd=tmp_path)
    try:
        term.wait("> fix the failing test")
        term.key("enter")
        answer_question(term, "n")
        term.wait("The file was not changed, so the test still fails")
        assert not term.shows("green")
    finally:
        term.close()


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


@pytest.mark.skipif(find_spec("pip") is None, reason="pip is not in this environment")
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
        "agentcli/features/demo/project/durations.sh",
        "agentcli/features/demo/project/test_durations.sh",
        "agentcli/agent/prompt.md",
        "agentcli/tools/contracts.json",
    } <= names
