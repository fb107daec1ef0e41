"""The processes a session has started: which are running, which have ended, and an end to all.

Whatever a command of the session left behind carries its mark, whether anybody noted it or not, so
after `close` nothing of it is running.
"""

import asyncio
import signal
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from subprocess import Popen

from agentcli.system import process_tree
from agentcli.system.orphan_reaper import OrphanReaper
from agentcli.system.process import (
    AFTER_TIMEOUT,
    DRAIN_S,
    Pipe,
    end,
    run_to_completion,
    signal_of_death,
    wait_for_exit,
)

CLOSE_GRACE_S = 2.0

Remarks = Callable[[], tuple[str, ...]]
"""Clears up after a command that has ended; returns sentences about it for the model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StartedCommand:
    """A process of this session, by the command that brought it about."""

    pid: int
    born: str
    """When it started, as the machine tells it: a later process may get the same pid."""
    command: str
    call_id: str
    log_path: str
    tag: str
    since: float
    """By the clock that is never set back."""

    @property
    def is_alive(self) -> bool:
        return self.born != "" and process_tree.start_time(self.pid) == self.born


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedCommand:
    """A background command that has come to its end."""

    started: StartedCommand
    returncode: int
    """As Popen has it: a signal's number, negative, where one killed it."""
    duration_s: float
    remarks: tuple[str, ...] = ()
    """What its sandbox has to say."""

    @property
    def how(self) -> str:
        death = signal_of_death(self.returncode)
        return f"killed by {death}" if death else f"exit code {self.returncode}"

    @property
    def note(self) -> str:
        """How a model is told."""
        said = (
            f"background pid {self.started.pid} ended after {self.duration_s:.1f} s: {self.how}, "
            f"output in {self.started.log_path}"
        )
        return "\n".join(f"[{sentence}]" for sentence in (said, *self.remarks))


