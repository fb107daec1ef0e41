"""Undoing what calls changed, and nothing else: merged with whatever was done since.

A path that cannot be merged stays as the user has it and is reported as a conflict; its earlier
state is stored. So are the states on disk before and after: an undo can be undone.

Each path is set to its wanted state at once, and only if it is still as it was seen. Every path is
opened from the root's handle, and no link is followed. Removals come first, the deepest first; a
directory that contains anything else stays.
"""

import errno
import os
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat
from pathlib import Path
from stat import S_IFDIR, S_IMODE, S_IRUSR, S_IWUSR, S_IXUSR
from typing import Literal, TypeAlias

from agentcli.log.checkpoint.merge import (
    ThreeStates,
    UndoConflict,
    mark_conflicts,
    resolve,
)
from agentcli.log.checkpoint.store import ObjectStore
from agentcli.log.checkpoint.trees import (
    State,
    StoredEntry,
    capture_paths,
    find_differences,
    write_state,
)
from agentcli.system.files import store_private
from agentcli.system.folder import Folder, descend
from agentcli.system.replace_file import replace_file
from agentcli.system.text import to_printable
from agentcli.types.errors import ToolError


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoStep:
    path: bytes
    now: StoredEntry | None
    wanted: StoredEntry | None

    @property
    def name(self) -> str:
        return os.fsdecode(self.path.rpartition(b"/")[2])

    @property
    def parents(self) -> list[str]:
        return os.fsdecode(self.path).split("/")[:-1]

    @property
    def depth(self) -> int:
        return self.path.count(b"/")

    @property
    def stays_directory(self) -> bool:
        return bool(self.now and self.wanted and self.now.is_dir and self.wanted.is_dir)

    @property
    def opens_directory(self) -> bool:
        """True if something may have to be written in it that could not be before."""
        return self.stays_directory and self.wanted is not None and bool(self.wanted.mode & S_IWUSR)

    @property
    def stays_file(self) -> bool:
        both = (self.now, self.wanted)
        return all(entry is not None and not entry.is_dir and not entry.is_link for entry in both)

    @property
    def is_closed_directory(self) -> bool:
        """True for a directory that goes, and from which nothing can be removed as it is."""
        mode = self.now.mode if self.now and self.now.is_dir and self.goes else S_IWUSR
        return not mode & S_IWUSR and mode & _LISTED == _LISTED

    @property
    def goes(self) -> bool:
        """True if what is there now has to be removed first."""
        return self.now is not None and not self.stays_file and not self.stays_directory


_LISTED = S_IRUSR | S_IXUSR
"""The permissions without which nothing in a directory was ever seen."""

