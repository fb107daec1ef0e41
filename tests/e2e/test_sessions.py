import json
import os
import resource
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from agentcli.log.audit import audit_log
from agentcli.log.reader import read_log
from agentcli.types.events import CallJudged, SessionResumed, TurnStarted
from tests.support.program import (
    PROGRAM,
    agentcli,
    environment,
    script,
    session_log,
    write_script_command,
)

pytestmark = pytest.mark.usefixtures("verified_logs")

FIXTURES = Path(__file__).parents[2] / "fixtures" / "sessions"
LIMITED = Path(__file__).parents[1] / "support/limited.py"


class Desk:
    """A home, a workspace, and sessions that are run there."""

    def __init__(self, root: Path) -> None:
        self.home, self.workspace = root / "home", root / "work"
        self.home.mkdir()
        self.workspace.mkdir()
        (self.workspace / "a.txt").write_text("one\n")
        self.sessions = self.home / ".local/state/agentcli/sessions"

    def run(self, replies: list[Any], *arguments: str | Path, prompt: str = "go") -> Any:
        model = script(self.home / "s.json", replies)
        where: list[str | Path] = [] if "-C" in arguments else ["-C", self.workspace]
        return agentcli("run", *where, "--model", model, *arguments, prompt, home=self.home)

    def ask(self, *arguments: str | Path) -> Any:
        return agentcli(*arguments, home=self.home)

    @property
    def log(self) -> Path:
        return session_log(self.home)


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def test_session_is_continued_with_all_that_was_said(desk: Desk) -> None:
    desk.run(["First answer."], prompt="first")
    ran = desk.run(["Second answer."], "--continue", "--mode", "auto", prompt="second")
    assert (ran.code, ran.out) == (0, "Second answer.\n")
    entries = read_log(desk.log).entries
    resumed = [entry.fact for entry in entries if isinstance(entry.fact, SessionResumed)]
    assert [(one.repaired, one.mode) for one in resumed] == [((), "auto")]
    assert audit_log(desk.log).status == "intact"


def test_session_is_resumed_from_elsewhere_in_its_own_workspace(desk: Desk) -> None:
    desk.run(["First."])
    read_it = [{"calls": [{"read_file": {"path": "a.txt"}}]}, "One."]
    model = script(desk.home / "s.json", read_it)
    ran = desk.ask("run", "--model", model, "--resume", desk.log.parent.name[-4:], "go")
    assert (ran.code, ran.out) == (0, "One.\n")


@pytest.mark.parametrize("command", [["run", "go"], []])
def test_session_is_resumed_in_the_current_directory_if_that_is_named(
    desk: Desk, command: list[str]
) -> None:
    desk.run(["First."])
    name, other = desk.log.parent.name, desk.home.with_name("other")
    other.mkdir()
    write_it = [{"calls": [{"write_file": {"path": "b.txt", "content": "two\n"}}]}, "Two."]
    model = script(desk.home / "s.json", write_it)
    options = ("-C", ".", "--mode", "auto", "--model", model, "--resume", name)
    ran = agentcli(*command, *options, home=desk.home, cwd=other, stdin="go")
    assert (ran.code, ran.out) == (0, "Two.\n")
    assert ((other / "b.txt").exists(), (desk.workspace / "b.txt").exists()) == (True, False)

    moved = other.rename(other.with_name("moved"))
    undone = agentcli("undo", name, "-C", ".", home=desk.home, cwd=moved)
    assert (undone.code, (moved / "b.txt").exists()) == (0, False)


def test_damaged_session_is_repaired_and_says_so(desk: Desk) -> None:
    desk.run([{"calls": [{"bash": {"command": "true"}}]}, "Done."], "--mode", "auto")
    lines = desk.log.read_bytes().splitlines(keepends=True)
    desk.log.write_bytes(b"".join(lines[:4]) + lines[4][:37])
    ran = desk.run(["Back."], "--resume", desk.log.parent.name)
    assert (ran.code, ran.out) == (0, "Back.\n")
    assert "37 bytes of an unfinished record were moved to unfinished-5.txt" in ran.err
    assert "had no result" in ran.err
    assert "its last turn had no end" in ran.err
    assert (desk.log.parent / "unfinished-5.txt").read_bytes() == lines[4][:37]
    assert desk.log.read_bytes().startswith(b"".join(lines[:4]))
    assert audit_log(desk.log).status == "intact"


