"""Deltas: events that are shown while they happen and not stored. Losing one loses nothing."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import groupby
from typing import TypeAlias

from agentcli.types.fast_dataclass import dataclass
from agentcli.types.messages import Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestSent:
    """A request is on its way: from now on the model thinks. A recorded model sends none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TextDelta:
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ThinkingDelta:
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CallDelta:
    """A part of a tool call's arguments. Nothing of the call may run yet."""

    call_id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CallProgress:
    """Live output of a running tool, for the user."""

    call_id: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptBrokenOff:
    """A provider accepted an attempt but gave no reply. The caller records what it used."""

    usage: Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryDelta:
    """A request failed and will be sent again after a wait."""

    reason: str
    status: int | None
    wait_s: float
    attempt: int
    attempts: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ServersAwaited:
    """The first request waits until these MCP servers have listed their tools."""

    names: tuple[str, ...]
    limit_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckStarted:
    """A command of the user runs, to check whether the task is done."""

    command: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandStarted:
    """A call runs a command. Everything it prints goes to the file while it runs."""

    call_id: str
    log_path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandEnded:
    """A background command ended. The model gets a context note before its next step."""

    pid: int
    how: str


Delta: TypeAlias = (
    RequestSent
    | TextDelta
    | ThinkingDelta
    | CallDelta
    | CallProgress
    | AttemptBrokenOff
    | RetryDelta
    | ServersAwaited
    | CheckStarted
    | CommandStarted
    | CommandEnded
)


def join_deltas(deltas: Iterable[Delta]) -> Iterator[Delta]:
    """Join neighbouring deltas of the same kind, so that fewer pieces have to be shown."""
    for _, group in groupby(deltas, key=_merge_key):
        first, *more = group
        text = "".join(map(_read_delta_text, (first, *more)))
        match first:
            case TextDelta() | ThinkingDelta():
                yield replace(first, text=text)
            case CallDelta():
                yield replace(first, arguments=text)
            case _:
                yield from (first, *more)


def _merge_key(delta: Delta) -> tuple[type, str]:
    return type(delta), delta.call_id if isinstance(delta, CallDelta) else ""


def _read_delta_text(delta: Delta) -> str:
    match delta:
        case TextDelta(text=text) | ThinkingDelta(text=text) | CallDelta(arguments=text):
            return text
        case _:
            return ""
