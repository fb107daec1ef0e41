import asyncio
import os
import secrets
import selectors
import shlex
import signal
import sys
from pathlib import Path
from subprocess import Popen
from typing import Any

import pytest

from agentcli.system import process
from agentcli.system.environment import build_child_environment
from agentcli.system.process import (
    AFTER_INTERRUPT,
    AFTER_TIMEOUT,
    Pipe,
    ProcessEnd,
    Steps,
    end,
    name_death_signal,
    run,
    run_to_completion,
    wait_for_exit,
)
from tests.support.processes import running, unique_seconds, until


class Kept:
    def __init__(self) -> None:
        self.data = b""
        self.is_closed = False

    def feed(self, chunk: bytes) -> None:
        self.data += chunk

    def close(self) -> None:
        self.is_closed = True


def new_mark() -> str:
    return f"agentcli-{secrets.token_hex(8)}.1."


def started(argv: list[str], stdout: int, *, mark: str = "") -> "Popen[bytes]":
    env = build_child_environment(os.environ, tag=mark)
    return process.start(argv, cwd=Path("/"), env=env, stdout=stdout)


async def ran(command: str, kept: Kept, *, timeout_s: float = 60.0) -> ProcessEnd:
    pipe, mark = Pipe(kept), new_mark()
    child = started(["bash", "-c", command], pipe.writer, mark=mark)
    return await run(child, pipe=pipe, tag=mark, timeout_s=timeout_s)


async def ended_once_it_printed(argv: list[str], kept: Kept, *, steps: Steps) -> list[int]:
    pipe, mark = Pipe(kept), new_mark()
    child = started(argv, pipe.writer, mark=mark)
    following = asyncio.ensure_future(run(child, pipe=pipe, tag=mark, timeout_s=60))
    await until(lambda: kept.data)
    left = await end(child, tag=mark, steps=steps)
    await following
    return left


def test_process_is_over_when_it_exits_and_all_it_printed_is_there() -> None:
    kept = Kept()
    ended = asyncio.run(ran("echo out; echo err >&2; exit 3", kept))
    assert (ended.returncode, ended.timed_out, ended.left_running) == (3, False, ())
    assert (kept.data, kept.is_closed) == (b"out\nerr\n", True)


LINES = """
import os, sys
data = memoryview(b"".join(b"%07d\\n" % number for number in range(300_000)))
while data:
    data = data[os.write(1, data[:int(sys.argv[1])]):]
"""


@pytest.mark.parametrize("piece_bytes", [1000, 4096, 40_000, 1_000_000])
def test_large_output_is_read_whole_however_it_is_written(piece_bytes: int) -> None:
    kept = Kept()
    ended = asyncio.run(ran(shlex.join([sys.executable, "-c", LINES, str(piece_bytes)]), kept))
    assert (ended.returncode, ended.left_running) == (0, ())
    whole = b"".join(b"%07d\n" % number for number in range(300_000))
    assert (kept.data == whole, kept.is_closed) == (True, True)


async def write_much(pipe: Pipe, kept: Kept) -> None:
    """Write and read so much that what comes next is left to gather."""
    os.write(pipe.writer, b"x" * 60_000)
    await until(lambda: kept.data)
    os.write(pipe.writer, b"y" * 10_000)
    await until(lambda: kept.data.endswith(b"y"))


def test_pipe_of_a_large_output_can_be_closed_between_two_pieces() -> None:
    async def scenario() -> None:
        faults: list[object] = []
        asyncio.get_running_loop().set_exception_handler(lambda loop, fault: faults.append(fault))
        kept = Kept()
        pipe = Pipe(kept)
        await write_much(pipe, kept)
        pipe.close()
        await asyncio.sleep(2 * process.GATHER_S)
        assert (kept.is_closed, faults) == (True, [])

    asyncio.run(scenario())


class CountingSelector(selectors.DefaultSelector):
    """Counts how often the loop looks for events."""

    count = 0

    def select(self, timeout: float | None = None) -> Any:
        self.count += 1
        return super().select(timeout)


def test_large_output_that_pauses_is_waited_for_without_polling() -> None:
    selector = CountingSelector()

    async def scenario() -> None:
        kept = Kept()
        pipe = Pipe(kept)
        await write_much(pipe, kept)
        selector.count = 0
        await asyncio.sleep(100 * process.GATHER_S)
        pipe.close()
        assert selector.count < 10

    with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(selector)) as runner:
        runner.run(scenario())


def test_process_has_no_input_and_a_session_of_its_own() -> None:
    kept = Kept()
    asyncio.run(ran("read line; echo $?; ps -o sid= -p $$ | tr -d ' '; echo $$", kept))
    status, session, pid = kept.data.split()
    assert (status, session) == (b"1", pid)


def test_child_that_holds_the_pipe_is_named_and_its_output_still_read(tmp_path: Path) -> None:
    kept, go = Kept(), tmp_path / "go"
    wait = f"until [ -e {go} ]; do sleep 0.02; done"

    async def scenario() -> None:
        ended = await ran(f"({wait}; echo later) & echo now", kept)
        assert len(ended.left_running) == 1
        assert kept.data == b"now\n"
        await asyncio.to_thread(go.touch)
        await until(lambda: kept.is_closed)

    asyncio.run(scenario())
    assert kept.data == b"now\nlater\n"


