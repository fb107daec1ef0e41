import asyncio
import json
import random
import signal
import subprocess
from pathlib import Path

import pytest

from agentcli.agent.history import build_messages
from agentcli.log.reader import read_log
from agentcli.types.tools import ToolMessage
from tests.support import anthropic_streams as anthropic
from tests.support.outcomes import run_against, using
from tests.support.processes import running, unique_seconds, until
from tests.support.program import PROGRAM, environment, script, write_fork_command
from tests.support.provider import Provider, Reply

pytestmark = pytest.mark.usefixtures("verified_logs")

STEPS = 6
EVENTS_OF_A_RUN = 6 * STEPS


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path


def long_run() -> list[Reply]:
    steps = [
        anthropic.calls(anthropic.call(f"c{n}", "bash", {"command": f"echo {n} >> done.txt"}))
        for n in range(STEPS)
    ]
    return [*steps, anthropic.says("Done.").but(stall_before_headers=True)]


def killed_after(events: int, number: signal.Signals, home: Path) -> tuple[int, list[str]]:
    """Starts a run, and sends the signal once so many events have come."""
    program = PROGRAM if number is signal.SIGKILL else write_fork_command()
    with (
        Provider(long_run()) as provider,
        subprocess.Popen(
            [program, "run", "--model", "opus", "--mode", "auto", "-o", "stream-json", "go"],
            cwd=home,
            env=environment(home, **using(provider)),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        ) as process,
    ):
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(events)]
        process.send_signal(number)
        lines += process.stdout.readlines()
        process.wait(30)
    return process.returncode, [line for line in lines if line]


def log_of(home: Path) -> Path:
    (log,) = home.glob(".local/state/agentcli/sessions/*/log.jsonl")
    return log


def moments(seed: int, count: int) -> list[int]:
    return sorted(random.Random(seed).sample(range(1, EVENTS_OF_A_RUN), count))


@pytest.mark.parametrize("events", moments(7, 4))
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_stopped_at_any_moment_the_result_comes_last_and_once(
    number: signal.Signals, events: int, home: Path
) -> None:
    code, lines = killed_after(events, number, home)
    rows = [json.loads(line) for line in lines]
    assert code == 128 + number
    assert [row["type"] for row in rows].count("result") == 1
    assert (rows[-1]["type"], rows[-1]["exit_code"]) == ("result", code)
    assert read_log(log_of(home)).entries[-1].fact.type == "session_ended"


@pytest.mark.parametrize("events", moments(11, 5))
def test_killed_at_any_moment_the_log_holds_and_the_session_goes_on(
    events: int, home: Path
) -> None:
    code, lines = killed_after(events, signal.SIGKILL, home)
    assert code == -signal.SIGKILL
    whole = [json.loads(line) for line in lines if line.endswith("\n")]
    assert "result" not in [row["type"] for row in whole]
    entries = read_log(log_of(home)).entries
    assert [entry.seq for entry in entries] == list(range(1, len(entries) + 1))
    history = build_messages(entry.fact for entry in entries)
    assert all(message.results for message in history if isinstance(message, ToolMessage))
    asyncio.run(until(lambda: running(f"{home}/") == []))  # shells name files of the session
    with Provider([anthropic.says("Went on.")]) as provider:
        again = run_against(provider, "--continue", "go on", home=home)
        assert provider.complaints == []
    assert (again.code, again.out) == (0, "Went on.\n"), again.err
    assert read_log(log_of(home)).entries[-1].fact.type == "session_ended"


def started(*options: str | Path, home: Path) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        [PROGRAM, "run", "--mode", "auto", *options, "x"],
        cwd=home,
        env=environment(home),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


@pytest.mark.parametrize("sandbox", ["auto", "landlock", "off"])
def test_killed_session_leaves_no_command_running(sandbox: str, home: Path) -> None:
    seconds = unique_seconds()
    command = f"sleep {seconds} & setsid sleep {seconds}"
    model = script(home / "s.json", [{"calls": [{"bash": {"command": command}}]}, "Done."])
    with started("--sandbox", sandbox, "--model", model, home=home) as process:
        asyncio.run(until(lambda: len(running(f"sleep {seconds}")) >= 2))
        process.kill()
    asyncio.run(until(lambda: running(seconds) == []))
    assert running(seconds) == []


@pytest.mark.parametrize("is_killed", [False, True])
@pytest.mark.parametrize("sandbox", ["auto", "landlock"])
def test_end_of_a_session_spares_a_program_that_loads_its_mark(
    sandbox: str, is_killed: bool, home: Path
) -> None:
    seconds, variables, go = unique_seconds(), home / ".env", home / "go"
    command = (
        f'echo "AGENTCLI_CALL=$AGENTCLI_CALL" > .new; mv .new .env; '
        f"until [ -e go ]; do sleep 0.02; done; sleep {seconds} & sleep 0.1"
    )
    if is_killed:
        command += f"; sleep {seconds}"
    model = script(home / "s.json", [{"calls": [{"bash": {"command": command}}]}, "Done."])
    with started("--sandbox", sandbox, "--model", model, home=home) as process:
        asyncio.run(until(variables.exists))
        load = f"set -a; . {variables}; exec cat"
        with subprocess.Popen(["sh", "-c", load], stdin=subprocess.PIPE) as person:
            go.touch()
            if is_killed:
                asyncio.run(until(lambda: len(running(f"sleep {seconds}")) >= 2))
                process.kill()
            process.wait(30)
            asyncio.run(until(lambda: running(seconds) == []))
            of_the_session = variables.read_text().partition("=")[2].partition(".")[0]
            asyncio.run(until(lambda: running(of_the_session) == []))  # its last will, too
            assert person.poll() is None


def test_killed_session_leaves_nothing_in_the_workspace(home: Path) -> None:
    work = home / "work"
    subprocess.run(["git", "init", "-q", work], check=True)
    before = sorted(work.rglob("*"))
    seconds = unique_seconds()
    model = script(home / "s.json", [{"calls": [{"bash": {"command": f"sleep {seconds}"}}]}, "x"])
    with started("-C", work, "--model", model, home=home) as process:
        asyncio.run(until(lambda: running(f"sleep {seconds}")))
        process.kill()
    asyncio.run(until(lambda: sorted(work.rglob("*")) == before))
    assert sorted(work.rglob("*")) == before