def test_every_stored_output_is_sealed_when_it_ends(desk: Desk) -> None:
    replies = [
        {"calls": [{"bash": {"command": "echo one"}}]},
        {"calls": [{"bash": {"command": "echo up; exec sleep 60", "background": True}}]},
        {"calls": [{"bash": {"command": "echo kept; setsid -f sleep 60"}}]},
        "Done.",
    ]
    arguments = ("--mode", "auto", "--sandbox", "off", "--verify", "echo checked")
    assert desk.run(replies, *arguments).code == 0
    outputs = sorted((desk.log.parent / "out").glob("*.log"))
    assert len(outputs) == 4
    assert audit_log(desk.log).notes == ()
    for output in outputs:
        stored = output.read_bytes()
        output.write_bytes(stored + b"!")
        (fault,) = audit_log(desk.log).faults
        assert fault.reason == f"the output out/{output.name} was changed"
        output.unlink()
        found = audit_log(desk.log)
        (missing,) = found.notes
        assert (found.status, missing.endswith(f"out/{output.name} is missing")) == ("intact", True)
        output.write_bytes(stored)


def test_second_process_is_refused_and_told_how_to_fork(desk: Desk) -> None:
    replies = [{"calls": [{"bash": {"command": "echo up; sleep 60"}}]}, "Done."]
    model = script(desk.home / "s.json", replies)
    options = ["--mode", "auto", "--model", model, "-o", "stream-json"]
    first = subprocess.Popen(
        [PROGRAM, "run", "-C", desk.workspace, *options, "go"],
        env=environment(desk.home),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    assert first.stdout is not None
    first.stdout.readline()
    try:
        name = desk.log.parent.name
        second = desk.run(["x"], "--resume", name)
        assert second.code == 3
        assert f"in use by another process (pid {first.pid})" in second.err
        assert f"agentcli fork {name}" in second.err
        assert desk.ask("sessions", "delete", name, "--yes").code == 3
        assert "running" in desk.ask("sessions", "list", "--all").out
        copied = desk.ask("fork", name)
        assert copied.code == 0
        third = desk.run(["Mine."], "--resume", copied.out.strip())
        assert (third.code, third.out) == (0, "Mine.\n")
    finally:
        os.killpg(first.pid, signal.SIGKILL)
        first.communicate()


def test_workspace_that_was_moved_is_named_and_given_anew(desk: Desk) -> None:
    desk.run(["First."])
    moved = desk.workspace.rename(desk.workspace.with_name("moved"))
    gone = agentcli(
        "run", "--resume", desk.log.parent.name, "--model", "script/x", "go", home=desk.home
    )
    assert gone.code == 2
    assert f"cannot open {desk.workspace}: No such file" in gone.err
    assert "-C DIR" in gone.err
    ran = desk.run(["There."], "--resume", desk.log.parent.name, "-C", moved)
    assert (ran.code, ran.out) == (0, "There.\n")
    assert len(json.loads(desk.ask("sessions", "list", "-C", moved, "--json").out)) == 1


def test_broken_log_is_not_continued_but_what_is_whole_can_be(desk: Desk) -> None:
    desk.run(["First."])
    data = desk.log.read_bytes()
    desk.log.write_bytes(data.replace(b"First.", b"Fist!!"))
    name = desk.log.parent.name
    ran = desk.run(["x"], "--resume", name)
    assert ran.code == 3
    assert "was changed after it was written" in ran.err
    copied = desk.ask("fork", name).out.strip()
    ran = desk.run(["On."], "--resume", copied)
    assert (ran.code, ran.out) == (0, "On.\n")
    assert desk.ask("export", name).out.startswith("# go")


def test_log_of_a_newer_version_is_refused_with_the_reason(desk: Desk) -> None:
    place = desk.sessions / "20260101-000000-abcd"
    place.mkdir(parents=True)
    (place / "log.jsonl").write_text('{"v":3,"seq":1}\n')
    ran = desk.ask("audit", "verify", "abcd")
    assert (ran.code, ran.out.splitlines()[1]) == (
        7,
        "record 1: written in format 3, this program reads formats up to 2",
    )
    ran = desk.run(["x"], "--resume", "abcd")
    assert ran.code == 3
    log = desk.sessions / "20260101-000000-abcd/log.jsonl"
    assert f"see why: agentcli audit verify {log}" in ran.err
    assert "20260101-000000-abcd" in desk.ask("sessions", "list", "--all", "--json").out
    assert (place / "log.jsonl").read_text() == '{"v":3,"seq":1}\n'


def test_log_of_a_gigabyte_is_refused_without_being_loaded(desk: Desk) -> None:
    place = desk.sessions / "20260101-000000-abcd"
    place.mkdir(parents=True)
    with (place / "log.jsonl").open("wb") as file:
        file.truncate(1024**3)  # a hole: no disk is used
    ran = subprocess.run(
        [PROGRAM, "audit", "verify", "abcd"],
        env=environment(desk.home),
        capture_output=True,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (1024**3, 1024**3)),
    )
    assert ran.returncode == 7, ran.stderr
    assert "record 1 is unfinished: 1073741824 bytes" in ran.stdout
    (place / "log.jsonl").unlink()  # nothing else is to read so much


