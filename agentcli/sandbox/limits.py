"""The limits on a command's use of the machine, and the watch that stops whoever exceeds them.

What the kernel itself can limit is set once, on this process, because every child inherits it. Set
on a child, it would come too late for processes it has already started. Memory and processes are
counted by a watch: RLIMIT_AS stops node and RLIMIT_DATA stops the sanitizers of C at their first
step. RLIMIT_NPROC counts everything the user runs and does not apply to root.
"""

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence, Set
from contextlib import contextmanager, suppress
from pathlib import Path
from subprocess import Popen
from threading import Condition, Lock, Thread

from agentcli.system.process_tree import list_pids, read_stat, signal_processes
from agentcli.types.fast_dataclass import dataclass

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
    disk_bytes: int = 0
    """The limit of what becomes full on the file systems that it may write to."""

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


def limit_processes(limits: CommandLimits) -> int:
    """Limit how many more processes than now the user may have. Return how many tasks there are.

    Called before each command. It is only the soft limit, and does not apply to root: a second net
    if the watch cannot run. In a user namespace the kernel counts the processes there alone.
    """
    tasks_now = count_tasks()
    _, hard = resource.getrlimit(resource.RLIMIT_NPROC)
    most = tasks_now + limits.most_processes
    resource.setrlimit(resource.RLIMIT_NPROC, (_lower_value(hard, most), hard))
    return tasks_now


def count_tasks() -> int:
    """Return the number of processes and threads of the machine, from one small file."""
    handle = os.open("/proc/loadavg", os.O_RDONLY | os.O_CLOEXEC)
    try:
        return int(os.read(handle, _LINE_BYTES).split()[3].partition(b"/")[2])
    finally:
        os.close(handle)


def _lower(which: int, most: int) -> None:
    soft, hard = resource.getrlimit(which)
    resource.setrlimit(which, (_lower_value(soft, most), _lower_value(hard, most)))


def _lower_value(value: int, most: int) -> int:
    return most if value == resource.RLIM_INFINITY else min(value, most)


# The machine's processes as the kernel lists them, and the end of one with its descendants.


_PROC = Path("/proc")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096
_ROUNDS = 200
_EMPTY_LOOKS = 3
_LOOK_AGAIN_S = 0.01


@dataclass(frozen=True, slots=True)
class Process:
    parent: int
    session: int
    memory_bytes: int
    """Resident memory of its own: memory mapped from files is not counted."""


def list_processes(*, but: Set[int] = frozenset()) -> dict[int, Process]:
    """Return all running processes except those in `but`. The dead, even unreaped, are left out."""
    found = {}
    for pid in list_pids():
        if pid not in but:
            with suppress(OSError):  # it has ended meanwhile
                process = _read(pid)
                if process:
                    found[pid] = process
    return found


def _read(pid: int) -> Process | None:
    stat = read_stat(pid)
    if stat is None:
        return None
    memory = _PROC.joinpath(str(pid), "statm").read_text(encoding="utf-8")
    _, resident, shared = memory.split()[:3]
    return Process(stat.parent, stat.session, (int(resident) - int(shared)) * _PAGE_BYTES)


def find_tree(pid: int, table: dict[int, Process]) -> set[int]:
    """Return a process, its descendants, and the rest of the session it leads."""
    return _find_descendants({pid}, table)


def kill_tree(pid: int) -> None:
    """Kill a tree. Stop all before killing one: without its parent, a child cannot be found."""
    stopped: set[int] = set()
    empty_looks = 0
    for _ in range(_ROUNDS):
        # Only new processes are read, so that this is faster than they can be created.
        running = _find_descendants(stopped | {pid}, list_processes(but=stopped))
        signal_processes(running, signal.SIGSTOP)
        stopped |= running
        empty_looks = 0 if running else empty_looks + 1
        if empty_looks == _EMPTY_LOOKS:
            break
        if not running:
            time.sleep(_LOOK_AGAIN_S)  # one may have been in the middle of a fork
    signal_processes(stopped, signal.SIGKILL)


