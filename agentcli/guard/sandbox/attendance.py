"""What is done around a command on Linux: room made, places noted, a watch kept, changes undone.

The layers differ in how they confine a command, not in how they look after it.
"""

from dataclasses import dataclass
from subprocess import Popen

from agentcli.guard.sandbox.grip import Grip
from agentcli.guard.sandbox.limits import Limits, count_tasks, leave_room_for
from agentcli.guard.sandbox.newcomers import Newcomers
from agentcli.guard.sandbox.original import Original
from agentcli.guard.sandbox.restore import Keeper, Snapshot
from agentcli.guard.sandbox.watch import Watch


@dataclass(frozen=True, slots=True)
class Before:
    """The machine and the guarded places before a command."""

    tasks: int
    snapshot: Snapshot
    grip: Grip | None


class Attendance:
    def __init__(
        self, original: Original, *, keeper: Keeper, newcomers: Newcomers, limits: Limits
    ) -> None:
        self._keeper = keeper
        self._newcomers = newcomers
        self._limits = limits
        self._original = original
        self._watch = Watch(limits)
        self._before: dict[Popen[bytes], Before] = {}

    def prepare(self, grip: Grip | None = None) -> Before:
        """Just before a command starts: then `begin` is due, or `give_up`.

        What the grip is on is the person's to change; once it is lost, the command is stopped.
        """
        tasks = count_tasks()
        leave_room_for(self._limits, tasks_now=tasks)
        return Before(tasks, self._original.begin(self._keeper), grip)

    def give_up(self) -> None:
        """There is no command after all."""
        self._original.end()

    def begin(self, process: "Popen[bytes]", before: Before) -> None:
        self._before[process] = before
        self._watch.add(process, tasks_before=before.tasks, grip=before.grip)

    def end(self, process: "Popen[bytes]") -> tuple[str, ...]:
        """Why the command was stopped, if it was, and what of its doings was undone."""
        before = self._before.pop(process, None)
        if before is None:
            return ()
        try:
            stopped = self._watch.remove(process)
            grip, snapshot = before.grip, before.snapshot
            wanted = grip.to_undo(snapshot, self._keeper) if grip else snapshot
            told = (*stopped, *self._keeper.undo(wanted))
        finally:
            self._original.end()
        found = self._newcomers.told()
        self._newcomers.look()
        return (*told, *found)

    def close(self) -> None:
        for process in tuple(self._before):
            self.end(process)
        self._watch.close()
        self._newcomers.close()
