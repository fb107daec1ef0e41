"""Runs of the program against a provider on loopback, and what each of its sinks says at last."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentcli.log.reader import read_log
from agentcli.types.events import Fact, SessionEnded
from tests.support.program import Ran, agentcli
from tests.support.provider import Provider

KEY = "sk-test-0123456789abcdef"


def using(provider: Provider) -> dict[str, str]:
    """The environment that leads to it."""
    return {"ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": provider.base_url}


def run_against(
    provider: Provider,
    *arguments: str | Path,
    home: Path,
    cwd: Path | None = None,
    stdin: str | None = None,
    env: dict[str, str] | None = None,
) -> Ran:
    return agentcli(
        *("run", "--model", "opus"),
        *arguments,
        home=home,
        cwd=cwd,
        stdin=stdin,
        env={**using(provider), **(env or {})},
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """How a run ended, in the words of each that has to know."""

    exit_code: int
    status: str
    ending: str


def last_fact(home: Path) -> Fact:
    log = max(home.glob(".local/state/agentcli/sessions/*/log.jsonl"))
    return read_log(log).entries[-1].fact


def told_by_result(result: dict[str, Any]) -> Told:
    return Told(exit_code=result["exit_code"], status=result["status"], ending=result["ending"])


def assert_all_say(ran: Ran, expected: Told, *, home: Path, has_log: bool = True) -> None:
    """The process, the last line of the stream and the last record of the log."""
    events = [json.loads(line) for line in ran.out.splitlines()]
    results: Sequence[dict[str, Any]] = [row for row in events if row["type"] == "result"]
    assert ran.code == expected.exit_code, ran.err
    assert [told_by_result(result) for result in results] == [expected]
    assert events[-1] is results[0]
    if has_log:
        fact = last_fact(home)
        assert isinstance(fact, SessionEnded)
        assert (fact.exit_code, fact.ending) == (expected.exit_code, expected.ending)
