"""One process: started, its output streamed, waited for, and ended with all its descendants.

It is over when the process itself is over: nobody waits for a child that kept the pipe. asyncio's
own subprocesses wait for exactly that, so this is a plain Popen, its pidfd and a non-blocking pipe.
"""

import asyncio
import os
import signal
import struct
import sys
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from subprocess import DEVNULL, STDOUT, Popen
from threading import Thread
from typing import Any, Protocol, TypeVar

from agentcli.system import process_tree
from agentcli.types.fast_dataclass import dataclass
from agentcli.types.grants import Grants
from agentcli.types.sandbox import Sandbox

if sys.platform != "win32":
    import fcntl
    import termios
    from select import POLLIN, poll

T = TypeVar("T")

CHUNK_BYTES = 64 * 1024
LARGE_CHUNK_BYTES = 2 * CHUNK_BYTES
"""More at once is slower: the memory of larger pieces is given back and asked for each time."""
LARGE_PIPE_BYTES = 16 * CHUNK_BYTES
"""The pipe of an output that is larger than the usual one: each turn of reader and writer costs."""
SMALL_CHUNK_BYTES = CHUNK_BYTES // 2
GATHER_S = 0.0002
"""How long a large output that comes in small pieces is left to gather in the pipe.

A timer of the event loop would take five times as long, and a flood would wait for us."""
ENDING_S = 0.2
"""How long what a command has started may outlive it and still count as its own."""
DRAIN_S = 0.2
_ANSWER_BYTES = 1000

Steps = tuple[tuple[int, float], ...]
"""Signals to the process group, each with the seconds it gets to work."""

AFTER_TIMEOUT: Steps = ((signal.SIGTERM, 2.0), (process_tree.KILL, 1.0))
AFTER_INTERRUPT: Steps = ((signal.SIGINT, 2.0), (signal.SIGTERM, 3.0), (process_tree.KILL, 1.0))


class Sink(Protocol):
    """The destination of output. Must not block."""

    def feed(self, chunk: bytes) -> None: ...

    def close(self) -> None: ...


class Pipe:
    """The read end of a command's output, read as it comes until its last writer is gone.

    It may outlive the command: a server left running goes on writing, and must not be killed by
    a pipe that nobody reads.
    """

    def __init__(self, sink: Sink, *, reader: int | None = None) -> None:
        """`reader` is the read end of a pipe whose other end a process has already."""
        self._sink = sink
        self._chunk_bytes = CHUNK_BYTES
        self._read_bytes = 0
        self._then: list[Callable[[], None]] = []
        self._ended = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._fd, self.writer = (reader, -1) if reader is not None else os.pipe()
        os.set_blocking(self._fd, False)
        self._loop.add_reader(self._fd, self._read)

    @property
    def is_open(self) -> bool:
        return not self._ended.is_set()

    async def drain(self, within_s: float) -> bool:
        """Wait briefly for the end of the output, and return whether it came."""
        if self.is_open:
            with suppress(TimeoutError):
                async with asyncio.timeout(within_s):
                    await self._ended.wait()
        return not self.is_open

    def call_after_end(self, then: Callable[[], None]) -> None:
        """Call it once the output has ended and its sink is closed, unless it has already."""
        if self.is_open:
            self._then.append(then)

    def close_writer(self) -> None:
        """Close our write end once the process has it: otherwise the output has no end."""
        if self.writer >= 0:
            os.close(self.writer)
            self.writer = -1

    def close(self) -> None:
        self.close_writer()
        if self.is_open:
            self._ended.set()
            self._loop.remove_reader(self._fd)
            os.close(self._fd)
            self._sink.close()
            for then in self._then:
                then()

    def _read(self) -> None:
        """Read what there is, up to the size of a large pipe."""
        for _ in range(0, LARGE_PIPE_BYTES, self._chunk_bytes):
            try:
                chunk = os.read(self._fd, self._chunk_bytes)
            except BlockingIOError:
                return
            except OSError:
                chunk = b""  # so a terminal ends that no process holds any more
            if not chunk:
                self.close()
                return
            self._read_bytes += len(chunk)
            self._sink.feed(chunk)
            if len(chunk) < SMALL_CHUNK_BYTES:
                self._gather()
            if len(chunk) < self._chunk_bytes:
                return
            self._enlarge()

    def _gather(self) -> None:
        """If the output is large, wait a moment: every piece costs, however small."""
        if self._read_bytes >= CHUNK_BYTES:
            self._enlarge()
            time.sleep(GATHER_S)

    def _enlarge(self) -> None:
        """Let the writer go on while we handle what there is. The kernel may refuse."""
        if self._chunk_bytes == LARGE_CHUNK_BYTES:
            return
        self._chunk_bytes = LARGE_CHUNK_BYTES
        if sys.platform == "linux":
            with suppress(OSError):
                fcntl.fcntl(self._fd, fcntl.F_SETPIPE_SZ, LARGE_PIPE_BYTES)


