"""Events: facts, which are stored, and deltas, which are only shown.

The screen, the log, the history sent to a model, replay and triage are all readings of the same
facts. A fact is in the past tense and never changes. A delta may be dropped without loss.
"""

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from typing import Literal, TypeAlias

from agentcli.types.agents import AgentEnded, AgentStarted, PatchDecided
from agentcli.types.checks import AnswerChecked, ClaimsChecked, GoalChanged, Verified
from agentcli.types.deltas import Delta
from agentcli.types.errors import Ending
from agentcli.types.fast_dataclass import dataclass
from agentcli.types.messages import AssistantMessage, Content, ToolCall, Usage, UserMessage
from agentcli.types.tools import Effect, ToolResult
from agentcli.types.verdicts import Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectoryAdded:
    """The user added a directory to the workspace: tools and commands reach it from here on."""

    path: str
    writable: bool
    type: Literal["directory_added"] = "directory_added"


@dataclass(frozen=True, slots=True, kw_only=True)
class EffortChanged:
    """The model thinks more, or less, from here on."""

    effort: str | None
    """None for the model's own default."""
    type: Literal["effort_changed"] = "effort_changed"


@dataclass(frozen=True, slots=True, kw_only=True)
class AsideAnswered:
    """The user asked something about the conversation that is no part of it."""

    question: str
    answer: str
    usage: Usage = Usage()
    cost_usd: float | None = None
    """None if the price is not known."""
    type: Literal["aside_answered"] = "aside_answered"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewound:
    """The conversation goes on from before a turn, or (`redo`) from before the rewind `of`."""

    id: str
    action: Literal["rewind", "redo"]
    turn: int
    """Turns are counted from 1 in the order of their `turn_started`."""
    undo: str = ""
    """The id of the undo that restored the files with it; empty if they stayed as they were."""
    of: str = ""
    type: Literal["rewound"] = "rewound"


PATHS_RECORDED = 50  # the most paths that one fact names; it counts the others


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionStarted:
    session: str
    version: str
    workspace: str
    model: str
    mode: str
    tools: tuple[str, ...]
    tools_sha256: str
    """The hash of everything declared to the model about its tools."""
    type: Literal["session_started"] = "session_started"


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionResumed:
    """A process resumed the session. Its values apply from here on."""

    session: str
    version: str
    workspace: str
    model: str
    mode: str
    tools: tuple[str, ...]
    tools_sha256: str
    repaired: tuple[str, ...] = ()
    """Sentences for the user on what the previous process left open."""
    type: Literal["session_resumed"] = "session_resumed"


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionForked:
    """Everything before belongs to another session: copied, not continued."""

    session: str
    """The id of the new session."""
    origin: str
    at_seq: int
    """The last record that was copied."""
    type: Literal["session_forked"] = "session_forked"


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionNamed:
    name: str
    type: Literal["session_named"] = "session_named"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModeChanged:
    """The user let calls do more, or less, from here on."""

    mode: str
    type: Literal["mode_changed"] = "mode_changed"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelChanged:
    """Another model answers from here on."""

    model: str
    type: Literal["model_changed"] = "model_changed"


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnStarted:
    message: UserMessage
    type: Literal["turn_started"] = "turn_started"


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnWithdrawn:
    """The last turn's message was never answered. The user has it back, and no model sees it."""

    type: Literal["turn_withdrawn"] = "turn_withdrawn"


