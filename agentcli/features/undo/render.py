"""The text of undo: what can be undone, what was, and what was left and why.

`agentcli undo`, `/undo`, `/redo` and `/rewind` print what is rendered here. Only the reasons of
conflicts are elsewhere, in `log/checkpoint`, where they are found.
"""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from agentcli.features.undo.session_undo import (
    RecordedChange,
    UndoManager,
    UndoReport,
    UndoStack,
    UnstoredCall,
    build_undo_stack,
    open_closed_session,
)
from agentcli.log.checkpoint.undo import PathChange, PathOutcome
from agentcli.log.reader import build_fault_error, read_valid_part
from agentcli.log.sessions import choose_session
from agentcli.settings import resolve_workspace
from agentcli.system.plain_text import show_controls
from agentcli.types.errors import Exit, UsageError
from agentcli.types.events import Entry
from agentcli.types.messages import ToolCall
from agentcli.ui.render.wording import format_clock, format_target

_MOST_PATHS_OF_CHANGE = 3
_MOST_CALLS_NAMED = 5
OUTCOMES_SHOWN = 40

_OUTCOMES: dict[str, dict[PathChange, str]] = {
    "undo": {
        "removed": "removed",
        "left": "stays, since other files are in it",
        "restored": "restored",
        "permissions": "permissions restored",
        "content": "reverted",
    },
    "redo": {
        "removed": "removed again",
        "left": "stays, since other files are in it",
        "restored": "restored",
        "permissions": "permissions changed again",
        "content": "changed again",
    },
}
"""What was done to a path, by the action."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoRequest:
    call: str | None = None
    turn: int | None = None
    redo: bool = False
    dry_run: bool = False


def show_changes(session: str | None, workspace: Path | None) -> Exit:
    paths = choose_session(session, workspace).paths
    recorded = read_valid_part(paths.log)
    if recorded.fault is not None:
        raise build_fault_error(paths.log, recorded.fault, hint=f"agentcli fork {paths.id}")
    for line in (f"session {paths.id}", *render_changes(_build_stack(recorded.entries))):
        sys.stdout.write(line + "\n")
    return Exit.DONE


def _build_stack(entries: Sequence[Entry]) -> UndoStack:
    return build_undo_stack([one.fact for one in entries], [one.at for one in entries])


def undo_or_redo(session: str | None, workspace: Path | None, *, request: UndoRequest) -> Exit:
    given = resolve_workspace(workspace) if workspace else None
    with open_closed_session(choose_session(session, workspace).paths, given) as undoing:
        report = apply_request(undoing, request)
        lines = [*render_outcome(report, undoing.build_stack(), request=request)]
    for line in lines:
        sys.stdout.write(line + "\n")
    return Exit.VERIFY_FAILED if report and report.result.conflicts else Exit.DONE


def apply_request(undoing: UndoManager, request: UndoRequest) -> UndoReport | None:
    """Carry out the request. Return None if there is nothing left to do.

    Raise UsageError if the call or the turn does not exist.
    """
    stack = undoing.build_stack()
    if request.redo:
        if not stack.redoable:
            return None
        return undoing.redo(stack.redoable[-1], dry_run=request.dry_run)
    if request.call is None and request.turn is None:
        _require_stored(stack, undoing.session_id)
    changes = _select_changes(stack, request)
    return undoing.undo(changes, dry_run=request.dry_run) if changes else None


def _select_changes(stack: UndoStack, request: UndoRequest) -> Sequence[RecordedChange]:
    if request.turn is not None:
        _require_turn(stack, request.turn)
        return stack.list_undoable(request.turn)
    if request.call is None:
        latest = stack.find_latest()
        return stack.find_siblings(latest) if latest else []
    named = stack.find(request.call)
    if named is None:
        raise UsageError(_explain_missing(stack, request.call), hint="agentcli undo --list")
    if named.origin:
        raise UsageError(
            f"change {named.number} was made by session {named.origin}, before this session was"
            " forked from it, and is not undone here",
            hint=f"agentcli undo {named.origin} {named.number}",
        )
    if named.number not in stack.standing:
        raise UsageError(f"change {named.number} is already undone", hint="agentcli undo --redo")
    return [named]


def _explain_missing(stack: UndoStack, call_id: str) -> str:
    for each in stack.unstored:
        if each.fact.call_id == call_id:
            return _explain_unstored(each)
    return f"no stored change of call {call_id!r}"


def _explain_unstored(unstored: UnstoredCall) -> str:
    return f"{_name_unstored(unstored)} cannot be undone: {unstored.fact.reason}"


def _require_stored(stack: UndoStack, session: str) -> None:
    """Raise UsageError if the latest call cannot be undone: an earlier one was not asked for."""
    unstored, latest = stack.find_unstored(), stack.find_latest()
    if unstored is None:
        return
    said = _explain_unstored(unstored)
    if latest is None:
        raise UsageError(said, hint="restore the files with git or from a backup")
    before = f"the change before it is {latest.number} ({_format_changes([latest])})"
    raise UsageError(f"{said}; {before}", hint=f"agentcli undo {session} {latest.number}")


def _require_turn(stack: UndoStack, turn: int) -> None:
    if not 1 <= turn <= stack.turns:
        known = f"1 to {stack.turns}" if stack.turns > 1 else "1" if stack.turns else "none"
        raise UsageError(
            f"there is no turn {turn} in this session (its turns: {known})",
            hint="agentcli undo --list",
        )


def render_changes(stack: UndoStack) -> Iterator[str]:
    """Render the changes, the latest last, as in the log, and the calls that cannot be undone."""
    if not stack.changes and not stack.unstored:
        yield "No changes to undo."
    yield from _render_unstored_rows(stack, after=0)
    for each in stack.changes:
        state = "" if each.number in stack.standing else "  (undone)"
        state = f"  (by session {each.origin})" if each.origin else state
        call = _name_call(each.call, each.fact.call_id)
        yield f"{each.number:>4}  {format_clock(each.at)}  turn {each.turn}  {call}{state}"
        yield f"      {_format_paths(each)}"
        yield from _render_unstored_rows(stack, after=each.number)


def _render_unstored_rows(stack: UndoStack, *, after: int) -> Iterator[str]:
    for each in stack.unstored:
        if each.after == after:
            call = _name_unstored(each)
            yield f"   -  {format_clock(each.at)}  turn {each.turn}  {call}  (cannot be undone)"
            yield f"      {each.fact.reason}"


def _name_unstored(unstored: UnstoredCall) -> str:
    return _name_call(unstored.call, unstored.fact.call_id)


def _name_call(call: ToolCall | None, call_id: str) -> str:
    return f"{call.name} {format_target(call)}" if call else show_controls(call_id)


def render_outcome(
    report: UndoReport | None, stack: UndoStack, *, request: UndoRequest
) -> Iterator[str]:
    """Render what became of a request, what it left, and what can be undone next."""
    if report is None:
        yield f"Nothing to {'redo' if request.redo else 'undo'}."
    else:
        yield from render_report(report, dry_run=request.dry_run)
    if not request.redo and (report is None or request.turn is not None):
        yield from _render_inherited(stack, request.turn or 0)
        yield from _render_unstored(stack, request.turn or 0)
    if report is not None and not request.redo and not request.dry_run:
        yield from _render_remaining(stack)


def _render_inherited(stack: UndoStack, turn: int) -> Iterator[str]:
    """Render which changes stay because the origin of this fork made them."""
    inherited = stack.list_inherited(turn)
    for origin in dict.fromkeys(each.origin for each in inherited):
        changes = _format_changes([each for each in inherited if each.origin == origin])
        yield f"Session {origin} made this before the fork, so it stays: {changes}"


def _render_unstored(stack: UndoStack, turn: int) -> Iterator[str]:
    """Render which calls from that turn on cannot be undone."""
    names = [_name_unstored(each) for each in stack.unstored if each.turn >= turn]
    if names:
        more = len(names) - _MOST_CALLS_NAMED
        shown = ", ".join(names[:_MOST_CALLS_NAMED]) + (f" and {more} more" if more > 0 else "")
        yield f"Cannot be undone, because no state was stored: {shown}"


def render_report(report: UndoReport, *, dry_run: bool) -> Iterator[str]:
    yield f"{_format_outcome(report, dry_run=dry_run)} {_format_changes(report.changes)}"
    if not _is_named_above(report):
        yield from _render_done(report, most=None if dry_run else OUTCOMES_SHOWN)
    if not report.result.outcomes and not _list_not_kept(report):
        yield "  nothing had to be changed"
    yield from _render_conflicts(report)
    yield from _render_not_kept(report)


def _render_done(report: UndoReport, *, most: int | None) -> Iterator[str]:
    """Render the files, at most so many; None for all of them."""
    done = report.result.done
    for outcome in done[:most]:
        yield _describe_file(report, outcome)
    if most is not None and len(done) > most:
        yield f"  … {len(done) - most} more"


def _describe_file(report: UndoReport, outcome: PathOutcome) -> str:
    """Return the line on one file: what was done to it, or why it was left."""
    if outcome.change is None:
        return f"  CONFLICT {outcome.path}: {outcome.reason}"
    return f"  {outcome.path}: {_OUTCOMES[report.action][outcome.change]}"


def _render_not_kept(report: UndoReport) -> Iterator[str]:
    if not_kept := _list_not_kept(report):
        more = len(not_kept) - OUTCOMES_SHOWN
        named = ", ".join(not_kept[:OUTCOMES_SHOWN]) + (f" and {more} more" if more > 0 else "")
        yield f"  left as it is, because no copy was stored: {named}"


def _render_conflicts(report: UndoReport) -> Iterator[str]:
    for outcome in report.result.conflicts:
        yield _describe_file(report, outcome)
    if report.saved:
        yield f"  their earlier versions are in {show_controls(str(report.saved))}"
    if report.left:
        again = "can be undone again" if report.action == "undo" else "can be redone again"
        yield f"  {_format_changes(report.left)} {again} when that is fixed"


def _list_not_kept(report: UndoReport) -> list[str]:
    """Return the paths, each once, though several of the calls may have changed it."""
    facts = [change.fact for change in report.changes]
    paths = (f"{fact.root}/{one}" if fact.root else one for fact in facts for one in fact.not_kept)
    return list(dict.fromkeys(paths))


def _is_named_above(report: UndoReport) -> bool:
    """Return whether the first line names the only file there is to report.

    If so, what was done to it has no line of its own. Whatever else is to be said of each file must
    then be in the first line."""
    files = [outcome.path for outcome in (*report.result.done, *report.result.conflicts)]
    call = report.changes[0].call
    return len(report.changes) == 1 and call is not None and files == [format_target(call)]


def _render_remaining(stack: UndoStack) -> Iterator[str]:
    """Render what can be undone next, for a user who thinks in tasks rather than calls."""
    undoable = stack.list_undoable()
    if undoable:
        yield f"{len(undoable)} more to undo (next: {_format_paths(undoable[-1])})"


def _format_outcome(report: UndoReport, *, dry_run: bool) -> str:
    verb, past = ("undo", "Undid") if report.action == "undo" else ("redo", "Redid")
    is_partial = bool(report.result.conflicts or _list_not_kept(report))
    if is_partial and not report.result.done:
        return f"{'Would not' if dry_run else 'Could not'} {verb}"
    did = f"Would {verb}" if dry_run else past
    return f"{did} part of" if is_partial else did


def _format_changes(changes: Sequence[RecordedChange]) -> str:
    """Return one change by its call, several by their numbers."""
    if len(changes) == 1 and (call := changes[0].call):
        return _name_call(call, changes[0].fact.call_id)
    names = ", ".join(
        f"{c.number} ({c.call.name if c.call else show_controls(c.fact.call_id)})" for c in changes
    )
    return f"{'change' if len(changes) == 1 else 'changes'} {names}"


def _format_paths(changed: RecordedChange) -> str:
    fact = changed.fact
    more = fact.paths_total - min(len(fact.paths), _MOST_PATHS_OF_CHANGE)
    paths = [
        f"{fact.root}/{path}" if fact.root else path for path in fact.paths[:_MOST_PATHS_OF_CHANGE]
    ]
    shown = ", ".join(paths) + (f" and {more} more" if more > 0 else "")
    lost = (
        f"not stored: {', '.join(fact.not_kept[:_MOST_PATHS_OF_CHANGE])}" if fact.not_kept else ""
    )
    return "; ".join(filter(None, (shown, lost)))
