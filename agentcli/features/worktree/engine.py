"""The end of a worktree: merged into the user's files, kept, or discarded."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from agentcli.log.paths import SessionPaths
from agentcli.log.sessions import find_latest_session
from agentcli.session.start import add_fact
from agentcli.session.worktrees import MergeReport, Worktree, Worktrees
from agentcli.types.errors import SettingsError, UsageError
from agentcli.types.events import Checkpointed


@dataclass(frozen=True, slots=True, kw_only=True)
class WorktreeEnd:
    """The outcome of a merge or a discard."""

    worktree: Worktree
    report: MergeReport | None = None
    """None if nothing was merged."""
    saved: Path | None = None
    """The directory with the conflicts, each with markers; None if there are none."""
    commit: str = ""
    """The last commit that was made in it, if any."""
    branches: tuple[str, ...] = ()
    """The branches that have its commits, if these were kept."""
    unmerged: tuple[str, ...] = ()
    """What was not merged, and for whose sake it stays."""

    @property
    def has_conflicts(self) -> bool:
        return self.saved is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeRecord:
    """Where a merge is recorded, so that it can be undone."""

    session: str
    record: Callable[[Checkpointed], None]
    conflicts: Path
    """The directory for conflicts."""


def find_record(trees: Worktrees, worktree: Worktree) -> MergeRecord:
    """Return the log of the latest session in a worktree, if it had any."""
    try:
        paths = find_latest_session(worktree.workspace).paths
    except (UsageError, SettingsError):
        nobody = worktree.tree.with_name(f"{worktree.name}.conflicts")
        return MergeRecord(
            session=f"worktree-{worktree.name}", record=lambda fact: None, conflicts=nobody
        )
    return build_record(paths, partial(add_fact, paths))


def build_record(paths: SessionPaths, record: Callable[[Checkpointed], None]) -> MergeRecord:
    return MergeRecord(
        session=paths.id, record=record, conflicts=paths.directory / "conflicts" / "worktree"
    )


def merge_worktree(trees: Worktrees, worktree: Worktree, *, into: MergeRecord) -> WorktreeEnd:
    """Merge a worktree. Remove it unless there are conflicts, or it has what is never merged."""
    report = trees.merge(worktree, record=into.record, session=into.session)
    if report.conflicts:
        saved = trees.save_conflicts(worktree, report, directory=into.conflicts)
        return WorktreeEnd(worktree=worktree, report=report, saved=saved)
    removed = trees.remove(worktree, keeps_commits=True)
    return WorktreeEnd(
        worktree=worktree,
        report=report,
        commit=removed.commit,
        branches=removed.branches,
        unmerged=removed.unmerged,
    )


def discard_worktree(trees: Worktrees, worktree: Worktree) -> WorktreeEnd:
    removed = trees.remove(worktree, keeps_commits=False)
    return WorktreeEnd(worktree=worktree, commit=removed.commit)


def iter_conflict_lines(saved: Path, *, limit: int) -> Iterator[str]:
    """Yield the lines of each conflict from its first marker to its last, at most `limit`."""
    for path in sorted(saved.iterdir()):
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
        marked = [n for n, line in enumerate(lines) if line.startswith(("<<<<<<< ", ">>>>>>> "))]
        if marked:
            shown = lines[marked[0] : marked[-1] + 1]
            yield from shown[:limit]
            if len(shown) > limit:
                yield f"… {len(shown) - limit} more lines in {path}"