def _find_descendants(first: set[int], table: dict[int, Process]) -> set[int]:
    children: dict[int, list[int]] = {}
    for child, process in table.items():
        for elder in {process.parent, process.session}:
            children.setdefault(elder, []).append(child)
    found: set[int] = set()
    waiting = list(first)
    while waiting:
        one = waiting.pop()
        if one not in found:
            found.add(one)
            waiting += children.get(one, ())
    return found & table.keys()


# The watch. The machine as a whole is checked often, which costs next to nothing. A command's own
# share is counted only if the whole shows much use.


_MEMORY_SHARE = 0.7
_DISK_SHARE = 0.9
"""Of what was free when the command began."""
_LEFT_SHARE = 0.03
_LARGE_SHARE = 0.1
_LOOK_EVERY_S = 0.05

FindStale = Callable[[], Sequence[Path]]
"""Returns the paths that a mount holds no longer."""


@dataclass(frozen=True, slots=True)
class _Memory:
    total_bytes: int
    available_bytes: int
    shared_bytes: int
    """Files that exist in memory only; no process is charged for them."""

    @classmethod
    def measure(cls) -> "_Memory":
        lines = Path("/proc/meminfo").read_text(encoding="utf-8").splitlines()
        kib = {name: int(rest.split()[0]) for name, _, rest in (x.partition(":") for x in lines)}
        return cls(*(kib[name] * 1024 for name in ("MemTotal", "MemAvailable", "Shmem")))

    @property
    def is_short(self) -> bool:
        return self.available_bytes < self.total_bytes * _LEFT_SHARE


@dataclass(slots=True)
class _WatchedCommand:
    process: "Popen[bytes]"
    tasks_before: int
    find_stale: FindStale
    writable: Sequence[Path]
    """Directories on the file systems that it may write to."""
    free_before: Sequence[int | None]
    """Free bytes of each of them at its start."""
    before: _Memory | None = None
    """Memory at the first check, soon after the command's start."""
    reason: str = ""

    @property
    def is_alive(self) -> bool:
        """True as far as is known: once it was waited for, its pid may be another process's."""
        return not self.reason and self.process.returncode is None


