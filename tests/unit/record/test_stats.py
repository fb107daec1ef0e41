import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from agentcli.record.stats import Stats, Sums
from agentcli.ui.stats import bars, report

EVER = datetime.min.replace(tzinfo=UTC)


def record(day: str, **fact: Any) -> str:
    at = f"{day}T12:00:00.000Z"
    return json.dumps({"at": at, "fact": fact}, separators=(",", ":")) + "\n"


def replied(day: str, cost_usd: float | None, **usage: int) -> str:
    message = {"model": "m/n", "usage": usage}
    return record(day, message=message, cost_usd=cost_usd, type="model_replied")


def stats_of(tmp_path: Path, *lines: str, since: datetime = EVER) -> Stats:
    log = tmp_path / "log.jsonl"
    log.write_text("".join(lines))
    stats = Stats()
    stats.add([log], since=since)
    return stats


def test_requests_and_calls_are_added_up(tmp_path: Path) -> None:
    result = {"name": "bash", "status": "error"}
    stats = stats_of(
        tmp_path,
        record("2026-01-01", type="turn_started"),
        replied("2026-01-01", 0.5, input_tokens=10, cache_read_tokens=30, output_tokens=5),
        replied("2026-01-01", None, cache_write_tokens=20),
        record("2026-01-01", usage={"input_tokens": 40}, cost_usd=0.25, type="compacted"),
        record("2026-01-01", verdict={"decision": "deny"}, type="call_judged"),
        record("2026-01-01", result=result, type="call_finished"),
    )
    assert stats.total == Sums(
        turns=1,
        requests=3,
        input_tokens=100,
        cached_tokens=30,
        output_tokens=5,
        cost_usd=0.75,
        unpriced=1,
        calls=1,
        failures=1,
        denials=1,
    )
    assert stats.total.cache_share == 0.3
    assert (stats.sessions, dict(stats.tools), dict(stats.models)) == (1, {"bash": 1}, {"m/n": 2})


def test_days_without_anything_have_their_place(tmp_path: Path) -> None:
    stats = stats_of(tmp_path, replied("2026-01-01", 1.0), replied("2026-01-04", 2.0))
    costs = [(day, sums.cost_usd) for day, sums in stats.by_day()]
    assert costs == [("2026-01-01", 1), ("2026-01-02", 0), ("2026-01-03", 0), ("2026-01-04", 2)]


def test_what_is_older_does_not_count(tmp_path: Path) -> None:
    since = datetime(2026, 1, 2, tzinfo=UTC)
    lines = [replied("2026-01-01", 1.0), replied("2026-01-03", 2.0)]
    assert stats_of(tmp_path, *lines, since=since).total.cost_usd == 2


@pytest.mark.parametrize(
    "line",
    [
        "not json\n",
        '{"type":"model_replied"}\n',
        '{"at":"soon","fact":{"type":"model_replied"}}\n',
        '{"at":5,"fact":{"type":"model_replied"}}\n',
        '{"at":"2026-01-01","fact":[{"type":"model_replied"}]}\n',
        '{"at":"2026-01-01","fact":{"message":7,"type":"model_replied"\n',
    ],
)
def test_damaged_lines_are_passed_over(tmp_path: Path, line: str) -> None:
    stats = stats_of(tmp_path, line, replied("2026-01-01", 1.0))
    assert (stats.total.requests, stats.total.cost_usd) == (1, 1)


@pytest.mark.parametrize(
    ("values", "drawn"),
    [([], ""), ([0, 0], "  "), ([0, 1, 7], " b@"), ([0.001, 100], ".@"), ([5], "@")],
)
def test_bars_show_nothing_as_blank_and_the_highest_as_full(
    values: list[float], drawn: str
) -> None:
    assert bars(values, ".bcdefg@") == drawn


def test_report_of_a_session_names_what_has_no_price(tmp_path: Path) -> None:
    stats = stats_of(tmp_path, replied("2026-01-01", None, input_tokens=1234))
    told = "\n".join(report(stats, blocks=".@"))
    assert "cost   $0.00 (1 requests without a known price)" in told
    assert "tokens   @  [1,234]" in told
