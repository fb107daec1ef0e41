"""All that comes of one command, to be ended together, whatever it shed in order to be forgotten.

Two Landlock domains, one inside the other: a thread in the outer one makes the command's launcher,
which enters the inner one. Signals do not leave a domain. So a signal to everybody, sent by that
thread, reaches the command's processes and nobody else, and they cannot signal the thread.

Not held in, the same signal would end all that the person runs. It is sent only by a thread that
entered its domain, and was seen just before to be unable to signal a process outside.
"""

import os
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from subprocess import DEVNULL, PIPE, Popen

from agentcli.sandbox import kernel, landlock_rules
from agentcli.sandbox.launcher import Launcher, Restrict
from agentcli.system import process_tree

_LONGEST_WAIT_S = 1.0
"""After that, what still lives cannot be killed: it waits for a disk that does not answer."""
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
    def __init__(self, restrict: Restrict, *, name: str) -> None:
        """`restrict` is what the launcher gives up; before Linux 6.12 nothing is enclosed."""
        self._is_entered = False
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix=f"{name} enclosure")
        self.launcher = self._thread.submit(self._enclose, restrict, name).result()

    def clear(self, outsider: Outsider) -> None:
        """Kills what is left of the command, and waits until it is gone."""
        if self._is_entered and outsider.is_alive:
            self._thread.submit(_kill_all, outsider.pid).result()

    def close(self) -> None:
        self.launcher.close()
        self._thread.shutdown(wait=False)

    def _enclose(self, restrict: Restrict, name: str) -> Launcher:
        """Its thread is made by this one, and is in the domain from its beginning."""
        if landlock_rules.version() >= landlock_rules.SCOPE_VERSION:
            # What hinders this hinders the launcher, too, and is told when it shall start.
            with suppress(OSError):
                kernel.forbid_new_privileges()
                landlock_rules.enclose_thread()
                self._is_entered = True
        return Launcher(restrict, name=name)


def _kill_all(outsider: int) -> None:
    if _reaches(outsider) is not False:
        return
    # In one step for all of them: nobody can be born meanwhile, so they only get fewer.
    with suppress(ProcessLookupError, PermissionError):
        os.kill(-1, signal.SIGKILL)
    deadline = time.monotonic() + _LONGEST_WAIT_S
    while any(map(process_tree.start_time, _reach())) and time.monotonic() < deadline:
        time.sleep(_LOOK_AGAIN_S)


def _reach() -> Iterator[int]:
    """All processes, living or not, that the calling thread can signal; but not its own."""
    return (pid for pid in process_tree.list_pids() if pid != os.getpid() and _reaches(pid))


def _reaches(pid: int) -> bool | None:
    """None: there is no such process."""
    try:
        os.kill(pid, 0)
    except PermissionError:
        return False
    except ProcessLookupError:
        return None
    return True
