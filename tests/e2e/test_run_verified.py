"""Checks that the run itself changed, and checks that it may not change."""

from pathlib import Path

import pytest

from agentcli.ui.tally import Tally
from tests.support.program import agentcli, script

CHANGES = {
    "the command's own script": ("check.sh", "sh check.sh"),
    "a test": ("tests/test_a.py", "true"),
    "a file beside the tests": ("conftest.py", "true"),
    "what a directory in the command holds": ("suite/deep/case.txt", "ls suite"),
}


@pytest.mark.parametrize("form", ["text", "json"])
@pytest.mark.parametrize("what", CHANGES)
def test_check_that_the_run_changed_is_named(
    what: str, form: str, home: Path, workspace: Path
) -> None:
    path, check = CHANGES[what]
    target = workspace / path
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text("exit 1\n")
    emptied = {"calls": [{"bash": {"command": f": > {path}; echo x > other.txt"}}]}
    model = script(home / "s.json", [emptied, "Done."])
    options = ("--mode", "auto", "--allow", "bash", "--verify", check, "-o", form)
    ran = agentcli("run", "--model", model, *options, "go", home=home, cwd=workspace)
    assert ran.code == 0, ran.err
    assert f"warning: this run changed files of its own check ({check}): {path}\n" in ran.err
    if form == "json":
        assert ran.events[-1]["verify"][0]["changed_files"] == [path]


def test_check_that_the_run_left_alone_is_not_named(home: Path, workspace: Path) -> None:
    edit = {"calls": [{"write_file": {"path": "src.py", "content": "x = 1\n"}}]}
    model = script(home / "s.json", [edit, "Done."])
    options = ("--mode", "auto", "--verify", "true", "-o", "json")
    ran = agentcli("run", "--model", model, *options, "go", home=home, cwd=workspace)
    assert ran.events[-1]["verify"][0]["changed_files"] == []
    assert "files of its own check" not in ran.err


def test_protected_tests_stay_whatever_changes_them(home: Path, workspace: Path) -> None:
    (workspace / "tests").mkdir()
    test = workspace / "tests" / "test_a.py"
    test.write_text("assert False\n")
    calls = [
        {"write_file": {"path": "tests/test_a.py", "content": ""}},
        {"write_file": {"path": "tests/conftest.py", "content": ""}},
        {"bash": {"command": "cp /dev/null tests/test_a.py; echo x > tests/new.py; true"}},
        {"bash": {"command": "python3 -c \"open('te' + 'sts/test_a.py', 'w')\"; mv tests gone"}},
    ]
    model = script(home / "s.json", [*({"calls": [call]} for call in calls), "Done."])
    options = ("--mode", "auto", "--allow", "bash", "--protect-tests", "tests/**")
    agentcli("run", "--model", model, *options, "go", home=home, cwd=workspace)
    assert test.read_text() == "assert False\n"
    assert [one.name for one in (workspace / "tests").iterdir()] == ["test_a.py"]


def test_output_directory_is_for_the_user_alone(home: Path, workspace: Path) -> None:
    model, out = script(home / "s.json", ["Done."]), home / "out"
    agentcli("run", "--model", model, "--output-dir", out, "go", home=home, cwd=workspace)
    assert out.stat().st_mode & 0o077 == 0
    files = [one for one in out.iterdir() if one.is_file()]
    assert files
    assert [one.name for one in files if one.stat().st_mode & 0o077] == []


@pytest.mark.parametrize(
    ("path", "command", "is_named"),
    [
        *[(path, "make check", True) for path in ("src/a.test.ts", "a_test.go", "x/FooTest.java")],
        *[(path, "make check", True) for path in ("Makefile", "spec/a.rb", "pyproject.toml")],
        *[(path, "make check", False) for path in ("src/latest.py", "contest.py", "protest/a.py")],
        ("tools/run.sh", "./tools/run.sh -q", True),
        ("tools/run.sh", "sh -c 'tools/run.sh'", True),
        ("src/a.py", "python src/b.py .", False),
    ],
)
def test_files_of_a_check(path: str, command: str, is_named: bool) -> None:
    tally = Tally()
    tally.changed[path] = (1, 1)
    assert bool(tally.list_changed_checks(command)) is is_named
