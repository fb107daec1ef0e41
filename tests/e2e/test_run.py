import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from agentcli.agent.history import build_messages
from agentcli.log.reader import read_log
from agentcli.types.tools import ToolMessage
from tests.support.program import (
    PROGRAM,
    agentcli,
    environment,
    script,
    session_log,
    write_fork_command,
)


@pytest.fixture
def workspace(workspace: Path) -> Path:
    (workspace / "a.txt").write_text("one\ntwo\n")
    return workspace


def test_answer_is_stdout_and_the_story_is_stderr(home: Path, workspace: Path) -> None:
    model = script(
        home / "s.json",
        [{"text": "Reading.", "calls": [{"read_file": {"path": "a.txt"}}]}, "It says one, two."],
    )
    ran = agentcli("run", "-C", workspace, "--model", model, "what does it say?", home=home)
    assert (ran.code, ran.out) == (0, "It says one, two.\n")
    assert "read_file a.txt: 2 lines" in ran.err
    assert "\x1b" not in ran.err


def test_edit_changes_the_file_and_shows_the_difference(home: Path, workspace: Path) -> None:
    edit = {"edit_file": {"path": "a.txt", "old_text": "two", "new_text": "2"}}
    model = script(home / "s.json", [{"calls": [edit]}, "Done."])
    ran = agentcli(
        "run", "-v", "-C", workspace, "--mode", "auto-edit", "--model", model, "x", home=home
    )
    assert (ran.code, ran.out) == (0, "Done.\n")
    assert (workspace / "a.txt").read_text() == "one\n2\n"
    assert "    -two" in ran.err
    assert "    +2" in ran.err


def test_needed_edit_that_nobody_can_allow_exits_5_and_changes_nothing(
    home: Path, workspace: Path
) -> None:
    edit = {"edit_file": {"path": "a.txt", "old_text": "two", "new_text": "2"}}
    model = script(home / "s.json", [{"calls": [edit]}, "I could not."])
    ran = agentcli("run", "-C", workspace, "--model", model, "x", home=home)
    assert (ran.code, ran.out) == (5, "")
    assert (workspace / "a.txt").read_text() == "one\ntwo\n"
    assert "error: edit_file was denied" in ran.err


def test_stream_json_ends_with_one_result(home: Path, workspace: Path) -> None:
    model = script(
        home / "s.json", [{"text": "Go.", "calls": [{"bash": {"command": "exit 3"}}]}, "Done."]
    )
    ran = agentcli(
        *("run", "-o", "stream-json", "--mode", "auto", "-C", workspace, "--model", model, "x"),
        home=home,
    )
    assert [event["type"] for event in ran.events] == [
        "session.started",
        "told",
        "turn.started",
        "message",
        "usage",
        "tool.requested",
        "approval",
        "tool.started",
        "tool.finished",
        "turn.started",
        "message",
        "usage",
        "result",
    ]
    finished = next(event for event in ran.events if event["type"] == "tool.finished")
    assert (finished["exit_code"], finished["model_text"]) == (3, "[no output]\n[exit code 3]")
    result = ran.events[-1]
    assert (result["status"], result["exit_code"], result["answer"]) == ("ok", 0, "Done.")
    assert [event["seq"] for event in ran.events] == list(range(1, len(ran.events) + 1))
    assert len({event["session"] for event in ran.events}) == 1


def test_json_is_the_result_alone(home: Path, workspace: Path) -> None:
    ran = agentcli(
        *("run", "-o", "json", "-C", workspace, "--model", script(home / "s", ["Hi."]), "x"),
        home=home,
    )
    (result,) = ran.events
    assert (ran.code, result["type"], result["answer"], result["turns"]) == (0, "result", "Hi.", 1)


BAD_CALLS: dict[str, dict[str, Any]] = {
    "missing field": {"id": "id-1", "name": "read_file", "input": {}},
    "malformed JSON": {"id": "id-1", "name": "read_file", "arguments": '{"path": "a.t'},
    "nested too deeply": {"id": "id-1", "name": "read_file", "arguments": "[" * 100_000},
    "unknown tool": {"id": "id-1", "name": "read_fil", "input": {"path": "a.txt"}},
    "extra field": {"id": "id-1", "name": "read_file", "input": {"path": "a.txt", "pth": 1}},
    "wrong enum": {"id": "id-1", "name": "grep", "input": {"pattern": "x", "mode": "lines"}},
    "wrong type": {"id": "id-1", "name": "read_file", "input": {"path": ["a.txt"]}},
    "missing file": {"id": "id-1", "name": "read_file", "input": {"path": "b.txt"}},
}
COMPLAINTS = {
    "missing field": "path is missing",
    "malformed JSON": "the arguments are not valid JSON",
    "nested too deeply": "the arguments are not valid JSON (nested too deeply)",
    "unknown tool": "Did you mean read_file?",
    "extra field": "there is no field pth. Did you mean path?",
    "wrong enum": "mode must be 'content', 'files' or 'count', not \"lines\"",
    "wrong type": "path must be a valid string",
    "missing file": "No such file: b.txt",
}


