"""What happens: facts, which are kept, and deltas, which are only shown.

The screen, the log, the history sent to a model, replay and triage are all readings of the same
facts. A fact is past tense and never changes; a delta may be lost without loss.
"""

from collections.abc import Callable
from enum import StrEnum
from typing import Literal, TypeAlias

from agentcli.types.deltas import Delta
from agentcli.types.fast_dataclass import dataclass
from agentcli.types.messages import AssistantMessage, Content, Json, ToolCall, Usage, UserMessage
from agentcli.types.tools import Effect, ToolResult
from agentcli.types.verdicts import Verdict

# Facts about a run without a person: what was done to see whether the task is done.


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified:
    """A command of the person's was run to see whether the task is done."""

    command: str
    exit_code: int | None
    """None: it was killed, or stopped at its time limit."""
    output: str
    """As a command's result reads for the model: bounded, its last line says how it ended."""
    attempt: int = 1
    duration_s: float = 0.0
    log_path: str = ""
    type: Literal["verified"] = "verified"

    @property
    def passed(self) -> bool:
        return self.exit_code == 0


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerChecked:
    """The final answer was held against the form it must have."""

    problem: str = ""
    """What is wrong with it; empty: nothing."""
    value: Json = None
    """The answer as data, where nothing is wrong."""
    type: Literal["answer_checked"] = "answer_checked"


