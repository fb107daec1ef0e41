"""The findings that a check returns, and the case that it looks at."""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import TypeAlias

from agentcli.features.insights.trace import Trace
from agentcli.types.messages import Json, ToolCall
from agentcli.ui.render.wording import format_target


class Level(IntEnum):
    """The severity of a finding, the most important first."""

    ERROR = 0
    WARNING = 1
    NOTE = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class TriageFinding:
    level: Level
    record: int
    """The record in the log to look at; 0 if the finding is about the whole session."""
    what: str
    why: str
    """The reason why it matters."""
    fix: str
    """The remedy."""
    check: str = ""
    """The check that found it, filled in by the table of checks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TriageCase:
    """A trace, and what is known besides."""

    trace: Trace
    expected_tools: tuple[str, ...] = ()
    schemas: Mapping[str, Json] | None = None
    """The schemas of the tools as declared now, by name."""
    is_running: bool = False
    """True if a process has the session open now."""


Check: TypeAlias = Callable[[TriageCase], Iterator[TriageFinding]]


def name_call(call: ToolCall) -> str:
    """Return a short name on one line, such as `bash pytest -q`."""
    return f"{call.name} {format_target(call)}".strip()


def find_target(call: ToolCall) -> str:
    """Return what two calls have in common that try the same in different ways."""
    text = call.input if isinstance(call.input, str) else ""
    if isinstance(call.input, dict):
        first = next((call.input[key] for key in _TARGETS if key in call.input), None)
        text = first if isinstance(first, str) else json.dumps(call.input, ensure_ascii=False)
    return " ".join(text.split())


_TARGETS = ("command", "path", "pattern", "glob")
