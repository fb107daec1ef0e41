"""Undo and redo of what a session's calls changed, in a running session or in a closed one.

Each is a fact, and the model gets a context note: what it believes about these files is outdated.
"""

import json
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Literal

from agentcli.agent.journal import Journal
from agentcli.log.checkpoint.keep import find_store
from agentcli.log.checkpoint.store import ObjectStore
from agentcli.log.checkpoint.trees import find_differences
from agentcli.log.checkpoint.undo import StateChange, UndoResult, save_conflicts, undo_changes
from agentcli.log.paths import SessionPaths
from agentcli.permissions.masking import EventMasking
from agentcli.permissions.secrets import Redactor
from agentcli.session.secrets import build_redactor
from agentcli.session.session import Session
from agentcli.session.start import end_open_turn, open_closed_journal
from agentcli.system.files import store_private
from agentcli.system.plain_text import show_controls
from agentcli.types.errors import SettingsError, UsageError
from agentcli.types.events import (
    PATHS_RECORDED,
    CallJudged,
    Checkpointed,
    CheckpointFailed,
    ContextNote,
    Fact,
    NoteReason,
    SessionForked,
    SessionResumed,
    SessionStarted,
    TurnStarted,
    Undone,
    build_missing_failures,
)
from agentcli.types.messages import Text, ToolCall

# The changes of a session that are in effect, and those undone: a fold over its facts.


PROMPT_CHARS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedChange:
    """One call that changed the workspace."""

    number: int
    """1, 2, 3, ... in the order of the log: the number that the user names it by."""
    turn: int
    prompt: str
    """The beginning of the message that began the turn."""
    workspace: Path
    """The workspace, or the added directory, that it was made in."""
    call: ToolCall | None
    """The call; None if the log does not have it."""
    at: str
    """When the state after the call was stored, in ISO 8601."""
    fact: Checkpointed
    origin: str = ""
    """The session that made it, if this one was forked from that one later."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnstoredCall:
    """One call that may have changed files, and cannot be undone: its states were not stored."""

    turn: int
    after: int
    """The number of the change before it; 0 if there is none."""
    call: ToolCall | None
    """The call; None if the log does not have it."""
    at: str
    fact: CheckpointFailed
    is_passed: bool = False
    """True if something was undone since: the user decided to go on without it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoStack:
    changes: tuple[RecordedChange, ...]
    standing: frozenset[int]
    """The numbers of the changes that are not undone."""
    redoable: tuple[Undone, ...]
    """The undos that were not redone, the latest last."""
    turns: int
    """The number of turns, with those that changed nothing."""
    unstored: tuple[UnstoredCall, ...] = ()
    """The calls of this session that cannot be undone."""

    def list_undoable(self, turn: int = 0) -> Sequence[RecordedChange]:
        """Return what can be undone here, of that turn and the turns after it."""
        return [c for c in self.list_since_turn(turn) if not c.origin]

    def list_inherited(self, turn: int = 0) -> Sequence[RecordedChange]:
        """Return the changes in effect that the origin of a fork made, from that turn on."""
        return [c for c in self.list_since_turn(turn) if c.origin]

    def list_since_turn(self, turn: int) -> Sequence[RecordedChange]:
        """Return the changes in effect of that turn and the turns after it."""
        return [c for c in self.changes if c.turn >= turn and c.number in self.standing]

    def find_latest(self) -> RecordedChange | None:
        return next(reversed(self.list_undoable()), None)

    def find_unstored(self) -> UnstoredCall | None:
        """Return the latest call that cannot be undone, unless something after it can be."""
        latest = self.find_latest()
        return next(
            (
                each
                for each in reversed(self.unstored)
                if not each.is_passed and (latest is None or each.after >= latest.number)
            ),
            None,
        )

    def find_siblings(self, change: RecordedChange) -> Sequence[RecordedChange]:
        """Return the changes in effect of the same call: it has one for each added directory."""
        found = [change]
        for each in reversed(self.changes[: change.number - 1]):
            roots = {one.fact.root for one in found}
            is_other = (each.fact.call_id, each.origin) != (change.fact.call_id, change.origin)
            if is_other or each.fact.root in roots:
                break
            found.append(each)
        return [each for each in found if each.number in self.standing]

    def find(self, name: str) -> RecordedChange | None:
        """Find a change by its number, or by the id of the call."""
        return next((c for c in self.changes if str(c.number) == name), None) or next(
            (c for c in reversed(self.changes) if c.fact.call_id == name), None
        )


