"""The processes a session has started: which run, which have ended, and how to end them all.

Everything that a command of the session left behind carries its tag, whether it was noted or not.
So after `close` nothing of it is running.

If we are killed and cannot clean up ourselves, the orphan reaper does. It is one small process
outside, which collects lines of shell. If we end as usual, it gets an empty line as a farewell, and
ends. If its pipe closes without one, we were killed, and it runs the lines.
"""

import asyncio
import atexit
import os
import shlex
import signal
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from subprocess import PIPE, Popen
from threading import Lock

from agentcli.system import own_process, process_tree
from agentcli.system.process import (
    AFTER_TIMEOUT,
    DRAIN_S,
    Pipe,
    describe_end,
    end,
    run_to_completion,
    wait_for_exit,
)
from agentcli.types.fast_dataclass import dataclass

_FAREWELL = b"\n"
_SHELL = "/bin/sh"
_COLLECT = """
set -f
while IFS= read -r line; do [ "$line" ] || exit; set -- "$@" "$line"; done
for line do /bin/sh -c "$line" & done
"""
# A process that was just being started may not carry the tag yet, so it looks more than once.
# One search finds the few that do: two for each process of the machine would take seconds.
_KILL_TAGGED = (
    "for look in 1 2 3; do sleep 0.5; "
    "grep -lsF {tag} /proc/[0-9]*/environ | while IFS=/ read -r _ _ process _; do "
    'if grep -qsF {tag} "/proc/$process/environ" && grep -qs {status} "/proc/$process/status"; '
    'then kill -KILL "$process"; fi; done; done'
)


class _Reaper:
    def __init__(self) -> None:
        self._process = own_process.start(
            [_SHELL, "-c", _COLLECT, "agentcli"],
            workspace=None,
            cwd=Path("/"),
            env={"PATH": os.defpath},
            stdin=PIPE,
            start_new_session=True,
        )
        atexit.register(self._dismiss)

    def add(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line.encode() + b"\n")
        self._process.stdin.flush()

    def _dismiss(self) -> None:
        self._process.communicate(_FAREWELL)


_reapers: list[_Reaper] = []
"""The reaper of this process, once it is needed."""
_reaper_lock = Lock()
if sys.platform != "win32":
    os.register_at_fork(after_in_child=_reapers.clear)


def run_if_killed(line: str) -> None:
    """Have a line of shell run if we are killed. Raise OSError if there is nobody to run it."""
    with _reaper_lock:
        if not _reapers:
            _reapers.append(_Reaper())
        try:
            _reapers[0].add(line)
        except OSError:
            del _reapers[0]  # somebody has ended it: the next line gets another one
            raise


def kill_tagged_if_killed(tag: str) -> None:
    """If we are killed, kill everything that carries the tag, whatever its parent is by then.

    Do nothing where processes cannot be found by their tags."""
    if Path("/proc/self/environ").exists():
        status = process_tree.CONFINED_STATUS if process_tree.is_confined(tag) else ""
        run_if_killed(_KILL_TAGGED.format(tag=shlex.quote(tag), status=shlex.quote(status)))


CLOSE_GRACE_S = 2.0