@pytest.mark.parametrize("case", BAD_CALLS)
def test_bad_call_is_answered_under_its_id_with_what_would_be_right(
    case: str, home: Path, workspace: Path
) -> None:
    model = script(home / "s.json", [{"calls": [BAD_CALLS[case]]}, "ok"])
    ran = agentcli("run", "-C", workspace, "--model", model, "x", home=home)
    assert ran.code == 0, ran.err
    history = build_messages(entry.fact for entry in read_log(session_log(home)).entries)
    (answers,) = [message for message in history if isinstance(message, ToolMessage)]
    (answer,) = answers.results
    assert (answer.call_id, answer.status) == ("id-1", "error")
    assert COMPLAINTS[case] in answer.text


USAGE_ERRORS = {
    "unknown option": ["run", "--nonsense", "x"],
    "unknown command": ["rnu", "x"],
    "no prompt": ["run"],
    "empty prompt": ["run", " "],
    "unknown mode": ["run", "--mode", "yolo", "x"],
    "missing workspace": ["run", "-C", "/nonexistent/dir", "x"],
    "workspace is a file": ["run", "-C", "/etc/passwd", "x"],
    "bad number": ["run", "--max-turns", "ten", "x"],
    "zero turns": ["run", "--max-turns", "0", "x"],
    "bad output": ["run", "-o", "xml", "x"],
    "empty model": ["run", "--model", "", "x"],
}


@pytest.mark.parametrize("case", USAGE_ERRORS)
def test_usage_error_is_two_lines_and_exit_2(case: str, home: Path) -> None:
    ran = agentcli(*USAGE_ERRORS[case], home=home)
    error, fix = ran.err.splitlines()
    assert (ran.code, ran.out) == (2, "")
    assert error.startswith("error: ")
    assert fix.startswith("  fix: ")


SCRIPTS = {
    "not there": None,
    "not YAML": "[{",
    "no replies": "{}",
    "unknown key": '[{"txt": "a"}]',
    "binary": "\x00\x01",
    "a number": "7",
}


@pytest.mark.parametrize("case", SCRIPTS)
def test_script_that_is_not_valid_is_two_lines_and_exit_3(case: str, home: Path) -> None:
    path, text = home / "s.yaml", SCRIPTS[case]
    if text is not None:
        path.write_text(text)
    ran = agentcli("run", "--model", f"script/{path}", "x", home=home)
    error, fix = ran.err.splitlines()
    assert (ran.code, ran.out) == (3, "")
    assert str(path) in error
    assert fix.startswith("  fix: ")


def test_script_that_ends_too_early_is_an_error(home: Path, workspace: Path) -> None:
    model = script(home / "s.json", [{"calls": [{"read_file": {"path": "a.txt"}}]}])
    ran = agentcli("run", "-C", workspace, "--model", model, "x", home=home)
    assert (ran.code, ran.out) == (3, "")
    assert "error: the script has no reply number 2" in ran.err


def test_prompt_comes_from_stdin(home: Path) -> None:
    model = script(home / "s.json", ["Hi."])
    ran = agentcli("run", "--model", model, "-", home=home, stdin="do it\n")
    assert (ran.code, ran.out) == (0, "Hi.\n")
    assert '"text":"do it\\n"' in session_log(home).read_text()


def test_closed_stdin_is_no_trouble(home: Path, workspace: Path) -> None:
    model = script(home / "s.json", [{"calls": [{"bash": {"command": "cat; echo end"}}]}, "Hi."])
    command = f'exec {PROGRAM} run --mode auto --model "$0" x <&-'
    ran = subprocess.run(
        ["bash", "-c", command, model], cwd=workspace, env=environment(home), capture_output=True
    )
    assert (ran.returncode, ran.stdout) == (0, b"Hi.\n")
    ran = subprocess.run(
        ["bash", "-c", f"exec {PROGRAM} run - <&-"],
        cwd=workspace,
        env=environment(home),
        capture_output=True,
    )
    assert ran.returncode == 2
    assert len(ran.stderr.splitlines()) == 2


def test_reader_that_leaves_early_gets_no_traceback(home: Path) -> None:
    model = script(home / "s.json", ["line\n" * 100_000])
    ran = subprocess.run(
        ["bash", "-c", f'{PROGRAM} run --model "$0" x | head -1', model],
        cwd=home,
        env=environment(home),
        capture_output=True,
        text=True,
    )
    assert ran.stdout == "line\n"
    assert "Traceback" not in ran.stderr


