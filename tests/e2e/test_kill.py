import os
import random
import signal
import subprocess
import time
from collections import Counter
from contextlib import suppress
from functools import partial
from itertools import pairwise
from pathlib import Path

import pytest

from agentcli.agent.history import build_messages
from agentcli.log.audit import audit_log
from agentcli.log.reader import read_log
from agentcli.types.events import CallFinished, Fact, ModelReplied
from agentcli.types.messages import AssistantMessage
from agentcli.types.tools import ToolMessage
from tests.support.processes import running
from tests.support.program import PROGRAM, agentcli, environment, script, session_log
from tests.support.repl import live, runs, says
from tests.support.terminal import until

KILLS = int(os.environ.get("AGENTCLI_TEST_KILLS", "6"))
JITTER_S = 0.03
STEPS = 6
RECORDS = 4 + STEPS * 11

STEP = {
    "text": "On it.",
    "calls": [
        {"read_file": {"path": "a.txt"}},
        {"grep": {"pattern": "one"}},
        {"bash": {"command": "echo more >> b.txt; sleep 0.02; cat b.txt"}},
        {"write_file": {"path": "c.txt", "content": "x\n"}},
        {"bash": {"command": "echo $RANDOM"}},
    ],
}


def log_lines(sessions: Path) -> int:
    return sum(log.read_bytes().count(b"\n") for log in sessions.glob("*/log.jsonl"))


def run_and_kill(home: Path, workspace: Path, chance: random.Random) -> None:
    model = script(home / "steps.json", [*[STEP] * STEPS, "Done."])
    sessions = home / ".local/state/agentcli/sessions"
    wanted, jitter_s = chance.randrange(RECORDS), chance.random() * JITTER_S
    process = subprocess.Popen(
        [PROGRAM, "run", "-C", workspace, "--mode", "auto", "--model", model, "go"],
        env=environment(home),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    while log_lines(sessions) < wanted and process.poll() is None:
        time.sleep(0.001)
    time.sleep(jitter_s)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def end_what_is_left(mark: str) -> None:
    """A sandbox killed while it is being set up can leave a process that waits for ever."""
    for pid in running(mark):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def assert_every_call_is_answered_once(facts: list[Fact]) -> None:
    answered: Counter[str] = Counter()
    asked: list[str] = []
    for fact in facts:
        match fact:
            case ModelReplied(message=message):
                assert [answered[call_id] for call_id in asked] == [1] * len(asked)
                answered.clear()
                asked = [call.id for call in message.tool_calls]
            case CallFinished(result=result):
                answered[result.call_id] += 1
            case _:
                pass
    history = build_messages(facts)
    for before, after in pairwise(history):
        if isinstance(before, AssistantMessage) and before.tool_calls:
            assert isinstance(after, ToolMessage)


@pytest.mark.parametrize("seed", range(KILLS))
def test_session_killed_at_any_moment_verifies_and_resumes(tmp_path: Path, seed: int) -> None:
    home, workspace = tmp_path / "home", tmp_path / "work"
    home.mkdir()
    workspace.mkdir()
    (workspace / "a.txt").write_text("one\n")
    run_and_kill(home, workspace, random.Random(seed))
    end_what_is_left(str(tmp_path))
    logs = list(home.glob(".local/state/agentcli/sessions/*/log.jsonl"))
    if not logs or not logs[0].read_bytes().count(b"\n"):
        return  # killed before it had a session: nothing is left to go on with
    before = audit_log(logs[0])
    assert before.faults == ()
    assert before.records == logs[0].read_bytes().count(b"\n")

    model = script(home / "end.json", ["Back again."])
    ran = agentcli(
        "run", "--resume", logs[0].parent, "-C", workspace, "--model", model, "and?", home=home
    )
    assert (ran.code, ran.out) == (0, "Back again.\n"), ran.err
    after = audit_log(logs[0])
    assert (after.status, after.faults, after.notes) == ("intact", (), ())
    assert_every_call_is_answered_once([entry.fact for entry in read_log(logs[0]).entries])


def test_call_that_was_killed_is_named_and_no_other_is_undone_in_its_place(tmp_path: Path) -> None:
    home, workspace = tmp_path / "home", tmp_path / "work"
    home.mkdir()
    workspace.mkdir()
    command = "echo changed > b.txt; sleep 600"
    model = script(
        home / "s.json",
        [
            {"calls": [{"write_file": {"path": "a.txt", "content": "a\n"}}]},
            {"calls": [{"bash": {"command": command}}]},
        ],
    )
    process = subprocess.Popen(
        [PROGRAM, "run", "-C", workspace, "--mode", "auto", "--model", model, "go"],
        env=environment(home),
        start_new_session=True,
    )
    until(lambda: (workspace / "b.txt").exists(), "the command runs")
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    end_what_is_left(str(tmp_path))

    undo = partial(agentcli, "undo", "-C", workspace, home=home)
    _, *listed = undo("--list").out.splitlines()
    assert "write_file a.txt" in listed[0]
    assert (command in listed[2], "(cannot be undone)" in listed[2]) == (True, True)
    latest = undo()
    assert (latest.code, command in latest.err) == (2, True)
    assert (workspace / "a.txt").exists()
    by_number = agentcli("undo", session_log(home).parent, "1", "-C", workspace, home=home)
    assert (by_number.code, (workspace / "a.txt").exists()) == (0, False), by_number.err
    assert [line for line in undo("--list").out.splitlines() if "cannot be undone" in line] == [
        listed[2]
    ]
    assert audit_log(session_log(home)).faults == ()


def test_rewind_killed_in_its_middle_is_completed_and_redone(tmp_path: Path) -> None:
    files = {f"f{number:03}.txt": "old\n" for number in range(80)}
    change = runs("for f in f*.txt; do echo new > $f; done")
    arguments = ("--mode", "auto", "--sandbox", "off")
    with live(tmp_path, [change, says("Changed.")], files=files, arguments=arguments) as it:
        paths = [it.project / name for name in files]
        it.term.wait("auto, no sandbox")
        it.term.send("change them all")
        it.term.wait("Changed.")
        assert {path.read_text() for path in paths} == {"new\n"}
        it.term.send("/rewind 1 both")
        until(lambda: any("old" in path.read_text() for path in paths), "it began", every_s=0.001)
        it.term.kill(signal.SIGKILL)
        it.term.gone()
    assert {path.read_text() for path in paths} <= {"old\n", "new\n"}
    assert audit_log(session_log(tmp_path / "home")).status == "open"
    with live(tmp_path, [says("I see.")], arguments=(*arguments, "--continue")) as it:
        it.term.wait("auto, no sandbox")
        it.term.send("/rewind 1 both")
        it.term.wait("Went back to before turn 1.")
        assert {path.read_text() for path in paths} == {"old\n"}
        it.term.key("c-c")
        it.term.send("/redo")
        it.term.wait_for(lambda: {path.read_text() for path in paths} == {"new\n"}, "redone")
