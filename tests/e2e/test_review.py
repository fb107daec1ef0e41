import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.support import anthropic_streams as anthropic
from tests.support.outcomes import using
from tests.support.program import Ran, agentcli, environment, script
from tests.support.provider import Provider

FINDING: dict[str, Any] = {
    "path": "a.py",
    "line": 2,
    "end_line": 3,
    "severity": "error",
    "category": "bug",
    "title": "Divides by zero",
    "detail": "Where n is 0.\n::error::x",
}
REVIEW = {"summary": "A small change.", "findings": [FINDING]}


def git(home: Path, *arguments: str) -> None:
    who = ("-c", "user.name=n", "-c", "user.email=e", "-c", "init.defaultBranch=main")
    subprocess.run(["git", *who, *arguments], cwd=home / "repo", env=environment(home), check=True)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    repo = tmp_path / "repo"
    repo.mkdir()
    (repo / "a.py").write_text("def f(n):\n    return 1\n")
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", "-A")
    git(tmp_path, "commit", "-qm", "first")
    git(tmp_path, "switch", "-qc", "topic")
    (repo / "a.py").write_text("def f(n):\n    return 1 / n\n")
    git(tmp_path, "commit", "-qam", "second")
    (repo / "a.py").write_text("def f(n):\n    return 2 / n\n")
    (repo / "new.py").write_text("x = 1\n")
    return tmp_path


def review(home: Path, *arguments: str | Path, env: dict[str, str] | None = None) -> Ran:
    model = script(home / "s.json", [{"calls": [{"answer": REVIEW}]}])
    return agentcli("review", "--model", model, *arguments, home=home, cwd=home / "repo", env=env)


def test_review_is_markdown_for_people(home: Path) -> None:
    ran = review(home)
    assert ran.code == 0, ran.err
    assert ran.out == (
        "# Review: 1 finding\n\nA small change.\n\n## error: Divides by zero\n\n"
        "`a.py:2` · bug\n\nWhere n is 0.\n::error::x\n"
    )


def test_review_is_data_for_programs(home: Path) -> None:
    ran = review(home, "-o", "json")
    (result,) = ran.events
    assert (result["status"], result["structured"]) == ("ok", REVIEW)


def test_review_is_sarif_for_code_scanning(home: Path) -> None:
    ran = review(home, "--report", "sarif,markdown", "--output-dir", home / "out")
    assert ran.code == 0, ran.err
    (result,) = json.loads((home / "out/report.sarif").read_text())["runs"][0]["results"]
    place = result["locations"][0]["physicalLocation"]
    assert (result["ruleId"], result["level"]) == ("review/bug", "error")
    assert (place["artifactLocation"]["uri"], place["region"]["startLine"]) == ("a.py", 2)
    assert "Divides by zero" in (home / "out/report.md").read_text()


def test_review_is_annotations_in_a_job(home: Path) -> None:
    ran = review(home, env={"GITHUB_ACTIONS": "true"})
    assert (
        "::error file=a.py,line=2,endLine=3,title=Divides by zero::Where n is 0.%0A::error::x\n"
        in ran.err
    )


CHANGES = {
    "uncommitted": ([], ["+    return 2 / n", "new file, read it: new.py"], ["+    return 1 / n"]),
    "base": (["--base", "main"], ["+    return 1 / n"], ["return 2"]),
    "commit": (["--commit", "HEAD"], ["second", "+    return 1 / n"], ["return 2"]),
    "first commit": (["--commit", "main"], ["first", "+def f(n):"], ["return 2"]),
}


@pytest.mark.parametrize("name", CHANGES)
def test_change_that_was_named_is_what_the_model_gets(name: str, home: Path) -> None:
    options, there, absent = CHANGES[name]
    with Provider([anthropic.says(json.dumps(REVIEW))]) as provider:
        ran = agentcli(
            *("review", "--model", "opus", *options, "mind the zeros"),
            home=home,
            cwd=home / "repo",
            env=using(provider),
        )
        prompt = provider.bodies[0]["messages"][0]["content"][0]["text"]
    assert ran.code == 0, ran.err
    assert [text for text in (*there, "mind the zeros") if text not in prompt] == []
    assert [text for text in absent if text in prompt] == []