class NoteReason(StrEnum):
    """The reason for a context note. `docs/reference/log.md` says when each of them occurs."""

    USER = "user"
    SHELL = "user ran"
    INSTRUCTIONS = "instructions"
    ROLE = "role"
    ENVIRONMENT = "environment"
    PLAN_MODE = "plan_mode"
    PLAN_MODE_OVER = "plan_mode_over"
    PLAN_STEPS = "plan_steps"
    PLAN = "plan"
    BACKGROUND = "background"
    SERVER = "server"
    HOOK = "hook"
    UNDO = "undo"
    REDO = "redo"
    REWIND = "rewind"
    LENGTH = "length"
    ERROR = "error"
    EMPTY = "empty"
    WRAP_UP = "wrap_up"
    VERIFY = "verify"
    SCHEMA = "schema"
    TOOL_CHOICE = "tool_choice"
    DENIED = "denied"
    EVIDENCE = "evidence"


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextNote:
    """A note to the model during a turn: from the runtime, or from the user with files."""

    text: str
    why: NoteReason | str
    """A plain string when read from a log: another version may have had other reasons."""
    attached: Content = ()
    loaded: str = ""
    """What it brings, in words for the user: a file with its lines, or a number of skills."""
    pid: int = 0
    """The background command that ended; 0 if it is about none."""
    exit_code: int | None = None
    """The exit code of that command; None if a signal killed it."""
    type: Literal["context_note"] = "context_note"


@dataclass(frozen=True, slots=True, kw_only=True)
class Warned:
    """Something the user should know, though nothing failed."""

    code: str
    """A code for programs, such as model.unknown or cache.missed."""
    message: str
    type: Literal["warned"] = "warned"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileAttached:
    """The user sent something from elsewhere along with the next message."""

    name: str
    origin: str  # whose text it is
    size_bytes: int
    type: Literal["attached"] = "attached"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerAsked:
    """A server asked the user something. The values typed are not stored."""

    server: str
    kind: Literal["form", "url", "tools"]
    message: str
    answer: Literal["accept", "decline", "cancel"]
    fields: tuple[str, ...] = ()
    """The names of the fields it asked for."""
    type: Literal["server_asked"] = "server_asked"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelReplied:
    message: AssistantMessage
    duration_s: float = 0.0
    cost_usd: float | None = None
    """None if the price is not known."""
    retries: int = 0
    """The number of times the request was sent again before this reply came."""
    type: Literal["model_replied"] = "model_replied"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFailed:
    """A request got no usable reply, after all retries."""

    kind: str
    message: str
    hint: str = ""
    retry_after_s: float | None = None
    """The wait that the provider asked for. None if it asked for none."""
    type: Literal["model_failed"] = "model_failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class TokensSpent:
    """A request to a provider used tokens that no other fact counts."""

    why: Literal["broken_off", "evaluation", "title"]
    """An attempt that gave no reply, a model's evaluation of a call, or the title of a session."""
    usage: Usage
    cost_usd: float | None
    """None if the price is not known."""
    type: Literal["tokens_spent"] = "tokens_spent"


@dataclass(frozen=True, slots=True, kw_only=True)
class TrimmedResult:
    call_id: str
    text: str
    """The text that replaces the result: a line that says where it is, or as much as fits."""
    last_line: int = 0
    """For a file that was read, the last line that is still there; 0 if none is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultsTrimmed:
    """Results were replaced by a line each, or cut to what fits. The originals stay in the log."""

    results: tuple[TrimmedResult, ...]
    freed_tokens: int
    type: Literal["results_trimmed"] = "results_trimmed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Compacted:
    """A summary replaces the conversation until here. The user's messages stay verbatim."""

    summary: str
    tokens_before: int
    left_out: int = 0
    """The number of user messages, from the second on, that the summary replaces as well."""
    keeps_new: bool = False
    """True if what no request had carried yet stays unchanged, after the summary."""
    usage: Usage = Usage()
    cost_usd: float | None = None
    type: Literal["compacted"] = "compacted"


@dataclass(frozen=True, slots=True, kw_only=True)
class Restored:
    """Everything that was trimmed or summarized is sent in full again."""

    type: Literal["restored"] = "restored"


@dataclass(frozen=True, slots=True, kw_only=True)
class CallJudged:
    """The verdict on a call. Recorded before the call runs: no call is executed without one."""

    call: ToolCall
    """The call as it will run: with the verdict's arguments if it was modified."""
    effect: Effect
    verdict: Verdict
    type: Literal["call_judged"] = "call_judged"


