"""The steps around a command on Linux: limits set, paths recorded, a watch kept, changes undone.

The layers differ in how they confine a command, not in how they supervise it.
"""

from dataclasses import dataclass
from subprocess import Popen

from agentcli.sandbox.limits import CommandLimits, count_tasks, limit_processes
from agentcli.sandbox.mount_check import MountCheck
from agentcli.sandbox.new_repositories import NewRepositoryScan
from agentcli.sandbox.restore import GuardedPaths, OriginalState, Snapshot
from agentcli.sandbox.watch import CommandWatch


@dataclass(frozen=True, slots=True)
class MachineBefore:
    """The machine and the guarded paths before a command."""

    tasks: int
    snapshot: Snapshot
    mount_check: MountCheck | None


class CommandSupervisor:
    def __init__(
        self,
        original: OriginalState,
        *,
        keeper: GuardedPaths,
        newcomers: NewRepositoryScan,
        limits: CommandLimits,
    ) -> None:
        self._keeper = keeper
        self._newcomers = newcomers
        self._limits = limits
        self._original = original
        self._watch = CommandWatch(limits)
        self._before: dict[Popen[bytes], MachineBefore] = {}

    def prepare(self, mount_check: MountCheck | None = None) -> MachineBefore:
        """Record the state just before a command starts. Then call `begin` or `give_up`.

        The user may change the paths of `mount_check`. Once one is stale, the command is stopped.
        """
        tasks = count_tasks()
        limit_processes(self._limits, tasks_now=tasks)
        return MachineBefore(tasks, self._original.begin(self._keeper), mount_check)

    def give_up(self) -> None:
        """Release the recorded state: no command was started after all."""
        self._original.end()

    def begin(self, process: "Popen[bytes]", before: MachineBefore) -> None:
        self._before[process] = before
        self._watch.add(process, tasks_before=before.tasks, mount_check=before.mount_check)

    def end(self, process: "Popen[bytes]") -> tuple[str, ...]:
        """Return why the command was stopped, if it was, and which of its changes were undone."""
        before = self._before.pop(process, None)
        if before is None:
            return ()
        try:
            stopped = self._watch.remove(process)
            grip, snapshot = before.mount_check, before.snapshot
            wanted = grip.select_to_undo(snapshot, self._keeper) if grip else snapshot
            told = (*stopped, *self._keeper.undo(wanted))
        finally:
            self._original.end()
        found = self._newcomers.take_notes()
        self._newcomers.look()
        return (*told, *found)

    def close(self) -> None:
        for process in tuple(self._before):
            self.end(process)
        self._watch.close()
        self._newcomers.close()