class ProcessTable:
    """One per session. Must be closed before its event loop is."""

    def __init__(
        self,
        *,
        confined: bool = False,
        on_end: Callable[[FinishedCommand], None] = lambda finished: None,
    ) -> None:
        """`confined`: every command runs in a sandbox.

        `on_end`: told of each background command that has come to its end.
        """
        self._on_end = on_end
        self._mark = process_tree.new_tag(confined=confined)
        self._commands: dict[str, StartedCommand] = {}
        """Every command there was, by its mark: to tell whose a stray process is."""
        self._awaited: dict[int, StartedCommand] = {}
        """Those that somebody waits for, by their pids."""
        self._unattended: dict[int, StartedCommand] = {}
        """Those that run by themselves."""
        self._releases: dict[str, asyncio.Event] = {}
        """Of the commands somebody waits for, by their marks."""
        self._left: list[StartedCommand] = []
        self._finished: list[FinishedCommand] = []
        self._watches: set[asyncio.Task[None]] = set()
        self._pipes: list[Pipe] = []
        self._marks = 0
        self._will: OrphanReaper | None = None

    def new_tag(self) -> str:
        """A text by which the processes of one more command will be known."""
        self._marks += 1
        self._will = self._will or OrphanReaper(self._mark)
        return f"{self._mark}{self._marks}."

    def add(
        self, child: "Popen[bytes]", *, tag: str, command: str, call_id: str, log_path: str
    ) -> None:
        """Notes a command that has just been started."""
        started = StartedCommand(
            pid=child.pid,
            born=process_tree.start_time(child.pid),
            command=command,
            call_id=call_id,
            log_path=log_path,
            tag=tag,
            since=time.monotonic(),
        )
        self._commands[tag] = started
        self._awaited[child.pid] = started

    def finish(self, tag: str, *, left_running: Iterable[int], pipe: Pipe) -> tuple[int, ...]:
        """Notes that a command has ended, whom it left behind, and the pipe they may write to.

        Returns who of them is still there: a sandbox may take them down with the command.
        """
        self._releases.pop(tag, None)
        self._pipes = [kept for kept in (*self._pipes, pipe) if kept.is_open]
        return self._account_for(self._commands[tag], left_running)

    def release_event(self, tag: str) -> asyncio.Event:
        """Set when whoever waits for this command is to leave it to run."""
        return self._releases.setdefault(tag, asyncio.Event())

    def release(self) -> int:
        """Ends the waiting for every command that can run on by itself; how many they are."""
        released, self._releases = self._releases, {}
        for release in released.values():
            release.set()
        return len(released)

    def watch(self, child: "Popen[bytes]", *, tag: str, pipe: Pipe, then: Remarks) -> None:
        """Follows a background command to its end, and then calls `then`."""
        self._pipes.append(pipe)
        self._unattended[child.pid] = self._awaited.pop(child.pid)
        watch = asyncio.ensure_future(self._follow(child, self._commands[tag], pipe, then))
        self._watches.add(watch)
        watch.add_done_callback(self._watches.discard)

    def running(self) -> list[StartedCommand]:
        """What is alive of all that was noted."""
        return [*self.in_background(), *self._awaited.values()]

    def in_background(self) -> list[StartedCommand]:
        """What goes on without anybody waiting for it."""
        self._left = [left for left in self._left if left.is_alive]
        return [*self._unattended.values(), *self._left]

    def signal(self, pids: Iterable[int], number: int) -> bool:
        """Signals processes if all of them are alive and of this session; whether they were."""
        pids, known = set(pids), {started.pid for started in self.running()}
        if not pids <= known:
            return False
        process_tree.signal_processes(pids, number)
        return True

    def kill_awaited_groups(self) -> None:
        """Kills the groups of the commands that somebody waits for."""
        for started in self._awaited.values():
            process_tree.signal_group(started.pid, process_tree.KILL)

    def take_finished(self) -> list[FinishedCommand]:
        """The background commands that ended since this was last asked."""
        finished, self._finished = self._finished, []
        return finished

    async def close(self) -> list[StartedCommand]:
        """Ends all that is left running; returns the commands that were stopped by it."""
        return await run_to_completion(self._close())

    async def _close(self) -> list[StartedCommand]:
        noted = self.running()
        # One look can miss a process that is just being replaced by another.
        found = process_tree.find_processes(self._mark) | process_tree.find_processes(self._mark)
        known = {pid: process_tree.start_time(pid) for pid in found} | {
            each.pid: each.born for each in noted
        }
        process_tree.signal_processes(known, signal.SIGTERM)
        await process_tree.wait_until_gone(known, within_s=CLOSE_GRACE_S)
        await process_tree.kill_all(self._mark, known=known)
        if self._watches:
            await asyncio.wait(self._watches, timeout=process_tree.SWEEP_LIMIT_S)
        for pipe in self._pipes:
            pipe.close()
        self._awaited.clear()
        self._unattended.clear()
        self._left.clear()
        if self._will:
            self._will.dismiss()
            self._will = None
        # A command can make up a mark; no more comes of it than that its process is not named.
        marks = dict.fromkeys([*(each.tag for each in noted), *found.values()])
        return [self._commands[mark] for mark in marks if mark in self._commands]

    def _account_for(self, started: StartedCommand, left_running: Iterable[int]) -> tuple[int, ...]:
        self._awaited.pop(started.pid, None)
        self._unattended.pop(started.pid, None)
        births = {pid: process_tree.start_time(pid) for pid in left_running}
        left = [replace(started, pid=pid, born=born) for pid, born in births.items() if born]
        self._left += left
        return tuple(each.pid for each in left)

    async def _follow(
        self, child: "Popen[bytes]", started: StartedCommand, pipe: Pipe, then: Remarks
    ) -> None:
        returncode = await wait_for_exit(child)
        duration_s = time.monotonic() - started.since
        if returncode < 0:
            # Whoever kills the shell means the command: its children must not stay behind.
            await end(child, tag=started.tag, steps=AFTER_TIMEOUT)
        await pipe.drain(DRAIN_S)
        self._account_for(started, process_tree.find_processes(started.tag))
        finished = FinishedCommand(
            started=started, returncode=returncode, duration_s=duration_s, remarks=then()
        )
        self._finished.append(finished)
        self._on_end(finished)
