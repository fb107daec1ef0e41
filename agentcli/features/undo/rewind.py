"""Rewind: the conversation, the files, or both as they were before a message of the user.

Both are facts, so nothing is deleted, and a redo brings them back. The files go first: if the
process is killed in between, the message is still listed, and the same rewind completes it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

from agentcli.features.undo.session_undo import (
    RecordedChange,
    UndoReport,
    UndoStack,
    build_undo,
)
from agentcli.session.session import Session
from agentcli.types.errors import UsageError
from agentcli.types.events import (
    Compacted,
    Fact,
    ModelChanged,
    NoteReason,
    Rewound,
    SessionForked,
    TurnStarted,
    TurnWithdrawn,
    Undone,
    number_effective_facts,
)
from agentcli.types.messages import Text
from agentcli.types.spending import NO_SPENDING, Spending, compute_spending
from agentcli.types.words import pluralize

RewindScope = Literal["both", "conversation", "files"]
SCOPES: dict[str, RewindScope] = {
    "both": "both",
    "conversation": "conversation",
    "files": "files",
}
_MOST_TURNS_NAMED = 10
_MOST_KEPT_PATHS_NAMED = 10
KEPT_FILES = (
    "[The user went back to this point of the conversation. These files keep what was changed "
    "after it: {paths}. Read them before you rely on their content.]"
)


@dataclass(slots=True)
class RewindTarget:
    """A message of the user to go back to, with its turn."""

    turn: int
    at: str
    """UTC, ISO 8601."""
    prompt: str
    changes: tuple[RecordedChange, ...] = ()
    """The changes of the turn that are in effect."""
    spending: Spending = NO_SPENDING
    warnings: list[str] = field(default_factory=list)
    """What the user should know before going back to here."""
    keeps_files: bool = False
    """True if its files cannot be restored, because another session changed them."""

    @property
    def paths(self) -> list[str]:
        return list_paths(self.changes)


def list_paths(changes: Sequence[RecordedChange]) -> list[str]:
    found = (path for change in changes for path in change.fact.paths)
    return list(dict.fromkeys(found))


def list_targets(session: Session) -> list[RewindTarget]:
    """Return the messages in effect, the latest last."""
    stack = build_undo(session).build_stack()
    times = [
        at
        for fact, at in zip(session.facts, session.journal.times, strict=True)
        if isinstance(fact, TurnStarted)
    ]
    targets: list[RewindTarget] = []
    for turn, fact in number_effective_facts(session.facts):
        match fact:
            case TurnStarted():
                prompt = next((it.text for it in fact.message.content if isinstance(it, Text)), "")
                changes = tuple(one for one in stack.list_since_turn(turn) if one.turn == turn)
                targets.append(
                    RewindTarget(turn=turn, at=times[turn - 1], prompt=prompt, changes=changes)
                )
            case TurnWithdrawn() if targets:
                targets.pop()
            case _:
                _add_fact(targets, fact)
    for target in targets:
        if lost := sum(one.turn >= target.turn for one in stack.unstored):
            what = pluralize(lost, "call")
            target.warnings.append(f"the changes of {what} since were not stored: they stay")
    return targets


def _add_fact(targets: Sequence[RewindTarget], fact: Fact) -> None:
    if targets:
        targets[-1].spending += compute_spending(fact)
    match fact:
        case Compacted():
            warning = "the conversation was summarized since: it is sent in full again"
        case ModelChanged(model=model):
            warning = f"the model was changed since: it stays {model}"
        case SessionForked(origin=origin):
            warning = f"it was said in the session {origin}: its files stay as they are"
            for target in targets:
                target.keeps_files = True
        case _:
            return
    for target in targets:
        if warning not in target.warnings:
            target.warnings.append(warning)


def find_target(targets: Sequence[RewindTarget], turn: int | None, *, named: str) -> RewindTarget:
    """Return the target with this turn. Raise UsageError if there is none."""
    for target in targets:
        if target.turn == turn:
            return target
    known = ", ".join(str(target.turn) for target in targets[-_MOST_TURNS_NAMED:])
    raise UsageError(f"{named} is not a turn of this conversation ({known})", hint="/rewind")


def rewind(session: Session, target: RewindTarget, *, scope: RewindScope) -> UndoReport | None:
    """Go back to before the target's message. Return what became of the files, if any changed."""
    _require_idle(session)
    if scope != "conversation" and target.keeps_files:
        raise UsageError(
            f"the files of turn {target.turn} belong to the session it was forked from",
            hint=f"/rewind {target.turn} conversation",
        )
    undoing = build_undo(session, tells_model=scope == "files")
    changes = undoing.build_stack().list_since_turn(target.turn)
    report, undo_id = None, ""
    if scope != "conversation" and changes:
        report = undoing.undo(changes)
        undo_id = report.undo_id.partition(".")[0]
    if scope != "files":
        session.rewind(target.turn, undo=undo_id)
        kept = [one.path for one in report.result.conflicts] if report else []
        if scope == "conversation":
            kept = list_paths(changes)
        if kept:
            shown = ", ".join(kept[:_MOST_KEPT_PATHS_NAMED])
            more = (
                f" and {len(kept) - _MOST_KEPT_PATHS_NAMED} more"
                if len(kept) > _MOST_KEPT_PATHS_NAMED
                else ""
            )
            note = KEPT_FILES.format(paths=shown + more)
            session.add_note(note, reason=NoteReason.REWIND)
    return report


