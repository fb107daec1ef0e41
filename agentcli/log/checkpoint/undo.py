"""Undoing what calls changed, and nothing else: merged with whatever was done since.

A path that cannot be merged stays as the user has it and is reported as a conflict; its earlier
state is stored. So are the states on disk before and after: an undo can be undone.
"""

import os
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from agentcli.log.checkpoint.apply import UndoStep, apply_steps
from agentcli.log.checkpoint.merge import (
    ThreeStates,
    UndoConflict,
    mark_conflicts,
    resolve,
)
from agentcli.log.checkpoint.store import ObjectStore
from agentcli.log.checkpoint.trees import StoredEntry, capture_paths, find_differences, write_state
from agentcli.system.text import to_printable

NAME_CHARS = 100

PathChange = Literal["removed", "left", "restored", "permissions", "content"]
"""What was done to a path: it was removed, left because other files are in it, made again, or got
its earlier permissions or content. `render` has the words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StateChange:
    """Two states of a workspace, or of some of its files."""

    before: str
    after: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PathOutcome:
    """The outcome for one path."""

    path: str
    """The path in printable form."""
    change: PathChange | None = None
    """None for a conflict."""
    reason: str = ""
    """For a conflict, why the path stays as it is."""
    before: StoredEntry | None = None
    """For a conflict, the state it would have got."""
    is_of_machine: bool = False
    """For a conflict, True if it could not be written: no space, no permission."""
    is_directory: bool = False
    now: StoredEntry | None = None
    base: StoredEntry | None = None
    """For a conflict, the state on disk, and the one that both sides began with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoResult:
    before: str
    after: str
    """The ids of the states of the touched paths on disk, before and after."""
    outcomes: tuple[PathOutcome, ...]
    unwritten: frozenset[bytes] = frozenset()
    """The paths that the machine did not let be written. They can be undone again."""

    @property
    def conflicts(self) -> tuple[PathOutcome, ...]:
        return tuple(each for each in self.outcomes if each.change is None)

    @property
    def done(self) -> tuple[PathOutcome, ...]:
        return tuple(each for each in self.outcomes if each.change is not None)


Announce: TypeAlias = Callable[[str, str], None]
"""Takes the state of the paths before, and the state that they are about to get."""


def undo_changes(
    store: ObjectStore,
    root: Path,
    changes: Sequence[StateChange],
    *,
    dry_run: bool = False,
    announce: Announce | None = None,
) -> UndoResult:
    """Undo the changes, given the latest first.

    With `dry_run` nothing in the workspace is touched. `announce` is called before anything is.
    """
    with store.batch_writes():
        plan = _plan_changes(store, root, changes)
        paths = tuple(plan.now)
        before = write_state(store, capture_paths(store, paths, root))
        steps = plan.steps()
        wanted = {path: entry for path, entry in plan.wanted.items() if entry is not None}
        planned = write_state(store, wanted) if announce else ""
    if announce and steps:
        announce(before, planned)
    with store.batch_writes():
        failed = {} if dry_run else apply_steps(store, root, steps)
        found = {} if dry_run else capture_paths(store, paths, root)
        after = before if dry_run else write_state(store, found)
    staying = _find_staying_directories(root, steps) if dry_run else found.keys()
    outcomes = [_build_outcome(step, staying) for path, step in steps.items() if path not in failed]
    unwritten = frozenset(path for path, failure in failed.items() if failure.is_of_machine)
    reasons = {path: failure.reason for path, failure in failed.items()}
    for path, reason in {**plan.conflicts, **reasons}.items():
        outcomes.append(
            PathOutcome(
                path=_display_path(path),
                reason=reason,
                before=plan.theirs.get(path, plan.wanted[path]),
                is_of_machine=path in unwritten,
                now=plan.now[path],
                base=plan.bases.get(path),
            )
        )
    return UndoResult(
        before=before,
        after=after,
        outcomes=tuple(sorted(outcomes, key=lambda each: each.path)),
        unwritten=unwritten,
    )


def save_conflicts(
    store: ObjectStore, conflicts: Sequence[PathOutcome], directory: Path
) -> Path | None:
    """Write what each conflict would have become into a directory of its own.

    Return the directory, or None if there was nothing to write.
    """
    saved = None
    for number, conflict in enumerate(conflicts, start=1):
        entry = conflict.before
        if entry is not None and entry.has_content and not entry.is_dir:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            name = re.sub(r"[^\w.-]+", "-", conflict.path)[-NAME_CHARS:]
            (directory / f"{number}-{name}").write_bytes(store.get("blob", entry.id))
            saved = directory
    return saved


