"""The course of a session as lines: what happened in which order, without what was said."""

from collections.abc import Container, Iterable

from agentcli.record.replay.likeness import Normal
from agentcli.record.replay.played import is_overflow
from agentcli.types.events import (
    CallFinished,
    CallJudged,
    ContextNote,
    Fact,
    ModelFailed,
    ModelReplied,
    NoteReason,
    TurnEnded,
    TurnStarted,
)

_BY_THE_PERSON = (NoteReason.SHELL, NoteReason.UNDO, NoteReason.REDO)
"""What they did beside the model is given: nothing of ours is to do it again."""


def describe_flow(
    facts: Iterable[Fact], normal: Normal, cut_turns: Container[int] = ()
) -> list[str]:
    """One line per fact. What a reply's calls came to is in their order, not in that of clocks.

    `cut_turns`: numbers of turns that did not come to an end of their own."""
    turn = 0
    lines: list[str] = []
    order: list[str] = []
    pending: list[tuple[int, str]] = []
    for fact in facts:
        call_id = _call_id(fact)
        if call_id is not None and call_id.rpartition(".")[0] in order:
            continue  # a program's: its result is told, and its own calls are in that
        if call_id is not None:
            place = order.index(call_id) if call_id in order else len(order)
            pending.append((place, _line(fact, normal)))
            continue
        turn += isinstance(fact, TurnStarted)
        line = _line(fact, normal)
        if not line or (isinstance(fact, TurnEnded) and turn in cut_turns):
            continue
        lines.extend(text for _, text in sorted(pending, key=lambda one: one[0]))
        pending.clear()
        lines.append(line)
        if isinstance(fact, ModelReplied):
            order = [call.id for call in fact.message.tool_calls]
    lines.extend(text for _, text in sorted(pending, key=lambda one: one[0]))
    return lines


def _call_id(fact: Fact) -> str | None:
    match fact:
        case CallJudged(call=call):
            return call.id
        case CallFinished(result=result):
            return result.call_id
        case _:
            return None


def _line(fact: Fact, normal: Normal) -> str:
    """Empty: not part of the course."""
    match fact:
        case TurnStarted():
            return "turn started"
        case ModelReplied(message=message):
            names = "".join(f" {call.name}" for call in message.tool_calls)
            return f"model replied: {message.stop}{names}"
        case ModelFailed(kind=kind) if not is_overflow(fact):
            return f"model failed: {kind}"
        case ContextNote(text=text, why=why) if why not in _BY_THE_PERSON:
            return f"told ({why}): {normal(text)}"
        case CallJudged(call=call, verdict=verdict):
            return f"  {call.id} {call.name}: {verdict.decision} by {verdict.by}"
        case CallFinished(result=result):
            return f"  {result.call_id} {result.name}: {result.error or result.status}"
        case TurnEnded(ending=ending):
            return f"turn ended: {ending}"
        case _:
            return ""
