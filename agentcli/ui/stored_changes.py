"""The files that the calls of a recorded session changed, counted from the stored states."""

from collections.abc import Iterable, Sequence
from dataclasses import field, replace
from pathlib import Path

from agentcli.log.checkpoint.changes import ChangedFile, describe_changes, merge_changes
from agentcli.log.checkpoint.keep import find_store
from agentcli.session.secrets import build_redactor
from agentcli.types.errors import SettingsError
from agentcli.types.events import (
    CallFinished,
    Checkpointed,
    Fact,
    SessionResumed,
    SessionStarted,
    Undone,
)
from agentcli.types.fast_dataclass import dataclass
from agentcli.ui.tally import Tally


@dataclass(frozen=True, slots=True)
class _StoredChanges:
    """The changes in one directory."""

    directory: Path
    prefix: str
    """What comes before each path in reports; empty for a workspace."""
    facts: list[Checkpointed | Undone] = field(default_factory=list)

    @property
    def calls(self) -> set[str]:
        return {fact.call_id for fact in self.facts if isinstance(fact, Checkpointed)}

    def list_files(self, sessions: Path) -> list[ChangedFile] | None:
        """Return the files, from before the first change to after the last.

        None if the states are deleted."""
        store = find_store(self.directory, sessions)
        try:
            files = describe_changes(store, merge_changes(store, self.facts).values())
        except SettingsError:
            return None
        return [replace(one, path=f"{self.prefix}{one.path}") for one in files]


def count_changes(
    facts: Sequence[Fact], *, sessions: Path | None, workspace: Path = Path()
) -> dict[str, tuple[int, int]]:
    """Return the lines added and removed by path, also by commands. What was undone is left out.

    Where the states are deleted, what tools reported counts. `workspace` is where the session was
    before these facts. `sessions` is the directory of all sessions; None if there are no states."""
    diffs = {
        fact.result.call_id: fact.result.change
        for fact in facts
        if isinstance(fact, CallFinished) and fact.result.change
    }
    files: list[ChangedFile] = []
    for each in _group_by_directory(facts, workspace):
        found = each.list_files(sessions) if sessions else None
        if found is not None:
            files += found
            diffs = {key: diff for key, diff in diffs.items() if key not in each.calls}
    if files:
        mask = build_redactor().mask
        files = [replace(one, path=mask(one.path)) for one in files]
    tally = Tally()
    tally.replace_changes((*diffs.values(), *files))
    return tally.changed


def _group_by_directory(facts: Iterable[Fact], workspace: Path) -> Iterable[_StoredChanges]:
    groups: dict[Path, _StoredChanges] = {}
    for fact in facts:
        match fact:
            case SessionStarted(workspace=directory) | SessionResumed(workspace=directory):
                workspace = Path(directory)
            case Checkpointed(root=root) | Undone(root=root):
                at, prefix = (Path(root), f"{root}/") if root else (workspace, "")
                groups.setdefault(at, _StoredChanges(at, prefix)).facts.append(fact)
            case _:
                pass
    return groups.values()
