"""Checks that the run itself changed, and checks that it may not change."""

import json
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from agentcli.ui.tally import Tally
from tests.support.program import agentcli, script

pytestmark = pytest.mark.usefixtures("without_sandbox")

REFERENCE = Path(__file__).parents[2] / "docs/reference"
SCHEMA = json.loads((REFERENCE / "stream-json.schema.json").read_text())
CHANGES = {
    "the command's own script": ("check.sh", "sh check.sh", 1),
    "a test": ("tests/test_a.py", "test ! -s tests/test_a.py", 1),
    "a file beside the tests": ("conftest.py", "true", 0),
    "what a directory in the command holds": ("suite/deep/case.txt", "ls suite", 0),
}
ENDS = {0: "passes, too", 1: "fails (exit 1)"}


@pytest.mark.parametrize("form", ["text", "json"])
@pytest.mark.parametrize("what", CHANGES)
def test_check_that_the_run_changed_is_named(
    what: str, form: str, home: Path, workspace: Path
) -> None:
    path, check, base = CHANGES[what]
    target = workspace / path
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text("exit 1\n")
    emptied = {"calls": [{"bash": {"command": f": > {path}; echo x > other.txt"}}]}
    model = script(home / "s.json", [emptied, "Done."])
    options = ("--mode", "auto", "--allow", "bash", "--verify", check, "-o", form)
    ran = agentcli("run", "--model", model, *options, "go", home=home, cwd=workspace)
    assert ran.code == 0, ran.err
    warning = f"warning: this run changed files of its own check ({check}): {path}; "
    assert f"{warning}with these files as they were, it {ENDS[base]}\n" in ran.err
    assert target.read_text() == ""
    if form == "json":
        check_json = ran.events[-1]["verify"][0]
        assert check_json["changed_files"] == check_json["base"]["files"] == [path]
        assert (check_json["exit_code"], check_json["base"]["exit_code"]) == (0, base)
        assert check_json["base"]["differs"] is bool(base)


def test_check_with_its_old_files_runs_in_a_copy_that_has_all_else(
    home: Path, workspace: Path
) -> None:
    (workspace / ".gitignore").write_text("node_modules/\n")
    for name, text in {"node_modules/lib.txt": "lib", "test_a.py": "old", "src.txt": "old"}.items():
        (workspace / name).parent.mkdir(exist_ok=True)
        (workspace / name).write_text(text)
    calls = [
        {"write_file": {"path": "test_new.py", "content": "new"}},
        {"bash": {"command": "printf new > test_a.py; printf new > src.txt"}},
    ]
    check = "cat node_modules/lib.txt test_a.py sr*.txt; ls; echo x > made.txt; rm -f test_a.py"
    model = script(home / "s.json", [{"calls": calls}, "Done."])
    options = ("--mode", "auto", "--allow", "bash", "--verify", check, "-o", "stream-json")
    ran = agentcli("run", "--model", model, *options, "go", home=home, cwd=workspace)
    [verified] = [event for event in ran.events if event["type"] == "verify"]
    assert verified["base"]["files"] == ["test_a.py", "test_new.py"]
    assert verified["base"]["output"].startswith("liboldnew")
    assert "test_new.py" not in verified["base"]["output"]
    assert (workspace / "test_new.py").read_text() == "new"
    for event in (verified, ran.events[-1]):
        Draft202012Validator(SCHEMA).validate(event)


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


def test_check_reaches_what_the_user_added(home: Path, workspace: Path) -> None:
    added = home / "added"
    added.mkdir()
    (added / "wanted").write_text("yes\n")
    model = script(home / "s.json", ["Done."])
    check = f"grep yes {added}/wanted"
    options = ("--mode", "auto", "--verify", check, "--add-dir", f"{added}:ro")
    ran = agentcli("run", "--model", model, *options, "go", home=home, cwd=workspace)
    assert ran.code == 0, ran.err
