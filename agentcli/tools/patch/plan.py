"""The plan of a patch: every file change, worked out before the first file is touched."""

import os
import stat
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

from agentcli.system.diff import Comparison, compare, compare_spliced
from agentcli.system.text import NotText, Splice, decode, splice
from agentcli.system.workspace import Workspace, WorkspacePath
from agentcli.tools.edit.view import LfView
from agentcli.tools.hidden import HiddenValues
from agentcli.tools.patch.locate import locate_hunks
from agentcli.tools.patch.parser import Add, Delete, FileChange, Hunk, PatchLine, Update
from agentcli.tools.text_file import LIMIT_BYTES, encode_text, load_text
from agentcli.types.errors import ToolError
from agentcli.types.fast_dataclass import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class PatchStep:
    """One file that is created, changed or deleted."""

    path: WorkspacePath
    before: bytes | None
    """The content before; None if the file is created."""
    after: bytes | None
    """The content after; None if the file is deleted."""
    mode: int | None = None
    """The permissions of a file that is moved or restored."""
    source: WorkspacePath | None = None
    """The file whose text it takes over; None if all of it is new."""
    splices: tuple[Splice, ...] = ()
    """The changes to that text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedChange:
    """One change of the patch, with its description for the model."""

    steps: tuple[PatchStep, ...]
    comparison: Comparison
    done: str
    """A clause such as "edited src/a.py (+1 -1)"."""


def plan_change(change: FileChange, workspace: Workspace, hidden: HiddenValues) -> PlannedChange:
    """Plan one change; raise ToolError with the reason if it is impossible."""
    path = workspace.locate(change.path)
    workspace.require_writable(path)
    match change:
        case Add():
            return _plan_add(change, path, hidden)
        case Delete():
            return _plan_delete(change, path, workspace)
        case Update(move_to=str(move_to)):
            return _plan_move(change, path, workspace, hidden, move_to=move_to)
        case Update():
            return _plan_edit(change, path, workspace, hidden)


def _plan_add(change: Add, path: WorkspacePath, hidden: HiddenValues) -> PlannedChange:
    _require_free(path, f'Change it with "*** Update File: {path.given}".')
    text = hidden.restore(change.text, current="", path=path.given)
    comparison = compare("", text, path=path.given, created=True)
    return PlannedChange(
        steps=(PatchStep(path=path, before=None, after=encode_text(text, path=path)),),
        comparison=comparison,
        done=f"added {path.given} (+{comparison.added})",
    )


def _plan_delete(change: Delete, path: WorkspacePath, workspace: Workspace) -> PlannedChange:
    _require_no_link(change.path, path, workspace)
    data, mode = _read(path, workspace)
    try:
        text = decode(data)[0]
    except NotText:
        text = ""
    return PlannedChange(
        steps=(PatchStep(path=path, before=data, after=None, mode=mode),),
        comparison=compare(text, "", path=path.given),
        done=f"deleted {path.given}",
    )


def _plan_edit(
    change: Update, path: WorkspacePath, workspace: Workspace, hidden: HiddenValues
) -> PlannedChange:
    before, after, comparison, splices = _apply_hunks(change, path, workspace, hidden)
    step = PatchStep(path=path, before=before, after=after, source=path, splices=splices)
    return PlannedChange(
        steps=(step,),
        comparison=comparison,
        done=f"edited {path.given} (+{comparison.added} -{comparison.removed})",
    )


def _plan_move(
    change: Update, path: WorkspacePath, workspace: Workspace, hidden: HiddenValues, *, move_to: str
) -> PlannedChange:
    _require_no_link(change.path, path, workspace)
    target = workspace.locate(move_to)
    workspace.require_writable(target)
    _require_free(target, f"Move {path.given} to another name, or delete it first.")
    data, mode = _read(path, workspace)
    after, comparison = data, compare("", "", path=path.given)
    splices: tuple[Splice, ...] = ()
    if change.hunks:
        data, after, comparison, splices = _apply_hunks(change, path, workspace, hidden)
    return PlannedChange(
        steps=(
            PatchStep(
                path=target, before=None, after=after, mode=mode, source=path, splices=splices
            ),
            PatchStep(path=path, before=data, after=None, mode=mode),
        ),
        comparison=comparison,
        done=f"moved {path.given} to {target.given} (+{comparison.added} -{comparison.removed})",
    )


def _apply_hunks(
    change: Update, path: WorkspacePath, workspace: Workspace, hidden: HiddenValues
) -> tuple[bytes, bytes, Comparison, tuple[Splice, ...]]:
    """Return the bytes before and after, and the changes to the text."""
    file = load_text(workspace, path)
    restore = partial(hidden.restore, current=file.text, path=path.given)
    hunks = [_restore_hunk(hunk, restore) for hunk in change.hunks]
    splices = locate_hunks(LfView(file.text), hunks, path=path.given)
    text = splice(file.text, splices)
    if text == file.text:
        raise ToolError(f"{path.given} has all of this already.")
    after = file.encode(text, path=path)
    comparison = compare_spliced(file.text, splices, path=path.given)
    return file.data, after, comparison, tuple(splices)


def _restore_hunk(hunk: Hunk, restore: Callable[[str], str]) -> Hunk:
    return replace(
        hunk,
        headings=tuple(map(restore, hunk.headings)),
        lines=tuple(PatchLine(mark, restore(text)) for mark, text in hunk.lines),
    )


def _require_free(path: WorkspacePath, otherwise: str) -> None:
    if os.path.lexists(path.path):
        raise ToolError(f"{path.given} exists already. {otherwise}")


def _require_no_link(path: str, located: WorkspacePath, workspace: Workspace) -> None:
    """Raise ToolError for a link: only the named file is removed, never its target."""
    if Path(workspace.root, path).is_symlink():
        raise ToolError(f"{located.given} is a symbolic link. Name {located.relative} itself.")


def _read(path: WorkspacePath, workspace: Workspace) -> tuple[bytes, int]:
    """Return the content of a file, text or not, and its permissions."""
    with os.fdopen(workspace.open_file(path), "rb") as file:
        data = file.read(LIMIT_BYTES + 1)
        mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
    if len(data) > LIMIT_BYTES:
        raise ToolError(f"{path.given} is larger than {LIMIT_BYTES >> 20} MB: use bash for it.")
    return data, mode


# Applying the steps of a patch: all of them, or none.


def apply_patch_steps(steps: Sequence[PatchStep], workspace: Workspace) -> tuple[str, ...]:
    """Apply all steps or none; return notes for the user on the files, apart from their text."""
    done: list[PatchStep] = []
    made: list[Path] = []
    notes: list[str] = []
    try:
        for step in sorted(steps, key=lambda step: step.after is None):
            made += _list_missing_folders(step)
            notes += _take(step, workspace)
            done.append(step)
    except BaseException as error:
        left = _roll_back(done, workspace)
        for folder in reversed(made):
            with suppress(OSError):  # it contains something that is not ours
                folder.rmdir()
        if left:
            names = ", ".join(step.path.given for step in left)
            raise ToolError(
                f"Only a part was applied: {names}. The rest failed: {error}"
            ) from error
        raise
    return tuple(notes)


def _list_missing_folders(step: PatchStep) -> list[Path]:
    parents = [path for path in step.path.path.parents if path.is_relative_to(step.path.root)]
    return [path for path in reversed(parents) if not path.exists()]


def _roll_back(done: Sequence[PatchStep], workspace: Workspace) -> list[PatchStep]:
    left: list[PatchStep] = []
    for step in reversed(done):
        try:
            _take(replace(step, before=step.after, after=step.before), workspace)
        except ToolError:
            left.append(step)
    return left


def _take(step: PatchStep, workspace: Workspace) -> tuple[str, ...]:
    if step.after is None:
        _remove(step, workspace)
        return ()
    notes = workspace.replace(step.path, step.after, expected=step.before).notes
    if step.before is None and step.mode is not None and hasattr(os, "fchmod"):
        with os.fdopen(workspace.open_file(step.path), "rb") as file:
            os.fchmod(file.fileno(), step.mode)
    return notes


def _remove(step: PatchStep, workspace: Workspace) -> None:
    *parents, name = step.path.parts
    folder_place = replace(step.path, relative="/".join(parents) or ".")
    with os.fdopen(workspace.open_file(step.path), "rb") as file:
        is_as_planned = file.read() == step.before
    if not is_as_planned:
        raise ToolError(f"{step.path.given} changed on disk meanwhile. Read it again.")
    with workspace.open_folder(folder_place) as folder:
        folder.unlink(name)