_TERMINAL_ROWS, _TERMINAL_COLUMNS = 40, 120


def open_terminal() -> tuple[int, int]:
    """Return the two ends of a new pseudo-terminal: ours, and the one for a command."""
    if sys.platform == "win32":
        raise OSError("there are no pseudo-terminals on Windows itself")
    ours, theirs = os.openpty()
    modes = termios.tcgetattr(theirs)
    modes[1] &= ~termios.ONLCR  # its output is stored, and lines end in a newline there
    termios.tcsetattr(theirs, termios.TCSANOW, modes)
    size = struct.pack("HHHH", _TERMINAL_ROWS, _TERMINAL_COLUMNS, 0, 0)
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, size)
    return ours, theirs


class Detached(Exception):
    """The wait for a process is over, but the process runs on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessEnd:
    """The end of a command."""

    returncode: int
    """As in Popen: negative, the number of the signal, if one killed it."""
    timed_out: bool
    duration_s: float
    left_running: tuple[int, ...]
    """Descendants that are alive and were left alone; after a timeout, those that would not die."""
    has_whole_output: bool = True
    """False if something may still write to its output."""


def start(
    argv: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str],
    stdout: int,
    stdin: int = DEVNULL,
    stderr: int = STDOUT,
    pass_fds: Sequence[int] = (),
) -> "Popen[bytes]":
    """Start a process in a session of its own: a group to signal, and no terminal to read from.

    It has the confinement of the calling thread.
    """
    return Popen(
        argv,
        cwd=cwd,
        env=env,
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
        start_new_session=True,
        pass_fds=pass_fds,
    )


def start_sandboxed(
    sandbox: Sandbox | None,
    argv: Sequence[str],
    *,
    cwd: Path,
    env: dict[str, str],
    stdout: int,
    grants: Grants,
    stdin: int = DEVNULL,
    stderr: int = STDOUT,
    waits: bool = False,
) -> "Popen[bytes]":
    """Start a process in the sandbox. Without one it is unconfined, which a user has approved."""
    if sandbox is None:
        return start(argv, cwd=cwd, env=env, stdin=stdin, stdout=stdout, stderr=stderr)
    return sandbox.start(
        argv,
        cwd=cwd,
        env=env,
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
        grants=grants,
        waits=waits,
    )


def read_answer(output: int, expected: bytes, *, within_s: float) -> bytes:
    """Return what is printed: up to the expected answer, the end of the output, or of the time."""
    deadline = time.monotonic() + within_s
    said = b""
    ready = poll()
    ready.register(output, POLLIN)
    while said != expected and len(said) < _ANSWER_BYTES:
        if not ready.poll(1000 * max(0.0, deadline - time.monotonic())):
            break
        chunk = os.read(output, _ANSWER_BYTES)
        if not chunk:
            break
        said += chunk
    return said


async def run(
    child: "Popen[bytes]",
    *,
    pipe: Pipe,
    tag: str,
    timeout_s: float,
    since_pid: int | None = None,
    may_leave_others: bool = True,
    detach: asyncio.Event | None = None,
) -> ProcessEnd:
    """Follow a process whose output is the pipe, and return soon after it has ended.

    `since_pid` is the newest process at the beginning, if it was started before that.
    `may_leave_others` is false if nothing outlives it, as in a namespace of its own.

    When cancelled, first end the process and everything that carries its tag. Raise Detached,
    and end nothing, if `detach` is set first.
    """
    began = time.monotonic()
    pipe.close_writer()
    timed_out = False
    left: Sequence[int] = ()
    try:
        try:
            async with asyncio.timeout(timeout_s):
                await _wait_for_exit_or_detach(detach, child)
        except TimeoutError:
            timed_out = True
            left = await end(child, tag=tag, steps=AFTER_TIMEOUT)
        duration_s = time.monotonic() - began
        has_whole_output = await pipe.drain(DRAIN_S)
        if may_leave_others and not timed_out:
            left = process_tree.find_survivors(
                tag, shell_pid=child.pid, since_pid=since_pid or child.pid, ran_s=duration_s
            )
        if left:  # what is about to end, such as a `>(cat)`, was not left behind
            known = {pid: process_tree.read_start_time(pid) for pid in left}
            left = await process_tree.wait_until_gone(known, within_s=ENDING_S)
    except asyncio.CancelledError:
        await run_to_completion(_interrupt(child, tag=tag, pipe=pipe))
        raise
    return ProcessEnd(
        returncode=_read_returncode(child),
        timed_out=timed_out,
        duration_s=duration_s,
        left_running=tuple(left),
        has_whole_output=has_whole_output,
    )


async def wait_for_exit(child: "Popen[bytes]") -> int:
    """Return the return code as soon as the process itself is gone."""
    await _wait_until_gone(child, exited=asyncio.Event())
    return child.wait()


async def _wait_for_exit_or_detach(detach: asyncio.Event | None, child: "Popen[bytes]") -> None:
    await _wait_until_gone(child, exited=detach or asyncio.Event())
    if child.poll() is None:
        raise Detached


async def _wait_until_gone(child: "Popen[bytes]", *, exited: asyncio.Event) -> None:
    """Return when the event is set, at the latest by the end of the process."""
    if child.poll() is not None:
        return
    loop = asyncio.get_running_loop()
    try:
        pidfd = os.pidfd_open(child.pid)
    except (AttributeError, OSError):
        _wait_in_thread(child, lambda: loop.call_soon_threadsafe(exited.set))
        await exited.wait()
        return
    loop.add_reader(pidfd, exited.set)
    try:
        await exited.wait()
    finally:
        loop.remove_reader(pidfd)
        os.close(pidfd)


async def end(child: "Popen[bytes]", *, tag: str, steps: Steps) -> list[int]:
    """End a process, its group, and then what left the group; return pids that would not die."""
    # The parents of processes are known only while those live.
    known = {pid: process_tree.read_start_time(pid) for pid in process_tree.find_processes(tag)}
    for number, patience_s in steps:
        if not process_tree.signal_group(child.pid, number):
            break
        await _wait_for_group(child, patience_s, leader_only=number == signal.SIGINT)
    left = await process_tree.kill_all(tag, known=known)
    with suppress(TimeoutError):
        async with asyncio.timeout(process_tree.SWEEP_LIMIT_S):
            await wait_for_exit(child)
    return left


def name_death_signal(returncode: int) -> str | None:
    """Return the signal that killed a process, also if its shell reports it by a code above 128.

    A shell's SIGPIPE does not count: pipelines whose reader had enough end like that every day.
    """
    if returncode < 0:
        return _name_signal(-returncode)
    number = returncode - 128
    return _name_signal(number) if number in range(1, 32) and number != signal.SIGPIPE else None


def describe_end(returncode: int) -> tuple[str | None, str]:
    """Return the signal that killed a process, if one did, and how it ended, in words."""
    death = name_death_signal(returncode)
    return death, f"killed by {death}" if death else f"exit code {returncode}"


async def run_to_completion(work: Coroutine[Any, Any, T]) -> T:
    """Finish the work however often the caller is cancelled; raise the cancellation afterwards."""
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled:
        raise cancelled
    return task.result()


async def _interrupt(child: "Popen[bytes]", *, tag: str, pipe: Pipe) -> None:
    await end(child, tag=tag, steps=AFTER_INTERRUPT)
    await pipe.drain(DRAIN_S)


async def _wait_for_group(child: "Popen[bytes]", within_s: float, *, leader_only: bool) -> None:
    """Wait briefly for a group to be empty.

    After an interrupt it is enough that the shell exited. Its background processes ignore
    interrupts, and get the next signal.
    """
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        if child.poll() is not None and (leader_only or not process_tree.group_lives(child.pid)):
            return
        await asyncio.sleep(process_tree.LOOK_EVERY_S)


def _name_signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _wait_in_thread(child: "Popen[bytes]", then: Callable[[], object]) -> None:
    def wait() -> None:
        child.wait()
        # The loop may have been closed meanwhile, and then nobody waits for the event.
        with suppress(RuntimeError):
            then()

    Thread(target=wait, name=f"wait for {child.pid}", daemon=True).start()


def _read_returncode(child: "Popen[bytes]") -> int:
    """Return the code. A process that survives SIGKILL counts as killed: it dies when it wakes."""
    code = child.poll()
    return -process_tree.KILL if code is None else code
