import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from agentcli.features.insights.render import render_bars, render_stats
from agentcli.features.insights.usage import DaySums, UsageStats
from agentcli.log.writer import to_json
from agentcli.types.agents import AgentEnded
from agentcli.types.errors import Ending
from agentcli.types.events import CallFinished, Compacted, ModelReplied, TokensSpent
from agentcli.types.messages import AssistantMessage, Usage
from agentcli.types.spending import Spending
from agentcli.types.tools import ChildTurn, ToolResult

NO_USAGE = Usage()
EVER = datetime.min.replace(tzinfo=UTC)


def record(day: str, **fact: Any) -> str:
    at = f"{day}T12:00:00.000Z"
    return json.dumps({"at": at, "fact": fact}, separators=(",", ":")) + "\n"


def replied(day: str, cost_usd: float | None, usage: Usage = NO_USAGE) -> str:
    message = AssistantMessage(content=(), stop="end", protocol="p", model="n", usage=usage)
    return record(day, **to_json(ModelReplied(message=message, cost_usd=cost_usd)))


def stats_of(tmp_path: Path, *lines: str, since: datetime = EVER) -> UsageStats:
    log = tmp_path / "log.jsonl"
    log.write_text("".join(lines))
    stats = UsageStats()
    stats.add([log], since=since)
    return stats


def test_requests_and_calls_are_added_up(tmp_path: Path) -> None:
    result = {"name": "bash", "status": "error"}
    compacted = Compacted(summary="", tokens_before=9, usage=Usage(input_tokens=40), cost_usd=0.25)
    broken = TokensSpent(why="broken_off", usage=Usage(input_tokens=7), cost_usd=0.5)
    used = Usage(input_tokens=10, cache_read_tokens=30, output_tokens=5)
    stats = stats_of(
        tmp_path,
        record("2026-01-01", model="m/n", type="session_started"),
        record("2026-01-01", type="turn_started"),
        replied("2026-01-01", 0.5, used),
        replied("2026-01-01", None, Usage(cache_write_tokens=13)),
        record("2026-01-01", **to_json(compacted)),
        record("2026-01-01", **to_json(broken)),
        record("2026-01-01", verdict={"decision": "deny"}, type="call_judged"),
        record("2026-01-01", result=result, type="call_finished"),
    )
    assert stats.total == DaySums(
        turns=1,
        spending=Spending(
            requests=3,
            broken_off=1,
            usage=Usage(
                input_tokens=57, cache_read_tokens=30, cache_write_tokens=13, output_tokens=5
            ),
            known_usd=1.25,
            unpriced=1,
        ),
        calls=1,
        failures=1,
        denials=1,
    )
    assert stats.total.cache_share == 0.3
    assert (stats.sessions, dict(stats.tools), dict(stats.models)) == (1, {"bash": 1}, {"m/n": 2})


def test_agents_beside_a_session_are_added_up(tmp_path: Path) -> None:
    turn = ChildTurn(
        role="",
        ending=Ending.DONE,
        calls=1,
        usage=Usage(output_tokens=4),
        cost_usd=0.5,
        log_path="",
    )
    ended = record("2026-01-01", **to_json(AgentEnded(agent=1, turn=turn)))
    assert stats_of(tmp_path, ended).total.spending.known_usd == 0.5


def test_days_without_anything_have_their_place(tmp_path: Path) -> None:
    stats = stats_of(tmp_path, replied("2026-01-01", 1.0), replied("2026-01-04", 2.0))
    costs = [(day, sums.spending.known_usd) for day, sums in stats.list_days()]
    assert costs == [("2026-01-01", 1), ("2026-01-02", 0), ("2026-01-03", 0), ("2026-01-04", 2)]


def test_what_is_older_does_not_count(tmp_path: Path) -> None:
    since = datetime(2026, 1, 2, tzinfo=UTC)
    lines = [replied("2026-01-01", 1.0), replied("2026-01-03", 2.0)]
    assert stats_of(tmp_path, *lines, since=since).total.spending.known_usd == 2


def test_model_has_one_name_however_its_replies_call_it(tmp_path: Path) -> None:
    since = datetime(2026, 1, 2, tzinfo=UTC)
    lines = [
        record("2026-01-01", model="a/one", type="session_started"),
        replied("2026-01-02", 1.0),
        record("2026-01-02", model="b/two", type="model_changed"),
        replied("2026-01-03", 1.0),
    ]
    assert dict(stats_of(tmp_path, *lines, since=since).models) == {"a/one": 1, "b/two": 1}


def test_child_agents_cost_what_they_cost(tmp_path: Path) -> None:
    child = ChildTurn(
        role="", ending="done", calls=1, usage=Usage(input_tokens=9), cost_usd=0.5, log_path=""
    )
    result = ToolResult(call_id="c", name="delegate", status="ok", content=(), details=child)
    finished = record("2026-01-01", **to_json(CallFinished(result=result)))
    expected = Spending(usage=Usage(input_tokens=9), known_usd=0.5)
    assert stats_of(tmp_path, finished).total.spending == expected


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
    assert (stats.total.spending.requests, stats.total.spending.known_usd) == (1, 1)


@pytest.mark.parametrize(
    ("values", "drawn"),
    [([], ""), ([0, 0], "  "), ([0, 1, 7], " b@"), ([0.001, 100], ".@"), ([5], "@")],
)
def test_bars_show_nothing_as_blank_and_the_highest_as_full(
    values: list[float], drawn: str
) -> None:
    assert render_bars(values, ".bcdefg@") == drawn


def test_report_of_a_session_names_what_has_no_price(tmp_path: Path) -> None:
    dear = replied("2026-01-01", 0.5)
    unknown = replied("2026-01-01", None, Usage(input_tokens=1234))
    stats = stats_of(tmp_path, unknown, dear)
    lines = render_stats(stats, blocks=".@")
    told = "\n".join("".join(text for _, text in line) for line in lines)
    assert "cost   $0.5000 and 1 request without a known price" in told
    assert "tokens   @  [1,234]" in told