@dataclass(frozen=True, slots=True, kw_only=True)
class HostJudged:
    """The verdict on a host that a running command wanted to reach, before it was reached."""

    call_id: str
    host: str
    port: int
    verdict: Verdict
    credential: str = ""
    """The kind of credentials that it wanted for this host; empty if it wanted to reach it."""
    server: str = ""
    """The MCP server that wanted it, which no call has started; empty for a command."""
    type: Literal["host_judged"] = "host_judged"


@dataclass(frozen=True, slots=True, kw_only=True)
class SignatureJudged:
    """The verdict on a signature that a running command wanted of the user's ssh agent."""

    call_id: str
    key: str
    """The kind of the key, its fingerprint and its comment."""
    purpose: str
    """What would be signed, as `log in as git at code.example.org`."""
    verdict: Verdict
    type: Literal["signature_judged"] = "signature_judged"


@dataclass(frozen=True, slots=True, kw_only=True)
class CallFinished:
    result: ToolResult
    duration_s: float = 0.0
    type: Literal["call_finished"] = "call_finished"


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputStored:
    """The output of a command that ran on after its result has ended."""

    call_id: str
    log_path: str
    sha256: str
    """The hash of the file."""
    type: Literal["output_stored"] = "output_stored"


@dataclass(frozen=True, slots=True, kw_only=True)
class HookRan:
    """A hook looked at a call, at its output, or at the start or end of a turn or session."""

    hook: str
    decision: Literal["observed", "allowed", "asked", "transformed", "rejected", "failed"]
    event: str = "PostToolUse"
    call_id: str = ""
    """Empty if it is about no call."""
    reason: str = ""
    type: Literal["hook_ran"] = "hook_ran"


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpointed:
    """The changes of a call in the workspace, stored so that they can be undone."""

    call_id: str
    before: str
    after: str
    """Ids of stored states of the workspace: of the files the call named, or of everything."""
    paths: tuple[str, ...]
    """Changed files and directories, of both together at most `PATHS_RECORDED`."""
    paths_total: int
    not_kept: tuple[str, ...] = ()
    """Changed paths that cannot be undone: too large or unreadable, or ignored and now gone."""
    root: str = ""
    """The added directory in which the changes are; empty for the workspace."""
    type: Literal["checkpointed"] = "checkpointed"


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointFailed:
    """A call may have changed files, and its states were not stored: it cannot be undone."""

    call_id: str
    reason: str
    root: str = ""
    """The added directory whose state it is; empty for the workspace."""
    type: Literal["checkpoint_failed"] = "checkpoint_failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Undone:
    """The user undid what calls changed, or (`redo`) reverted the undo with the id `of`."""

    id: str
    action: Literal["undo", "redo"]
    numbers: tuple[int, ...]
    """The session's changes it applies to, counted from 1 in the order of their `checkpointed`."""
    before: str
    after: str
    """Ids of the states of the changed files. Going back from `after` to `before` is the redo."""
    paths: tuple[str, ...]
    conflicts: tuple[str, ...] = ()
    of: str = ""
    root: str = ""
    left: tuple[int, ...] = ()  # changes that stay as they were: a path could not be written
    type: Literal["undone"] = "undone"


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnEnded:
    ending: Ending
    message: str = ""
    """The reason, for the user, if the ending alone does not say it."""
    hint: str = ""
    type: Literal["turn_ended"] = "turn_ended"


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionEnded:
    exit_code: int
    ending: Ending | None = None
    """The meaning of the exit code; None for an interactive session that the user left."""
    message: str = ""
    hint: str = ""
    type: Literal["session_ended"] = "session_ended"


