from pathlib import Path

import pytest

from tests.support import anthropic_streams as anthropic
from tests.support.program import agentcli, script
from tests.support.provider import Reply
from tests.support.repl import live, says

GOAL = "grep -q fixed note.txt"
UNCONFINED = ("--mode", "auto-edit", "--sandbox", "off")


def writes(text: str, call_id: str) -> Reply:
    given = {"path": "note.txt", "content": text}
    return anthropic.calls(anthropic.call(call_id, "write_file", given))


def test_goal_sends_the_model_back_until_it_passes(tmp_path: Path) -> None:
    script = [writes("broken\n", "a"), says("Done."), writes("fixed\n", "b"), says("Fixed.")]
    with live(tmp_path, script, arguments=UNCONFINED, rows=50) as session:
        term = session.term
        term.wait("auto-edit")
        term.send(f"/goal {GOAL}")
        term.wait("/goal off drops it")
        term.send("go")
        term.wait("Fixed.")
        term.wait(f"verified: {GOAL}, exit 0, after the last edit")
        assert term.shows(f"verify {GOAL}: exit 1")
        assert term.shows(f"verify {GOAL}: passed")
        told = str(session.model.bodies[2]["messages"][-1])
        assert f"$ {GOAL}" in told
        term.send("/goal off")
        term.wait("No goal any more.")
        term.send("/goal")
        term.wait("No goal. /goal CMD sets one.")


def test_setting_checks_what_a_run_changed(home: Path, workspace: Path) -> None:
    write = {"calls": [{"write_file": {"path": "note.txt", "content": "broken\n"}}]}
    model = script(home / "s.json", [write, *["Done."] * 5])
    ran = agentcli(
        *("run", "--model", model, *UNCONFINED, "-o", "json", "go"),
        home=home,
        cwd=workspace,
        env={"AGENTCLI_VERIFY": GOAL},
    )
    assert ran.code == 7
    assert f"error: the goal '{GOAL}' failed (exit code 1), 5 times in a row\n" in ran.err
    failed = f"not verified: {GOAL} failed after the last edit (exit code 1)"
    assert f"{failed}\n" in ran.err
    assert ran.events[-1]["verification"] == {
        "verified": False,
        "text": failed,
        "commands": [GOAL],
        "unchecked_files": [],
    }


def test_run_says_what_was_not_checked(home: Path, workspace: Path) -> None:
    write = {"calls": [{"write_file": {"path": "note.txt", "content": "x\n"}}]}
    model = script(home / "s.json", [write, "Done.", "Done."])
    ran = agentcli("run", "--model", model, *UNCONFINED, "go", home=home, cwd=workspace)
    assert ran.code == 0
    assert "not verified: 1 file changed, and no test was run\n" in ran.err


MANY_FILES = "mkdir -p new/d empty && for n in $(seq {}); do echo $n > new/d/$n; done"


@pytest.mark.parametrize("count", [4, 60])
def test_run_counts_the_files_that_were_not_checked(
    home: Path, workspace: Path, count: int
) -> None:
    write = {"calls": [{"bash": {"command": MANY_FILES.format(count)}}]}
    model = script(home / "s.json", [write, "Done.", "Done."])
    ran = agentcli(
        *("run", "--model", model, "--mode", "auto", "--sandbox", "off", "-o", "json", "go"),
        home=home,
        cwd=workspace,
    )
    assert f"{count} files changed, +{count} -0" in ran.err
    assert f"not verified: {count} files changed, and no test was run\n" in ran.err
    result = ran.events[-1]
    assert result["verification"]["unchecked_files"] == [
        file["path"] for file in result["files_changed"]
    ]


def test_directory_that_is_made_after_the_check_needs_no_other(home: Path, workspace: Path) -> None:
    write = {"calls": [{"write_file": {"path": "test_note.sh", "content": "true\n"}}]}
    commands = ("sh test_note.sh", "mkdir d")
    check, make = ({"calls": [{"bash": {"command": one}}]} for one in commands)
    model = script(home / "s.json", [write, check, make, "Done.", "Done."])
    ran = agentcli(
        *("run", "--model", model, "--mode", "auto", "--sandbox", "off", "go"),
        home=home,
        cwd=workspace,
    )
    assert "verified: sh test_note.sh, exit 0, after the last edit\n" in ran.err


def test_run_that_changes_nothing_runs_no_setting(home: Path, workspace: Path) -> None:
    model = script(home / "s.json", ["Hello."])
    ran = agentcli(
        *("run", "--model", model, *UNCONFINED, "-o", "json", "hi"),
        home=home,
        cwd=workspace,
        env={"AGENTCLI_VERIFY": "false"},
    )
    assert ran.code == 0
    assert ran.events[-1]["verify"] == []
    assert ran.events[-1]["verification"] is None
