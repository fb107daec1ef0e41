"""What is shown while it happens and then forgotten: losing a delta loses nothing."""

from typing import TypeAlias

from agentcli.types.record import dataclass


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