def build_undo_stack(facts: Sequence[Fact], times: Sequence[str]) -> UndoStack:
    """Return the changes and undos among the facts. `times` are those of the facts."""
    fold = _StackFold()
    for fact, at in zip(facts, times, strict=True):
        fold.add(fact, at)
    for failure in build_missing_failures(facts):
        fold.add(failure, times[-1])
    return fold.build()


@dataclass(slots=True)
class _StackFold:
    changes: list[RecordedChange] = field(default_factory=list)
    standing: set[int] = field(default_factory=set)
    redoable: dict[str, Undone] = field(default_factory=dict)
    unstored: list[UnstoredCall] = field(default_factory=list)
    calls: dict[str, ToolCall] = field(default_factory=dict)
    turn: int = 0
    prompt: str = ""
    workspace: Path = Path()

    def add(self, fact: Fact, at: str) -> None:
        match fact:
            case SessionStarted() | SessionResumed():
                self.workspace = Path(fact.workspace)
            case SessionForked():
                self._leave_origin(fact.origin)
            case TurnStarted(message=message):
                self.turn += 1
                self.prompt = next((it.text for it in message.content if isinstance(it, Text)), "")
            case CallJudged(call=call):
                self.calls[call.id] = call
            case Checkpointed():
                self._add_change(fact, at)
            case CheckpointFailed():
                self._add_unstored(fact, at)
            case Undone():
                self._add_undo(fact)
            case _:
                pass

    def build(self) -> UndoStack:
        return UndoStack(
            changes=tuple(self.changes),
            standing=frozenset(self.standing),
            redoable=tuple(self.redoable.values()),
            turns=self.turn,
            unstored=tuple(self.unstored),
        )

    def _leave_origin(self, origin: str) -> None:
        """Leave all changes until here to the session that made them."""
        self.changes = [one if one.origin else replace(one, origin=origin) for one in self.changes]
        self.redoable.clear()
        self.unstored.clear()

    def _add_change(self, fact: Checkpointed, at: str) -> None:
        number = len(self.changes) + 1
        self.standing.add(number)
        self.changes.append(
            RecordedChange(
                number=number,
                turn=self.turn,
                prompt=self.prompt[:PROMPT_CHARS],
                workspace=Path(fact.root) if fact.root else self.workspace,
                call=self.calls.get(fact.call_id),
                at=at,
                fact=fact,
            )
        )

    def _add_unstored(self, fact: CheckpointFailed, at: str) -> None:
        latest = self.unstored[-1] if self.unstored else None
        if latest and (latest.fact.call_id, latest.turn) == (fact.call_id, self.turn):
            return  # of the same call, in another directory
        call = self.calls.get(fact.call_id)
        one = UnstoredCall(turn=self.turn, after=len(self.changes), call=call, at=at, fact=fact)
        self.unstored.append(one)

    def _add_undo(self, fact: Undone) -> None:
        if fact.action == "undo":
            self.unstored = [replace(one, is_passed=True) for one in self.unstored]
            self.standing -= set(fact.numbers)
            self.redoable[fact.id] = fact
        else:
            self.standing |= set(fact.numbers)
            self.redoable.pop(fact.of, None)