def test_full_disk_ends_the_run_and_loses_nothing(desk: Desk) -> None:
    limit_bytes = 6000
    replies: list[Any] = [{"text": "x" * 400, "calls": [{"grep": {"pattern": "one"}}]}] * 20
    model = script(desk.home / "s.json", replies)
    ran = subprocess.run(
        [PROGRAM, "run", "-C", desk.workspace, "--model", model, "go"],
        env=environment(desk.home, PYTHONDONTWRITEBYTECODE="1"),  # half of it would break others
        capture_output=True,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit_bytes, limit_bytes)),
    )
    assert ran.returncode == 3
    assert "log.jsonl: File too large" in ran.stderr
    assert "df -h" in ran.stderr
    before = audit_log(desk.log)
    assert (before.faults, desk.log.read_bytes()[-1:]) == ((), b"\n")
    again = desk.run(["Room again."], "--resume", desk.log.parent.name)
    assert (again.code, again.out) == (0, "Room again.\n")


def test_disk_that_is_full_at_any_append_loses_nothing_and_hides_nothing(tmp_path: Path) -> None:
    replies: list[Any] = [
        {"calls": [{"write_file": {"path": "made.txt", "content": "x"}}]},
        {"calls": [{"edit_file": {"path": "a.txt", "old_text": "one", "new_text": "two"}}]},
        "Done.",
    ]
    options = ("--mode", "auto", "-o", "json", "go")
    (tmp_path / "whole").mkdir()
    whole = Desk(tmp_path / "whole")
    assert whole.run(replies, *options[:-1]).code == 0
    lines = whole.log.read_bytes().splitlines(keepends=True)
    for number in range(len(lines)):
        (tmp_path / f"{number}").mkdir()
        desk = Desk(tmp_path / f"{number}")
        limit_bytes = len(b"".join(lines[: number + 1])) - 1
        model = script(desk.home / "s.json", replies)
        ran = subprocess.run(
            [*write_script_command(LIMITED), str(limit_bytes), "run", "--model", model, *options],
            cwd=desk.workspace,
            env=environment(desk.home),
            capture_output=True,
            text=True,
        )
        # The paths of two sessions differ in length, and with them what fits.
        assert ran.returncode in (0, 3) and "Traceback" not in ran.stderr, (number, ran.stderr)
        if ran.returncode == 0:
            continue
        assert json.loads(ran.stdout)["status"] == "error", number
        logs = list(desk.sessions.glob("*/log.jsonl"))
        facts = [entry.fact for log in logs for entry in read_log(log).entries]
        judged = {fact.call.name for fact in facts if isinstance(fact, CallJudged)}
        assert ("write_file" in judged) >= (desk.workspace / "made.txt").exists(), number
        is_edited = (desk.workspace / "a.txt").read_text() != "one\n"
        assert ("edit_file" in judged) >= is_edited, number
        if any(isinstance(fact, TurnStarted) for fact in facts):
            again = desk.run(["Room again."], "--continue")
            assert (again.code, again.out) == (0, "Room again.\n"), number
            assert audit_log(desk.log).status == "intact", number


