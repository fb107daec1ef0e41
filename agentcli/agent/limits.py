"""The limits of a turn: steps, time, the pace of calls, and repeated calls.

To add a limit: a setting (`types/settings`, `RUN_LIMITS`), its field and its check in `TurnLimits`,
and its ending in `types/errors`.
"""

import json
import time
from collections import Counter, defaultdict, deque
from hashlib import sha256

from agentcli.types.errors import Ending, ToolError
from agentcli.types.events import TurnEnded
from agentcli.types.fast_dataclass import dataclass
from agentcli.types.messages import ToolCall
from agentcli.types.settings import Settings
from agentcli.types.tools import Command, ErrorKind, ToolResult
from agentcli.types.words import pluralize

PACE_WINDOW_S = 60.0
CALLS_PER_MINUTE = 1000
REPEATS_WARNED = 3
REPEATS_END = 5
FAILURES_WARNED = 10
FAILURES_END = 25
"""The number of different calls of a tool that may fail in a row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnLimits:
    """The limits of one turn; None means no limit."""

    steps: int | None = 100
    wall_s: float | None = None

    @classmethod
    def from_settings(cls, settings: Settings) -> "TurnLimits":
        return cls(steps=settings.max_turns, wall_s=settings.timeout)

    def find_reached(self, steps: int) -> TurnEnded | None:
        """Return the end of a turn that has sent `steps` requests, if it may not send another."""
        if self.steps is None or steps < self.steps:
            return None
        return TurnEnded(
            ending=Ending.STEP_LIMIT,
            message=f"the limit of {pluralize(self.steps, 'request')} is reached",
            hint="raise --max-turns",
        )

    def build_timeout(self) -> TurnEnded:
        """Return the end of a turn that took longer than `wall_s`."""
        return TurnEnded(
            ending=Ending.TIME_LIMIT,
            message=f"the time limit of {self.wall_s:g} s is reached",
            hint="raise --timeout",
        )


class Pace:
    """Refuses a tool that is called too often within a minute."""

    def __init__(self, calls_per_minute: int = CALLS_PER_MINUTE) -> None:
        """`calls_per_minute` is the limit for each tool."""
        self._limit = calls_per_minute
        self._recent: defaultdict[str, deque[float]] = defaultdict(deque)

    def admit(self, tool: str) -> None:
        recent, now = self._recent[tool], time.monotonic()
        while recent and now - recent[0] >= PACE_WINDOW_S:
            recent.popleft()
        if len(recent) >= self._limit:
            raise ToolError(
                f"{tool} was called {self._limit} times within a minute, which is the limit. "
                "Combine the calls into fewer ones, or work with what you have.",
                kind=ErrorKind.LIMITED,
            )
        recent.append(now)


class Breaker:
    """Detects a model that goes in circles.

    Progress is any pair of call and result not seen before in the turn; it clears the counts.
    Without progress, each step that repeats a pair counts: A B A B ... is a circle like A A ...
    A tool that only ever fails is one, too, however different its calls are. A command that ran has
    not failed in this sense, whatever its exit code.
    """

    def __init__(self) -> None:
        self._seen: set[str] = set()
        self._counts: Counter[str] = Counter()
        self._in_step: set[str] = set()
        self._failures: Counter[str] = Counter()
        """How often each tool has failed since it last succeeded."""
        self.tripped: str | None = None
        """A description of the call that was repeated too often, or None."""

    def begin_turn(self) -> None:
        self._seen.clear()
        self._counts.clear()
        self._failures.clear()
        self.tripped = None

    def begin_step(self) -> None:
        self._in_step.clear()

    def observe(self, call: ToolCall, result: ToolResult) -> str | None:
        """Count a call; return a warning for the model if it leads nowhere."""
        return self._observe_repeat(call, result) or self._observe_failure(result)

    def _observe_failure(self, result: ToolResult) -> str | None:
        if result.status == "ok" or isinstance(result.details, Command):
            self._failures.pop(result.name, None)
            return None
        self._failures[result.name] += 1
        count = self._failures[result.name]
        if count >= FAILURES_END:
            self.tripped = f"{count} calls of {result.name} in a row failed"
        if count < FAILURES_WARNED:
            return None
        return (
            f"[This is call number {count} of {result.name} in a row that failed. Find out why "
            f"before the next one: after {FAILURES_END} the turn is ended.]"
        )

    def _observe_repeat(self, call: ToolCall, result: ToolResult) -> str | None:
        pair = _hash_call(call, result)
        if pair in self._in_step:
            return None
        self._in_step.add(pair)
        if pair not in self._seen:
            self._seen.add(pair)
            self._counts.clear()
        self._counts[pair] += 1
        count = self._counts[pair]
        if count >= REPEATS_END:
            self.tripped = f"{call.name} was called {count} times with the same input and result"
        if count < REPEATS_WARNED:
            return None
        return (
            f"[This is the {_format_ordinal(count)} time you made exactly this call with this "
            f"result. Do something else: at the {_format_ordinal(REPEATS_END)} the turn is ended.]"
        )


def _hash_call(call: ToolCall, result: ToolResult) -> str:
    text = result.text
    if isinstance(result.details, Command) and result.details.log_path:
        text = text.replace(result.details.log_path, "")  # numbered per call, so never the same
    data = json.dumps([call.name, call.input, result.status, text], sort_keys=True)
    return sha256(data.encode()).hexdigest()  # the text itself would store all outputs again


def _format_ordinal(count: int) -> str:
    return {3: "third", 4: "fourth", 5: "fifth"}.get(count, f"{count}th")