def _require_idle(session: Session) -> None:
    if session.journal.is_in_turn:
        raise UsageError("a turn is running", hint="stop it with esc, then try again")


# Redo: the latest undo or rewind that was not taken back.


@dataclass(frozen=True, slots=True, kw_only=True)
class RedoResult:
    rewound: Rewound | None = None
    """The rewind that was taken back, if it was one."""
    report: UndoReport | None = None
    """What became of the files, if any changed."""


def redo(session: Session) -> RedoResult | None:
    """Take back the latest undo or rewind. Return None if there is none.

    Raise UsageError if the conversation went on after the rewind."""
    _require_idle(session)
    latest = next(_iter_redoable(session.facts), None)
    if latest is None:
        return None
    if isinstance(latest, Undone):
        return RedoResult(report=build_undo(session).redo(latest))
    if _has_gone_on(session.facts, latest):
        raise UsageError(
            "the conversation went on after the rewind, so it cannot be brought back here",
            hint=f"work on a copy: agentcli fork {session.paths.id} --at {latest.turn}",
        )
    undoing = build_undo(session, tells_model=False)
    undone = _find_undo(undoing.build_stack(), latest.undo)
    report = undoing.redo(undone) if undone else None
    session.redo_rewind(latest)
    return RedoResult(rewound=latest, report=report)


def _iter_redoable(facts: Sequence[Fact]) -> Iterator[Undone | Rewound]:
    """Yield what can be taken back, the latest first. The undo of a rewind is part of it.

    What was undone or rewound in the origin of a fork is not this session's."""
    taken_back: set[str] = set()
    for fact in reversed(facts):
        match fact:
            case SessionForked():
                return
            case Undone(action="redo") | Rewound(action="redo"):
                taken_back.add(fact.of.partition(".")[0])
            case Rewound() if fact.id not in taken_back:
                taken_back.add(fact.undo)
                yield fact
            case Rewound():
                taken_back.add(fact.undo)
            case Undone() if fact.id.partition(".")[0] not in taken_back:
                yield fact
            case _:
                pass


def _has_gone_on(facts: Sequence[Fact], rewound: Rewound) -> bool:
    """Return whether something was said since that was not withdrawn."""
    at = next(at for at, fact in enumerate(facts) if fact is rewound)
    later = facts[at + 1 :]
    said = sum(isinstance(fact, TurnStarted) for fact in later)
    return said > sum(isinstance(fact, TurnWithdrawn) for fact in later)


def _find_undo(stack: UndoStack, undo_id: str) -> Undone | None:
    """Return the undo with this id, if it was not redone since."""
    found = (one for one in stack.redoable if one.id.partition(".")[0] == undo_id)
    return next(found, None) if undo_id else None
