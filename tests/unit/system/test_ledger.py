import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path
from subprocess import Popen

import pytest

from agentcli.system import process
from agentcli.system.environment import build_child_environment
from agentcli.system.process import Pipe
from agentcli.system.process_table import FinishedCommand, ProcessTable
from tests.support.processes import running, unique_seconds, until


class Dropped:
    def feed(self, chunk: bytes) -> None: ...

    def close(self) -> None: ...


def entered(ledger: ProcessTable, command: str, *, stdout: int = 1) -> tuple["Popen[bytes]", str]:
    mark = ledger.create_tag(confined=False)
    child = process.start(
        ["bash", "-c", command],
        cwd=Path("/"),
        env=build_child_environment(os.environ, tag=mark),
        stdout=stdout,
    )
    ledger.add(child, tag=mark, command=command, call_id="call", log_path="1.log")
    return child, mark


def in_background(ledger: ProcessTable, command: str) -> "Popen[bytes]":
    pipe = Pipe(Dropped())
    child, mark = entered(ledger, command, stdout=pipe.writer)
    pipe.close_writer()
    ledger.watch(child, tag=mark, pipe=pipe, then=lambda: ("Remarked.",))
    return child


async def in_foreground(ledger: ProcessTable, command: str) -> tuple[int, ...]:
    pipe = Pipe(Dropped())
    child, mark = entered(ledger, command, stdout=pipe.writer)
    ended = await process.run(child, pipe=pipe, tag=mark, timeout_s=20)
    ledger.finish(mark, left_running=ended.left_running, pipe=pipe)
    return ended.left_running


def with_ledger(scenario: Callable[[ProcessTable], Awaitable[None]]) -> None:
    async def main() -> None:
        ledger = ProcessTable()
        try:
            await scenario(ledger)
        finally:
            await ledger.close()

    asyncio.run(main())


async def next_finished(ledger: ProcessTable) -> FinishedCommand:
    finished: list[FinishedCommand] = []

    def has_ended() -> bool:
        finished.extend(ledger.take_finished())
        return bool(finished)

    await until(has_ended)
    (only,) = finished
    return only


def test_running_process_is_known_with_all_there_is_to_know() -> None:
    async def scenario(ledger: ProcessTable) -> None:
        child = in_background(ledger, "sleep 60")
        (started,) = ledger.list_running()
        assert (started.pid, started.command) == (child.pid, "sleep 60")
        assert (started.call_id, started.log_path) == ("call", "1.log")
        assert started.is_alive

    with_ledger(scenario)


def test_only_what_is_waited_for_is_killed_and_the_rest_is_in_the_background() -> None:
    async def scenario(ledger: ProcessTable) -> None:
        left = in_background(ledger, "sleep 60")
        awaited, _ = entered(ledger, "sleep 60")
        assert [one.pid for one in ledger.list_background()] == [left.pid]
        ledger.kill_awaited_groups()
        assert await process.wait_for_exit(awaited) == -signal.SIGKILL
        assert left.poll() is None

    with_ledger(scenario)


def test_end_of_a_background_command_is_told_once() -> None:
    async def scenario(ledger: ProcessTable) -> None:
        assert ledger.take_finished() == []
        child = in_background(ledger, "exit 3")
        finished = await next_finished(ledger)
        assert (finished.started.pid, finished.returncode) == (child.pid, 3)
        assert finished.note == (
            f"[background pid {child.pid} ended after {finished.duration_s:.1f} s: exit code 3, "
            "output in 1.log]\n[Remarked.]"
        )
        assert (ledger.take_finished(), ledger.list_running()) == ([], [])

    with_ledger(scenario)


def test_killing_a_background_shell_ends_its_children() -> None:
    seconds = unique_seconds()

    async def scenario(ledger: ProcessTable) -> None:
        child = in_background(ledger, f"sleep {seconds} & setsid sleep {seconds} & sleep {seconds}")
        await until(lambda: len(running(f"sleep {seconds}")) == 4)
        child.terminate()
        finished = await next_finished(ledger)
        assert "killed by SIGTERM" in finished.note
        assert running(seconds) == []

    with_ledger(scenario)


def test_what_a_command_left_behind_is_known_until_it_ends(tmp_path: Path) -> None:
    go = tmp_path / "go"
    command = f"(until [ -e {go} ]; do sleep 0.02; done) >/dev/null 2>&1 &"

    async def scenario(ledger: ProcessTable) -> None:
        (left,) = await in_foreground(ledger, command)
        (started,) = ledger.list_running()
        assert (started.pid, started.command) == (left, command)
        await asyncio.to_thread(go.touch)
        await until(lambda: ledger.list_running() == [])

    with_ledger(scenario)


@pytest.mark.parametrize(
    "command",
    [
        "sleep {0} &",
        "sleep {0} >/dev/null 2>&1 &",
        "setsid sleep {0} >/dev/null 2>&1 &",
        "(trap '' TERM; sleep {0}; sleep {0}) &",
        "(setsid sh -c 'sleep {0} & exit' >/dev/null 2>&1 &)",
        "nohup sleep {0} >/dev/null 2>&1 & disown",
    ],
)
def test_close_ends_what_commands_left_behind(command: str) -> None:
    seconds = unique_seconds()

    async def scenario(ledger: ProcessTable) -> None:
        await in_foreground(ledger, command.format(seconds))
        (stopped,) = await ledger.close()
        assert stopped.command == command.format(seconds)
        assert running(seconds) == []

    with_ledger(scenario)


def test_close_ends_background_and_foreground_commands_and_names_each_once() -> None:
    seconds = unique_seconds()

    async def scenario(ledger: ProcessTable) -> None:
        in_background(ledger, f"sleep {seconds} & sleep {seconds}")
        entered(ledger, f"sleep {seconds}; true")
        await until(lambda: len(running(f"sleep {seconds}")) == 5)
        stopped = await ledger.close()
        assert [each.command for each in stopped] == [
            f"sleep {seconds} & sleep {seconds}",
            f"sleep {seconds}; true",
        ]
        assert running(seconds) == []
        assert await ledger.close() == []

    with_ledger(scenario)


def test_close_is_finished_even_when_cancelled() -> None:
    seconds = unique_seconds()

    async def scenario(ledger: ProcessTable) -> None:
        in_background(ledger, f"trap '' TERM; sleep {seconds}; sleep {seconds}")
        await until(lambda: len(running(f"sleep {seconds}")) == 2)
        closing = asyncio.ensure_future(ledger.close())
        await asyncio.sleep(0)
        closing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await closing
        assert running(seconds) == []

    with_ledger(scenario)


def test_made_up_mark_does_not_hinder_closing() -> None:
    seconds = unique_seconds()

    async def scenario(ledger: ProcessTable) -> None:
        forged = "AGENTCLI_CALL=${AGENTCLI_CALL%.*.}.999."
        await in_foreground(ledger, f"{forged} setsid sleep {seconds} >/dev/null 2>&1 &")
        await ledger.close()
        assert running(seconds) == []

    with_ledger(scenario)
