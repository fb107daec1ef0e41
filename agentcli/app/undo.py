"""Undo and redo of what a session's calls changed, in a running session or in a closed one.

Each is a fact, and the model is told of it: what it believes about these files is no longer true.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Literal

from agentcli.agent.journal import Journal
from agentcli.app.resume import end_open_turn, take_up
from agentcli.machine.plain import visible
from agentcli.record.checkpoint.keep import store_of
from agentcli.record.checkpoint.store import Store
from agentcli.record.log import Log
from agentcli.record.place import SessionPlace
from agentcli.record.turns import is_in_turn
from agentcli.record.undo import Change, TakenBack, save_conflicts, take_back
from agentcli.record.undo_stack import Changed, Stack, stack_of
from agentcli.types.errors import SettingsError, UsageError
from agentcli.types.events import Emit, Fact, Told, Undone, Why

PATHS_TOLD = 20
PATHS_KEPT = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What became of an undo or a redo."""

    action: Literal["undo", "redo"]
    changes: tuple[Changed, ...]
    """The calls, the latest first."""
    result: TakenBack
    saved: Path | None = None
    """Where the other version of every conflict was put."""


class Undoing:
    def __init__(
        self,
        facts: Sequence[Fact],
        *,
        tell: Emit,
        place: SessionPlace,
        settle: Callable[[], object] | None = None,
        moved_to: Path | None = None,
    ) -> None:
        """`settle`: ends the turn that a dead process left open. None: the session is alive.
        `moved_to`: where the files are now, if that is not where the session worked."""
        self._facts = facts
        self._tell = tell
        self._place = place
        self._settle = settle
        self._moved_to = moved_to

    def stack(self) -> Stack:
        return stack_of(self._facts)

    def undo(self, changes: Sequence[Changed], *, rehearsal: bool = False) -> Report:
        """Takes back exactly these. With `rehearsal` it only says what would happen."""
        latest_first = tuple(sorted(changes, key=lambda each: -each.number))
        states = [Change(before=c.fact.before, after=c.fact.after) for c in latest_first]
        result = self._taken_back(latest_first, states, rehearsal=rehearsal)
        return self._told(Report(action="undo", changes=latest_first, result=result), rehearsal)

    def redo(self, undone: Undone, *, rehearsal: bool = False) -> Report:
        """Puts back what an undo took."""
        changes = tuple(c for c in self.stack().changes if c.number in undone.numbers)
        states = [Change(before=undone.before, after=undone.after)]
        result = self._taken_back(changes, states, rehearsal=rehearsal)
        report = Report(action="redo", changes=changes, result=result)
        return self._told(report, rehearsal, of=undone.id)

    def _taken_back(
        self, changes: Sequence[Changed], states: Sequence[Change], *, rehearsal: bool
    ) -> TakenBack:
        if self._settle is None and is_in_turn(self._facts):
            raise UsageError("a turn is running", hint="stop it first, or wait for its end")
        store = self._store(changes)
        root = self._moved_to or changes[0].workspace
        if not root.is_dir():
            raise SettingsError(
                f"the workspace {root} is gone",
                hint="name the directory it was moved to: agentcli undo -C DIR …",
            )
        try:
            return take_back(store, root, states, rehearsal=rehearsal)
        except OSError as error:
            raise SettingsError(
                f"cannot use the kept states in {store.directory}: {error.strerror}",
                hint="free some space, or make it writable",
            ) from error

    def _told(self, report: Report, rehearsal: bool, *, of: str = "") -> Report:
        if rehearsal:
            return report
        if self._settle is not None:
            self._settle()
        result, store = report.result, self._store(report.changes)
        undo_id = f"undo-{1 + sum(isinstance(fact, Undone) for fact in self._facts)}"
        conflicts = self._place.directory / "conflicts" / undo_id
        saved = save_conflicts(store, result.conflicts, conflicts)
        store.hold(self._place.id, result.before)
        store.hold(self._place.id, result.after)
        fact = Undone(
            id=undo_id,
            action=report.action,
            numbers=tuple(each.number for each in report.changes),
            before=result.before,
            after=result.after,
            paths=tuple(each.path for each in result.done[:PATHS_KEPT]),
            conflicts=tuple(each.path for each in result.conflicts[:PATHS_KEPT]),
            of=of,
        )
        self._tell(fact)
        self._tell(Told(text=_words(fact, report), why=Why(report.action)))
        return replace(report, saved=saved)

    def _store(self, changes: Sequence[Changed]) -> Store:
        workspaces = {each.workspace for each in changes}
        if len(workspaces) > 1:
            raise SettingsError(
                "these changes were made in several workspaces",
                hint="take them back one by one: agentcli undo SESSION NUMBER",
            )
        return store_of(workspaces.pop(), self._place.directory.parent)


@contextmanager
def closed_session(place: SessionPlace, moved_to: Path | None) -> Iterator[Undoing]:
    """Of a session that nobody works in. Raises InUse where somebody does."""
    taken = take_up(place)
    log = Log(place.log, prev=taken.last_hash)
    try:
        journal = Journal(
            taken.session, record=log.append, before=taken.entries, last_seq=taken.last_seq
        )
        yield Undoing(
            journal.facts,
            tell=journal.tell,
            place=place,
            settle=partial(end_open_turn, journal),
            moved_to=moved_to,
        )
    finally:
        log.close()
        taken.lock.release()


def _words(fact: Undone, report: Report) -> str:
    """For the model."""
    did = "took back" if fact.action == "undo" else "put back"
    calls = ", ".join(_named(each) for each in report.changes)
    done = [each.path for each in report.result.done]
    parts = [f"[The person {did} the changes of {calls}: {_listed(done) or 'no file'}."]
    if fact.conflicts:
        parts.append(f"Left as they are, changed since: {_listed(fact.conflicts)}.")
    parts.append("Read these files again before you rely on what they hold.]")
    return " ".join(parts)


def _named(changed: Changed) -> str:
    if changed.call is None:
        return f"change {changed.number}"
    return f"your {changed.call.name} call {visible(changed.fact.call_id)}"


def _listed(paths: Sequence[str]) -> str:
    more = f" and {len(paths) - PATHS_TOLD} more" if len(paths) > PATHS_TOLD else ""
    return ", ".join(paths[:PATHS_TOLD]) + more
