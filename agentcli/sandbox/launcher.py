"""A thread that gives up rights for good and then starts processes, which inherit the rest.

A thread cannot get rights back. So every process it starts is confined before its first
instruction, at no cost per process, and the rest of the program keeps its rights. A process
also ends with its launcher, because one that dies with its parent dies with the parent's thread.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from subprocess import DEVNULL, STDOUT, Popen
from threading import Lock
from typing import Generic, Protocol, TypeVar

from agentcli.system import process

Restrict = Callable[[], None]


class _Closed(Protocol):
    def close(self) -> None: ...


Made = TypeVar("Made", bound=_Closed)


class Launcher:
    def __init__(self, restrict: Restrict, *, name: str) -> None:
        """`restrict` runs in the new thread, once. If it fails, no process is ever started."""
        self._refusal: OSError | None = None
        self._thread = ThreadPoolExecutor(
            max_workers=1,
            thread_name_prefix=name,
            initializer=self._give_up_rights,
            initargs=(restrict,),
        )
        self._thread.submit(int)  # prepares the thread now, not with the first process

    def start(
        self,
        argv: Sequence[str],
        *,
        cwd: Path,
        env: dict[str, str],
        stdout: int,
        stdin: int = DEVNULL,
        stderr: int = STDOUT,
        pass_fds: Sequence[int] = (),
        enter: Callable[[], None] = lambda: None,
    ) -> "Popen[bytes]":
        """Start a process. Raise what Popen raises, or the error that `restrict` raised.

        `enter` moves the thread to where the process is to be, and it stays there.
        """
        started = self._thread.submit(
            self._start,
            argv,
            cwd=cwd,
            env=env,
            stdout=stdout,
            stdin=stdin,
            stderr=stderr,
            pass_fds=pass_fds,
            enter=enter,
        )
        return started.result()

    def close(self) -> None:
        self._thread.shutdown(wait=False)

    def _give_up_rights(self, restrict: Restrict) -> None:
        try:
            restrict()
        except OSError as error:
            self._refusal = error

    def _start(
        self,
        argv: Sequence[str],
        *,
        cwd: Path,
        env: dict[str, str],
        stdout: int,
        stdin: int,
        stderr: int,
        pass_fds: Sequence[int],
        enter: Callable[[], None],
    ) -> "Popen[bytes]":
        if self._refusal:
            raise self._refusal
        enter()
        return process.start(
            argv,
            cwd=cwd,
            env=env,
            stdout=stdout,
            stdin=stdin,
            stderr=stderr,
            pass_fds=pass_fds,
        )


class LauncherAhead(Generic[Made]):
    """Launchers for one process each. The next one is prepared while nobody waits for it."""

    def __init__(self, make: Callable[[Restrict], Made], *, name: str) -> None:
        """`make` returns a launcher that gives up those rights."""
        self._make = make
        self._maker = ThreadPoolExecutor(max_workers=1, thread_name_prefix=f"{name} maker")
        self._ready: tuple[Restrict, Future[Made]] | None = None
        self._lock = Lock()

    def take(self, restrict: Restrict) -> Made:
        """Return the prepared one if it gave up these rights, else a new one. The caller closes."""
        with self._lock:
            ready, self._ready = self._ready, None
        if ready and ready[0] == restrict:
            return ready[1].result()
        if ready:
            ready[1].result().close()
        return self._make(restrict)

    def prepare(self, restrict: Restrict) -> None:
        with self._lock:
            if self._ready is None:
                self._ready = (restrict, self._maker.submit(self._make, restrict))

    def close(self) -> None:
        with self._lock:
            ready, self._ready = self._ready, None
        if ready:
            ready[1].result().close()
        self._maker.shutdown()
