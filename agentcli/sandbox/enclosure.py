"""An enclosure for one command: all its processes end together, however they detached.

Two Landlock domains, one inside the other: a thread in the outer one creates the command's
launcher, which enters the inner one. Signals do not leave a domain. So a signal to all processes,
sent by that thread, reaches the command's processes and no others. They cannot signal the thread.

Outside a domain, the same signal would end everything the user runs. It is sent only by a thread
that entered its domain, and just before failed to signal a process outside.
"""

import os
import signal
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from subprocess import DEVNULL, PIPE, Popen

from agentcli.sandbox import kernel, landlock_rules
from agentcli.sandbox.kernel import Launcher, Restrict
from agentcli.system import process_tree

_LONGEST_WAIT_S = 1.0
"""The wait after a kill. What still lives then cannot be killed: its disk does not answer."""
_LOOK_AGAIN_S = 0.002


class Outsider:
    """A process of the same user that is in no domain, and ends with this one."""

    def __init__(self) -> None:
        self._process = Popen(
            ["/bin/sh", "-c", "read -r _"],
            cwd="/",
            env={},
            stdin=PIPE,
            stdout=DEVNULL,
            stderr=DEVNULL,
            start_new_session=True,
        )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def close(self) -> None:
        with self._process:
            self._process.kill()


class Enclosure:
    """All processes of one command, which end together."""

    def __init__(self, restrict: Restrict) -> None:
        """`restrict` gives up the launcher's rights. Before Linux 6.12 nothing is enclosed."""
        self._is_entered = False
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="landlock enclosure")
        self.launcher = self._thread.submit(self._enclose, restrict).result()

    def clear(self, outsider: Outsider) -> None:
        """Kill the remaining processes of the command, and wait until they are gone."""
        if self._is_entered and outsider.is_alive:
            self._thread.submit(_kill_all, outsider.pid).result()

    def close(self) -> None:
        self.launcher.close()
        self._thread.shutdown(wait=False)

    def _enclose(self, restrict: Restrict) -> Launcher:
        """Create the launcher. This thread starts its thread, so that is in the domain at once."""
        if landlock_rules.read_version() >= landlock_rules.SCOPE_VERSION:
            # An error here also stops the launcher, which reports it when it starts a process.
            with suppress(OSError):
                kernel.forbid_new_privileges()
                landlock_rules.enclose_thread()
                self._is_entered = True
        return Launcher(restrict, name="landlock launcher")


class EnclosureAhead:
    """Enclosures for one command each. The next one is prepared while nobody waits for it."""

    def __init__(self) -> None:
        self._maker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="landlock maker")
        self._ready: tuple[Restrict, Future[Enclosure]] | None = None

    def take(self, restrict: Restrict) -> Enclosure:
        """Return the prepared one if it gave up these rights, else a new one. The caller closes."""
        if self._ready and self._ready[0] == restrict:
            ready, self._ready = self._ready[1], None
            with suppress(RuntimeError):  # no thread could be started then
                return ready.result()
        self._drop()
        return Enclosure(restrict)

    def prepare(self, restrict: Restrict) -> None:
        if self._ready is None:
            self._ready = (restrict, self._maker.submit(Enclosure, restrict))

    def close(self) -> None:
        self._drop()
        self._maker.shutdown()

    def _drop(self) -> None:
        if self._ready:
            with suppress(RuntimeError):  # it could not be made: no thread could be started
                self._ready[1].result().close()
            self._ready = None


def _kill_all(outsider: int) -> None:
    if _reaches(outsider) is not False:
        return
    # One step for all of them: no process can be created meanwhile, so they only get fewer.
    with suppress(ProcessLookupError, PermissionError):
        os.kill(-1, signal.SIGKILL)
    deadline = time.monotonic() + _LONGEST_WAIT_S
    while any(map(process_tree.read_start_time, _reach())) and time.monotonic() < deadline:
        time.sleep(_LOOK_AGAIN_S)


def _reach() -> Iterator[int]:
    """Yield all processes, dead or alive, that the calling thread can signal, but not its own."""
    return (pid for pid in process_tree.list_pids() if pid != os.getpid() and _reaches(pid))


def _reaches(pid: int) -> bool | None:
    """Return whether the thread can signal a process, or None if there is no such process."""
    try:
        os.kill(pid, 0)
    except PermissionError:
        return False
    except ProcessLookupError:
        return None
    return True
