"""The plan of a patch: every file change, worked out before the first file is touched.

The location of a hunk must be certain: it belongs where its old lines are, and they must be there
only once. Whitespace at line ends and typographic characters are ignored if nothing fits otherwise.
Headings tell locations apart. Kept lines stay the file's own.
"""

import os
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property, partial
from itertools import takewhile
from pathlib import Path

from agentcli.system.diff import Comparison, compare, compare_spliced
from agentcli.system.files import exists
from agentcli.system.text import NotText, Splice, decode, splice, to_printable
from agentcli.system.workspace import Workspace, WorkspacePath
from agentcli.tools.edit.near import explain_strays, show_closest
from agentcli.tools.edit.rebuild import rebuild_lines
from agentcli.tools.edit.view import LfView
from agentcli.tools.edit.whitespace import (
    BLANK,
    find_typography,
    get_indent,
    is_blank,
    to_plain_typography,
)
from agentcli.tools.hidden import HiddenValues
from agentcli.tools.patch.parser import (
    ADDED,
    KEPT,
    REMOVED,
    Add,
    Delete,
    FileChange,
    Hunk,
    PatchLine,
    Update,
)
from agentcli.tools.text_file import LIMIT_BYTES, encode_text, load_text
from agentcli.types.errors import ToolError
from agentcli.types.fast_dataclass import dataclass

SHOWN_CHARS = 80
SHOWN_LINE_NUMBERS = 10


@dataclass(frozen=True, slots=True)
class _Span:
    """The lines from `start` up to but not including `end`, counted from 0."""

    start: int
    end: int


def locate_hunks(view: LfView, hunks: Sequence[Hunk], *, path: str) -> tuple[Splice, ...]:
    """Locate all hunks; raise ToolError with the reason if it is not certain what is meant."""
    splices: list[Splice] = []
    reached = 0
    for hunk in hunks:
        search = _HunkSearch(view, hunk, reached=reached, path=path)
        first = search.locate()
        splices += search.replace_at(first)
        # The next hunk may begin with the lines that this one keeps at its end.
        reached = first + len(hunk.old) - _count_kept(reversed(hunk.lines))
    return tuple(splices)


def _count_kept(lines: Iterable[PatchLine]) -> int:
    """Return how many lines at the start are kept."""
    return len(list(takewhile(lambda line: line.mark == KEPT, lines)))


