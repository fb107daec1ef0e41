"""A recording split into turns, their replies, and the outcome of each call."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import PurePath
from typing import Any

from agentcli.system.hosts import join_port
from agentcli.types.errors import LIMIT_ENDINGS, Ending, ProviderErrorKind
from agentcli.types.events import (
    CallFinished,
    CallJudged,
    Checkpointed,
    ContextNote,
    Entry,
    Fact,
    HookRan,
    HostJudged,
    ModelFailed,
    ModelReplied,
    NoteReason,
    Rewound,
    SessionForked,
    SessionResumed,
    SessionStarted,
    TurnEnded,
    TurnStarted,
    Undone,
    find_call_id,
)
from agentcli.types.grants import NO_GRANTS, WITHOUT_SANDBOX
from agentcli.types.messages import AssistantMessage, ToolCall, UserMessage
from agentcli.types.tools import Command, ErrorKind, ToolResult
from agentcli.types.verdicts import Verdict

_AT_A_LIMIT = LIMIT_ENDINGS | {Ending.TIME_LIMIT}


@dataclass(slots=True)
class RecordedCall:
    """The outcome of one recorded call."""

    call: ToolCall
    judged: CallJudged | None = None
    finished: ToolResult | None = None
    hosts: list[str] = field(default_factory=list)
    """The hosts that it was let through to."""
    was_changed: bool = False
    """True if a hook replaced or withheld its result."""

    @property
    def was_interrupted(self) -> bool:
        return self.finished is not None and self.finished.error is ErrorKind.CANCELLED

    @property
    def _was_moved(self) -> bool:
        details = self.finished.details if self.finished else None
        return isinstance(details, Command) and details.was_moved

    @property
    def was_on_terminal(self) -> bool:
        """True for a command on a terminal, which shows now more and now less until it waits."""
        details = self.finished.details if self.finished else None
        return isinstance(details, Command) and details.terminal is not None

    @property
    def output_name(self) -> str:
        """The name of the file with its whole output; empty if it is not a command."""
        details = self.finished.details if self.finished else None
        return PurePath(details.log_path).name if isinstance(details, Command) else ""

    @property
    def why_not_again(self) -> str:
        """The reason why it cannot be run again; empty if it can."""
        if self.was_interrupted:
            return "it was interrupted"
        if self._was_moved:
            return "the user moved it to the background"
        if self.was_changed:
            return "a hook changed its result"
        return self._describe_access()

    def _describe_access(self) -> str:
        """Return what it reached beyond the workspace, which may answer otherwise now."""
        grants = self.judged.verdict.grants if self.judged else NO_GRANTS
        if grants == WITHOUT_SANDBOX:
            return ""
        if self.hosts and not grants.network:
            return f"it reached {' '.join(self.hosts)}"
        rest = replace(grants, hosts=())  # a host that it did not reach changed nothing
        return f"it had more than the workspace: {more}" if (more := rest.describe_more()) else ""


@dataclass(slots=True)
class RecordedReply:
    """One recorded request: the reply, and the outcomes of its calls."""

    outcome: AssistantMessage | ModelFailed
    notes: list[ContextNote] = field(default_factory=list)
    """The context notes before it, from the user or about background commands."""
    calls: list[RecordedCall] = field(default_factory=list)
    merged: list[Checkpointed] = field(default_factory=list)
    """The patches of other agents that were merged before it."""


@dataclass(slots=True)
class RecordedTurn:
    message: UserMessage
    notes: list[ContextNote] = field(default_factory=list)
    """The context notes before the turn: instructions, and words of the user."""
    undone: list[Undone | Checkpointed] = field(default_factory=list)
    """The undos and redos of the user, and the merges of patches, before the turn."""
    rewound: list[Rewound] = field(default_factory=list)
    """The rewinds of the user before the turn."""
    replies: list[RecordedReply] = field(default_factory=list)
    ended: TurnEnded | None = None

    @property
    def was_cut(self) -> bool:
        """True if a limit that is not known here ended it, or the end of its process."""
        return self.ended is None or self.ended.ending in _AT_A_LIMIT


def is_overflow(outcome: AssistantMessage | ModelFailed) -> bool:
    """Return whether the conversation did not fit.

    The facts that follow show whether it went on.
    """
    return isinstance(outcome, ModelFailed) and outcome.kind == ProviderErrorKind.OVERFLOW


@dataclass(slots=True)
class _BeforeTurn:
    """What happened since the last turn, or within it since the last reply."""

    notes: list[ContextNote] = field(default_factory=list)
    undone: list[Undone | Checkpointed] = field(default_factory=list)
    rewound: list[Rewound] = field(default_factory=list)

    def add(self, fact: ContextNote | Undone | Checkpointed | Rewound) -> None:
        match fact:
            case ContextNote():
                self.notes.append(fact)
            case Undone() | Checkpointed():
                self.undone.append(fact)
            case Rewound():
                self.rewound.append(fact)
                self.notes.clear()


def split_turns(entries: Iterable[Entry]) -> list[RecordedTurn]:
    turns: list[RecordedTurn] = []
    before = _BeforeTurn()
    for entry in entries:
        match entry.fact:
            case TurnStarted(message=message):
                turns.append(
                    RecordedTurn(
                        message=message,
                        notes=before.notes,
                        undone=before.undone,
                        rewound=before.rewound,
                    )
                )
                before = _BeforeTurn()
            case Undone() | Rewound() | ContextNote() as one:
                before.add(one)
            case Checkpointed() as one if not turns or not _has_call(turns[-1], one.call_id):
                before.add(one)
            case TurnEnded() as ended if turns:
                turns[-1].ended = ended
                before.notes.clear()
            case ModelReplied(message=outcome) | (ModelFailed() as outcome) if turns:
                turns[-1].replies.append(_build_reply(outcome, before))
                before = _BeforeTurn(rewound=before.rewound)
            case fact if turns:
                _add_to_call(turns[-1], fact)
            case _:
                pass
    return turns


def _has_call(turn: RecordedTurn, call_id: str) -> bool:
    return any(one.call.id == call_id for reply in turn.replies for one in reply.calls)


def _build_reply(outcome: AssistantMessage | ModelFailed, before: _BeforeTurn) -> RecordedReply:
    calls = outcome.tool_calls if isinstance(outcome, AssistantMessage) else ()
    return RecordedReply(
        outcome,
        # Without the notes that the loop writes by itself, and will write again.
        notes=[one for one in before.notes if one.why not in (NoteReason.LENGTH, NoteReason.ERROR)],
        calls=[RecordedCall(call) for call in calls],
        merged=[one for one in before.undone if isinstance(one, Checkpointed)],
    )


def _add_to_call(turn: RecordedTurn, fact: Fact) -> None:
    for played in _open(turn, find_call_id(fact)):
        match fact:
            case CallJudged():
                played.judged = fact
            case CallFinished(result=result):
                played.finished = result
            case HostJudged(verdict=Verdict(decision="allow")):
                played.hosts.append(join_port(fact.host, fact.port))
            case HookRan(decision="transformed" | "rejected"):
                played.was_changed = True
            case _:
                pass


def _open(turn: RecordedTurn, call_id: str) -> list[RecordedCall]:
    """Return the call of that id that has no result yet, if there is one. Ids may repeat."""
    calls = [call for reply in reversed(turn.replies) for call in reply.calls]
    return [one for one in calls if one.call.id == call_id and one.finished is None][:1]


# Mapping the paths of a recording to those of its replay.


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedPaths:
    """The paths in a recording; more than one of each if the session was moved or forked."""

    workspaces: tuple[str, ...]
    sessions: tuple[str, ...]
    """The ids of the sessions. Their directories are whatever paths lead to them."""

    def replace_in(self, text: str, *, workspace: str, session: str) -> str:
        """Replace every path to a workspace, and every path to a session's directory, by these."""
        for pattern in self._iter_workspace_patterns():
            text = pattern.sub(lambda _: workspace, text)
        for pattern in self._iter_session_patterns(workspace):
            text = pattern.sub(lambda _: session, text)
        return text

    def _iter_workspace_patterns(self) -> Iterator[re.Pattern[str]]:
        for path in self.workspaces:
            if len(path) > 1:  # the root is a part of every path
                yield re.compile(rf"{re.escape(path)}(?![\w.-])")

    def _iter_session_patterns(self, workspace: str) -> Iterator[re.Pattern[str]]:
        """Yield patterns for texts in which the workspace has this name already."""
        within = re.escape(workspace)  # sessions are in it if it is the home directory
        for session in self.sessions:
            yield re.compile(rf"(?:{within}|(?<![\w/]))/[^\s'\"`:]*/{re.escape(session)}(?=/|\b)")


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
    """Rewrites recorded paths to the paths of the same files now."""

    def __init__(self, recorded: RecordedPaths, *, workspace: str, directory: str) -> None:
        self._recorded = recorded
        self._workspace = workspace
        self._directory = directory

    def relocate_notes(self, notes: Iterable[ContextNote]) -> list[ContextNote]:
        return [replace(one, text=self.relocate_json(one.text)) for one in notes]

    def relocate_json(self, value: Any) -> Any:
        """Rewrite every string in any JSON value."""
        if isinstance(value, str):
            return self._recorded.replace_in(
                value, workspace=self._workspace, session=self._directory
            )
        if isinstance(value, dict):
            return {key: self.relocate_json(item) for key, item in value.items()}
        if isinstance(value, list):
            return [self.relocate_json(item) for item in value]
        return value
