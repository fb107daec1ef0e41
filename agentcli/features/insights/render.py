"""The text and JSON of `triage` and `stats`, and their exit codes."""

import json
import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from agentcli.features.insights.finding import Level, TriageCase, TriageFinding
from agentcli.features.insights.trace import Trace, read_trace
from agentcli.features.insights.triage import run_checks
from agentcli.features.insights.usage import DaySums, UsageStats, read_utc_time
from agentcli.log.lock import is_held
from agentcli.log.paths import locate_sessions
from agentcli.log.sessions import find_log
from agentcli.system.plain_text import show_controls
from agentcli.tools.contracts import load_spec
from agentcli.types.errors import Exit, UsageError
from agentcli.types.own_tools import BUILT_IN
from agentcli.types.words import pluralize
from agentcli.ui.report import ReportLine, render_bar, takes_blocks, write_report
from agentcli.ui.tally import build_cost_json

SHOWN_OF_A_KIND = 5

_LABELS = {Level.ERROR: "ERROR", Level.WARNING: "WARN", Level.NOTE: "note"}


def show_triage(
    session: str | None, *, expected: Sequence[str], is_strict: bool, as_json: bool
) -> Exit:
    log = find_log(session)
    case = TriageCase(
        trace=read_trace(log),
        expected_tools=tuple(expected),
        schemas={name: load_spec(name).schema for name in BUILT_IN},
        is_running=is_held(log.parent),
    )
    found = run_checks(case)
    worst_allowed = Level.WARNING if is_strict else Level.ERROR
    failed = any(finding.level <= worst_allowed for finding in found)
    code = Exit.VERIFY_FAILED if failed else Exit.DONE
    if as_json:
        sys.stdout.write(
            json.dumps(_build_triage_json(case.trace, found, code=code), ensure_ascii=False) + "\n"
        )
    else:
        for line in (_render_trace_summary(case.trace), *_render_findings(found)):
            sys.stdout.write(line + "\n")
    return code


def _render_trace_summary(trace: Trace) -> str:
    ended = trace.turns[-1].ended if trace.turns else None
    spending = trace.spending
    used = spending.usage
    return (
        f"session {_read_session_id(trace)}: "
        f"{pluralize(len(trace.entries), 'record')} · {pluralize(len(trace.turns), 'turn')} · "
        f"{spending.request_summary} · {pluralize(len(trace.calls), 'call')} · "
        f"{used.prompt_tokens} tokens in, {used.output_tokens} out · "
        f"{spending.cost_text} · {ended.ending if ended else 'no ending'}"
    )


def _render_findings(found: Sequence[TriageFinding]) -> Iterator[str]:
    if not found:
        yield "nothing to report"
    shown: Counter[tuple[Level, str]] = Counter()
    for finding in found:
        kind = (finding.level, finding.check)
        shown[kind] += 1
        if shown[kind] > SHOWN_OF_A_KIND:
            continue
        where = f"record {finding.record}" if finding.record else "session"
        yield ""
        yield f"{_LABELS[finding.level]:<5}  {where}: {finding.what}  [{finding.check}]"
        yield f"       why: {finding.why}"
        yield f"       do:  {finding.fix}"
    for (_, check), number in shown.items():
        if number > SHOWN_OF_A_KIND:
            yield f"\n… {number - SHOWN_OF_A_KIND} more of [{check}]: -o json shows all"


def _build_triage_json(
    trace: Trace, found: Sequence[TriageFinding], *, code: Exit
) -> dict[str, Any]:
    ended = trace.turns[-1].ended if trace.turns else None
    spending = trace.spending
    return {
        "v": 1,
        "session": _read_session_id(trace),
        "records": len(trace.entries),
        "turns": len(trace.turns),
        "requests": spending.requests,
        "calls": len(trace.calls),
        "tokens_in": spending.usage.prompt_tokens,
        "tokens_out": spending.usage.output_tokens,
        **build_cost_json(spending),
        "ending": ended.ending if ended else None,
        "exit_code": int(code),
        "findings": [
            {
                "level": finding.level.name.lower(),
                "check": finding.check,
                "record": finding.record,
                "what": finding.what,
                "why": finding.why,
                "fix": finding.fix,
            }
            for finding in found
        ],
    }


def _read_session_id(trace: Trace) -> str:
    return trace.entries[-1].session if trace.entries else ""


# Totals of many sessions: a table, and a small chart by day


_BLOCKS = "▁▂▃▄▅▆▇█"
_ASCII_BLOCKS = ".:-=+*#@"
_HOURS = {"h": 1, "d": 24, "w": 168}
CHART_DAYS = 60
TOOLS_SHOWN = 12
TOOL_BAR_COLUMNS = 20


def collect_stats(since: str) -> UsageStats:
    """Return the sums of a period, given as the user writes it. Raise UsageError."""
    stats, beginning = UsageStats(), _parse_since(since)
    logs = locate_sessions().glob("*/log.jsonl")
    recent = [log for log in logs if log.stat().st_mtime >= beginning.timestamp()]
    stats.add(recent, since=beginning)
    return stats