class _HunkSearch:
    """The search for the one location of a hunk, from the end of the hunk before it."""

    def __init__(self, view: LfView, hunk: Hunk, *, reached: int, path: str) -> None:
        self._view = view
        self._lines = view.lines
        self._hunk = hunk
        self._reached = reached
        self._path = path

    @cached_property
    def _bare(self) -> list[str]:
        return [line.rstrip(BLANK) for line in self._lines]

    @cached_property
    def _plain(self) -> list[str]:
        return [to_plain_typography(line) for line in self._bare]

    def locate(self) -> int:
        if not self._hunk.old:
            return self._locate_addition()
        spans = self._find_headed(_Span(self._reached, len(self._lines)))
        inside = self._find_hits(spans)
        found = inside or self._find_hits([_Span(span.start, len(self._lines)) for span in spans])
        if len(found) == 1:
            return found[0]
        raise self._build_ambiguous_error(found) if found else self._build_missing_error()

    def replace_at(self, first: int) -> list[Splice]:
        """Return the splices at a location; raise ToolError if drift leaves unclear what to add."""
        old = self._hunk.old
        own = self._lines[first : first + len(old)]
        drifted = [
            line
            for line, there in zip(old, own, strict=True)
            if line.rstrip(BLANK) != there.rstrip(BLANK)
        ]
        if not drifted:
            return list(_iter_splices(self._view, self._hunk, first=first))
        lines = rebuild_lines(own, old, new=self._hunk.new, style=self._view.style)
        if lines is not None:
            return [self._replace_between(first, own, lines=lines)]
        removed = {text for mark, text in self._hunk.lines if mark == REMOVED}
        added = "".join(text for mark, text in self._hunk.lines if mark == ADDED)
        is_plain = find_typography(added) <= find_typography("".join(own))
        if not is_plain or not removed.isdisjoint(drifted):
            raise self._build_refusal(
                f"differs from {self._path} in quotes, dashes or spaces. Copy its lines exactly",
                old,
            )
        return list(_iter_splices(self._view, self._hunk, first=first))

    def _replace_between(self, first: int, own: Sequence[str], *, lines: Sequence[str]) -> Splice:
        """Replace all but the lines kept at both ends: the next hunk may begin with them."""
        start, end = _count_kept(self._hunk.lines), _count_kept(reversed(self._hunk.lines))
        between = lines[start : len(lines) - end]
        return _splice(self._view, first + start, end=first + len(own) - end, added=between)

    def _locate_addition(self) -> int:
        """Locate a hunk with only added lines: in an empty file, or at the end if it says so."""
        if self._hunk.at_end or not self._lines:
            return len(self._lines)
        raise self._build_refusal(
            "has only lines to add, which does not say where. Give a line before or after them"
        )

    def _find_headed(self, span: _Span) -> list[_Span]:
        """Return the spans below the headings, or the whole span if there are none."""
        spans = [span]
        for heading in self._hunk.headings:
            spans = [
                self._find_block(index)
                for outer in spans
                for index in range(outer.start, outer.end)
                if to_plain_typography(self._lines[index].strip()) == to_plain_typography(heading)
            ]
            if not spans:
                raise self._build_refusal(
                    f'is headed "{_display_line(heading)}", which is no line of {self._path}'
                    f"{self._describe_start()}. Copy a whole line of the file, or leave it out",
                    [heading],
                )
        return spans

    def _find_block(self, index: int) -> _Span:
        """Return a line and everything indented below it."""
        indent = len(get_indent(self._lines[index]))
        end = index + 1
        while end < len(self._lines) and (
            is_blank(self._lines[end]) or len(get_indent(self._lines[end])) > indent
        ):
            end += 1
        return _Span(index, end)

    def _find_hits(self, spans: Sequence[_Span]) -> list[int]:
        """Return exact matches, or else those with the least that must be ignored."""
        old = self._hunk.old
        bare = [line.rstrip(BLANK) for line in old]
        return (
            self._find_line_hits(self._lines, old, spans=spans)
            or self._find_line_hits(self._bare, bare, spans=spans)
            or self._find_line_hits(self._plain, list(map(to_plain_typography, bare)), spans=spans)
        )

    def _find_line_hits(
        self, lines: Sequence[str], wanted: Sequence[str], *, spans: Sequence[_Span]
    ) -> list[int]:
        hits = {hit for span in spans for hit in _iter_positions(lines, wanted, span=span)}
        if self._hunk.at_end:
            hits &= {len(lines) - len(wanted)}
        return sorted(hits)

    def _build_ambiguous_error(self, hits: Sequence[int]) -> ToolError:
        shown = ", ".join(str(hit + 1) for hit in hits[:SHOWN_LINE_NUMBERS])
        more = ", …" if len(hits) > SHOWN_LINE_NUMBERS else ""
        return self._build_refusal(
            f"fits {len(hits)} places in {self._path} (lines {shown}{more}). Add more lines around "
            'the change, or a heading: "@@ " and the line that begins the function or class'
        )

    def _build_missing_error(self) -> ToolError:
        before = self._find_hits([_Span(0, self._reached)])
        if before:
            return self._build_refusal(
                f"fits {self._path} at line {before[0] + 1}, before the hunk that precedes it. "
                "Give the hunks in the order of the file, each place once"
            )
        for line in self._hunk.old:
            if to_plain_typography(line.rstrip(BLANK)) not in self._plain:
                strays = explain_strays(self._view, line, name="the patch").rstrip(".")
                return self._build_refusal(
                    f'does not fit {self._path}: "{_display_line(line)}" is no line of '
                    f"it. {strays or 'Copy its lines exactly'}",
                    self._hunk.old,
                )
        where = " at its end" if self._hunk.at_end else self._describe_start()
        return self._build_refusal(
            f"does not fit {self._path}{where}: its lines are there, but not one after another. "
            "Leave none out",
            self._hunk.old,
        )

    def _describe_start(self) -> str:
        return f" after line {self._reached}" if self._reached else ""

    def _build_refusal(self, reason: str, wanted: Sequence[str] = ()) -> ToolError:
        """Return the error, with the lines of the file that are closest to the wanted ones."""
        text = f"the hunk at line {self._hunk.number} {reason}."
        closest = show_closest(self._view, "\n".join(wanted), name="the patch")
        return ToolError(f"{text} {closest}" if closest else text)


