"""The limits on a command's use of the machine, as far as the kernel itself can enforce them.

Limits are set once, on this process, because every child inherits them. Set on a child, they would
come too late for processes it has already started. Memory and processes are counted by a watch:
RLIMIT_AS stops node and RLIMIT_DATA stops the sanitizers of C at their first step. RLIMIT_NPROC
counts everything the user runs and does not apply to root.
"""

import os
import sys
from dataclasses import dataclass

if sys.platform != "win32":
    import resource

GIB = 1024**3

_FILE_BYTES = 64 * GIB
_OPEN_FILES = 65_536
_FEWEST_PROCESSES = 1024
_PROCESSES_PER_CPU = 128
_LINE_BYTES = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandLimits:
    """The limits of one command with all its processes. 0 means as much as suits this machine."""

    processes: int = 0
    memory_bytes: int = 0

    @property
    def most_processes(self) -> int:
        usual = max(_FEWEST_PROCESSES, _PROCESSES_PER_CPU * (os.cpu_count() or 1))
        return self.processes or usual

    @property
    def most_tasks(self) -> int:
        """The limit of processes and their threads."""
        return 2 * self.most_processes


def lower_own_limits() -> None:
    """Lower the limits of everything this process starts from now on. It needs less itself."""
    _lower(resource.RLIMIT_CORE, 0)
    _lower(resource.RLIMIT_FSIZE, _FILE_BYTES)
    _lower(resource.RLIMIT_NOFILE, _OPEN_FILES)


def limit_processes(limits: CommandLimits, *, tasks_now: int) -> None:
    """Limit how many more processes than now the user may have. Called before each command.

    It is only the soft limit, and does not apply to root: a second net, under the watch.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_NPROC)
    most = tasks_now + limits.most_processes
    resource.setrlimit(resource.RLIMIT_NPROC, (_at_most(hard, most), hard))


def count_allowed_tasks(limits: CommandLimits) -> int:
    """Return the number that the limits allow, or that the user may have at all if smaller."""
    _, hard = resource.getrlimit(resource.RLIMIT_NPROC)
    return _at_most(hard, limits.most_tasks)


def count_tasks() -> int:
    """Return the number of processes and threads of the machine, from one small file."""
    handle = os.open("/proc/loadavg", os.O_RDONLY | os.O_CLOEXEC)
    try:
        return int(os.read(handle, _LINE_BYTES).split()[3].partition(b"/")[2])
    finally:
        os.close(handle)


def _lower(which: int, most: int) -> None:
    soft, hard = resource.getrlimit(which)
    resource.setrlimit(which, (_at_most(soft, most), _at_most(hard, most)))


def _at_most(value: int, most: int) -> int:
    return most if value == resource.RLIM_INFINITY else min(value, most)
