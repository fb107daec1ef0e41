"""What is done around a command on Linux: room made, places noted, a watch kept, changes undone.

The layers differ in how they confine a command, not in how they look after it.
"""

from dataclasses import dataclass
from subprocess import Popen

from agentcli.guard.sandbox.limits import Limits, count_tasks, leave_room_for
from agentcli.guard.sandbox.newcomers import Newcomers
from agentcli.guard.sandbox.restore import Keeper, Snapshot
from agentcli.guard.sandbox.watch import Watch


@dataclass(frozen=True, slots=True)
class Before:
    """The machine and the guarded places before a command."""

    tasks: int
    snapshot: Snapshot


class Attendance:
    def __init__(self, keeper: Keeper, newcomers: Newcomers, limits: Limits) -> None:
        self._keeper = keeper
        self._newcomers = newcomers
        self._limits = limits
        self._watch = Watch(limits)
        self._before: dict[Popen[bytes], Before] = {}

    def prepare(self) -> Before:
        tasks = count_tasks()
        leave_room_for(self._limits, tasks_now=tasks)
        return Before(tasks, self._keeper.snapshot())

    def begin(self, process: "Popen[bytes]", before: Before) -> None:
        self._before[process] = before
        self._watch.add(process, tasks_before=before.tasks)

    def end(self, process: "Popen[bytes]") -> tuple[str, ...]:
        """Why the command was stopped, if it was, and what of its doings was undone."""
        before = self._before.pop(process, None)
        if before is None:
            return ()
        told = (*self._watch.remove(process), *self._keeper.undo(before.snapshot))
        found = self._newcomers.told()
        self._newcomers.look()
        return (*told, *found)

    def close(self) -> None:
        self._watch.close()
        self._newcomers.close()
