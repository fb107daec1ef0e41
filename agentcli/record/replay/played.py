"""A recording taken apart: turns, their replies, and what became of each call."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from agentcli.types.errors import WireErrorKind
from agentcli.types.events import (
    CallFinished,
    CallJudged,
    Ending,
    Entry,
    Fact,
    HookRan,
    ModelFailed,
    ModelReplied,
    Told,
    TurnEnded,
    TurnStarted,
    Undone,
    Why,
)
from agentcli.types.messages import AssistantMessage, ToolCall, UserMessage
from agentcli.types.tools import Command, ErrorKind, ToolResult
from agentcli.types.verdicts import CONFINED

_AT_A_LIMIT = (Ending.STEP_LIMIT, Ending.TIME_LIMIT, Ending.COST_LIMIT, Ending.TOKEN_LIMIT)


@dataclass(slots=True)
class PlayedCall:
    """What became of one call of the recording."""

    call: ToolCall
    judged: CallJudged | None = None
    finished: ToolResult | None = None
    was_changed: bool = False
    """A hook replaced or withheld its result."""

    @property
    def was_interrupted(self) -> bool:
        return self.finished is not None and self.finished.error is ErrorKind.CANCELLED

    @property
    def _was_moved(self) -> bool:
        details = self.finished.details if self.finished else None
        return isinstance(details, Command) and details.was_moved

    @property
    def why_not_again(self) -> str:
        """Why it cannot be run again; empty: it can."""
        if self.was_interrupted:
            return "it was interrupted"
        if self._was_moved:
            return "a person moved it to the background while it ran"
        if self.was_changed:
            return "a hook changed its result"
        if self.judged is not None and self.judged.verdict.confinement != CONFINED:
            return "it was let out of the workspace or onto the network"
        return ""


@dataclass(slots=True)
class PlayedReply:
    """One request of the recording: what came back, and what its calls came to."""

    outcome: AssistantMessage | ModelFailed
    told: list[Told] = field(default_factory=list)
    """What the model was told before, by the person or about the background."""
    calls: list[PlayedCall] = field(default_factory=list)


@dataclass(slots=True)
class PlayedTurn:
    message: UserMessage
    told: list[Told] = field(default_factory=list)
    """What the model was told before the turn: instructions, and words of the person."""
    undone: list[Undone] = field(default_factory=list)
    """What the person took back, or put back, before the turn."""
    replies: list[PlayedReply] = field(default_factory=list)
    ended: TurnEnded | None = None

    @property
    def was_cut(self) -> bool:
        """By a limit that is not known here, or by the end of its process."""
        return self.ended is None or self.ended.ending in _AT_A_LIMIT


def is_overflow(outcome: AssistantMessage | ModelFailed) -> bool:
    """The conversation did not fit. Whether it went on shows in what follows."""
    return isinstance(outcome, ModelFailed) and outcome.kind == WireErrorKind.OVERFLOW


def turns_of(entries: Iterable[Entry]) -> list[PlayedTurn]:
    turns: list[PlayedTurn] = []
    told: list[Told] = []
    undone: list[Undone] = []
    for entry in entries:
        match entry.fact:
            case TurnStarted(message=message):
                turns.append(PlayedTurn(message=message, told=list(told), undone=list(undone)))
                told.clear()
                undone.clear()
            case Undone() as one:
                undone.append(one)
            case Told() as words:
                told.append(words)
            case TurnEnded() as ended if turns:
                turns[-1].ended = ended
                told.clear()
            case ModelReplied(message=outcome) | (ModelFailed() as outcome) if turns:
                turns[-1].replies.append(_reply(outcome, told))
                told.clear()
            case fact if turns:
                _add_to_call(turns[-1], fact)
            case _:
                pass
    return turns


def _reply(outcome: AssistantMessage | ModelFailed, told: list[Told]) -> PlayedReply:
    calls = outcome.tool_calls if isinstance(outcome, AssistantMessage) else ()
    return PlayedReply(
        outcome,
        # Without what the loop says by itself, and will say again.
        told=[one for one in told if one.why not in (Why.LENGTH, Why.ERROR)],
        calls=[PlayedCall(call) for call in calls],
    )


def _add_to_call(turn: PlayedTurn, fact: Fact) -> None:
    match fact:
        case CallJudged(call=call):
            for played in _open(turn, call.id):
                played.judged = fact
        case CallFinished(result=result):
            for played in _open(turn, result.call_id):
                played.finished = result
        case HookRan(call_id=call_id, decision="transformed" | "rejected"):
            for played in _open(turn, call_id):
                played.was_changed = True
        case _:
            pass


def _open(turn: PlayedTurn, call_id: str) -> list[PlayedCall]:
    """The call of that id that has no result yet, if there is one: ids come again."""
    calls = [call for reply in reversed(turn.replies) for call in reply.calls]
    return [one for one in calls if one.call.id == call_id and one.finished is None][:1]