@pytest.mark.parametrize(
    "command",
    [
        "sleep {0} & echo printed; sleep {0}",
        "setsid sleep {0} >/dev/null 2>&1 & echo printed; sleep {0}",
        "(setsid sh -c 'sleep {0} & exit' &) & echo printed; sleep {0}",
        "set -m; sleep {0} & echo printed; sleep {0}",
        "echo printed; while :; do setsid sleep {0} & sleep 0.01; done",
    ],
)
@pytest.mark.parametrize("steps", [AFTER_TIMEOUT, AFTER_INTERRUPT])
def test_ending_a_command_leaves_nothing_but_what_it_printed(command: str, steps: Steps) -> None:
    kept, seconds = Kept(), unique_seconds()
    argv = ["bash", "-c", command.format(seconds)]
    assert asyncio.run(ended_once_it_printed(argv, kept, steps=steps)) == []
    assert (kept.data, kept.is_closed) == (b"printed\n", True)
    assert running(seconds) == []


def test_command_is_ended_after_its_time() -> None:
    seconds = unique_seconds()
    ended = asyncio.run(ran(f"sleep {seconds} & sleep {seconds}", Kept(), timeout_s=0.5))
    assert (ended.timed_out, ended.returncode) == (True, -signal.SIGTERM)
    assert ended.left_running == ()
    assert running(seconds) == []


def test_command_that_ignores_the_end_of_its_time_is_killed() -> None:
    kept, seconds = Kept(), unique_seconds()
    argv = ["bash", "-c", f"trap '' TERM; echo printed; sleep {seconds}; sleep {seconds}"]
    assert asyncio.run(ended_once_it_printed(argv, kept, steps=AFTER_TIMEOUT)) == []
    assert running(seconds) == []


def test_child_with_nothing_to_know_it_by_is_ended_with_its_parent() -> None:
    kept, seconds = Kept(), unique_seconds()
    script = (
        "import subprocess, time\n"
        f"subprocess.Popen(['/bin/sleep', '{seconds}'], env={{}}, start_new_session=True)\n"
        "print('printed', flush=True)\n"
        "time.sleep(60)\n"
    )
    argv = [sys.executable, "-c", script]
    assert asyncio.run(ended_once_it_printed(argv, kept, steps=AFTER_TIMEOUT)) == []
    assert running(seconds) == []


def test_chain_of_processes_that_replace_each_other_is_ended(tmp_path: Path) -> None:
    chain = tmp_path / f"chain-{unique_seconds()}"
    chain.write_text('#!/bin/bash\nsleep 0.1\nsetsid "$0" >/dev/null 2>&1 &\n')
    chain.chmod(0o700)
    argv = ["bash", "-c", f"{chain} & sleep 0.3; echo printed; sleep 60"]
    assert asyncio.run(ended_once_it_printed(argv, Kept(), steps=AFTER_TIMEOUT)) == []
    asyncio.run(until(lambda: running(str(chain)) == []))  # dying takes a moment


def test_cancelled_command_is_interrupted_first() -> None:
    kept = Kept()

    async def scenario() -> None:
        command = "trap 'echo interrupted; exit 1' INT; echo ready; while :; do sleep 0.05; done"
        following = asyncio.ensure_future(ran(command, kept))
        await until(lambda: kept.data)
        following.cancel()
        with pytest.raises(asyncio.CancelledError):
            await following

    asyncio.run(scenario())
    assert kept.data == b"ready\ninterrupted\n"


def test_cancelled_twice_still_ends_everything() -> None:
    kept, seconds = Kept(), unique_seconds()

    async def scenario() -> None:
        command = f"trap '' INT; echo ready; sleep {seconds}; sleep {seconds}"
        following = asyncio.ensure_future(ran(command, kept))
        await until(lambda: kept.data)
        following.cancel()
        await asyncio.sleep(0)
        following.cancel()
        with pytest.raises(asyncio.CancelledError):
            await following

    asyncio.run(scenario())
    assert running(seconds) == []


def test_what_must_be_finished_is_finished_before_the_cancellation_is_told() -> None:
    steps: list[str] = []

    async def work() -> None:
        await asyncio.sleep(0.05)
        steps.append("done")

    async def scenario() -> None:
        task = asyncio.ensure_future(run_to_completion(work()))
        for _ in range(3):
            await asyncio.sleep(0)
            task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        steps.append("told")

    asyncio.run(scenario())
    assert steps == ["done", "told"]


def test_exit_is_seen_without_pidfds_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "pidfd_open", raising=False)
    kept = Kept()
    ended = asyncio.run(ran("sleep 0.05; echo out; exit 3", kept))
    assert (ended.returncode, kept.data) == (3, b"out\n")


def test_exit_can_be_asked_for_again() -> None:
    async def scenario() -> tuple[int, int]:
        child = started(["bash", "-c", "exit 3"], 1)
        return await wait_for_exit(child), await wait_for_exit(child)

    assert asyncio.run(scenario()) == (3, 3)


@pytest.mark.parametrize(
    ("returncode", "name"),
    [
        (0, None),
        (1, None),
        (128, None),
        (-9, "SIGKILL"),
        (-13, "SIGPIPE"),
        (-35, "signal 35"),
        (139, "SIGSEGV"),
        (141, None),
        (160, None),
        (255, None),
    ],
)
def test_signal_is_named(returncode: int, name: str | None) -> None:
    assert name_death_signal(returncode) == name