Fact: TypeAlias = (
    SessionStarted
    | SessionResumed
    | SessionForked
    | SessionNamed
    | DirectoryAdded
    | ModeChanged
    | ModelChanged
    | EffortChanged
    | TurnStarted
    | TurnWithdrawn
    | ContextNote
    | Warned
    | FileAttached
    | ServerAsked
    | ModelReplied
    | ModelFailed
    | TokensSpent
    | AsideAnswered
    | ResultsTrimmed
    | Compacted
    | Restored
    | CallJudged
    | HostJudged
    | SignatureJudged
    | CallFinished
    | OutputStored
    | AgentStarted
    | AgentEnded
    | PatchDecided
    | HookRan
    | Checkpointed
    | CheckpointFailed
    | Undone
    | Rewound
    | GoalChanged
    | Verified
    | AnswerChecked
    | ClaimsChecked
    | TurnEnded
    | SessionEnded
)


def find_call_id(fact: Fact) -> str:
    """Return the id of the call that a fact is about; empty if it is about none."""
    match fact:
        case CallJudged(call=call):
            return call.id
        case CallFinished(result=result):
            return result.call_id
        case HookRan() | HostJudged() | SignatureJudged() | OutputStored():
            return fact.call_id
        case Checkpointed() | CheckpointFailed():
            return fact.call_id
        case _:
            return ""


Event: TypeAlias = Fact | Delta
Emit: TypeAlias = Callable[[Event], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One line of the log."""

    seq: int
    at: str
    """UTC, ISO 8601, with milliseconds."""
    session: str
    parent: int | None
    """The entry that caused this one."""
    fact: Fact


# Turns among the facts: where the last one begins, and which are in effect after rewinds.
#
# A rewind removes nothing from the log. It only says where the conversation goes on from.


NumberedFact = tuple[int, Fact]


@dataclass(frozen=True, slots=True, kw_only=True)
class PastFacts:
    """The facts of a session that is resumed, and for each its number and its time."""

    facts: Sequence[Fact] = ()
    seqs: Sequence[int] = ()
    times: Sequence[str] = ()


NO_PAST = PastFacts()


def number_effective_facts(facts: Iterable[Fact]) -> list[NumberedFact]:
    """Return the facts in effect, with the number of their turn: 0 before the first.

    Turns are counted from 1 over the whole log, those that were rewound included."""
    effective: list[NumberedFact] = []
    replaced: dict[str, list[NumberedFact]] = {}
    turns = turn = 0
    for fact in facts:
        match fact:
            case Rewound(action="rewind"):
                replaced[fact.id] = effective
                effective = [one for one in effective if one[0] < fact.turn]
                turn = effective[-1][0] if effective else 0
            case Rewound():
                effective = list(replaced.get(fact.of, effective))
                turn = effective[-1][0] if effective else 0
            case TurnStarted():
                turns += 1
                turn = turns
                effective.append((turn, fact))
            case _:
                effective.append((turn, fact))
    return effective


def list_effective_facts(facts: Iterable[Fact]) -> list[Fact]:
    return [fact for _, fact in number_effective_facts(facts)]


def find_last_turn(facts: Sequence[Fact]) -> int:
    """Return the index at which the last turn starts, or 0 if there is none."""
    backwards = reversed(range(len(facts)))
    return next((at for at in backwards if isinstance(facts[at], TurnStarted)), 0)


def build_missing_failures(facts: Sequence[Fact]) -> list[CheckpointFailed]:
    """Return why calls of the last turn cannot be undone that have no end: they may have changed
    files, and no state after them was stored."""
    ended: set[str] = set()
    found: list[CheckpointFailed] = []
    for fact in reversed(facts[find_last_turn(facts) :]):
        match fact:
            case CallFinished() | Checkpointed() | CheckpointFailed():
                ended.add(find_call_id(fact))
            case CallJudged(call=call, verdict=verdict, effect=effect):
                may_change = verdict.decision in ("allow", "modify") and effect is not Effect.READ
                if may_change and call.id not in ended:
                    found.append(CheckpointFailed(call_id=call.id, reason=_HAS_NO_END))
            case _:
                pass
    return found[::-1]


_HAS_NO_END = "its end is not recorded"


# The time, as it is recorded.


def read_clock() -> str:
    """Return the time in UTC, ISO 8601, with milliseconds."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
