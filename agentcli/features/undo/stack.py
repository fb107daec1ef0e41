"""The changes of a session that are in effect, and those undone: a fold over its facts."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from agentcli.types.events import (
    CallJudged,
    Checkpointed,
    Fact,
    SessionResumed,
    SessionStarted,
    TurnStarted,
    Undone,
)
from agentcli.types.messages import ToolCall


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedChange:
    """One call that changed the workspace."""

    number: int
    """1, 2, 3, ... in the order of the log: the number that the user names it by."""
    turn: int
    workspace: Path
    """The workspace it was made in."""
    call: ToolCall | None
    """The call; None if the log does not have it."""
    fact: Checkpointed


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoStack:
    changes: tuple[RecordedChange, ...]
    standing: frozenset[int]
    """The numbers of the changes that are not undone."""
    redoable: tuple[Undone, ...]
    """The undos that were not redone, the latest last."""

    def latest(self) -> RecordedChange | None:
        return next((each for each in reversed(self.changes) if each.number in self.standing), None)

    def since_turn(self, turn: int) -> Sequence[RecordedChange]:
        """Return the changes in effect of that turn and the turns after it."""
        return [c for c in self.changes if c.turn >= turn and c.number in self.standing]

    def find(self, name: str) -> RecordedChange | None:
        """Find a change by its number, or by the id of the call."""
        return next((c for c in self.changes if str(c.number) == name), None) or next(
            (c for c in reversed(self.changes) if c.fact.call_id == name), None
        )


def build_undo_stack(facts: Iterable[Fact]) -> UndoStack:
    changes: list[RecordedChange] = []
    standing: set[int] = set()
    redoable: dict[str, Undone] = {}
    calls: dict[str, ToolCall] = {}
    turn, workspace = 0, Path()
    for fact in facts:
        match fact:
            case SessionStarted() | SessionResumed():
                workspace = Path(fact.workspace)
            case TurnStarted():
                turn += 1
            case CallJudged(call=call):
                calls[call.id] = call
            case Checkpointed():
                standing.add(len(changes) + 1)
                changes.append(
                    RecordedChange(
                        number=len(changes) + 1,
                        turn=turn,
                        workspace=workspace,
                        call=calls.get(fact.call_id),
                        fact=fact,
                    )
                )
            case Undone(action="undo"):
                standing -= set(fact.numbers)
                redoable[fact.id] = fact
            case Undone():
                standing |= set(fact.numbers)
                redoable.pop(fact.of, None)
            case _:
                pass
    return UndoStack(
        changes=tuple(changes), standing=frozenset(standing), redoable=tuple(redoable.values())
    )