def test_disk_that_is_full_is_two_lines_and_nothing_is_lost(home: Path, workspace: Path) -> None:
    model = script(
        home / "s.json",
        [{"text": "x" * 20_000, "calls": [{"read_file": {"path": "a.txt"}}]}, "Done."],
    )
    ran = subprocess.run(
        ["bash", "-c", f'ulimit -f 8; exec {PROGRAM} run -q --model "$0" x', model],
        cwd=workspace,
        env=environment(home),
        capture_output=True,
        text=True,
    )
    assert (ran.returncode, ran.stdout) == (3, "")
    error, fix = ran.stderr.splitlines()
    assert error.startswith("error: cannot write ")
    assert fix.startswith("  fix: ")
    kinds = [entry.fact.type for entry in read_log(session_log(home)).entries]
    assert kinds[:2] == ["session_started", "turn_started"]


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGHUP, 129)]
)
def test_signal_ends_the_run_with_its_code_and_answers_every_call(
    number: signal.Signals, code: int, home: Path, workspace: Path
) -> None:
    os.mkfifo(workspace / "ready")
    model = script(
        home / "s.json",
        [{"calls": [{"bash": {"command": "echo $PPID > ready; sleep 600"}}]}, "never"],
    )
    arguments = ["run", "-o", "stream-json", "--mode", "auto", "--model", model, "x"]
    with subprocess.Popen(
        [write_fork_command(), *arguments],
        cwd=workspace,
        env=environment(home),
        stdout=subprocess.PIPE,
    ) as process:
        (workspace / "ready").read_text()
        process.send_signal(number)
        out, _ = process.communicate(timeout=30)
    events = [json.loads(line) for line in out.splitlines()]
    assert process.returncode == code
    assert [event["type"] for event in events].count("result") == 1
    assert (events[-1]["type"], events[-1]["status"]) == ("result", "interrupted")
    facts = [entry.fact for entry in read_log(session_log(home)).entries]
    assert [fact.type for fact in facts[-3:]] == ["call_finished", "turn_ended", "session_ended"]


def test_two_runs_at_once_have_two_sessions(home: Path, workspace: Path) -> None:
    model = script(home / "s.json", [{"calls": [{"read_file": {"path": "a.txt"}}]}, "Hi."])
    started = [
        subprocess.Popen(
            [write_fork_command(), "run", "-q", "--model", model, "x"],
            cwd=workspace,
            env=environment(home),
            stdout=subprocess.PIPE,
        )
        for _ in range(2)
    ]
    assert [process.communicate(timeout=60)[0] for process in started] == [b"Hi.\n"] * 2
    logs = list(home.glob(".local/state/agentcli/sessions/*/log.jsonl"))
    assert len(logs) == 2
    assert all(read_log(log).entries[-1].fact.type == "session_ended" for log in logs)


def test_settings_come_from_file_environment_and_flags_in_that_order(home: Path) -> None:
    file = home / ".config/agentcli/settings.toml"
    file.parent.mkdir(parents=True)
    file.write_text(f'model = "{script(home / "file.json", ["file"])}"\n')
    from_file = agentcli("run", "x", home=home)
    variables = {"AGENTCLI_MODEL": script(home / "env.json", ["environment"])}
    from_environment = agentcli("run", "x", home=home, env=variables)
    flag = script(home / "flag.json", ["flag"])
    from_flag = agentcli("run", "--model", flag, "x", home=home, env=variables)
    assert [ran.out for ran in (from_file, from_environment, from_flag)] == [
        "file\n",
        "environment\n",
        "flag\n",
    ]


@pytest.mark.parametrize("text", ["model = ", "modle = 1", 'max_turns = "many"', "parallel = 3"])
def test_broken_settings_file_is_named(text: str, home: Path) -> None:
    file = home / ".config/agentcli/settings.toml"
    file.parent.mkdir(parents=True)
    file.write_text(text)
    ran = agentcli("run", "x", home=home)
    assert ran.code == 3
    assert str(file) in ran.err.splitlines()[0]
    assert len(ran.err.splitlines()) == 2


LONG = "x" * 1_000_000
LONG_CALLS: dict[str, dict[str, Any]] = {
    "the name of a tool": {"name": LONG, "input": {}},
    "the name of a field": {"name": "read_file", "input": {"path": "a.txt", LONG: 1}},
    "many fields": {"name": "read_file", "input": {f"field{n}": n for n in range(5000)}},
    "lines": {"name": "edit_file", "input": {"path": "a.txt", "lines": LONG, "new_text": ""}},
    "a glob": {"name": "find_files", "input": {"glob": LONG}},
    "a glob of a search": {"name": "grep", "input": {"pattern": "x", "glob": LONG}},
}


@pytest.mark.parametrize("case", LONG_CALLS)
def test_long_words_of_a_call_are_not_repeated_whole(
    case: str, home: Path, workspace: Path
) -> None:
    model = script(home / "s.json", [{"calls": [LONG_CALLS[case]]}, "ok"])
    ran = agentcli("run", "-C", workspace, "--model", model, "x", home=home)
    assert ran.code == 0, ran.err
    history = build_messages(entry.fact for entry in read_log(session_log(home)).entries)
    (answers,) = [message for message in history if isinstance(message, ToolMessage)]
    (answer,) = answers.results
    assert answer.status == "error"
    assert len(answer.text) < 2000
