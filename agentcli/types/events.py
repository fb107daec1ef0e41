"""What happens: facts, which are kept, and deltas, which are only shown.

The screen, the log, the history sent to a model, replay and triage are all readings of the same
facts. A fact is past tense and never changes; a delta may be lost without loss.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal, TypeAlias

from agentcli.types.messages import AssistantMessage, ToolCall, UserMessage
from agentcli.types.tools import Effect, ToolResult
from agentcli.types.verdicts import Verdict


class Ending(StrEnum):
    """Every way a turn can end. The exit code of each stands in `types/errors.py`."""

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
    CANCELLED = "cancelled"


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
class TurnStarted:
    message: UserMessage
    type: Literal["turn_started"] = "turn_started"


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """Something said to the model in the middle of a turn, by the runtime or by the person."""

    text: str
    why: str
    type: Literal["told"] = "told"


@dataclass(frozen=True, slots=True, kw_only=True)
class Warned:
    """Something the person should know, though nothing failed."""

    code: str
    """For programs: model.unknown, cache.missed."""
    message: str
    type: Literal["warned"] = "warned"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelReplied:
    message: AssistantMessage
    duration_s: float = 0.0
    cost_usd: float | None = None
    """None: the price is not known."""
    type: Literal["model_replied"] = "model_replied"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFailed:
    """A request got no usable reply, after all retries."""

    kind: str
    message: str
    hint: str = ""
    type: Literal["model_failed"] = "model_failed"


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
    """Something after the tool observed, transformed or rejected its output."""

    hook: str
    call_id: str
    decision: Literal["observed", "transformed", "rejected", "failed"]
    reason: str = ""
    type: Literal["hook_ran"] = "hook_ran"


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
    type: Literal["session_ended"] = "session_ended"


Fact: TypeAlias = (
    SessionStarted
    | TurnStarted
    | Told
    | Warned
    | ModelReplied
    | ModelFailed
    | CallJudged
    | CallFinished
    | HookRan
    | TurnEnded
    | SessionEnded
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TextDelta:
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ThinkingDelta:
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CallDelta:
    """A tool call's arguments are arriving. Nothing of it may run yet."""

    call_id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CallProgress:
    """Live output of a running tool, for people."""

    call_id: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryDelta:
    """A request failed and will be sent again after a wait."""

    reason: str
    status: int | None
    wait_s: float
    attempt: int
    attempts: int


Delta: TypeAlias = TextDelta | ThinkingDelta | CallDelta | CallProgress | RetryDelta
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