_OF_THE_MACHINE = frozenset(
    {
        *(errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EPERM),
        *(errno.EIO, errno.EBUSY, errno.ETXTBSY, errno.ENOMEM, errno.EMFILE, errno.ENFILE),
    }
)
"""Errors that say nothing about what the user did to a file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepFailure:
    reason: str
    is_of_machine: bool
    """True if it may succeed later, without another state of the file."""


def apply_steps(
    store: ObjectStore, root: Path, *, steps: Mapping[bytes, UndoStep]
) -> dict[bytes, StepFailure]:
    """Apply the steps. Return what could not be done, by path."""
    failed: dict[bytes, StepFailure] = {}
    for act, step in _order_steps(store, list(steps.values())):
        if step.path in failed:
            continue
        try:
            with descend(root, step.parents, make=step.wanted is not None) as folder:
                act(folder, step)
        except (ToolError, OSError) as error:
            failed[step.path] = _describe_failure(error)
    return failed


Act: TypeAlias = Callable[[Folder, UndoStep], None]


def _order_steps(store: ObjectStore, steps: list[UndoStep]) -> Iterator[tuple[Act, UndoStep]]:
    top_first = sorted(steps, key=lambda step: step.depth)
    opened = [step for step in top_first if step.opens_directory]
    closed = [step for step in top_first if step.is_closed_directory]
    going = [step for step in reversed(top_first) if step.goes]
    coming = [step for step in top_first if step.wanted and not step.stays_directory]
    directories = [step for step in reversed(top_first) if step.wanted and step.wanted.is_dir]
    yield from zip(repeat(_set_mode), opened, strict=False)
    yield from zip(repeat(_make_writable), closed, strict=False)
    yield from zip(repeat(_Remove(store)), going, strict=False)
    yield from zip(repeat(_Write(store)), coming, strict=False)
    yield from zip(repeat(_set_mode), directories, strict=False)


def _set_mode(folder: Folder, step: UndoStep) -> None:
    assert step.wanted is not None
    folder.set_mode(step.name, S_IMODE(step.wanted.mode))


def _make_writable(folder: Folder, step: UndoStep) -> None:
    assert step.now is not None
    folder.set_mode(step.name, S_IMODE(step.now.mode) | S_IWUSR)


@dataclass(frozen=True, slots=True)
class _Remove:
    store: ObjectStore

    def __call__(self, folder: Folder, step: UndoStep) -> None:
        assert step.now is not None
        if step.now.is_dir:
            self._remove_directory(folder, step)
            return
        if not _is_as_seen(folder, step, store=self.store):
            raise ToolError("changed meanwhile")
        folder.unlink(step.name)

    def _remove_directory(self, folder: Folder, step: UndoStep) -> None:
        try:
            folder.remove(step.name)
        except OSError as error:
            if step.is_closed_directory and step.now is not None:
                folder.set_mode(step.name, S_IMODE(step.now.mode))
            # It is not empty. That matters only if its name is needed.
            if step.wanted is not None or error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise


@dataclass(frozen=True, slots=True)
class _Write:
    store: ObjectStore

    def __call__(self, folder: Folder, step: UndoStep) -> None:
        wanted = step.wanted
        assert wanted is not None
        if wanted.is_dir:
            if folder.stat(step.name) is None:
                folder.make(step.name)
            return
        data = self.store.get("blob", wanted.id)
        if wanted.is_link:
            folder.link(step.name, data)
            return
        self._write_file(folder, step, data=data)
        folder.set_mode(step.name, S_IMODE(wanted.mode))

    def _write_file(self, folder: Folder, step: UndoStep, *, data: bytes) -> None:
        shown = to_printable(os.fsdecode(step.path))
        if step.now is None or not step.stays_file:
            replace_file(folder, step.name, data=data, expected=None, shown=shown)
            return
        if not _is_as_seen(folder, step, store=self.store):
            raise ToolError("changed meanwhile")
        if step.wanted is not None and step.now.id == step.wanted.id:
            return  # only the permissions change
        folder.set_mode(step.name, S_IMODE(step.now.mode) | S_IWUSR)
        expected = self.store.get("blob", step.now.id)
        replace_file(folder, step.name, data=data, expected=expected, shown=shown)


def _is_as_seen(folder: Folder, step: UndoStep, *, store: ObjectStore) -> bool:
    assert step.now is not None
    seen = store.get("blob", step.now.id)
    if step.now.is_link:
        return folder.target(step.name) == seen
    with os.fdopen(folder.open_file(step.name, os.O_RDONLY), "rb") as file:
        return file.read(len(seen) + 1) == seen


def _describe_failure(error: ToolError | OSError) -> StepFailure:
    words = str(error) if isinstance(error, ToolError) else (error.strerror or str(error)).lower()
    return StepFailure(
        reason=f"could not be written: {words}",
        is_of_machine=isinstance(error, OSError) and error.errno in _OF_THE_MACHINE,
    )


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
    wanted: StoredEntry | None = None
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
    *,
    changes: Sequence[StateChange],
    dry_run: bool = False,
    announce: Announce | None = None,
) -> UndoResult:
    """Undo the changes, given the latest first.

    With `dry_run` nothing in the workspace is touched. `announce` is called before anything is.
    """
    with store.batch_writes():
        plan = _plan_changes(store, root, changes=changes)
        paths = tuple(plan.now)
        now = capture_paths(store, paths, root=root)
        before = write_state(store, now)
        steps = plan.steps()
        planned = write_state(store, plan.build_state(now)) if announce else ""
    if announce and steps:
        announce(before, planned)
    with store.batch_writes():
        failed = {} if dry_run else apply_steps(store, root, steps=steps)
        found = {} if dry_run else capture_paths(store, paths, root=root)
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
                wanted=plan.theirs.get(path, plan.wanted[path]),
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
    store: ObjectStore, conflicts: Sequence[PathOutcome], *, directory: Path
) -> Path | None:
    """Write what each conflict would have become into a directory of its own.

    Return the directory, or None if there was nothing to write.
    """
    saved = None
    for number, conflict in enumerate(conflicts, start=1):
        entry = conflict.wanted
        if entry is not None and entry.has_content and not entry.is_dir:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            name = re.sub(r"[^\w.-]+", "-", conflict.path)[-NAME_CHARS:]
            store_private(directory / f"{number}-{name}", store.get("blob", entry.id))
            saved = directory
    return saved


def render_conflict(store: ObjectStore, conflict: PathOutcome, *, theirs: str) -> bytes:
    """Return the text of a conflict with markers around what differs; empty if it has none.

    `theirs` names the other side."""
    sides = (conflict.base, conflict.now, conflict.wanted)
    if any(one is not None and (one.is_dir or one.is_link or not one.has_content) for one in sides):
        return b""
    base, mine, other = (store.get("blob", one.id) if one else b"" for one in sides)
    return mark_conflicts(base, mine=mine, theirs=other, name=theirs)


_NEW_DIRECTORY = StoredEntry(S_IFDIR | 0o755)
"""A directory that is made for a file in it."""


@dataclass(slots=True)
class _Plan:
    now: dict[bytes, StoredEntry | None]
    wanted: dict[bytes, StoredEntry | None]
    conflicts: dict[bytes, str]
    theirs: dict[bytes, StoredEntry | None]
    """The state that each conflict would have got."""
    bases: dict[bytes, StoredEntry | None]
    """The state that both sides of each conflict began with."""

    def build_state(self, now: State) -> dict[bytes, StoredEntry]:
        """Return what is wanted with the directories around it, which `now` has if they exist."""
        state = {path: entry for path, entry in self.wanted.items() if entry is not None}
        for path in tuple(state):
            while path := path.rpartition(b"/")[0]:
                state.setdefault(path, now.get(path, _NEW_DIRECTORY))
        return state

    def steps(self) -> dict[bytes, UndoStep]:
        return {
            path: UndoStep(path=path, now=now, wanted=self.wanted[path])
            for path, now in self.now.items()
            if now != self.wanted[path]
        }


def _plan_changes(store: ObjectStore, root: Path, *, changes: Sequence[StateChange]) -> _Plan:
    plan = _Plan(now={}, wanted={}, theirs={}, bases={}, conflicts={})
    differences = [find_differences(store, one.before, after=one.after) for one in changes]
    earlier: dict[bytes, list[StoredEntry | None]] = {}
    for each in (each for changed in differences for each in changed):
        earlier.setdefault(each.path, []).append(each.before)
    for changed in differences:
        missing = tuple(each.path for each in changed if each.path not in plan.now)
        found = _keep_exact_spelling(capture_paths(store, missing, root=root), root)
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