def test_nothing_can_be_written_while_reviewing(home: Path) -> None:
    replies = [
        {"calls": [{"write_file": {"path": "x.py", "content": "x"}}]},
        {"calls": [{"bash": {"command": "touch y.py"}}]},
        {"calls": [{"answer": REVIEW}]},
    ]
    model = script(home / "s.json", replies)
    ran = agentcli("review", "--model", model, home=home, cwd=home / "repo")
    assert ran.code == 0, ran.err
    assert not (home / "repo/x.py").exists()
    assert not (home / "repo/y.py").exists()


def test_model_is_asked_for_findings_and_not_for_a_plan(home: Path) -> None:
    with Provider([anthropic.says(json.dumps(REVIEW))]) as provider:
        ran = agentcli("review", home=home, cwd=home / "repo", env=using(provider))
        (body,) = provider.bodies
    assert ran.code == 0, ran.err
    assert "nothing may be changed" in str(body)
    assert "Plan mode" not in str(body)


def test_finding_of_another_form_is_repaired_or_fails(home: Path) -> None:
    wrong = {"summary": "s", "findings": [{**FINDING, "severity": "fatal"}]}
    model = script(home / "s.json", [{"calls": [{"answer": wrong}]}] * 2)
    ran = agentcli("review", "--model", model, home=home, cwd=home / "repo")
    assert (ran.code, ran.out) == (9, "")
    assert "  fix: use another model: agentcli review --model PROVIDER/NAME\n" in ran.err


def test_place_outside_the_workspace_is_no_place(home: Path) -> None:
    stray = {"summary": "s", "findings": [{**FINDING, "path": "../../etc/passwd"}]}
    model = script(home / "s.json", [{"calls": [{"answer": stray}]}])
    options = ("--report", "sarif", "--output-dir", home / "out")
    ran = agentcli("review", "--model", model, *options, home=home, cwd=home / "repo")
    assert ran.code == 0
    (result,) = json.loads((home / "out/report.sarif").read_text())["runs"][0]["results"]
    assert "locations" not in result


BAD = {
    "two changes": ["--base", "main", "--uncommitted"],
    "no such base": ["--base", "nowhere"],
    "base that is an option": ["--base", "--output=/tmp/x"],
    "no such commit": ["--commit", "nowhere"],
    "nothing in it": ["--base", "topic"],
}


@pytest.mark.parametrize("name", BAD)
def test_change_that_cannot_be_reviewed_is_a_usage_error(name: str, home: Path) -> None:
    ran = review(home, *BAD[name])
    error, fix = ran.err.splitlines()
    assert (ran.code, ran.out) == (2, "")
    assert error.startswith("error: ")
    assert fix.startswith("  fix: ")


def test_folder_without_a_repository_is_a_usage_error(tmp_path: Path) -> None:
    model = script(tmp_path / "s.json", ["x"])
    ran = agentcli("review", "--model", model, home=tmp_path)
    assert ran.code == 2
    assert ran.err.splitlines()[0] == f"error: {tmp_path} is in no git repository"


def test_commit_that_is_not_there_is_named(home: Path) -> None:
    assert review(home, "--base", "nowhere").err.startswith("error: no commit 'nowhere'\n")


def test_first_files_of_a_repository_can_be_reviewed(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "--quiet", tmp_path / "new"], check=True)
    (tmp_path / "new/a.py").write_text("x\n")
    model = script(tmp_path / "s.json", [{"calls": [{"answer": {"summary": "", "findings": []}}]}])
    ran = agentcli("review", "--model", model, home=tmp_path, cwd=tmp_path / "new")
    assert (ran.code, ran.out.splitlines()[0]) == (0, "# Review: 0 findings")
