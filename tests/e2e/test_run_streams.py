import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.support import anthropic_streams as anthropic
from tests.support.outcomes import last_fact, using
from tests.support.program import PROGRAM, agentcli, environment, script, write_fork_command
from tests.support.provider import Provider

CALL = {"calls": [{"bash": {"command": "echo hi"}}]}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path


def shell(command: str, model: str, *, home: Path) -> "subprocess.CompletedProcess[str]":
    """In a shell where $0 is the model and $AGENTCLI the program."""
    return subprocess.run(
        ["bash", "-c", command, model],
        cwd=home,
        env=environment(home, AGENTCLI=str(PROGRAM)),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_redirected_answer_is_the_answer_alone(home: Path) -> None:
    model = script(home / "s.json", [CALL, "# Title\n\nText.\n\n"])
    ran = shell('"$AGENTCLI" run -v --mode auto --model "$0" x > answer.md', model, home=home)
    assert (ran.returncode, ran.stdout) == (0, "")
    assert (home / "answer.md").read_text() == "# Title\n\nText.\n"
    assert "\x1b" not in ran.stderr


def test_failed_run_leaves_stdout_empty(home: Path) -> None:
    denied = {"calls": [{"bash": {"command": "touch x"}}]}
    model = script(home / "s.json", [denied, "I could not."])
    ran = agentcli("run", "--on-deny", "continue", "--model", model, "x", home=home)
    assert (ran.code, ran.out) == (5, "")
    assert "I could not." in ran.err


def test_quiet_says_errors_only(home: Path) -> None:
    model = script(home / "s.json", [CALL, "Hi."])
    done = agentcli("run", "-q", "--mode", "auto", "--model", model, "x", home=home)
    assert (done.code, done.out, done.err) == (0, "Hi.\n", "")
    denied = agentcli("run", "-q", "--model", model, "x", home=home)
    assert denied.code == 0  # echo only reads
    failed = agentcli("run", "-q", "--max-turns", "1", "--model", model, "x", home=home)
    assert (failed.code, len(failed.err.splitlines())) == (6, 2)  # and how to go on


@pytest.mark.parametrize("form", ["text", "json", "stream-json"])
def test_reader_that_leaves_gets_no_traceback_and_ends_the_run(form: str, home: Path) -> None:
    model = script(home / "s.json", [CALL] * 3 + ["line\n" * 100_000])
    command = f'"$AGENTCLI" run -o {form} --mode auto --model "$0" x | head -c 1 >/dev/null; '
    ran = shell(command + "echo ${PIPESTATUS[0]}", model, home=home)
    assert ran.stdout == "141\n", ran.stderr
    assert "Traceback" not in ran.stderr
    assert "Exception" not in ran.stderr
    assert last_fact(home).type == "session_ended"


def test_reader_of_the_story_that_leaves_changes_nothing(home: Path) -> None:
    model = script(home / "s.json", [CALL] * 3 + ["Hi."])
    command = '"$AGENTCLI" run -v --mode auto --model "$0" x 2> >(head -1 >/dev/null)'
    ran = shell(command, model, home=home)
    assert (ran.returncode, ran.stdout) == (0, "Hi.\n")


@pytest.mark.parametrize("command", ["models", "tools", "policy presets", "prompt", "run --help"])
def test_reader_that_has_left_ends_every_command_alike(command: str, home: Path) -> None:
    reads, writes = os.pipe()
    os.close(reads)
    with os.fdopen(writes, "wb") as out:
        ran = subprocess.run(
            [PROGRAM, *command.split()],
            cwd=home,
            # Every write fails at once, as one of more than a buffer does.
            env=environment(home, PYTHONUNBUFFERED="1"),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.PIPE,
            text=True,
        )
    assert (ran.returncode, ran.stderr) == (141, "")


@pytest.mark.parametrize("closed", ["2>&-", "<&-", "<&- 2>&-"])
def test_closed_streams_are_no_trouble(closed: str, home: Path) -> None:
    model = script(home / "s.json", [CALL, "Hi."])
    command = f'"$AGENTCLI" run --mode auto --model "$0" x {closed}'
    ran = shell(command, model, home=home)
    assert (ran.returncode, ran.stdout) == (0, "Hi.\n")
    assert "Traceback" not in ran.stderr


@pytest.mark.parametrize(
    ("command", "code"), [("sessions list", 0), ('--model "$0"', 2), ('run --model "$0" -', 2)]
)
def test_command_reads_and_writes_closed_streams_as_empty_ones(
    command: str, code: int, home: Path
) -> None:
    model = script(home / "s.json", ["Hi."])
    ran = shell(f'"$AGENTCLI" {command} <&- 2>&-', model, home=home)
    assert (ran.returncode, ran.stdout) == (code, "")


@pytest.mark.parametrize("command", ["run --model $0 x", "run -o json --model $0 x", "models"])
def test_command_whose_stdout_is_closed_does_not_start(command: str, home: Path) -> None:
    model = script(home / "s.json", ["Hi."])
    ran = shell(f'"$AGENTCLI" {command} >&-', model, home=home)
    assert ran.returncode == 3
    assert ran.stderr == "error: stdout is closed\n  fix: agentcli COMMAND > /dev/null\n"
    assert not list(home.glob(".local/state/agentcli/sessions/*"))
    assert shell(f'"$AGENTCLI" {command} > /dev/null', model, home=home).returncode == 0


def test_full_disk_behind_stdout_is_an_error(home: Path) -> None:
    model = script(home / "s.json", ["Hi."])
    ran = shell('"$AGENTCLI" run -q --model "$0" x > /dev/full', model, home=home)
    assert ran.returncode == 3
    assert "cannot write to stdout: No space left on device" in ran.stderr


def test_environment_of_a_cron_job_is_enough(home: Path) -> None:
    model = script(home / "s.json", [CALL, "Grüße."])
    state = f"XDG_STATE_HOME={home}/state XDG_CONFIG_HOME={home}/config XDG_CACHE_HOME={home}/c"
    command = f'env -i {state} "$AGENTCLI" run --mode auto --model "$0" x'
    ran = shell(command, model, home=home)
    assert (ran.returncode, ran.stdout) == (0, "Grüße.\n"), ran.stderr


def test_characters_the_locale_lacks_are_replaced(home: Path) -> None:
    model = script(home / "s.json", ["Grüße 日本."])
    command = 'PYTHONIOENCODING=latin-1 "$AGENTCLI" run -q --model "$0" x | od -An -c'
    ran = shell(command, model, home=home)
    assert ran.returncode == 0
    assert "Traceback" not in ran.stderr


def test_run_under_nohup_survives_the_hangup(home: Path) -> None:
    with (
        Provider([anthropic.says("Hi.").but(stall_before_headers=True)]) as provider,
        subprocess.Popen(
            ["nohup", PROGRAM, "run", "--model", "opus", "go"],
            cwd=home,
            env=environment(home, **using(provider)),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process,
    ):
        assert provider.stalled.wait(30)
        process.send_signal(signal.SIGHUP)
        provider.release()
        out, _ = process.communicate(timeout=30)
    assert (process.returncode, out) == (0, "Hi.\n")


def test_second_interrupt_does_not_wait_for_a_stubborn_command(home: Path) -> None:
    os.mkfifo(home / "ready")
    stubborn = "trap '' INT TERM; echo > ready; while true; do sleep 1; done"
    model = script(home / "s.json", [{"calls": [{"bash": {"command": stubborn}}]}, "never"])
    with subprocess.Popen(
        [write_fork_command(), "run", "-o", "json", "--mode", "auto", "--model", model, "x"],
        cwd=home,
        env=environment(home),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        (home / "ready").read_text()
        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=30)
    assert process.returncode == 130
    assert json.loads(out)["status"] == "interrupted"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
@pytest.mark.parametrize("command", ["--help", "--version", "run --help", "tools"])
def test_output_without_room_is_no_bug(home: Path, command: str) -> None:
    ran = shell(f'"$AGENTCLI" {command} > /dev/full', "", home=home)
    assert (ran.returncode, ran.stderr) == (
        3,
        "error: cannot write the output: No space left on device\n"
        "  fix: free some space, then run it again\n",
    )