class CommandWatch:
    """Stops commands that use too much, or whose mounts are stale. Sleeps while none runs."""

    def __init__(self, limits: CommandLimits) -> None:
        self._limits = limits
        self._running: dict[Popen[bytes], _WatchedCommand] = {}
        self._has_work = Condition()
        self._looking = Lock()
        self._thread: Thread | None = None
        self._is_closed = False

    def add(
        self,
        process: "Popen[bytes]",
        *,
        tasks_before: int,
        find_stale: FindStale = tuple,
        writable: Sequence[Path] = (),
    ) -> None:
        """`writable` are directories on the file systems that the command may write to."""
        with self._has_work:
            self._running[process] = _WatchedCommand(
                process, tasks_before, find_stale, writable, free_before=_count_free(writable)
            )
            if self._thread is None:
                self._thread = Thread(target=self._watch, name="command limits", daemon=True)
                self._thread.start()
            self._has_work.notify()

    def remove(self, process: "Popen[bytes]") -> tuple[str, ...]:
        """Return why the command was stopped, if it was. All of it has been killed then."""
        with self._looking, self._has_work:
            watched = self._running.pop(process, None)
        return (watched.reason,) if watched and watched.reason else ()

    def close(self) -> None:
        with self._has_work:
            self._is_closed = True
            self._has_work.notify()

    def _watch(self) -> None:
        while True:
            with self._has_work:
                self._has_work.wait_for(lambda: self._running or self._is_closed)
                if self._is_closed:
                    return
            time.sleep(_LOOK_EVERY_S)
            with self._has_work:
                alive = [one for one in self._running.values() if one.is_alive]
            if alive:
                with self._looking:
                    self._stop_stale(alive)
                    self._stop_filling([one for one in alive if one.is_alive])
                    self._look([one for one in alive if one.is_alive])

    def _stop_stale(self, running: list[_WatchedCommand]) -> None:
        for one in running:
            if stale := one.find_stale():
                one.reason = (
                    f"Stopped: {stale[0]} was replaced or removed while it ran, "
                    "and could not be kept from it any more."
                )
                kill_tree(one.process.pid)

    def _stop_filling(self, running: list[_WatchedCommand]) -> None:
        for one in running:
            for before, now in zip(one.free_before, _count_free(one.writable), strict=True):
                if before is None or now is None:
                    continue
                most = self._limits.disk_bytes or int(before * _DISK_SHARE)
                if before - now > most and not one.reason:
                    filled = f"{_format_size(most)} of disk"
                    one.reason = _describe_stop(
                        "while it ran, programs used", filled, setting="disk"
                    )
                    kill_tree(one.process.pid)

    def _look(self, running: list[_WatchedCommand]) -> None:
        if not running:
            return
        memory = _Memory.measure()
        for one in running:
            one.before = one.before or memory
        new_tasks = count_tasks() - min(one.tasks_before for one in running)
        if self._is_much(running, new_tasks, memory=memory):
            with run_ahead():
                self._compare(running, new_tasks, memory=memory)
                for one in running:
                    if one.reason:
                        kill_tree(one.process.pid)

    def _is_much(self, running: list[_WatchedCommand], new_tasks: int, *, memory: _Memory) -> bool:
        before = max(one.before.available_bytes for one in running if one.before)
        return (
            new_tasks > self._limits.most_processes // 2
            or before - memory.available_bytes > self._compute_most_memory(memory) // 2
            or memory.is_short
        )

    def _compare(self, running: list[_WatchedCommand], new_tasks: int, *, memory: _Memory) -> None:
        most = self._limits.most_tasks
        is_alone = len(running) == 1
        if is_alone and new_tasks > most:
            # Counting them would take longer than they leave us.
            running[0].reason = _describe_stop(
                "it had", f"{most} processes and threads", setting="processes"
            )
            return
        table = list_processes()
        for one in running:
            members = [table[pid] for pid in find_tree(one.process.pid, table)]
            used_bytes = sum(member.memory_bytes for member in members)
            if is_alone and one.before:
                used_bytes += max(0, memory.shared_bytes - one.before.shared_bytes)
            one.reason = self._describe_excess(len(members), used_bytes, memory=memory)

    def _describe_excess(self, processes: int, used_bytes: int, *, memory: _Memory) -> str:
        if processes > self._limits.most_processes:
            return _describe_stop(
                "it had", f"{self._limits.most_processes} processes", setting="processes"
            )
        most = self._compute_most_memory(memory)
        if used_bytes > most:
            return _describe_stop("it used", f"{_format_size(most)} of memory", setting="memory")
        if memory.is_short and used_bytes > memory.total_bytes * _LARGE_SHARE:
            return "Stopped: the machine was running out of memory."
        return ""

    def _compute_most_memory(self, memory: _Memory) -> int:
        return self._limits.memory_bytes or int(memory.total_bytes * _MEMORY_SHARE)


def _describe_stop(what: str, most: str, *, setting: str) -> str:
    return f"Stopped: {what} more than {most}. The limit is the setting command_{setting}."


def _format_size(size_bytes: int) -> str:
    return f"{size_bytes / GIB:.1f} GiB" if size_bytes >= GIB else f"{size_bytes >> 20} MiB"


def _count_free(directories: Sequence[Path]) -> list[int | None]:
    """Return the free bytes of each file system; None where it is not known."""
    free: list[int | None] = []
    for directory in directories:
        try:
            found = os.statvfs(directory)
        except OSError:
            free.append(None)  # the directory is gone
        else:
            free.append(found.f_bavail * found.f_frsize)
    return free


@contextmanager
def run_ahead() -> Iterator[None]:
    """Run ahead of other processes: thousands of busy ones must not stop us. Only root may do so.

    It applies to all our threads, because they wait for each other. Without it, half of the bombs
    of 8,000 busy processes were not stopped; with it, each was within five seconds.
    """
    _schedule_own_threads(os.SCHED_FIFO | os.SCHED_RESET_ON_FORK, 1)
    try:
        yield
    finally:
        _schedule_own_threads(os.SCHED_OTHER, 0)


def _schedule_own_threads(policy: int, priority: int) -> None:
    with suppress(OSError):
        for task in Path("/proc/self/task").iterdir():
            os.sched_setscheduler(int(task.name), policy, os.sched_param(priority))