def show_stats(since: str, *, as_json: bool) -> None:
    stats = collect_stats(since)
    if as_json:
        sys.stdout.write(json.dumps(_build_stats_json(stats), ensure_ascii=False) + "\n")
        return
    write_report(render_stats(stats, blocks=_BLOCKS if takes_blocks() else _ASCII_BLOCKS))


def render_stats(stats: UsageStats, *, blocks: str) -> Iterator[ReportLine]:
    total = stats.total
    if not stats.sessions:
        yield [("dim", "no sessions in this period")]
        return
    spending, usage = total.spending, total.spending.usage
    turns = f"{total.turns}, {spending.request_summary}"
    yield _render_totals("sessions", f"{stats.sessions}", other="turns", other_value=turns)
    yield _render_totals(
        "tokens in", f"{usage.prompt_tokens:,}", other="out", other_value=f"{usage.output_tokens:,}"
    )
    yield _render_totals(
        "cache", f"{total.cache_share:.0%}", other="cost", other_value=spending.cost_text
    )
    yield [
        *_render_totals("calls", f"{total.calls:,}", other="failed", other_value=""),
        ("failed" if total.failures else "", f"{total.failures}"),
        ("dim", ", denied "),
        ("warning" if total.denials else "", f"{total.denials}"),
    ]
    yield []
    days = stats.list_days()[-CHART_DAYS:]
    yield [("dim", f"by day, {days[0][0]} to {days[-1][0]}, highest in brackets")]
    yield from _render_charts(days, blocks)
    yield []
    yield from _render_tools(stats)
    for name, count in stats.models.most_common(TOOLS_SHOWN):
        yield [("", f"{show_controls(name):<32} "), ("dim", _format_count(count, "request"))]


def _render_totals(name: str, value: str, *, other: str, other_value: str) -> ReportLine:
    return [
        ("dim", f"{name:<9} "),
        ("strong", f"{value:>10}"),
        ("dim", f"     {other:<6} "),
        ("strong", other_value),
    ]


def _render_tools(stats: UsageStats) -> Iterator[ReportLine]:
    """Yield a row for each tool. The bar compares its calls with those of the most used tool."""
    shown = stats.tools.most_common(TOOLS_SHOWN)
    most = max((count for _, count in shown), default=1)
    for name, count in shown:
        failed = stats.failed_tools[name]
        yield [
            ("", f"{show_controls(name):<16} "),
            ("dim", f"{_format_count(count, 'call'):<14} "),
            ("accent", render_bar(count / most, TOOL_BAR_COLUMNS)),
            ("failed", f" {failed} failed" if failed else ""),
        ]


CHART_STYLES = {"failed": "failed", "denied": "warning"}


def _render_charts(days: Sequence[tuple[str, DaySums]], blocks: str) -> Iterator[ReportLine]:
    rows: dict[str, tuple[list[float], str]] = {
        "tokens": ([float(_count_total_tokens(day)) for _, day in days], "{:,.0f}"),
        "cost": ([day.spending.known_usd for _, day in days], "${:.2f}"),
        "cache": ([day.cache_share for _, day in days], "{:.0%}"),
        "calls": ([float(day.calls) for _, day in days], "{:,.0f}"),
        "failed": ([float(day.failures) for _, day in days], "{:,.0f}"),
        "denied": ([float(day.denials) for _, day in days], "{:,.0f}"),
    }
    for name, (values, form) in rows.items():
        yield [
            ("", f"{name:<8} "),
            (CHART_STYLES.get(name, "accent"), render_bars(values, blocks)),
            ("dim", f"  [{form.format(max(values))}]"),
        ]


def render_bars(values: Sequence[float], blocks: str) -> str:
    """Return one character for each value. A blank means zero; any other value shows at least a
    bit."""
    highest = max(values, default=0.0)
    if highest <= 0:
        return " " * len(values)
    steps = len(blocks) - 1
    return "".join(blocks[round(value / highest * steps)] if value > 0 else " " for value in values)


def _parse_since(since: str) -> datetime:
    if since == "all":
        return datetime.min.replace(tzinfo=UTC)
    found = re.fullmatch(r"(\d{1,6})([hdw])", since.strip())
    if found is None:
        raise UsageError(f"--since {since!r} is not a duration", hint="--since 12h, 30d, 8w or all")
    try:
        return read_utc_time() - timedelta(hours=int(found[1]) * _HOURS[found[2]])
    except OverflowError:
        return datetime.min.replace(tzinfo=UTC)


def _build_stats_json(stats: UsageStats) -> dict[str, object]:
    return {
        "v": 1,
        "sessions": stats.sessions,
        "total": _build_sums_json(stats.total),
        "days": {day: _build_sums_json(sums) for day, sums in stats.list_days()},
        "tools": {
            name: {"calls": count, "failed": stats.failed_tools[name]}
            for name, count in stats.tools.most_common()
        },
        "models": dict(stats.models.most_common()),
    }


def _format_count(count: int, noun: str) -> str:
    """Return a count with its noun, aligned so that numbers are below each other."""
    return f"{count:>7} {noun if count == 1 else noun + 's'}"


def _count_total_tokens(sums: DaySums) -> int:
    return sums.spending.usage.prompt_tokens + sums.spending.usage.output_tokens


def _build_sums_json(sums: DaySums) -> dict[str, object]:
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
