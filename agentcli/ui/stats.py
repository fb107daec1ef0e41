"""Numbers of many sessions: a table, and a small chart of each day."""

import json
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from datetime import UTC, datetime, timedelta

from agentcli.machine.plain import visible
from agentcli.record.place import sessions_directory
from agentcli.record.stats import Stats, Sums, now
from agentcli.types.errors import UsageError

_BLOCKS = "▁▂▃▄▅▆▇█"
_ASCII_BLOCKS = ".:-=+*#@"
_HOURS = {"h": 1, "d": 24, "w": 168}
CHART_DAYS = 60
TOOLS_SHOWN = 12


def show(since: str, *, as_json: bool) -> None:
    stats, beginning = Stats(), _beginning(since)
    logs = sessions_directory().glob("*/log.jsonl")
    recent = [log for log in logs if log.stat().st_mtime >= beginning.timestamp()]
    stats.add(recent, since=beginning)
    if as_json:
        sys.stdout.write(json.dumps(_as_json(stats), ensure_ascii=False) + "\n")
        return
    for line in report(stats, blocks=_drawable()):
        sys.stdout.write(line + "\n")


def report(stats: Stats, *, blocks: str) -> Iterator[str]:
    total = stats.total
    if not stats.sessions:
        yield "no session in this time"
        return
    price = f" ({total.unpriced} requests without a known price)" if total.unpriced else ""
    yield f"sessions  {stats.sessions:>10}     turns  {total.turns}, requests {total.requests}"
    yield f"tokens in {total.input_tokens:>10,}     out    {total.output_tokens:,}"
    yield f"cache     {total.cache_share:>10.0%}     cost   ${total.cost_usd:.2f}{price}"
    yield f"calls     {total.calls:>10,}     failed {total.failures}, denied {total.denials}"
    yield ""
    days = stats.by_day()[-CHART_DAYS:]
    yield f"by day, {days[0][0]} to {days[-1][0]}, highest in brackets"
    yield from _charts(days, blocks)
    yield ""
    for name, count in stats.tools.most_common(TOOLS_SHOWN):
        failed = f" {stats.failed_tools[name]} failed" if stats.failed_tools[name] else ""
        yield f"{visible(name):<16} {count:>7} calls{failed}"
    for name, count in stats.models.most_common(TOOLS_SHOWN):
        yield f"{visible(name):<32} {count:>7} requests"


def _charts(days: Sequence[tuple[str, Sums]], blocks: str) -> Iterator[str]:
    rows: dict[str, tuple[list[float], str]] = {
        "tokens": ([float(day.input_tokens + day.output_tokens) for _, day in days], "{:,.0f}"),
        "cost": ([day.cost_usd for _, day in days], "${:.2f}"),
        "cache": ([day.cache_share for _, day in days], "{:.0%}"),
        "calls": ([float(day.calls) for _, day in days], "{:,.0f}"),
        "failed": ([float(day.failures) for _, day in days], "{:,.0f}"),
        "denied": ([float(day.denials) for _, day in days], "{:,.0f}"),
    }
    for name, (values, form) in rows.items():
        yield f"{name:<8} {bars(values, blocks)}  [{form.format(max(values))}]"


def bars(values: Sequence[float], blocks: str) -> str:
    """One character a value; a blank is nothing at all, the lowest mark is not."""
    highest = max(values, default=0.0)
    if highest <= 0:
        return " " * len(values)
    steps = len(blocks) - 1
    return "".join(blocks[round(value / highest * steps)] if value > 0 else " " for value in values)


def _drawable() -> str:
    try:
        _BLOCKS.encode(sys.stdout.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return _ASCII_BLOCKS
    return _BLOCKS


def _beginning(since: str) -> datetime:
    if since == "all":
        return datetime.min.replace(tzinfo=UTC)
    found = re.fullmatch(r"(\d{1,6})([hdw])", since.strip())
    if found is None:
        raise UsageError(f"--since {since!r} is not a duration", hint="12h, 30d, 8w, or all")
    try:
        return now() - timedelta(hours=int(found[1]) * _HOURS[found[2]])
    except OverflowError:
        return datetime.min.replace(tzinfo=UTC)


def _as_json(stats: Stats) -> dict[str, object]:
    return {
        "v": 1,
        "sessions": stats.sessions,
        "total": {**asdict(stats.total), "cache_share": round(stats.total.cache_share, 4)},
        "days": {
            day: {**asdict(sums), "cache_share": round(sums.cache_share, 4)}
            for day, sums in stats.by_day()
        },
        "tools": {
            name: {"calls": count, "failed": stats.failed_tools[name]}
            for name, count in stats.tools.most_common()
        },
        "models": dict(stats.models.most_common()),
    }
