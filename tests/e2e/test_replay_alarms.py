import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.support.program import agentcli, environment, script, session_log, write_fork_command
from tests.support.terminal import until

SCHEMA = '{"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}'
FORM = ["--schema", "form.json"]
PASSES_ONCE_TOLD = "seq 20000; test -e ok || { touch ok; false; }"
PYTHON = "import tempfile as t; print(t.mkdtemp(), t.mkdtemp('.d', 'ab-'), t.mkdtemp(dir='.'))"


def bash(command: str, **more: Any) -> dict[str, Any]:
    return {"calls": [{"bash": {"command": command, **more}}]}


def answer(value: Any) -> dict[str, Any]:
    return {"calls": [{"answer": {"n": value}}]}


SESSIONS: dict[str, tuple[list[Any], list[str]]] = {
    "answer by a call": ([answer(1)], FORM),
    "answer at the second try": ([answer("x"), answer(1)], FORM),
    "answer in words first": (["one", answer(1)], FORM),
    "answer never right": ([answer("x")] * 3, FORM),
    "answer, and checks that fail": ([answer(1)] * 6, [*FORM, "--verify", "false"]),
    "checks that fail": (["Done."] * 6, ["--verify", "false"]),
    "checks that fail at a limit": (
        ["Done.", bash("true"), bash("true"), "Done."],
        ["--verify", "false", "--max-turns", "2"],
    ),
    "output after a check": (["Done.", bash("seq 20000"), "Done."], ["--verify", PASSES_ONCE_TOLD]),
    "output after a timeout": (
        [bash("seq 20000; sleep 60", timeout=3), bash("seq 20000"), "Done."],
        [],
    ),
    "denied call": (
        [{"calls": [{"write_file": {"path": "/etc/x", "content": "x"}}]}, "Done."],
        ["--on-deny", "fail"],
    ),
    "denied call in the workspace": (
        [{"calls": [{"write_file": {"path": ".git/config", "content": "x"}}]}, "Done."],
        [],
    ),
    "a file that names the workspace": (
        [bash("cat place"), {"calls": [{"read_file": {"path": "place"}}]}, "Done."],
        [],
    ),
    "names of mktemp": ([bash("mktemp; mktemp -d; mktemp --suffix=.py; mktemp -p ."), "Done."], []),
    "names from a template": ([bash("mktemp log.XXXXXX; ls -d log.*"), "Done."], []),
    "a name before a long output": ([bash("mktemp; seq 20000"), "Done."], []),
    "an edit that breaks a file": (
        [{"calls": [{"write_file": {"path": "a.py", "content": "def f(:\n"}}]}, "Done."],
        [],
    ),
    "a host that was denied": ([bash("curl -s http://host.invalid/"), "Done."], []),
    "listing of a directory": ([bash("ls -la; ls -laF; ls -lh; mkdir x; ls -la x"), "Done."], []),
    "the environment": ([bash("env | sort"), "Done."], []),
    "names of Python": ([bash(f'python3 -c "{PYTHON}"'), "Done."], []),
}


@pytest.mark.parametrize("name", SESSIONS)
def test_replay_of_what_is_the_same_raises_no_alarm(name: str, home: Path, workspace: Path) -> None:
    replies, options = SESSIONS[name]
    (workspace / "form.json").write_text(SCHEMA)
    (workspace / "place").write_text(f"prefix = {workspace}/lib\n")
    model = script(home / "s.json", replies)
    run = ["run", "-C", str(workspace), "--mode", "auto", "--model", model, *options, "go"]
    agentcli(*run, home=home, cwd=workspace)
    again = agentcli("replay", "--check", session_log(home).parent.name, home=home)
    assert again.code == 0, again.out
    assert ": same (" in again.out


def test_home_as_the_workspace_raises_no_alarm(home: Path) -> None:
    replies = [bash("seq 20000; pwd"), {"calls": [{"read_file": {"path": "s.json"}}]}, "Done."]
    model = script(home / "s.json", replies)
    agentcli("run", "--mode", "auto", "--model", model, "go", home=home)
    replayed = agentcli("replay", "--check", session_log(home).parent.name, home=home)
    assert replayed.code == 0, replayed.out


def test_outputs_keep_their_numbers_after_a_call_that_was_interrupted(
    home: Path, workspace: Path
) -> None:
    model = script(home / "s.json", [bash("echo first; touch started; sleep 60")])
    run = ["run", "-C", str(workspace), "--mode", "auto", "--model"]
    argv = [write_fork_command(), *run, model, "go"]
    with subprocess.Popen(argv, cwd=home, env=environment(home)) as process:
        until((workspace / "started").exists, "the command runs")
        process.send_signal(signal.SIGINT)
    out = session_log(home).parent / "out"
    reads = [{"calls": [{"read_file": {"path": str(out / f"{n}.log")}}]} for n in (1, 2)]
    model = script(home / "s.json", [bash("echo second"), *reads, "Done."])
    agentcli(*run, model, "--continue", "go on", home=home)
    assert (out / "1.log").read_text().startswith("first")
    assert (out / "2.log").read_text().startswith("second")
    again = agentcli("replay", "--check", out.parent.name, home=home)
    assert again.code == 0, again.out
    assert "(1 not re-runnable, 3 same)" in again.out


@pytest.mark.parametrize("kept", [3, 6, 9, 11, 13])
def test_session_that_was_killed_and_resumed_raises_no_alarm(
    kept: int, home: Path, workspace: Path
) -> None:
    calls = [{"bash": {"command": f"echo {n}"}} for n in range(3)]
    model = script(home / "s.json", [{"calls": [*calls, {"grep": {"pattern": "x"}}]}, "Done."])
    run = ["run", "-C", str(workspace), "--mode", "auto", "--model"]
    agentcli(*run, model, "go", home=home)
    log = session_log(home)
    log.write_bytes(b"".join(log.read_bytes().splitlines(keepends=True)[:kept]))
    resumed = agentcli(*run, script(home / "s.json", ["On."]), "--continue", "go on", home=home)
    again = agentcli("replay", "--check", log.parent.name, home=home)
    assert (resumed.code, again.code) == (0, 0), resumed.err + again.out