def _iter_positions(lines: Sequence[str], wanted: Sequence[str], *, span: _Span) -> Iterator[int]:
    start = span.start
    with suppress(ValueError):  # `index` raises it if there are no more
        while True:
            start = lines.index(wanted[0], start, span.end)
            if start + len(wanted) <= span.end and lines[start : start + len(wanted)] == wanted:
                yield start
            start += 1


def _iter_splices(view: LfView, hunk: Hunk, *, first: int) -> Iterator[Splice]:
    """Yield one splice for each run of removed or added lines."""
    at = start = first
    added: list[str] = []
    for mark, text in (*hunk.lines, (KEPT, "")):
        if mark == KEPT:
            if added or at > start:
                yield _splice(view, start, end=at, added=added)
            at += 1
            start, added = at, []
        elif mark == ADDED:
            added.append(text)
        else:
            at += 1


def _splice(view: LfView, start: int, *, end: int, added: Sequence[str]) -> Splice:
    begin, past = view.find_line_start(start), view.find_line_start(end)
    text = "".join(f"{line}\n" for line in added)
    is_last = end == len(view.lines) and view.text[-1:] not in ("", "\n")
    if is_last and added:
        # The file has no final newline, and must not get one.
        text = text[:-1] if end > start else f"\n{text[:-1]}"
    return view.splice((begin, past), text)


def _display_line(line: str) -> str:
    shown = to_printable(line)
    return shown if len(shown) <= SHOWN_CHARS else f"{shown[:SHOWN_CHARS]}…"


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


def plan_change(change: FileChange, workspace: Workspace, *, hidden: HiddenValues) -> PlannedChange:
    """Plan one change; raise ToolError with the reason if it is impossible."""
    path = workspace.locate(change.path)
    workspace.require_writable(path)
    match change:
        case Add():
            return _plan_add(change, path, hidden=hidden)
        case Delete():
            return _plan_delete(change, path, workspace=workspace)
        case Update(move_to=str(move_to)):
            return _plan_move(change, path, workspace=workspace, hidden=hidden, move_to=move_to)
        case Update():
            return _plan_edit(change, path, workspace=workspace, hidden=hidden)


def _plan_add(change: Add, path: WorkspacePath, *, hidden: HiddenValues) -> PlannedChange:
    _require_free(path, f'Change it with "*** Update File: {path.given}".')
    text = hidden.restore(change.text, current="", path=path.given)
    comparison = compare("", text, path=path.given, created=True)
    return PlannedChange(
        steps=(PatchStep(path=path, before=None, after=encode_text(text, path=path)),),
        comparison=comparison,
        done=f"added {path.given} (+{comparison.added})",
    )


def _plan_delete(change: Delete, path: WorkspacePath, *, workspace: Workspace) -> PlannedChange:
    _require_no_link(change.path, path, workspace=workspace)
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
    change: Update, path: WorkspacePath, *, workspace: Workspace, hidden: HiddenValues
) -> PlannedChange:
    before, after, comparison, splices = _apply_hunks(
        change, path, workspace=workspace, hidden=hidden
    )
    step = PatchStep(path=path, before=before, after=after, source=path, splices=splices)
    return PlannedChange(
        steps=(step,),
        comparison=comparison,
        done=f"edited {path.given} (+{comparison.added} -{comparison.removed})",
    )


def _plan_move(
    change: Update, path: WorkspacePath, *, workspace: Workspace, hidden: HiddenValues, move_to: str
) -> PlannedChange:
    _require_no_link(change.path, path, workspace=workspace)
    target = workspace.locate(move_to)
    workspace.require_writable(target)
    _require_free(target, f"Move {path.given} to another name, or delete it first.")
    data, mode = _read(path, workspace)
    after, comparison = data, compare("", "", path=path.given)
    splices: tuple[Splice, ...] = ()
    if change.hunks:
        data, after, comparison, splices = _apply_hunks(
            change, path, workspace=workspace, hidden=hidden
        )
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
    change: Update, path: WorkspacePath, *, workspace: Workspace, hidden: HiddenValues
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


def _require_no_link(path: str, located: WorkspacePath, *, workspace: Workspace) -> None:
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
    return [path for path in reversed(parents) if not exists(path)]


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
