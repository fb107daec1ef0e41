"""A recording taken apart: turns, their replies, and what became of each call."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from agentcli.types.errors import ProviderErrorKind
from agentcli.types.events import (
    CallFinished,
    CallJudged,
    ContextNote,
    Ending,
    Entry,
    Fact,
    HookRan,
    ModelFailed,
    ModelReplied,
    NoteReason,
    SessionForked,
    SessionResumed,
    SessionStarted,
    TurnEnded,
    TurnStarted,
    Undone,
)
from agentcli.types.messages import AssistantMessage, ToolCall, UserMessage
from agentcli.types.tools import Command, ErrorKind, ToolResult
from agentcli.types.verdicts import NO_GRANTS

_AT_A_LIMIT = (Ending.STEP_LIMIT, Ending.TIME_LIMIT, Ending.COST_LIMIT, Ending.TOKEN_LIMIT)


@dataclass(slots=True)
class RecordedCall:
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
        if self.judged is not None and self.judged.verdict.confinement != NO_GRANTS:
            return "it was let out of the workspace or onto the network"
        return ""


@dataclass(slots=True)
class RecordedReply:
    """One request of the recording: what came back, and what its calls came to."""

    outcome: AssistantMessage | ModelFailed
    notes: list[ContextNote] = field(default_factory=list)
    """What the model was told before, by the person or about the background."""
    calls: list[RecordedCall] = field(default_factory=list)


@dataclass(slots=True)
class RecordedTurn:
    message: UserMessage
    notes: list[ContextNote] = field(default_factory=list)
    """What the model was told before the turn: instructions, and words of the person."""
    undone: list[Undone] = field(default_factory=list)
    """What the person took back, or put back, before the turn."""
    replies: list[RecordedReply] = field(default_factory=list)
    ended: TurnEnded | None = None

    @property
    def was_cut(self) -> bool:
        """By a limit that is not known here, or by the end of its process."""
        return self.ended is None or self.ended.ending in _AT_A_LIMIT


def is_overflow(outcome: AssistantMessage | ModelFailed) -> bool:
    """The conversation did not fit. Whether it went on shows in what follows."""
    return isinstance(outcome, ModelFailed) and outcome.kind == ProviderErrorKind.OVERFLOW


def split_turns(entries: Iterable[Entry]) -> list[RecordedTurn]:
    turns: list[RecordedTurn] = []
    told: list[ContextNote] = []
    undone: list[Undone] = []
    for entry in entries:
        match entry.fact:
            case TurnStarted(message=message):
                turns.append(RecordedTurn(message=message, notes=list(told), undone=list(undone)))
                told.clear()
                undone.clear()
            case Undone() as one:
                undone.append(one)
            case ContextNote() as words:
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


def _reply(outcome: AssistantMessage | ModelFailed, told: list[ContextNote]) -> RecordedReply:
    calls = outcome.tool_calls if isinstance(outcome, AssistantMessage) else ()
    return RecordedReply(
        outcome,
        # Without what the loop says by itself, and will say again.
        notes=[one for one in told if one.why not in (NoteReason.LENGTH, NoteReason.ERROR)],
        calls=[RecordedCall(call) for call in calls],
    )


def _add_to_call(turn: RecordedTurn, fact: Fact) -> None:
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


def _open(turn: RecordedTurn, call_id: str) -> list[RecordedCall]:
    """The call of that id that has no result yet, if there is one: ids come again."""
    calls = [call for reply in reversed(turn.replies) for call in reply.calls]
    return [one for one in calls if one.call.id == call_id and one.finished is None][:1]


# The places of a recording and the places of its replay: one stands for the other.


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedPaths:
    """More than one of each where a session was moved or forked."""

    workspaces: tuple[str, ...]
    sessions: tuple[str, ...]
    """Their ids; their directories are whatever paths lead to them."""

    def replace_in(self, text: str, *, workspace: str, session: str) -> str:
        """With these in the place of every path to a workspace, and to a session's directory."""
        for pattern in self._workspace_patterns():
            text = pattern.sub(lambda _: workspace, text)
        for pattern in self._session_patterns():
            text = pattern.sub(lambda _: session, text)
        return text

    def _workspace_patterns(self) -> Iterator[re.Pattern[str]]:
        for path in self.workspaces:
            if len(path) > 1:  # the root is a part of every path
                yield re.compile(rf"{re.escape(path)}(?![\w.-])")

    def _session_patterns(self) -> Iterator[re.Pattern[str]]:
        for session in self.sessions:
            yield re.compile(rf"(?<![\w/])/[^\s'\"`:]*/{re.escape(session)}(?=/|\b)")


def find_paths(facts: Iterable[Fact]) -> RecordedPaths:
    workspaces: dict[str, None] = {}
    sessions: dict[str, None] = {}
    for fact in facts:
        if isinstance(fact, SessionStarted | SessionResumed):
            workspaces[fact.workspace] = None
        if isinstance(fact, SessionStarted | SessionResumed | SessionForked):
            sessions[fact.session] = None
    return RecordedPaths(workspaces=tuple(workspaces), sessions=tuple(sessions))


class PathRelocation:
    """Rewrites paths of the recording to where the same files are now."""

    def __init__(self, recorded: RecordedPaths, *, workspace: str, directory: str) -> None:
        self._recorded = recorded
        self._workspace = workspace
        self._directory = directory

    def relocate_notes(self, told: Iterable[ContextNote]) -> list[ContextNote]:
        return [replace(one, text=self.relocate_json(one.text)) for one in told]

    def relocate_json(self, value: Any) -> Any:
        """Any JSON, with every text in it."""
        if isinstance(value, str):
            return self._recorded.replace_in(
                value, workspace=self._workspace, session=self._directory
            )
        if isinstance(value, dict):
            return {key: self.relocate_json(item) for key, item in value.items()}
        if isinstance(value, list):
            return [self.relocate_json(item) for item in value]
        return value
