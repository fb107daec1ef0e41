"""What sessions used and did, added up by day: read from their logs, line by line.

Lines are looked at, not validated, and nothing is kept of them but sums: a large or damaged log
costs what reading it costs.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from agentcli.record.log import lines

_COUNTED = tuple(
    b'"type":"%s"' % name
    for name in (b"turn_started", b"model_replied", b"compacted", b"call_judged", b"call_finished")
)


@dataclass(slots=True)
class Sums:
    turns: int = 0
    requests: int = 0
    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float = 0.0
    unpriced: int = 0
    """Requests whose price is not known."""
    calls: int = 0
    failures: int = 0
    denials: int = 0

    @property
    def cache_share(self) -> float:
        return self.cached_tokens / self.input_tokens if self.input_tokens else 0.0


@dataclass(slots=True)
class Stats:
    sessions: int = 0
    total: Sums = field(default_factory=Sums)
    days: dict[str, Sums] = field(default_factory=dict)
    """By day, UTC, as YYYY-MM-DD."""
    tools: Counter[str] = field(default_factory=Counter)
    failed_tools: Counter[str] = field(default_factory=Counter)
    models: Counter[str] = field(default_factory=Counter)
    """Requests by model."""

    def add(self, logs: Iterable[Path], *, since: datetime) -> None:
        for log in logs:
            found = False
            for at, fact in _facts(log, since.isoformat()):
                found = True
                day = self.days.setdefault(at[:10], Sums())
                for sums in (self.total, day):
                    _count(sums, fact)
                self._name(fact)
            self.sessions += found

    def by_day(self) -> list[tuple[str, Sums]]:
        """Every day from the first to the last, those without anything too."""
        if not self.days:
            return []
        first, last = (datetime.fromisoformat(pick(self.days)).date() for pick in (min, max))
        every = [str(first + timedelta(days=number)) for number in range((last - first).days + 1)]
        return [(day, self.days.get(day, Sums())) for day in every]

    def _name(self, fact: dict[str, Any]) -> None:
        match fact.get("type"):
            case "model_replied":
                self.models[str(_inside(fact, "message").get("model", "?"))] += 1
            case "call_finished":
                result = _inside(fact, "result")
                name = str(result.get("name", "?"))
                self.tools[name] += 1
                self.failed_tools[name] += result.get("status") == "error"
            case _:
                pass


def _facts(log: Path, since: str) -> Iterator[tuple[str, dict[str, Any]]]:
    for line in lines(log):
        if not any(kind in line for kind in _COUNTED):
            continue
        try:
            record = json.loads(line)
            at, fact = record["at"], record["fact"]
        except (ValueError, KeyError, TypeError, RecursionError):
            continue
        if isinstance(at, str) and isinstance(fact, dict) and _is_day(at) and at[:19] >= since[:19]:
            yield at, fact


def _is_day(at: str) -> bool:
    try:
        datetime.fromisoformat(at[:10])
    except ValueError:
        return False
    return True


def _count(sums: Sums, fact: dict[str, Any]) -> None:
    match fact.get("type"):
        case "turn_started":
            sums.turns += 1
        case "model_replied":
            _count_request(sums, _inside(_inside(fact, "message"), "usage"), fact.get("cost_usd"))
        case "compacted":
            _count_request(sums, _inside(fact, "usage"), fact.get("cost_usd"))
        case "call_judged":
            sums.denials += _inside(fact, "verdict").get("decision") == "deny"
        case "call_finished":
            sums.calls += 1
            sums.failures += _inside(fact, "result").get("status") == "error"
        case _:
            pass


def _count_request(sums: Sums, usage: dict[str, Any], cost: Any) -> None:
    cached = _whole(usage, "cache_read_tokens")
    sums.requests += 1
    sums.cached_tokens += cached
    sums.input_tokens += (
        cached + _whole(usage, "input_tokens") + _whole(usage, "cache_write_tokens")
    )
    sums.output_tokens += _whole(usage, "output_tokens")
    if isinstance(cost, int | float):
        sums.cost_usd += cost
    else:
        sums.unpriced += 1


def _inside(fact: dict[str, Any], name: str) -> dict[str, Any]:
    value = fact.get(name)
    return value if isinstance(value, dict) else {}


def _whole(usage: dict[str, Any], name: str) -> int:
    value = usage.get(name, 0)
    return value if isinstance(value, int) else 0


def now() -> datetime:
    return datetime.now(UTC)
