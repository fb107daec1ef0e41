"""What a check may say, and what it may look at."""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import TypeAlias

from agentcli.features.insights.trace import Trace
from agentcli.types.messages import Json, ToolCall

TARGET_CHARS = 60


class Level(IntEnum):
    """The most important first."""

    ERROR = 0
    WARNING = 1
    NOTE = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class TriageFinding:
    level: Level
    record: int
    """Where to look in the log; 0: it is about the whole."""
    what: str
    why: str
    """Why it matters."""
    fix: str
    """What to do about it."""
    check: str = ""
    """The check that found it; the table of checks fills it in."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TriageCase:
    """What is known beside the log."""

    trace: Trace
    expected_tools: tuple[str, ...] = ()
    schemas: Mapping[str, Json] | None = None
    """Of tools as they are declared now, by name."""
    is_running: bool = False
    """Whether some process has the session at this moment."""


Check: TypeAlias = Callable[[TriageCase], Iterator[TriageFinding]]


def name_call(call: ToolCall) -> str:
    """`bash pytest -q`, on one line and not too long."""
    return f"{call.name} {find_target(call)}".strip()


def find_target(call: ToolCall) -> str:
    text = call.input if isinstance(call.input, str) else ""
    if isinstance(call.input, dict):
        first = next((call.input[key] for key in _TARGETS if key in call.input), None)
        text = first if isinstance(first, str) else json.dumps(call.input, ensure_ascii=False)
    text = " ".join(text.split())
    return text if len(text) <= TARGET_CHARS else text[: TARGET_CHARS - 1] + "…"


_TARGETS = ("command", "path", "pattern", "glob")