def render_conflict(store: ObjectStore, conflict: PathOutcome, *, theirs: str) -> bytes:
    """Return the text of a conflict with markers around what differs; empty if it has none.

    `theirs` names the other side."""
    sides = (conflict.base, conflict.now, conflict.before)
    if any(one is not None and (one.is_dir or one.is_link or not one.has_content) for one in sides):
        return b""
    base, mine, other = (store.get("blob", one.id) if one else b"" for one in sides)
    return mark_conflicts(base, mine=mine, theirs=other, name=theirs)


@dataclass(slots=True)
class _Plan:
    now: dict[bytes, StoredEntry | None]
    wanted: dict[bytes, StoredEntry | None]
    conflicts: dict[bytes, str]
    theirs: dict[bytes, StoredEntry | None]
    """The state that each conflict would have got."""
    bases: dict[bytes, StoredEntry | None]
    """The state that both sides of each conflict began with."""

    def steps(self) -> dict[bytes, UndoStep]:
        return {
            path: UndoStep(path=path, now=now, wanted=self.wanted[path])
            for path, now in self.now.items()
            if now != self.wanted[path]
        }


def _plan_changes(store: ObjectStore, root: Path, changes: Sequence[StateChange]) -> _Plan:
    plan = _Plan(now={}, wanted={}, theirs={}, bases={}, conflicts={})
    differences = [find_differences(store, one.before, one.after) for one in changes]
    earlier: dict[bytes, list[StoredEntry | None]] = {}
    for each in (each for changed in differences for each in changed):
        earlier.setdefault(each.path, []).append(each.before)
    for changed in differences:
        missing = tuple(each.path for each in changed if each.path not in plan.now)
        found = _keep_exact_spelling(capture_paths(store, missing, root), root)
        for path in missing:
            plan.now[path] = plan.wanted[path] = found.get(path)
        for each in changed:
            three = ThreeStates(base=each.after, mine=plan.wanted[each.path], theirs=each.before)
            del earlier[each.path][0]
            if three.mine != three.base and three.mine in earlier[each.path]:
                continue  # an undo that could not be finished has gone further already
            try:
                plan.wanted[each.path] = resolve(store, three)
            except UndoConflict as conflict:
                # It keeps the state that the changes undone so far gave it.
                plan.conflicts.setdefault(each.path, str(conflict))
                plan.theirs.setdefault(each.path, each.before)
                plan.bases.setdefault(each.path, each.after)
    return plan


def _keep_exact_spelling(found: dict[bytes, StoredEntry], root: Path) -> dict[bytes, StoredEntry]:
    """Remove the entries that a case-insensitive file system found under another spelling."""
    if os.name != "nt" and os.uname().sysname == "Linux":
        return found
    names: dict[Path, set[str]] = {}
    exact: dict[bytes, StoredEntry] = {}
    for path, entry in found.items():
        whole = root / os.fsdecode(path)
        if whole.parent not in names:
            names[whole.parent] = {one.name for one in whole.parent.iterdir()}
        if whole.name in names[whole.parent]:
            exact[path] = entry
    return exact


def _find_staying_directories(root: Path, steps: Mapping[bytes, UndoStep]) -> Collection[bytes]:
    """Return the directories that an undo would leave, because not all in them is removed."""
    staying: set[bytes] = set()
    going = {path: step for path, step in steps.items() if step.wanted is None and step.now}
    for path, step in sorted(going.items(), key=lambda item: -item[1].depth):
        if step.now is not None and step.now.is_dir:
            within = {path + b"/" + name for name in _list_names(root, path)}
            if within & staying or not within <= going.keys():
                staying.add(path)
    return staying


def _list_names(root: Path, path: bytes) -> list[bytes]:
    try:
        return [os.fsencode(one.name) for one in (root / os.fsdecode(path)).iterdir()]
    except OSError:
        return []


def _build_outcome(step: UndoStep, staying: Collection[bytes]) -> PathOutcome:
    change: PathChange = "content"
    if step.wanted is None:
        change = "left" if step.path in staying else "removed"
    elif step.now is None:
        change = "restored"
    elif step.now.id == step.wanted.id:
        change = "permissions"
    is_directory = any(entry is not None and entry.is_dir for entry in (step.now, step.wanted))
    return PathOutcome(path=_display_path(step.path), change=change, is_directory=is_directory)


def _display_path(path: bytes) -> str:
    return to_printable(path.decode("utf-8", "surrogateescape"))