_MOST_PATHS_IN_NOTE = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoReport:
    """The outcome of an undo or a redo."""

    action: Literal["undo", "redo"]
    changes: tuple[RecordedChange, ...]
    """The calls, the latest first."""
    result: UndoResult
    left: tuple[RecordedChange, ...] = ()
    """Those that stay as they were, since not all of their paths could be written."""
    undo_id: str = ""
    """The id of what was recorded; empty if nothing was."""
    saved: Path | None = None
    """The directory with the other version of every conflict."""


class UndoManager:
    def __init__(
        self,
        journal: Journal,
        *,
        paths: SessionPaths,
        redactor: Redactor,
        end_turn: Callable[[], object] | None = None,
        moved_to: Path | None = None,
        tells_model: bool = True,
    ) -> None:
        """`end_turn` ends the turn that a dead process left open; None if the session is alive.

        `moved_to` is the workspace now, if that is not where the session worked.
        `tells_model` is False if the model forgets the changes, too.
        """
        self._journal = journal
        self._paths = paths
        self._masking = EventMasking(redactor)
        self._end_turn = end_turn
        self._moved_to = moved_to
        self._tells_model = tells_model

    @property
    def session_id(self) -> str:
        return self._paths.id

    def build_stack(self) -> UndoStack:
        return build_undo_stack(self._journal.facts, self._journal.times)

    def undo(self, changes: Sequence[RecordedChange], *, dry_run: bool = False) -> UndoReport:
        """Undo exactly these changes. With `dry_run` only report what would happen."""
        latest_first = tuple(sorted(changes, key=lambda each: -each.number))
        undo_id, roots = self._make_id(), dict.fromkeys(each.fact.root for each in latest_first)
        reports = [
            self._undo_in_root(
                [each for each in latest_first if each.fact.root == root],
                undo_id if index == 0 else f"{undo_id}.{index + 1}",
                dry_run=dry_run,
            )
            for index, root in enumerate(roots)
        ]
        return self._finish(reports, latest_first)

    def _undo_in_root(
        self, changes: Sequence[RecordedChange], undo_id: str, *, dry_run: bool
    ) -> UndoReport:
        states = [StateChange(before=c.fact.before, after=c.fact.after) for c in changes]
        result = self._apply(changes, states, undo_id=undo_id, dry_run=dry_run)
        left = self._find_left(changes, result.unwritten)
        report = UndoReport(action="undo", changes=tuple(changes), result=result, left=left)
        return self._record(report, dry_run, undo_id=undo_id)

    def _find_left(
        self, changes: Sequence[RecordedChange], unwritten: Collection[bytes]
    ) -> tuple[RecordedChange, ...]:
        """Return the changes with a path that was not written, and those that share a path with
        them: they can only be undone together."""
        if not unwritten:
            return ()
        store = self._find_store(changes)
        paths = {
            one.number: {
                it.path for it in find_differences(store, one.fact.before, after=one.fact.after)
            }
            for one in changes
        }
        found, reached = set[int](), set(unwritten)
        while more := [one for one, own in paths.items() if one not in found and own & reached]:
            found.update(more)
            reached.update(*(paths[one] for one in more))
        return tuple(one for one in changes if one.number in found)

    def redo(self, undone: Undone, *, dry_run: bool = False) -> UndoReport:
        """Redo what an undo reverted, in all roots."""
        stack, base = self.build_stack(), undone.id.partition(".")[0]
        together = [one for one in stack.redoable if one.id.partition(".")[0] == base]
        reports = [self._redo_in_root(one, dry_run=dry_run) for one in together]
        return self._finish(reports, [each for one in reports for each in one.changes])

    def _finish(
        self, reports: Sequence[UndoReport], changes: Sequence[RecordedChange]
    ) -> UndoReport:
        """Return one report for all roots, without secrets: a path may have one in its name."""
        merged: UndoReport = self._masking.mask_value(_merge_reports(reports, changes))
        return merged

    def _redo_in_root(self, undone: Undone, *, dry_run: bool) -> UndoReport:
        numbers = (*undone.numbers, *undone.left)
        changes = tuple(c for c in self.build_stack().changes if c.number in numbers)
        states = [StateChange(before=undone.before, after=undone.after)]
        undo_id = self._make_id()
        result = self._apply(changes, states, undo_id=undo_id, dry_run=dry_run)
        left = changes if result.unwritten else ()
        report = UndoReport(action="redo", changes=changes, result=result, left=left)
        return self._record(report, dry_run, undo_id=undo_id, of="" if left else undone.id)

    def _apply(
        self,
        changes: Sequence[RecordedChange],
        states: Sequence[StateChange],
        *,
        undo_id: str,
        dry_run: bool,
    ) -> UndoResult:
        if self._end_turn is None and self._journal.is_in_turn:
            raise UsageError("a turn is running", hint="stop it first, or wait for its end")
        store = self._find_store(changes)
        first = changes[0]
        root = first.workspace if first.fact.root else self._moved_to or first.workspace
        if not root.is_dir():
            raise SettingsError(
                f"the workspace {root} no longer exists",
                hint="name the directory it was moved to: agentcli undo -C DIR …",
            )
        try:
            if dry_run:
                return undo_changes(store, root, changes=states, dry_run=True)
            self._take_back_unfinished(store, root)
            announce = partial(self._note_begun, store, root, undo_id)
            return undo_changes(store, root, changes=states, announce=announce)
        except OSError as error:
            raise SettingsError(
                f"cannot use the stored states in {store.directory}: {error.strerror}",
                hint="free some space, or make it writable",
            ) from error

    @property
    def _begun_path(self) -> Path:
        """The file that says what an undo is about to change, until it is recorded."""
        return self._paths.directory / "undo.json"

    def _note_begun(
        self, store: ObjectStore, root: Path, undo_id: str, before: str, planned: str
    ) -> None:
        for state in (before, planned):
            store.keep_reference(self._paths.id, state)
        states = {"before": before, "planned": planned}
        begun = {"id": undo_id, "root": str(root), "turns": self._count_turns(), **states}
        store_private(self._begun_path, json.dumps(begun).encode())

    def _count_turns(self) -> int:
        return sum(isinstance(fact, TurnStarted) for fact in self._journal.facts)

    def _take_back_unfinished(self, store: ObjectStore, root: Path) -> None:
        """Take back an undo that was killed in its middle: a redo must bring back all of its files.

        If the conversation went on since, what it left counts as the state of the files. One that
        was killed before it changed anything may have left half a note of it."""
        try:
            begun = json.loads(self._begun_path.read_text(encoding="utf-8"))
        except (FileNotFoundError, ValueError):
            return
        recorded = {fact.id for fact in self._journal.facts if isinstance(fact, Undone)}
        is_latest = begun["turns"] == self._count_turns() and begun["id"] not in recorded
        if is_latest and begun["root"] == str(root):
            half = StateChange(before=begun["before"], after=begun["planned"])
            undo_changes(store, root, changes=[half])
        self._begun_path.unlink()

    def _make_id(self) -> str:
        return f"undo-{1 + sum(isinstance(fact, Undone) for fact in self._journal.facts)}"

    def _record(
        self, report: UndoReport, dry_run: bool, *, undo_id: str, of: str = ""
    ) -> UndoReport:
        result, left = report.result, [each.number for each in report.left]
        if dry_run:
            return report
        if len(left) == len(report.changes) and not result.done:
            self._begun_path.unlink(missing_ok=True)
            return report
        if self._end_turn is not None:
            self._end_turn()
        store = self._find_store(report.changes)
        conflicts = self._paths.directory / "conflicts" / undo_id
        edited = [each for each in result.conflicts if not each.is_of_machine]
        saved = save_conflicts(store, edited, directory=conflicts)
        store.keep_reference(self._paths.id, result.before)
        store.keep_reference(self._paths.id, result.after)
        fact = Undone(
            id=undo_id,
            action=report.action,
            numbers=tuple(each.number for each in report.changes if each.number not in left),
            before=result.before,
            after=result.after,
            paths=tuple(each.path for each in result.done[:PATHS_RECORDED]),
            conflicts=tuple(each.path for each in result.conflicts[:PATHS_RECORDED]),
            of=of,
            root=report.changes[0].fact.root,
            left=tuple(left),
        )
        self._journal.append(fact)
        self._begun_path.unlink(missing_ok=True)
        if self._tells_model:
            note = _format_note(fact, report)
            self._journal.append(ContextNote(text=note, why=NoteReason(report.action)))
        return replace(report, saved=saved, undo_id=undo_id)

    def _find_store(self, changes: Sequence[RecordedChange]) -> ObjectStore:
        workspaces = {each.workspace for each in changes}
        if len(workspaces) > 1:
            raise SettingsError(
                "these changes were made in several workspaces",
                hint="undo them one by one: agentcli undo SESSION NUMBER",
            )
        return find_store(workspaces.pop(), self._paths.sessions)