ClaimVerdict = Literal["supported", "not_supported", "unknown"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A sentence of the final answer that can be held against what is recorded."""

    text: str
    about: Literal["tests", "command", "file"]
    verdict: ClaimVerdict
    evidence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimsChecked:
    claims: tuple[Claim, ...]
    type: Literal["claims_checked"] = "claims_checked"


class Ending(StrEnum):
    """Every way a turn or a run can end. The exit code of each stands in `types/errors.py`."""

    DONE = "done"
    DENIED = "denied"
    STEP_LIMIT = "step_limit"
    TIME_LIMIT = "time_limit"
    COST_LIMIT = "cost_limit"
    TOKEN_LIMIT = "token_limit"
    REPEATED = "repeated"
    LENGTH = "length"
    OVERFLOW = "overflow"
    REFUSED = "refused"
    MISCONFIGURED = "misconfigured"
    PROVIDER_FAILED = "provider_failed"
    VERIFY_FAILED = "verify_failed"
    CLAIM_UNSUPPORTED = "claim_unsupported"
    SCHEMA_UNMET = "schema_unmet"
    CANCELLED = "cancelled"
    TERMINATED = "terminated"
    HUNG_UP = "hung_up"
    READER_LEFT = "reader_left"
    USAGE = "usage"
    INTERNAL = "internal"


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionStarted:
    session: str
    version: str
    workspace: str
    model: str
    mode: str
    tools: tuple[str, ...]
    tools_sha256: str
    """Of everything declared to the model about its tools."""
    type: Literal["session_started"] = "session_started"


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionResumed:
    """A process took the session up again: what it says holds from here on."""

    session: str
    version: str
    workspace: str
    model: str
    mode: str
    tools: tuple[str, ...]
    tools_sha256: str
    repaired: tuple[str, ...] = ()
    """What the process before had left open, in sentences for people."""
    type: Literal["session_resumed"] = "session_resumed"


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionForked:
    """Everything before is another session's: copied, not continued."""

    session: str
    """The new one."""
    origin: str
    at_seq: int
    """The last record that was taken over."""
    type: Literal["session_forked"] = "session_forked"


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionNamed:
    name: str
    type: Literal["session_named"] = "session_named"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModeChanged:
    """The person let calls do more, or less, from here on."""

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
    """The last turn's message was never answered and is the person's again, to send or to change.

    The model is not told of it any more.
    """

    type: Literal["turn_withdrawn"] = "turn_withdrawn"


class NoteReason(StrEnum):
    """What the model is told something for. `docs/reference/log.md` says when each of them is."""

    USER = "person"
    SHELL = "user ran"
    INSTRUCTIONS = "instructions"
    ROLE = "role"
    ENVIRONMENT = "environment"
    PLAN_MODE = "plan_mode"
    PLAN = "plan"
    BACKGROUND = "background"
    HOOK = "hook"
    UNDO = "undo"
    REDO = "redo"
    LENGTH = "length"
    ERROR = "error"
    EMPTY = "empty"
    WRAP_UP = "wrap_up"
    VERIFY = "verify"
    SCHEMA = "schema"


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextNote:
    """Said to the model in the middle of a turn: by the runtime, or by the person with files."""

    text: str
    why: NoteReason | str
    """A plain string in what is read back: another version may have had other reasons."""
    attached: Content = ()
    type: Literal["told"] = "told"


@dataclass(frozen=True, slots=True, kw_only=True)
class Warned:
    """Something the person should know, though nothing failed."""

    code: str
    """For programs: model.unknown, cache.missed."""
    message: str
    type: Literal["warned"] = "warned"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileAttached:
    """The person sent something from elsewhere along with the message that comes next."""

    name: str
    origin: str
    """Whose text it is."""
    size_bytes: int
    type: Literal["attached"] = "attached"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerAsked:
    """A server asked the person something. What they typed is not kept."""

    server: str
    kind: Literal["form", "url", "tools"]
    message: str
    answer: Literal["accept", "decline", "cancel"]
    fields: tuple[str, ...] = ()
    """What it wanted to know."""
    type: Literal["server_asked"] = "server_asked"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelReplied:
    message: AssistantMessage
    duration_s: float = 0.0
    cost_usd: float | None = None
    """None: the price is not known."""
    retries: int = 0
    """How often it was sent again before this reply came."""
    type: Literal["model_replied"] = "model_replied"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFailed:
    """A request got no usable reply, after all retries."""

    kind: str
    message: str
    hint: str = ""
    type: Literal["model_failed"] = "model_failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class TokensSpent:
    """A provider was asked, and no other fact says what that used."""

    why: Literal["broken_off", "opinion"]
    """An attempt that gave no reply, or a model's opinion on a call."""
    usage: Usage
    cost_usd: float | None
    """None: the price is not known."""
    type: Literal["tokens_spent"] = "tokens_spent"


@dataclass(frozen=True, slots=True, kw_only=True)
class TrimmedResult:
    call_id: str
    text: str
    """What stands in its place: a line that says where all of it is, or as much as fits."""
    last_line: int = 0
    """Of a file that was read: the last line that is still there; 0: none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultsTrimmed:
    """Results were replaced by a line each, or cut to what fits. The originals stay in the log."""

    results: tuple[TrimmedResult, ...]
    freed_tokens: int
    type: Literal["results_trimmed"] = "results_trimmed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Compacted:
    """The conversation until here is told by a summary. What the person said stays verbatim."""

    summary: str
    tokens_before: int
    left_out: int = 0
    """How many of the person's messages, from the second on, are told by the summary as well."""
    keeps_new: bool = False
    """What no request had carried yet stays as it is, behind the summary."""
    usage: Usage = Usage()
    cost_usd: float | None = None
    type: Literal["compacted"] = "compacted"


@dataclass(frozen=True, slots=True, kw_only=True)
class Restored:
    """Everything that was trimmed or summarised is told in full again."""

    type: Literal["restored"] = "restored"


@dataclass(frozen=True, slots=True, kw_only=True)
class CallJudged:
    """Written before the call runs: an executed call without one cannot exist."""

    call: ToolCall
    """As it will run: with the verdict's arguments where it was modified."""
    effect: Effect
    verdict: Verdict
    type: Literal["call_judged"] = "call_judged"


@dataclass(frozen=True, slots=True, kw_only=True)
class CallFinished:
    result: ToolResult
    duration_s: float = 0.0
    type: Literal["call_finished"] = "call_finished"


@dataclass(frozen=True, slots=True, kw_only=True)
class HookRan:
    """Something looked at a call, at its output, or at the start or end of a turn or session."""

    hook: str
    decision: Literal["observed", "allowed", "asked", "transformed", "rejected", "failed"]
    event: str = "PostToolUse"
    call_id: str = ""
    """Empty where it is about no call."""
    reason: str = ""
    type: Literal["hook_ran"] = "hook_ran"


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpointed:
    """What a call changed in the workspace, kept so that it can be taken back."""

    call_id: str
    before: str
    after: str
    """Ids of the states in the workspace's kept states: of the files it named, or of everything."""
    paths: tuple[str, ...]
    paths_total: int
    not_kept: tuple[str, ...] = ()
    """Changed too, but too large or not to be read: this cannot be taken back."""
    type: Literal["checkpointed"] = "checkpointed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Undone:
    """The person took back what calls changed, or (`redo`) what the undo `of` took."""

    id: str
    action: Literal["undo", "redo"]
    numbers: tuple[int, ...]
    """Which changes of the session, counted from 1 in the order of their `checkpointed`."""
    before: str
    after: str
    """Ids of the states of the files it changed: taking this back is the way to redo it."""
    paths: tuple[str, ...]
    conflicts: tuple[str, ...] = ()
    of: str = ""
    type: Literal["undone"] = "undone"


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnEnded:
    ending: Ending
    message: str = ""
    """Why, for people, where the ending alone does not say it."""
    hint: str = ""
    type: Literal["turn_ended"] = "turn_ended"


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionEnded:
    exit_code: int
    ending: Ending | None = None
    """What the exit code stands for; None: a session with a person, who left it."""
    message: str = ""
    hint: str = ""
    type: Literal["session_ended"] = "session_ended"


Fact: TypeAlias = (
    SessionStarted
    | SessionResumed
    | SessionForked
    | SessionNamed
    | ModeChanged
    | ModelChanged
    | TurnStarted
    | TurnWithdrawn
    | ContextNote
    | Warned
    | FileAttached
    | ServerAsked
    | ModelReplied
    | ModelFailed
    | TokensSpent
    | ResultsTrimmed
    | Compacted
    | Restored
    | CallJudged
    | CallFinished
    | HookRan
    | Checkpointed
    | Undone
    | Verified
    | AnswerChecked
    | ClaimsChecked
    | TurnEnded
    | SessionEnded
)


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