def test_disk_without_any_space_is_named(desk: Desk) -> None:
    model = script(desk.home / "s.json", ["Done."])
    ran = subprocess.run(
        [*write_script_command(LIMITED), "0", "run", "--model", model, "go"],
        cwd=desk.workspace,
        env=environment(desk.home),
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 3
    assert f"error: cannot write {desk.sessions}/" in ran.stderr


def test_sessions_directory_that_cannot_be_written_is_an_error_with_a_way_out(desk: Desk) -> None:
    desk.sessions.parent.mkdir(parents=True)
    desk.sessions.write_text("")
    ran = desk.run(["x"])
    assert ran.code == 3
    assert "cannot create a session directory" in ran.err
    assert "XDG_STATE_HOME" in ran.err


def test_session_is_shown_with_what_its_commands_changed(desk: Desk) -> None:
    calls = [
        {"read_file": {"path": "a.txt"}},
        {"edit_file": {"path": "a.txt", "old_text": "one", "new_text": "two"}},
        {"bash": {"command": "echo 3 >> a.txt; mkdir -p d/empty; echo x > d/new"}},
        {"bash": {"command": "mkdir many; cd many; touch $(seq 60)"}},
    ]
    options = ("--mode", "auto", "--sandbox", "off")
    assert desk.run([*({"calls": [call]} for call in calls), "Done."], *options).code == 0
    shown = desk.ask("sessions", "show", desk.log.parent.name).out.splitlines()
    changed = [line.split("changed    ")[1] for line in shown if line.startswith("  changed ")]
    assert changed[:3] == ["a.txt +2 -1", "d/new +1 -0", "many/1 +0 -0"]
    assert (len(changed), changed[-1]) == (41, "23 more: agentcli undo --list")
    told = json.loads(desk.ask("sessions", "show", desk.log.parent.name, "--json").out)
    assert len(told["changed"]) == 62
    assert told["changed"]["d/new"] == [1, 0]
    assert told["other_changes"][:3] == ["a.txt", "d/empty", "d/new"]


def test_sessions_are_listed_named_searched_shown_and_deleted(desk: Desk) -> None:
    desk.run(["The secret of tea."], prompt="tell me\nabout tea")
    name = desk.log.parent.name
    assert "tell me about tea" in desk.ask("sessions", "list", "-C", desk.workspace).out
    assert desk.ask("sessions", "list", "-C", desk.home).out == ""
    desk.ask("sessions", "name", name[-4:], "tea time")
    assert "tea time" in desk.ask("sessions", "list", "--all").out
    assert f"{name}      4 model_replied" in desk.ask("sessions", "search", "SECRET").out
    shown = desk.ask("sessions", "show", "tea time").out
    assert shown.startswith("tea time\n")
    assert "> tell me about tea  [done]" in shown
    assert audit_log(desk.log).status == "intact"
    refused = desk.ask("sessions", "delete", name)
    assert (refused.code, desk.log.exists()) == (2, True)
    assert desk.ask("sessions", "delete", name, "-y").code == 0
    assert list(desk.sessions.iterdir()) == []


@pytest.mark.parametrize("name", ["", " "])
def test_empty_name_is_no_session(desk: Desk, name: str) -> None:
    desk.run(["Hello."])
    for command in (["sessions", "delete", "--yes"], ["sessions", "show"], ["audit", "verify"]):
        ran = desk.ask(*command, name)
        assert (ran.code, "is empty" in ran.err) == (2, True), command
    assert desk.log.is_file()


def test_session_outside_of_the_sessions_is_not_deleted(desk: Desk, tmp_path: Path) -> None:
    shutil.copytree(FIXTURES / "demo", tmp_path / "demo")
    assert desk.ask("sessions", "delete", tmp_path / "demo", "-y").code == 2
    assert (tmp_path / "demo" / "log.jsonl").exists()


def test_audit_names_a_changed_record_and_fails(desk: Desk) -> None:
    desk.run(["First."])
    kept = desk.home / "head.json"
    assert desk.ask("audit", "head", desk.log, "-o", kept).code == 0
    assert desk.ask("audit", "verify", desk.log, "--head", kept).code == 0
    desk.log.write_bytes(desk.log.read_bytes().replace(b"First.", b"Fist!!"))
    ran = desk.ask("audit", "verify", desk.log, "--json")
    report = json.loads(ran.out)
    assert (ran.code, report["status"], report["faults"][0]["line"]) == (7, "broken", 4)


DELEGATES: list[Any] = [
    {"calls": [{"delegate": {"task": "look at a.txt"}}]},
    {"calls": [{"read_file": {"path": "a.txt"}}]},
    "It says one.",
    "The child says: one.",
]


def test_logs_of_child_agents_are_verified_with_their_session(desk: Desk) -> None:
    desk.run(DELEGATES)
    child = desk.log.parent / "out/child-1.jsonl"
    assert desk.ask("audit", "verify", desk.log.parent).out.startswith("intact: 9 records\n")
    assert desk.ask("audit", "verify", child).out.startswith("intact: 9 records\n")
    assert desk.ask("triage", child).code == 0
    assert "read_file a.txt: 1 line" in desk.ask("trace", child).out

    whole = child.read_text()
    child.write_text(whole.replace("It says one.", "It says two."))
    changed = desk.ask("audit", "verify", desk.log.parent)
    assert (changed.code, changed.out.splitlines()[0]) == (7, "BROKEN")
    assert changed.out.splitlines()[1].startswith("record 6: out/child-1.jsonl, record 7: ")

    child.write_text("".join(whole.splitlines(keepends=True)[:-1]))
    cut = desk.ask("audit", "verify", desk.log.parent)
    assert "record 6: out/child-1.jsonl was replaced, or its end is missing" in cut.out

    child.unlink()
    gone = desk.ask("audit", "verify", desk.log.parent)
    assert gone.code == 0
    assert "record 6: the log of its child agent, out/child-1.jsonl, is missing" in gone.out


def test_without_a_name_it_is_the_latest_session_of_the_workspace(desk: Desk) -> None:
    desk.run(["Hi."], prompt="greet")
    desk.run(["Other."], "-C", desk.home, prompt="far away")
    for command in (
        ["trace"],
        ["triage"],
        ["replay"],
        ["export"],
        ["sessions", "show"],
        ["audit", "verify"],
        ["audit", "head"],
    ):
        ran = agentcli(*command, home=desk.home, cwd=desk.workspace)
        assert (ran.code, "far away" in ran.out) == (0, False), command
    assert "greet" in agentcli("trace", home=desk.home, cwd=desk.workspace).out


def test_log_under_another_name_can_be_read_and_replayed(desk: Desk, tmp_path: Path) -> None:
    shutil.copytree(FIXTURES / "parallel", tmp_path / "kept")
    (tmp_path / "kept/log.jsonl").rename(tmp_path / "kept/parallel.jsonl")
    log = tmp_path / "kept/parallel.jsonl"
    assert desk.ask("replay", "--check", log).code == 0
    assert desk.ask("audit", "verify", log).code == 0
    assert desk.ask("export", log).code == 0
    assert desk.ask("sessions", "show", log).code == 0
    refused = desk.run(["Hi."], "--resume", log)
    assert (refused.code, "is not named log.jsonl" in refused.err) == (3, True)


def test_export_takes_its_form_from_the_name_of_the_file(desk: Desk) -> None:
    desk.run(["Hi."])
    for name, opening in (("page.html", "<!doctype html>"), ("data.json", "{"), ("a.md", "# ")):
        desk.ask("export", desk.log, "-o", desk.home / name)
        assert (desk.home / name).read_text().startswith(opening)


def test_what_is_attached_is_no_title(desk: Desk) -> None:
    model = script(desk.home / "s.json", ["Hi."])
    agentcli("run", "--model", model, "why?", home=desk.home, cwd=desk.workspace, stdin="a pipe\n")
    listed = agentcli("sessions", "list", home=desk.home, cwd=desk.workspace)
    assert listed.out.rstrip().endswith("  why?")
    traced = agentcli("trace", home=desk.home, cwd=desk.workspace).out
    assert [line.strip() for line in traced.splitlines()[2:5]] == ["why?", "<stdin>", "a pipe"]


@pytest.mark.parametrize("content", ["", "not a log\n", '{"v":99,"seq":1}\n'])
@pytest.mark.parametrize("command", [["export"], ["fork"], ["sessions", "show"], ["replay"]])
def test_log_without_a_session_is_refused_in_words(
    desk: Desk, command: list[str], content: str
) -> None:
    (desk.home / "x").mkdir()
    (desk.home / "x/log.jsonl").write_text(content)
    ran = desk.ask(*command, desk.home / "x/log.jsonl")
    assert (ran.code, ran.out, len(ran.err.splitlines())) == (3, "", 2)


def test_fork_tells_how_it_ended_by_its_exit_code(desk: Desk) -> None:
    desk.run([{"calls": [{"bash": {"command": "touch x"}}]}, "Done."], "--mode", "auto")
    model = script(desk.home / "o.json", [{"error": {"kind": "refused", "message": "no"}}])
    assert desk.ask("fork", desk.log, "--at", "1", "--model", model).code == 8


@pytest.mark.parametrize(
    "command", ["trace", "view", "export", "fork", "context", "sessions show", "undo", "replay"]
)
def test_empty_log_holds_no_session(tmp_path: Path, command: str) -> None:
    log = tmp_path / ".local/state/agentcli/sessions/20260101-000000-7f3a/log.jsonl"
    log.parent.mkdir(parents=True)
    log.touch()
    ran = agentcli(*command.split(), "7f3a", home=tmp_path)
    assert (ran.code, ran.out) == (3, "")
    assert ran.err.startswith(f"error: {log} holds no session")
