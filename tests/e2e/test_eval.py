"""`agentcli eval`: suites that are right, wrong and hostile, and the one that comes along."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from agentcli.features.eval.suite import SHIPPED, FileSet, SuiteTask, read_suite, write_files
from agentcli.log.lock import SessionLock
from tests.support.program import Ran, agentcli, script, session_log

BASICS = {path.stem: path for path in sorted((SHIPPED / "basics").glob("*.toml"))}


# The suite that comes with the program: each check accepts the solution, and nothing else


def run_check(task: SuiteTask, files: FileSet, directory: Path) -> int:
    write_files(task.tree, directory / "work")
    write_files(files, directory / "work")
    write_files(task.hidden, directory / "hidden")
    command = f"export CHECK='{directory}/hidden'\n{task.check}"
    work = directory / "work"
    return subprocess.run(["sh", "-c", command], cwd=work, capture_output=True).returncode


@pytest.mark.parametrize("name", BASICS)
def test_check_accepts_the_solution_and_refuses_the_wrong_one(name: str, tmp_path: Path) -> None:
    suite = read_suite(SHIPPED / "basics", only=[name])
    if name in suite.skipped:
        pytest.skip(suite.skipped[name])
    (task,) = suite.tasks
    assert run_check(task, task.solution, tmp_path / "solution") == 0
    assert run_check(task, task.wrong, tmp_path / "wrong") not in (0, 126, 127)
    assert run_check(task, {}, tmp_path / "nothing") != 0


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_scripted_oracle_solves_all_and_a_scripted_wrong_one_nothing(tmp_path: Path) -> None:
    for files, share in (("solution", 1.0), ("wrong", 0.0)):
        ran = agentcli("eval", "basics", "--play", files, "--out", files, home=tmp_path)
        assert ran.code == 0, ran.err
        report = json.loads((tmp_path / files / "eval.json").read_text())
        assert report["summary"]["pass_at_1"] == share
        assert report["summary"]["tasks"] + len(report["skipped"]) == 30


# Suites that somebody else wrote


RIGHT = """
prompt = "write yes to a.txt"
check = 'grep -q yes a.txt && grep -q secret "$CHECK/wanted"'
language = "text"
[tree]
"b.txt" = "begin"
[hidden]
"wanted" = "secret"
[solution]
"a.txt" = "yes"
[wrong]
"a.txt" = "no"
"""
SUITE = {
    "right": RIGHT,
    "prepared": RIGHT.replace("grep -q yes", "test -f made && grep -q yes").replace(
        "[tree]", 'setup = "touch made"\n[tree]', 1
    ),
    "hangs": RIGHT.replace("check = '", "check_timeout_s = 0.5\ncheck = 'sleep 600; "),
    "unstartable": RIGHT.replace("check = 'grep -q yes a.txt", "check = 'no-such-program"),
    "unprepared": RIGHT.replace("[tree]", 'setup = "exit 3"\n[tree]', 1),
    "lacking": RIGHT.replace('language = "text"', 'needs = ["no-such-program"]'),
    "invalid": "prompt = 7",
    "missing": RIGHT.replace('[tree]\n"b.txt" = "begin"', "").replace(
        "language", 'tree = "nowhere"\nlanguage'
    ),
}


KEY = "ghp_" + "a1B2" * 9
INCOMPLETE = {"hidden": RIGHT.replace('"a.txt" = "yes"', f'"a.txt" = "yes {KEY}"')}


FILLS = "while :; do head -c 3000000 /dev/zero >> big; sleep 0.05; done"
FILLING = {
    "fills": RIGHT.replace("check = 'grep -q yes a.txt", f"check = '{FILLS}"),
    "fills-first": RIGHT.replace("[tree]", f'setup = "{FILLS}"\n[tree]', 1),
}


class Ground:
    def __init__(self, tmp_path: Path) -> None:
        self.home, self.suite = tmp_path / "home", tmp_path / "suite"
        self.home.mkdir()
        self.suite.mkdir()

    def write(self, *names: str) -> None:
        for name in names:
            (self.suite / f"{name}.toml").write_text({**SUITE, **FILLING, **INCOMPLETE}[name])

    def run(self, *options: str, out: str = "out", sandbox: str = "off", **env: str) -> Ran:
        words = ("eval", self.suite, "--out", out, "--sandbox", sandbox)
        return agentcli(*words, *options, home=self.home, env=env)

    def report(self, out: str = "out") -> dict[str, Any]:
        report: dict[str, Any] = json.loads((self.home / out / "eval.json").read_text())
        return report


@pytest.fixture
def ground(tmp_path: Path) -> Ground:
    return Ground(tmp_path)


def failures(report: dict[str, Any]) -> dict[str, str | None]:
    return {task["id"]: task["attempts"][0]["failure"] for task in report["tasks"]}


def test_what_is_wrong_with_a_task_is_named_and_the_rest_goes_on(ground: Ground) -> None:
    ground.write(*SUITE)
    ran = ground.run("--play", "solution")
    assert ran.code == 2
    assert "error: invalid task missing: " in ran.err
    assert "error: invalid task invalid: prompt: Input should be a valid string\n" in ran.err
    assert "skipped lacking: needs no-such-program, which is not installed\n" in ran.err
    report = ground.report()
    assert failures(report) == {
        "hangs": "check timed out",
        "prepared": None,
        "right": None,
        "unprepared": "setup failed",
        "unstartable": "check did not start",
    }
    assert report["summary"]["pass_at_1"] == pytest.approx(2 / 5)
    page = (ground.home / "out/report.html").read_text()
    assert "no result after 0.5 s" in page
    assert "<script" not in page


@pytest.mark.layer("landlock")
def test_commands_that_fill_the_disk_are_stopped_and_the_rest_goes_on(ground: Ground) -> None:
    ground.write("fills", "fills-first", "right")
    limit = {"AGENTCLI_COMMAND_DISK": "20M"}
    assert ground.run("--play", "solution", sandbox="landlock", **limit).code == 0
    report = ground.report()
    assert failures(report) == {
        "fills": "check was stopped",
        "fills-first": "setup failed",
        "right": None,
    }
    page = (ground.home / "out/report.html").read_text()
    assert page.count("The limit is the setting command_disk.") == 2
    assert not list(ground.home.rglob("big"))


def test_output_that_cannot_be_written_is_named(ground: Ground) -> None:
    ground.write("right")
    assert ground.run("--play", "solution").code == 0
    shutil.rmtree(ground.home / "out/attempts")
    (ground.home / "out/attempts").write_text("")
    ran = ground.run("--play", "solution")
    assert (ran.code, "error: cannot write " in ran.err) == (3, True), ran.err


def test_copy_of_an_attempt_is_kept_if_its_patch_is_incomplete(ground: Ground) -> None:
    ground.write("right", "hidden")
    ran = ground.run("--play", "solution")
    assert ran.code == 0, ran.err
    whole, incomplete = (
        Path(json.loads((ground.home / f"out/batch/tasks/{name}.1/done.json").read_text())["tree"])
        for name in ("right", "hidden")
    )
    assert f"its directory is kept: {incomplete}\n" in ran.err
    assert not whole.exists()
    assert KEY in (incomplete / "a.txt").read_text()


def test_attempts_are_not_made_twice_and_two_runs_are_compared(ground: Ground) -> None:
    ground.write("right")
    assert ground.run("--play", "wrong", "--repeat", "2", out="before").code == 0
    first = ground.report("before")
    assert [one["failure"] for one in first["tasks"][0]["attempts"]] == ["wrong", "wrong"]
    again = ground.run("--play", "wrong", "--repeat", "2", out="before")
    assert "2 of 2 tasks are already done" in again.err
    assert ground.report("before")["tasks"] == first["tasks"]
    ran = ground.run("--play", "solution", "--baseline", "before")
    assert "pass@1 0.0% before, 100.0% now on 1 task: 1 better, 0 worse, p = 1" in ran.out
    assert ground.report()["comparison"]["better"] == ["right"]
    checks = list((ground.home / ".local/state/agentcli/sessions").iterdir())
    assert len(checks) == 3, "the checks are no sessions of the user"


def test_task_without_its_setup_fails_as_often_as_the_others_are_tried(ground: Ground) -> None:
    ground.write("right", "unprepared")
    binary = ground.suite / "binary"
    binary.mkdir()
    (binary / "a.bin").write_bytes(b"\xff")
    played = RIGHT.replace('[solution]\n"a.txt" = "yes"\n', "")
    (ground.suite / "unplayable.toml").write_text(f'solution = "binary"\n{played}')
    ran = ground.run("--play", "solution", "--repeat", "2")
    assert ran.code == 0, ran.err
    report = ground.report()
    assert failures(report) == {
        "right": None,
        "unplayable": "setup failed",
        "unprepared": "setup failed",
    }
    assert report["summary"]["attempts"] == 6
    assert list(report["summary"]["pass_power_k"]) == ["1", "2"]
    assert report["summary"]["cost_usd"] == 0


def test_model_cannot_read_a_suite_whatever_its_path(ground: Ground, tmp_path: Path) -> None:
    ground.suite = tmp_path / "a[b]*"
    ground.suite.mkdir()
    ground.write("right")
    peek: list[Any] = [{"calls": [{"bash": {"command": f"cat '{ground.suite}/right.toml'"}}]}, "."]
    ran = ground.run("--model", script(tmp_path / "script.json", peek))
    assert ran.code == 0, ran.err
    assert "a[[]b][*]/**) (--deny) forbids it" in session_log(ground.home).read_text()
    ran = ground.run("--play", "solution", out="a{b}")
    assert (ran.code, "has a brace or a backslash" in ran.err) == (2, True)


def test_results_of_another_version_are_refused_by_name(ground: Ground) -> None:
    ground.write("right")
    for text, message in (
        ('{"v": 99, "agentcli": "9.0", "tasks": []}', "was written by agentcli 9.0"),
        ("[]", "is not the result of an evaluation"),
        ('{"v": 1, "tasks": [{"id": "a"}]}', "is not the result of an evaluation"),
        ('{"v": 1}', "is not the result of an evaluation (no 'tasks')"),
        ("[" * 9_999, "is not the result of an evaluation (Invalid JSON: recursion limit"),
    ):
        (ground.home / "old.json").write_text(text)
        ran = ground.run("--baseline", "old.json")
        assert (ran.code, message in ran.err) == (2, True), ran.err
    assert ground.run("--baseline", "none").code == 2
    assert ground.run("--play", "both").code == 2


def test_two_evaluations_do_not_write_to_one_place(ground: Ground) -> None:
    ground.write("right")
    (ground.home / "out").mkdir()
    lock = SessionLock(ground.home / "out")
    try:
        ran = ground.run("--play", "solution")
    finally:
        lock.release()
    assert (ran.code, "another evaluation is writing to" in ran.err) == (3, True)


def test_task_can_begin_with_a_commit_without_its_history(ground: Ground, tmp_path: Path) -> None:
    repository = tmp_path / "repository"
    repository.mkdir()
    (repository / "old.txt").write_text("old\n")
    identity = ("-c", "user.name=a", "-c", "user.email=a@b")
    for words in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "one"]):
        subprocess.run(["git", *identity, *words], cwd=repository, check=True)
    (repository / "old.txt").write_text("changed since\n")
    check = "check = 'test ! -e .git && grep -qx old old.txt && "
    text = RIGHT.replace("check = '", check).replace(
        "[tree]", 'repository = "../repository"\n[tree]'
    )
    (ground.suite / "one.toml").write_text(text)
    assert ground.run("--play", "solution").code == 0
    assert failures(ground.report()) == {"one": None}