Remarks = Callable[[], tuple[str, ...]]
"""Cleans up after a command that has ended; returns sentences about it for the model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StartedCommand:
    """A process of this session, with the command that started it."""

    pid: int
    command: str
    call_id: str
    log_path: str
    tag: str
    since: float
    """The start by the monotonic clock."""
    born: str = ""
    """The start time of what a command left, as the system reports it: a later process may get the
    same pid. Nobody gets the pid of the command itself before it is waited for."""

    @property
    def is_alive(self) -> bool:
        born = process_tree.read_start_time(self.pid)
        return born != "" and self.born in ("", born)


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedCommand:
    """A background command that has ended."""

    started: StartedCommand
    returncode: int
    """As in Popen: negative, the number of the signal, if one killed it."""
    duration_s: float
    remarks: tuple[str, ...] = ()
    """Sentences of its sandbox."""

    @property
    def exit_code(self) -> int | None:
        """The exit code; None if a signal killed it."""
        death, _ = describe_end(self.returncode)
        return None if death else self.returncode

    @property
    def how(self) -> str:
        _, how = describe_end(self.returncode)
        return how

    @property
    def note(self) -> str:
        """The context note for the model."""
        text = (
            f"background pid {self.started.pid} ended after {self.duration_s:.1f} s: {self.how}, "
            f"output in {self.started.log_path}"
        )
        return "\n".join(f"[{sentence}]" for sentence in (text, *self.remarks))


class ProcessTable:
    """The process table of one session. Must be closed before its event loop is."""

    def __init__(
        self,
        *,
        on_end: Callable[[FinishedCommand], None] = lambda finished: None,
    ) -> None:
        """`on_end` is called for each background command that has ended."""
        self._on_end = on_end
        self._prefixes: dict[bool, str] = {}
        """The beginning of all tags of confined commands, and of those outside the sandbox."""
        self._commands: dict[str, StartedCommand] = {}
        """Every command there was, by its tag: it says which command a stray process is from."""
        self._awaited: dict[int, StartedCommand] = {}
        """Commands that are being waited for, by pid."""
        self._unattended: dict[int, StartedCommand] = {}
        """Commands in the background, by pid."""
        self._detach_events: dict[str, asyncio.Event] = {}
        """The detach events of commands that are being waited for, by tag."""
        self._left: list[StartedCommand] = []
        self._finished: list[FinishedCommand] = []
        self._watches: set[asyncio.Task[None]] = set()
        self._pipes: list[Pipe] = []
        self._tagging = Lock()
        """Held for a new tag: shells are made in several threads."""
        self._tags = 0

    def create_tag(self, *, confined: bool) -> str:
        """Return the tag by which the processes of a new command will be known.

        `confined` says that it runs in a sandbox.
        """
        with self._tagging:
            self._tags += 1
            if confined not in self._prefixes:
                self._prefixes[confined] = process_tree.make_tag(confined=confined)
                kill_tagged_if_killed(self._prefixes[confined])
            return f"{self._prefixes[confined]}{self._tags}."

    def add(
        self,
        child: "Popen[bytes]",
        *,
        tag: str,
        command: str,
        call_id: str,
        log_path: str,
        detach: asyncio.Event | None = None,
    ) -> None:
        """Add a command that has just been started.

        `detach` is set when it is to run on without being waited for; None if that cannot be."""
        started = StartedCommand(
            pid=child.pid,
            command=command,
            call_id=call_id,
            log_path=log_path,
            tag=tag,
            since=time.monotonic(),
        )
        self._commands[tag] = started
        self._awaited[child.pid] = started
        if detach is not None:
            self._detach_events[tag] = detach

    def finish(
        self, tag: str, *, left_running: Iterable[int], pipe: Pipe | None
    ) -> tuple[int, ...]:
        """Record that a command has ended, what it left running, and the pipe they may write to.

        Return the pids that are still there: a sandbox may end them with the command.
        """
        self._detach_events.pop(tag, None)
        self._pipes = [one for one in self._pipes if one.is_open]
        if pipe is not None:
            self._pipes.append(pipe)
        return self._record_end(self._commands[tag], left_running)

    def detach(self) -> int:
        """Stop waiting for every command that can go on in the background; return their number."""
        events, self._detach_events = self._detach_events, {}
        for event in events.values():
            event.set()
        return len(events)

    def watch(self, child: "Popen[bytes]", *, tag: str, pipe: Pipe, then: Remarks) -> None:
        """Follow a background command to its end, and then call `then`."""
        self._pipes.append(pipe)
        self._unattended[child.pid] = self._awaited.pop(child.pid)
        watch = asyncio.ensure_future(self._follow(child, self._commands[tag], pipe, then))
        self._watches.add(watch)
        watch.add_done_callback(self._watches.discard)

    def list_running(self) -> list[StartedCommand]:
        """Return all known processes that are alive."""
        return [*self.list_background(), *self._awaited.values()]

    def list_background(self) -> list[StartedCommand]:
        """Return the processes that nobody waits for."""
        self._left = [left for left in self._left if left.is_alive]
        return [*self._unattended.values(), *self._left]

    def signal(self, pids: Iterable[int], number: int) -> bool:
        """Signal processes if all are alive and of this session; return whether they were."""
        pids, known = set(pids), {started.pid for started in self.list_running()}
        if not pids <= known:
            return False
        process_tree.signal_processes(pids, number)
        return True

    def kill_awaited_groups(self) -> None:
        """Kill the groups of the commands that are being waited for."""
        for started in self._awaited.values():
            process_tree.signal_group(started.pid, process_tree.KILL)

    def take_finished(self) -> list[FinishedCommand]:
        """Return the background commands that ended since the last call."""
        finished, self._finished = self._finished, []
        return finished

    def take_remarks(self, tag: str) -> tuple[str, ...]:
        """Return the remarks on one that ended, which is then not among those to be taken."""
        finished = [one for one in self._finished if one.started.tag == tag]
        self._finished = [one for one in self._finished if one.started.tag != tag]
        return tuple(remark for one in finished for remark in one.remarks)

    async def close(self) -> list[StartedCommand]:
        """End everything that is still running; return the commands that this stopped."""
        return await run_to_completion(self._close())

    async def _close(self) -> list[StartedCommand]:
        noted = self.list_running()
        known = {each.pid: process_tree.read_start_time(each.pid) for each in noted}
        found = self._find_all()
        if self._prefixes:
            # One look can miss a process that is just being replaced by another.
            await asyncio.sleep(process_tree.LOOK_AGAIN_S)
            found |= self._find_all()
        known |= {pid: process_tree.read_start_time(pid) for pid in found if pid not in known}
        if known:
            process_tree.signal_processes(known, signal.SIGTERM)
            await process_tree.wait_until_gone(known, within_s=CLOSE_GRACE_S)
            for prefix in self._prefixes.values():
                await process_tree.kill_all(prefix, known=known)
        if self._watches:
            await asyncio.wait(self._watches, timeout=process_tree.SWEEP_LIMIT_S)
        for pipe in self._pipes:
            pipe.close()
        self._awaited.clear()
        self._unattended.clear()
        self._left.clear()
        # A command can fake a tag. The only effect is that its process is not named here.
        tags = dict.fromkeys([*(each.tag for each in noted), *found.values()])
        return [self._commands[tag] for tag in tags if tag in self._commands]

    def _find_all(self) -> dict[int, str]:
        """Return every living process of the session, and its tag."""
        found: dict[int, str] = {}
        for prefix in self._prefixes.values():
            found |= process_tree.find_processes(prefix)
        return found

    def _record_end(self, started: StartedCommand, left_running: Iterable[int]) -> tuple[int, ...]:
        self._awaited.pop(started.pid, None)
        self._unattended.pop(started.pid, None)
        births = {pid: process_tree.read_start_time(pid) for pid in left_running}
        left = [replace(started, pid=pid, born=born) for pid, born in births.items() if born]
        self._left += left
        return tuple(each.pid for each in left)

    async def _follow(
        self, child: "Popen[bytes]", started: StartedCommand, pipe: Pipe, then: Remarks
    ) -> None:
        returncode = await wait_for_exit(child)
        duration_s = time.monotonic() - started.since
        if returncode < 0:
            # Killing the shell means killing the command: its children must not stay behind.
            await end(child, tag=started.tag, steps=AFTER_TIMEOUT)
        await pipe.drain(DRAIN_S)
        self._record_end(started, process_tree.find_processes(started.tag))
        finished = FinishedCommand(
            started=started, returncode=returncode, duration_s=duration_s, remarks=then()
        )
        self._finished.append(finished)
        self._on_end(finished)
