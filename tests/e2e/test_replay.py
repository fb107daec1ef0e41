import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from tests.support.program import PROGRAM, agentcli, environment, script, session_log
from tests.support.record import rewrite

FIXTURES = Path(__file__).parents[2] / "fixtures" / "sessions"
CASES = sorted(path.parent.name for path in FIXTURES.glob("*/log.jsonl"))
WITH_TRACEBACKS = ["demo", "edits"]
OTHERS = [case for case in CASES if case not in WITH_TRACEBACKS]
NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]


def check_replays(cases: list[str], home: Path) -> None:
    logs = [FIXTURES / case / "log.jsonl" for case in cases]
    ran = agentcli("replay", "--check", *logs, home=home)
    assert ran.code == 0, f"if it is meant: python -m tests.support.record_sessions\n{ran.out}"
    assert ran.out.count(": same (") == len(cases)


def test_recorded_sessions_replay_as_they_were(tmp_path: Path) -> None:
    assert len(OTHERS) >= 4
    check_replays(OTHERS, tmp_path)


@pytest.mark.skipif(
    sys.version_info[:2] != (3, 11), reason="tracebacks of Python 3.11 are recorded"
)
def test_recorded_sessions_with_tracebacks_replay_as_they_were(tmp_path: Path) -> None:
    check_replays(WITH_TRACEBACKS, tmp_path)


def test_replay_gives_the_same_in_another_place_time_and_hand() -> None:
    if os.geteuid() != 0 or shutil.which("setpriv") is None:
        pytest.skip("only root, with setpriv, can become another user")
    if subprocess.run([*NOBODY, PROGRAM, "--version"], capture_output=True).returncode != 0:
        pytest.skip("the program is in a directory that other users cannot enter")
    with TemporaryDirectory() as folder:  # pytest closes its own directory to other users
        open_to_all, scratch = Path(folder), Path(folder, "scratch")
        open_to_all.chmod(0o755)
        for case in OTHERS:
            shutil.copytree(FIXTURES / case, open_to_all / case)
        scratch.mkdir()
        scratch.chmod(0o777)
        ran = subprocess.run(
            [*NOBODY, PROGRAM, "replay", "--check", *(open_to_all / case for case in OTHERS)],
            cwd="/",
            env=environment(scratch, TZ="Pacific/Auckland", TMPDIR=str(scratch)),
            capture_output=True,
            text=True,
        )
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_changed_base_shows_as_a_difference_of_the_call(tmp_path: Path) -> None:
    shutil.copytree(FIXTURES / "edits", tmp_path / "edits")
    calc = tmp_path / "edits" / "base" / "calc.py"
    calc.write_text(calc.read_text().replace("min(values)", "0"))
    ran = agentcli("replay", "--check", "--json", tmp_path / "edits", home=tmp_path)
    (found,) = json.loads(ran.out).values()
    assert (ran.code, found["same"]) == (7, False)
    differing = {call["call_id"]: call["words"] for call in found["calls"]}
    assert "-6\t    return max(values) - min(values)" in differing["call_2_1"]


def test_stubbed_tools_play_the_course_alone(tmp_path: Path) -> None:
    shutil.copytree(FIXTURES / "edits", tmp_path / "edits")
    (tmp_path / "edits" / "base" / "calc.py").unlink()
    ran = agentcli("replay", "--check", "--stub-tools", tmp_path / "edits", home=tmp_path)
    assert ran.code == 0, ran.out
    assert "(8 not re-runnable)" in ran.out


def test_rules_of_today_may_judge_otherwise(tmp_path: Path) -> None:
    rules = tmp_path / "rules.toml"
    rules.write_text('[[rule]]\ndecision = "deny"\nrule = "edit_file"\n')
    ran = agentcli("replay", "--policy", rules, FIXTURES / "demo", home=tmp_path)
    assert ran.code == 0, ran.err
    assert "judged by the current rules" in ran.out
    assert "-  call_3_1 edit_file: ok" in ran.out
    assert "+  call_3_1 edit_file: denied" in ran.out


def test_ones_own_session_is_replayed_on_the_tree_it_began_with(tmp_path: Path) -> None:
    home, workspace = tmp_path / "home", tmp_path / "work"
    home.mkdir()
    workspace.mkdir()
    (workspace / "a.txt").write_text("one\n")
    replies: list[Any] = [
        {"calls": [{"read_file": {"path": str(workspace / "a.txt")}}]},
        {"calls": [{"edit_file": {"path": "a.txt", "old_text": "one", "new_text": "two"}}]},
        {"calls": [{"bash": {"command": "mv a.txt b.txt; echo new > c.txt"}}]},
        "Done.",
    ]
    model = script(home / "s.json", replies)
    agentcli("run", "-C", workspace, "--mode", "auto", "--model", model, "go", home=home)
    assert sorted(path.name for path in workspace.iterdir()) == ["b.txt", "c.txt"]
    ran = agentcli("replay", "--check", session_log(home).parent.name, home=home)
    assert ran.code == 0, ran.out
    assert sorted(path.name for path in workspace.iterdir()) == ["b.txt", "c.txt"]


def test_reply_that_was_never_given_shows_in_the_course(tmp_path: Path) -> None:
    shutil.copytree(FIXTURES / "provider_error", tmp_path / "case")

    def change(facts: list[dict[str, Any]]) -> None:
        facts[-2]["ending"] = "refused"

    rewrite(tmp_path / "case" / "log.jsonl", change)
    ran = agentcli("replay", "--check", tmp_path / "case", home=tmp_path)
    assert ran.code == 7
    assert "-turn ended: refused" in ran.out


def test_workspace_that_is_gone_is_an_error_with_a_way_out(tmp_path: Path) -> None:
    home, workspace = tmp_path / "home", tmp_path / "work"
    home.mkdir()
    workspace.mkdir()
    model = script(home / "s.json", ["Done."])
    agentcli("run", "-C", workspace, "--model", model, "go", home=home)
    workspace.rmdir()
    ran = agentcli("replay", session_log(home), home=home)
    assert ran.code == 3
    assert "no longer exists" in ran.err
    assert "--base DIR" in ran.err
