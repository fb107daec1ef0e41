"""Numbers of many sessions: a table, and a small chart of each day."""

import json
import re
import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta

from agentcli.machine.plain import show_controls
from agentcli.record.place import sessions_directory
from agentcli.record.stats import DaySums, UsageStats, now
from agentcli.types.errors import UsageError

_BLOCKS = "▁▂▃▄▅▆▇█"
_ASCII_BLOCKS = ".:-=+*#@"
_HOURS = {"h": 1, "d": 24, "w": 168}
CHART_DAYS = 60
TOOLS_SHOWN = 12


def show_stats(since: str, *, as_json: bool) -> None:
    stats, beginning = UsageStats(), _parse_since(since)
    logs = sessions_directory().glob("*/log.jsonl")
    recent = [log for log in logs if log.stat().st_mtime >= beginning.timestamp()]
    stats.add(recent, since=beginning)
    if as_json:
        sys.stdout.write(json.dumps(_stats_json(stats), ensure_ascii=False) + "\n")
        return
    for line in render_stats(stats, blocks=_choose_blocks()):
        sys.stdout.write(line + "\n")


def render_stats(stats: UsageStats, *, blocks: str) -> Iterator[str]:
    total = stats.total
    if not stats.sessions:
        yield "no session in this time"
        return
    spending, usage = total.spending, total.spending.usage
    yield f"sessions  {stats.sessions:>10}     turns  {total.turns}, {spending.request_summary}"
    yield f"tokens in {usage.prompt_tokens:>10,}     out    {usage.output_tokens:,}"
    yield f"cache     {total.cache_share:>10.0%}     cost   {spending.cost_text}"
    yield f"calls     {total.calls:>10,}     failed {total.failures}, denied {total.denials}"
    yield ""
    days = stats.by_day()[-CHART_DAYS:]
    yield f"by day, {days[0][0]} to {days[-1][0]}, highest in brackets"
    yield from _render_charts(days, blocks)
    yield ""
    for name, count in stats.tools.most_common(TOOLS_SHOWN):
        failed = f" {stats.failed_tools[name]} failed" if stats.failed_tools[name] else ""
        yield f"{show_controls(name):<16} {_format_count(count, 'call')}{failed}"
    for name, count in stats.models.most_common(TOOLS_SHOWN):
        yield f"{show_controls(name):<32} {_format_count(count, 'request')}"


def _render_charts(days: Sequence[tuple[str, DaySums]], blocks: str) -> Iterator[str]:
    rows: dict[str, tuple[list[float], str]] = {
        "tokens": ([float(_total_tokens(day)) for _, day in days], "{:,.0f}"),
        "cost": ([day.spending.known_usd for _, day in days], "${:.2f}"),
        "cache": ([day.cache_share for _, day in days], "{:.0%}"),
        "calls": ([float(day.calls) for _, day in days], "{:,.0f}"),
        "failed": ([float(day.failures) for _, day in days], "{:,.0f}"),
        "denied": ([float(day.denials) for _, day in days], "{:,.0f}"),
    }
    for name, (values, form) in rows.items():
        yield f"{name:<8} {render_bars(values, blocks)}  [{form.format(max(values))}]"


def render_bars(values: Sequence[float], blocks: str) -> str:
    """One character a value; a blank is nothing at all, the lowest mark is not."""
    highest = max(values, default=0.0)
    if highest <= 0:
        return " " * len(values)
    steps = len(blocks) - 1
    return "".join(blocks[round(value / highest * steps)] if value > 0 else " " for value in values)


def _choose_blocks() -> str:
    try:
        _BLOCKS.encode(sys.stdout.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return _ASCII_BLOCKS
    return _BLOCKS


def _parse_since(since: str) -> datetime:
    if since == "all":
        return datetime.min.replace(tzinfo=UTC)
    found = re.fullmatch(r"(\d{1,6})([hdw])", since.strip())
    if found is None:
        raise UsageError(f"--since {since!r} is not a duration", hint="12h, 30d, 8w, or all")
    try:
        return now() - timedelta(hours=int(found[1]) * _HOURS[found[2]])
    except OverflowError:
        return datetime.min.replace(tzinfo=UTC)


def _stats_json(stats: UsageStats) -> dict[str, object]:
    return {
        "v": 1,
        "sessions": stats.sessions,
        "total": _sums_json(stats.total),
        "days": {day: _sums_json(sums) for day, sums in stats.by_day()},
        "tools": {
            name: {"calls": count, "failed": stats.failed_tools[name]}
            for name, count in stats.tools.most_common()
        },
        "models": dict(stats.models.most_common()),
    }


def _format_count(count: int, noun: str) -> str:
    """Numbers below each other, whatever follows them."""
    return f"{count:>7} {noun if count == 1 else noun + 's'}"


def _total_tokens(sums: DaySums) -> int:
    return sums.spending.usage.prompt_tokens + sums.spending.usage.output_tokens


def _sums_json(sums: DaySums) -> dict[str, object]:
    spending, usage = sums.spending, sums.spending.usage
    return {
        "turns": sums.turns,
        "requests": spending.requests,
        "broken_off": spending.broken_off,
        "input_tokens": usage.prompt_tokens,
        "cached_tokens": usage.cache_read_tokens,
        "output_tokens": usage.output_tokens,
        "cost_usd": spending.known_usd,
        "cost_is_estimate": spending.is_estimate,
        "unpriced": spending.unpriced,
        "calls": sums.calls,
        "failures": sums.failures,
        "denials": sums.denials,
        "cache_share": round(sums.cache_share, 4),
    }
