import json
from pathlib import Path

import pytest

from tests.support.program import agentcli, script, session_log
from tests.support.sick_logs import HERE as SICK

pytestmark = pytest.mark.usefixtures("without_sandbox")

LOGS = sorted(SICK.glob("*.jsonl"))
CODES = {"healthy": 0, "circling": 0, "damaged": 7, "denied": 7, "killed": 7}


@pytest.mark.parametrize("log", LOGS, ids=lambda log: log.stem)
def test_triage_says_what_went_wrong_and_exits_with_it(log: Path, tmp_path: Path) -> None:
    ran = agentcli("triage", log, home=tmp_path)
    assert (ran.code, ran.out, ran.err) == (
        CODES[log.stem],
        log.with_suffix(".txt").read_text(),
        "",
    )


def test_strict_lets_warnings_decide(tmp_path: Path) -> None:
    assert agentcli("triage", "--strict", SICK / "circling.jsonl", home=tmp_path).code == 7
    assert agentcli("triage", "--strict", SICK / "healthy.jsonl", home=tmp_path).code == 0


def test_json_has_the_same_findings(tmp_path: Path) -> None:
    flags = ["--expect-tool", "grep", "-o", "json"]
    ran = agentcli("triage", SICK / "denied.jsonl", *flags, home=tmp_path)
    told = json.loads(ran.out)
    assert (ran.code, told["exit_code"], told["ending"]) == (7, 7, "denied")
    assert [(one["level"], one["check"], one["record"]) for one in told["findings"]] == [
        ("error", "ending", 7),
        ("error", "expected", 0),
        ("warning", "denied", 5),
    ]
    assert all(
        set(one) == {"level", "check", "record", "what", "why", "fix"} for one in told["findings"]
    )


def test_session_of_our_own_is_found_by_its_id(tmp_path: Path) -> None:
    model = script(tmp_path / "s.json", [{"calls": [{"read_file": {"path": "gone"}}]}, "Done."])
    agentcli("run", "--model", model, "x", home=tmp_path)
    session = session_log(tmp_path).parent.name
    ran = agentcli("triage", session[-4:], home=tmp_path)
    assert ran.code == 0
    assert "read_file gone failed: No such file: gone." in ran.out


def test_log_that_is_not_there_is_an_error_with_a_hint(tmp_path: Path) -> None:
    ran = agentcli("triage", "nosuch", home=tmp_path)
    assert (ran.code, ran.out) == (3, "")
    assert "agentcli sessions list" in ran.err


def test_trace_reads_from_top_to_bottom(tmp_path: Path) -> None:
    ran = agentcli("trace", SICK / "circling.jsonl", home=tmp_path)
    assert ran.code == 0
    heads = [line[17:].split(" ·")[0].strip() for line in ran.out.splitlines() if line[:6].strip()]
    assert heads[:5] == [
        "session 20260101-090000-7f3a",
        "turn 1",
        "reply    2.0s",
        "judged   allowed by mode",
        "result   read_file a.py: 1 line (2ms)",
    ]
    assert heads[-3:] == ["reply    2.0s", "ended done", "session ended, exit code 0"]
    assert "result   bash python a.py: exit 1, 900 lines (12.5s) · cut" in ran.out


def test_trace_is_bounded_unless_all_is_wanted(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("".join(f"line {number}\n" for number in range(100)))
    model = script(tmp_path / "s.json", [{"calls": [{"read_file": {"path": "a.txt"}}]}, "Done."])
    agentcli("run", "--model", model, "x", home=tmp_path)
    log = session_log(tmp_path)
    assert "more lines (--full)" in agentcli("trace", log, home=tmp_path).out
    full = agentcli("trace", "--full", log, home=tmp_path).out
    assert "more lines" not in full
    assert "line 50" in full


def test_stats_add_up_sessions(tmp_path: Path) -> None:
    calls = [{"read_file": {"path": "gone"}}, {"bash": {"command": "touch x"}}]
    for _ in range(2):
        model = script(tmp_path / "s.json", [{"calls": calls}, "Done."])
        agentcli("run", "--model", model, "x", home=tmp_path)
    told = json.loads(agentcli("stats", "-o", "json", home=tmp_path).out)
    assert (told["sessions"], told["total"]["turns"], told["total"]["calls"]) == (2, 2, 4)
    assert (told["total"]["failures"], told["total"]["denials"]) == (4, 2)
    assert told["tools"] == {
        "read_file": {"calls": 2, "failed": 2},
        "bash": {"calls": 2, "failed": 2},
    }
    shown = agentcli("stats", "--since", "1d", home=tmp_path)
    assert (shown.code, "calls    █  [4]" in shown.out) == (0, True)
    plain = agentcli("stats", home=tmp_path, env={"PYTHONIOENCODING": "ascii"})
    assert "calls    @  [4]" in plain.out


@pytest.mark.parametrize(("since", "code"), [("all", 0), ("99999w", 0), ("soon", 2), ("-1d", 2)])
def test_stats_of_nothing_and_of_a_time_that_is_none(since: str, code: int, tmp_path: Path) -> None:
    ran = agentcli("stats", f"--since={since}", home=tmp_path)
    assert ran.code == code
    assert ran.out == ("no sessions in this period\n" if code == 0 else "")


def test_command_that_failed_last_is_the_first_warning(home: Path, workspace: Path) -> None:
    (workspace / "a.txt").write_text("one\n" * 400)
    replies = [
        {"calls": [{"read_file": {"path": "a.txt", "limit": 10}}]},
        {"calls": [{"bash": {"command": "seq 20000; exit 2"}}]},
        "All tests pass.",
    ]
    model = script(home / "s.json", replies)
    agentcli("run", "-C", workspace, "--mode", "auto", "--model", model, "go", home=home)
    told = json.loads(agentcli("triage", session_log(home), "-o", "json", home=home).out)
    found = [(one["level"], one["check"]) for one in told["findings"]]
    assert found[:2] == [("warning", "command"), ("warning", "cut")]
    assert "exit code 2" in told["findings"][0]["what"]
    assert sum(check == "cut" for _, check in found) == 1


def test_command_that_failed_in_the_background_is_named(home: Path, workspace: Path) -> None:
    replies = [
        {"calls": [{"bash": {"command": "exit 3", "background": True}}]},
        {"calls": [{"bash": {"command": "sleep 600", "background": True}}]},
        {"calls": [{"bash": {"command": "pkill -f 'sleep 600'; sleep 0.3"}}]},
        "Done.",
    ]
    model = script(home / "s.json", replies)
    agentcli("run", "-C", workspace, "--mode", "auto", "--model", model, "go", home=home)
    told = json.loads(agentcli("triage", session_log(home), "-o", "json", home=home).out)
    found = [one["what"] for one in told["findings"] if one["check"] == "background"]
    assert found == ["bash exit 3 ended with exit code 3, in the background"]
