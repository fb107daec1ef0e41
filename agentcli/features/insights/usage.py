"""Usage and activity of sessions, summed by day: read from their logs, line by line.

A line is validated only if it reports tokens, and only sums are kept. So even a large or damaged
log costs no more than reading it.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from agentcli.log.decode import parse_fact
from agentcli.log.writer import read_lines
from agentcli.types.spending import NO_SPENDING, PAID, Spending, compute_spending

_NAMING = ("session_started", "session_resumed", "model_changed")
"""The records that say which model answers from there on."""
_COUNTED = (*_NAMING, *PAID, "turn_started", "call_judged")
_TYPE_FIELDS = tuple(f'"type":"{name}"'.encode() for name in _COUNTED)


@dataclass(slots=True)
class DaySums:
    turns: int = 0
    spending: Spending = NO_SPENDING
    calls: int = 0
    failures: int = 0
    denials: int = 0

    @property
    def cache_share(self) -> float:
        usage = self.spending.usage
        return usage.cache_read_tokens / usage.prompt_tokens if usage.prompt_tokens else 0.0


@dataclass(slots=True)
class UsageStats:
    sessions: int = 0
    total: DaySums = field(default_factory=DaySums)
    days: dict[str, DaySums] = field(default_factory=dict)
    """By day (UTC), as YYYY-MM-DD."""
    tools: Counter[str] = field(default_factory=Counter)
    failed_tools: Counter[str] = field(default_factory=Counter)
    models: Counter[str] = field(default_factory=Counter)
    """The number of requests by model."""

    def add(self, logs: Iterable[Path], *, since: datetime) -> None:
        for log in logs:
            found, model = False, "?"
            for at, fact in _iter_facts(log):
                if fact.get("type") in _NAMING:
                    model = str(fact.get("model", "?"))
                elif at[:19] >= since.isoformat()[:19]:
                    found = True
                    self._add(at[:10], fact, model=model)
            self.sessions += found

    def list_days(self) -> list[tuple[str, DaySums]]:
        """Return every day from the first to the last, including empty ones."""
        if not self.days:
            return []
        first, last = (datetime.fromisoformat(pick(self.days)).date() for pick in (min, max))
        every = [str(first + timedelta(days=number)) for number in range((last - first).days + 1)]
        return [(day, self.days.get(day, DaySums())) for day in every]

    def _add(self, day: str, fact: dict[str, Any], *, model: str) -> None:
        spent = _read_spending(fact)
        for sums in (self.total, self.days.setdefault(day, DaySums())):
            sums.spending += spent
            _count(sums, fact)
        match fact.get("type"):
            case "model_replied":
                self.models[model] += 1
            case "call_finished":
                result = _read_object(fact, "result")
                name = str(result.get("name", "?"))
                self.tools[name] += 1
                self.failed_tools[name] += result.get("status") == "error"
            case _:
                pass


def _iter_facts(log: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    for line in read_lines(log):
        if not any(field in line for field in _TYPE_FIELDS):
            continue
        try:
            record = json.loads(line)
            at, fact = record["at"], record["fact"]
        except (ValueError, KeyError, TypeError, RecursionError):
            continue
        if isinstance(at, str) and isinstance(fact, dict) and _is_day(at):
            yield at, fact


def _is_day(at: str) -> bool:
    try:
        datetime.fromisoformat(at[:10])
    except ValueError:
        return False
    return True


def _count(sums: DaySums, fact: dict[str, Any]) -> None:
    match fact.get("type"):
        case "turn_started":
            sums.turns += 1
        case "call_judged":
            sums.denials += _read_object(fact, "verdict").get("decision") == "deny"
        case "call_finished":
            sums.calls += 1
            sums.failures += _read_object(fact, "result").get("status") == "error"
        case _:
            pass


def _read_spending(fact: dict[str, Any]) -> Spending:
    if fact.get("type") not in PAID:
        return NO_SPENDING
    if (
        "result" in fact
        and _read_object(_read_object(fact, "result"), "details").get("type") != "child_turn"
    ):
        return NO_SPENDING
    try:
        return compute_spending(parse_fact(fact))
    except ValueError:
        return NO_SPENDING


def _read_object(fact: dict[str, Any], name: str) -> dict[str, Any]:
    value = fact.get(name)
    return value if isinstance(value, dict) else {}


def read_utc_time() -> datetime:
    return datetime.now(UTC)
