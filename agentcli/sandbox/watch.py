"""The watch that stops commands that use too much of the machine, or whose mounts are stale.

The machine as a whole is checked often, which costs next to nothing. A command's own share is
counted only if the whole shows much use.
"""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from subprocess import Popen
from threading import Condition, Lock, Thread

from agentcli.sandbox.limits import GIB, CommandLimits, count_tasks
from agentcli.sandbox.mount_check import MountCheck
from agentcli.sandbox.processes import Process, find_tree, kill_tree, list_processes

_MEMORY_SHARE = 0.7
_LEFT_SHARE = 0.03
_LARGE_SHARE = 0.1
_LOOK_EVERY_S = 0.05


@dataclass(frozen=True, slots=True)
class _Memory:
    total_bytes: int
    available_bytes: int
    shared_bytes: int
    """Files that exist in memory only; no process is charged for them."""

    @classmethod
    def now(cls) -> "_Memory":
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        kib = {name: int(rest.split()[0]) for name, _, rest in (x.partition(":") for x in lines)}
        return cls(*(kib[name] * 1024 for name in ("MemTotal", "MemAvailable", "Shmem")))

    @property
    def is_short(self) -> bool:
        return self.available_bytes < self.total_bytes * _LEFT_SHARE


@dataclass(frozen=True, slots=True)
class _MachineShare:
    processes: int
    memory_bytes: int

    @classmethod
    def of(cls, pid: int, table: dict[int, Process]) -> "_MachineShare":
        members = [table[one] for one in find_tree(pid, table)]
        return cls(len(members), sum(one.memory_bytes for one in members))

    def with_files_in_memory(self, before: _Memory, now: _Memory) -> "_MachineShare":
        grown = max(0, now.shared_bytes - before.shared_bytes)
        return _MachineShare(self.processes, self.memory_bytes + grown)


@dataclass(slots=True)
class _WatchedCommand:
    process: "Popen[bytes]"
    tasks_before: int
    mount_check: MountCheck | None
    before: _Memory | None = None
    """Memory at the first check, soon after the command's start."""
    reason: str = ""

    @property
    def is_alive(self) -> bool:
        """True as far as is known: once it was waited for, its pid may be another process's."""
        return not self.reason and self.process.returncode is None


class CommandWatch:
    """The watch on running commands. Its thread sleeps while no command runs."""

    def __init__(self, limits: CommandLimits) -> None:
        self._limits = limits
        self._running: dict[Popen[bytes], _WatchedCommand] = {}
        self._has_work = Condition()
        self._looking = Lock()
        self._thread: Thread | None = None
        self._is_closed = False

    def add(
        self, process: "Popen[bytes]", *, tasks_before: int, mount_check: MountCheck | None = None
    ) -> None:
        with self._has_work:
            self._running[process] = _WatchedCommand(process, tasks_before, mount_check)
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
                    self._look([one for one in alive if one.is_alive])

    def _stop_stale(self, running: list[_WatchedCommand]) -> None:
        for one in running:
            lost = one.mount_check.find_stale() if one.mount_check else ()
            if lost:
                one.reason = (
                    f"Stopped: {lost[0]} was replaced or removed while it ran, "
                    "and could not be kept from it any more."
                )
                kill_tree(one.process.pid)

    def _look(self, running: list[_WatchedCommand]) -> None:
        if not running:
            return
        memory = _Memory.now()
        for one in running:
            one.before = one.before or memory
        new_tasks = count_tasks() - min(one.tasks_before for one in running)
        if self._is_much(running, new_tasks, memory):
            with _ahead_of_others():
                self._compare(running, new_tasks, memory)
                for one in running:
                    if one.reason:
                        kill_tree(one.process.pid)

    def _is_much(self, running: list[_WatchedCommand], new_tasks: int, memory: _Memory) -> bool:
        before = max(one.before.available_bytes for one in running if one.before)
        return (
            new_tasks > self._limits.most_processes // 2
            or before - memory.available_bytes > self._most_memory(memory) // 2
            or memory.is_short
        )

    def _compare(self, running: list[_WatchedCommand], new_tasks: int, memory: _Memory) -> None:
        if len(running) == 1 and new_tasks > self._limits.most_tasks:
            # Counting them would take longer than they leave us.
            most = self._limits.most_tasks
            running[0].reason = f"Stopped: it had more than {most} processes and threads."
            return
        table = list_processes()
        shares = [_MachineShare.of(one.process.pid, table) for one in running]
        if len(running) == 1:
            shares = [shares[0].with_files_in_memory(running[0].before or memory, memory)]
        for one, share in zip(running, shares, strict=True):
            one.reason = self._excess(share, memory)

    def _excess(self, share: _MachineShare, memory: _Memory) -> str:
        if share.processes > self._limits.most_processes:
            return f"Stopped: it had more than {self._limits.most_processes} processes."
        most = self._most_memory(memory)
        if share.memory_bytes > most:
            return f"Stopped: it used more than {most / GIB:.1f} GiB of memory."
        if memory.is_short and share.memory_bytes > memory.total_bytes * _LARGE_SHARE:
            return "Stopped: the machine was running out of memory."
        return ""

    def _most_memory(self, memory: _Memory) -> int:
        return self._limits.memory_bytes or int(memory.total_bytes * _MEMORY_SHARE)


@contextmanager
def _ahead_of_others() -> Iterator[None]:
    """Run ahead of other processes: thousands of busy ones must not stop us. Only root may do so.

    It applies to all our threads, because they wait for each other.
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
