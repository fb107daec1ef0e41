"""What a patch would do to the files, worked out in full before the first of them is touched."""

import os
import stat
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from agentcli.machine.diff import Comparison, compare, compare_spliced
from agentcli.machine.text import NotText, Splice, decode, spliced
from agentcli.machine.workspace import Place, Workspace
from agentcli.tools.editing.view import LfView
from agentcli.tools.hidden import HiddenValues
from agentcli.tools.patching.parser import Add, Delete, FileChange, Hunk, Line, Update
from agentcli.tools.patching.place import splices_of
from agentcli.tools.textfile import LIMIT_BYTES, encoded, load
from agentcli.types.errors import ToolError


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One file that comes, changes or goes."""

    place: Place
    before: bytes | None
    """None: it is created."""
    after: bytes | None
    """None: it is deleted."""
    mode: int | None = None
    """Its permissions, where it is created in the place of another or put back."""
    source: Place | None = None
    """The file whose text it takes over; None: all of it is new."""
    splices: tuple[Splice, ...] = ()
    """How that text was changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """One change of the patch, with what to tell of it."""

    steps: tuple[Step, ...]
    comparison: Comparison
    done: str
    """A clause: "edited src/a.py (+1 -1)"."""


def planned(change: FileChange, workspace: Workspace, hidden: HiddenValues) -> Planned:
    """ToolError, which says why, where it cannot be done."""
    place = workspace.locate(change.path)
    workspace.require_writable(place)
    match change:
        case Add():
            return _added(change, place, hidden)
        case Delete():
            return _deleted(change, place, workspace)
        case Update(move_to=str(move_to)):
            return _moved(change, place, workspace, hidden, move_to=move_to)
        case Update():
            return _edited(change, place, workspace, hidden)


def _added(change: Add, place: Place, hidden: HiddenValues) -> Planned:
    _require_free(place, f'Change it with "*** Update File: {place.given}".')
    text = hidden.restore(change.text, current="", path=place.given)
    comparison = compare("", text, path=place.given, created=True)
    return Planned(
        steps=(Step(place=place, before=None, after=encoded(text, place=place)),),
        comparison=comparison,
        done=f"added {place.given} (+{comparison.added})",
    )


def _deleted(change: Delete, place: Place, workspace: Workspace) -> Planned:
    _require_no_link(change.path, place, workspace)
    data, mode = _read(place, workspace)
    try:
        text = decode(data)[0]
    except NotText:
        text = ""
    return Planned(
        steps=(Step(place=place, before=data, after=None, mode=mode),),
        comparison=compare(text, "", path=place.given),
        done=f"deleted {place.given}",
    )


def _edited(change: Update, place: Place, workspace: Workspace, hidden: HiddenValues) -> Planned:
    before, after, comparison, splices = _changed(change, place, workspace, hidden)
    step = Step(place=place, before=before, after=after, source=place, splices=splices)
    return Planned(
        steps=(step,),
        comparison=comparison,
        done=f"edited {place.given} (+{comparison.added} -{comparison.removed})",
    )


def _moved(
    change: Update, place: Place, workspace: Workspace, hidden: HiddenValues, *, move_to: str
) -> Planned:
    _require_no_link(change.path, place, workspace)
    target = workspace.locate(move_to)
    workspace.require_writable(target)
    _require_free(target, f"Move {place.given} to another name, or delete it first.")
    data, mode = _read(place, workspace)
    after, comparison = data, compare("", "", path=place.given)
    splices: tuple[Splice, ...] = ()
    if change.hunks:
        data, after, comparison, splices = _changed(change, place, workspace, hidden)
    return Planned(
        steps=(
            Step(place=target, before=None, after=after, mode=mode, source=place, splices=splices),
            Step(place=place, before=data, after=None, mode=mode),
        ),
        comparison=comparison,
        done=f"moved {place.given} to {target.given} (+{comparison.added} -{comparison.removed})",
    )


def _changed(
    change: Update, place: Place, workspace: Workspace, hidden: HiddenValues
) -> tuple[bytes, bytes, Comparison, tuple[Splice, ...]]:
    """The bytes before and after, and what was done to the text."""
    file = load(workspace, place)
    restore = partial(hidden.restore, current=file.text, path=place.given)
    hunks = [_restore_hunk(hunk, restore) for hunk in change.hunks]
    splices = splices_of(LfView(file.text), hunks, path=place.given)
    text = spliced(file.text, splices)
    if text == file.text:
        raise ToolError(f"{place.given} has all of this already.")
    after = encoded(text, encoding=file.encoding, place=place)
    comparison = compare_spliced(file.text, splices, path=place.given)
    return file.data, after, comparison, tuple(splices)


def _restore_hunk(hunk: Hunk, restore: Callable[[str], str]) -> Hunk:
    return replace(
        hunk,
        headings=tuple(map(restore, hunk.headings)),
        lines=tuple(Line(mark, restore(text)) for mark, text in hunk.lines),
    )


def _require_free(place: Place, otherwise: str) -> None:
    if os.path.lexists(place.path):
        raise ToolError(f"{place.given} exists already. {otherwise}")


def _require_no_link(path: str, place: Place, workspace: Workspace) -> None:
    """What goes is the file that is named, never one that it leads to."""
    if Path(workspace.root, path).is_symlink():
        raise ToolError(f"{place.given} is a symbolic link. Name {place.relative} itself.")


def _read(place: Place, workspace: Workspace) -> tuple[bytes, int]:
    """All of a file, text or not, and its permissions."""
    with os.fdopen(workspace.open_file(place), "rb") as file:
        data = file.read(LIMIT_BYTES + 1)
        mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
    if len(data) > LIMIT_BYTES:
        raise ToolError(f"{place.given} is larger than {LIMIT_BYTES >> 20} MB: use bash for it.")
    return data, mode