@contextmanager
def open_closed_session(paths: SessionPaths, moved_to: Path | None) -> Iterator[UndoManager]:
    """Open the undo of a session that is not in use. Raise SessionInUse if it is."""
    redactor = build_redactor()
    with open_closed_journal(paths, redactor) as journal:
        yield UndoManager(
            journal,
            paths=paths,
            redactor=redactor,
            end_turn=partial(end_open_turn, journal),
            moved_to=moved_to,
        )


def _merge_reports(reports: Sequence[UndoReport], changes: Sequence[RecordedChange]) -> UndoReport:
    """Return one report for all roots. Paths outside the workspace are whole in it."""
    if len(reports) == 1 and not reports[0].changes[0].fact.root:
        return reports[0]
    outcomes = tuple(
        replace(one, path=f"{root}/{one.path}") if (root := report.changes[0].fact.root) else one
        for report in reports
        for one in report.result.outcomes
    )
    return replace(
        reports[0],
        changes=tuple(changes),
        result=replace(reports[0].result, outcomes=outcomes),
        left=tuple(each for one in reports for each in one.left),
        undo_id=next((one.undo_id for one in reports if one.undo_id), ""),
        saved=next((one.saved for one in reports if one.saved), None),
    )


def _format_note(fact: Undone, report: UndoReport) -> str:
    """Return the context note for the model."""
    did = "undid" if fact.action == "undo" else "redid"
    calls = ", ".join(_describe_change(each) for each in report.changes)
    where = f" (in {fact.root})" if fact.root else ""
    done = [each.path for each in report.result.done]
    parts = [f"[The user {did} the changes of {calls}: {_format_paths(done) or 'no file'}{where}."]
    for why, is_of_machine in (("were edited since", False), ("could not be written", True)):
        kept = [it.path for it in report.result.conflicts if it.is_of_machine == is_of_machine]
        if kept:
            parts.append(f"Left unchanged, because they {why}: {_format_paths(kept)}.")
    parts.append("Read these files again before you rely on their content.]")
    return " ".join(parts)


def _describe_change(changed: RecordedChange) -> str:
    if changed.call is None:
        return f"change {changed.number}"
    return f"your {changed.call.name} call {show_controls(changed.fact.call_id)}"


def _format_paths(paths: Sequence[str]) -> str:
    more = (
        f" and {len(paths) - _MOST_PATHS_IN_NOTE} more" if len(paths) > _MOST_PATHS_IN_NOTE else ""
    )
    return ", ".join(paths[:_MOST_PATHS_IN_NOTE]) + more


def build_undo(session: Session, *, tells_model: bool = True) -> UndoManager:
    """Return the undo and redo of a running session. Do not use it while a turn is running."""
    return UndoManager(
        session.journal,
        paths=session.paths,
        redactor=session.gate.redactor,
        tells_model=tells_model,
    )
