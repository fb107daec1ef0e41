import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.support import anthropic_streams as anthropic
from tests.support.outcomes import run_against, using
from tests.support.program import PROGRAM, Ran, agentcli, environment, session_log
from tests.support.provider import Provider, Reply, sse, stream
from tests.support.repl import live, says

TOLD = {"input_tokens": 1200, "cache_read_input_tokens": 300, "output_tokens": 1}
WORDS = "one two three four five six seven eight nine ten"
LONG = stream(sse(anthropic.events([anthropic.text(WORDS, " end")], usage=TOLD)))
CUT = LONG.but(cut_at=LONG.body.index(b" end"))
STALLED = LONG.but(stall_at=LONG.body.index(b" end"))
READ = anthropic.calls(anthropic.call("c1", "read_file", {"path": "a.txt"}))

USED = {"input": 1512, "cached": 300, "cache_written": 0, "output": 44, "reasoning": 0}
"""What `READ` says it used, and of `LONG` what came."""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "home").mkdir()
    (tmp_path / "work").mkdir()
    (tmp_path / "work/a.txt").write_text("one\n")
    return tmp_path / "home"


def run(home: Path, replies: list[Reply], *arguments: str) -> tuple[Ran, int]:
    with Provider(replies) as provider:
        ran = run_against(provider, *arguments, "go", home=home, cwd=home.parent / "work")
    return ran, len(provider.requests)


def asked(home: Path, *arguments: str) -> str:
    return agentcli(*arguments, home=home, cwd=home.parent / "work").out


def told(home: Path, *arguments: str) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(asked(home, *arguments))
    return answer


def test_run_that_is_stopped_in_a_reply_costs_the_same_wherever_one_looks(home: Path) -> None:
    ran, _ = run(home, [READ, STALLED], "--timeout", "2s", "-o", "stream-json")
    result, rows = ran.events[-1], [row for row in ran.events if row["type"] == "usage"]
    assert (ran.code, result["usage"], result["cost_is_estimate"]) == (124, USED, True)
    cost_usd = result["cost_usd"]
    assert sum(row["cost_usd"] for row in rows) == pytest.approx(cost_usd)
    assert [(row["of"], row["cost_is_estimate"]) for row in rows] == [
        ("reply", False),
        ("reply", True),
    ]
    everywhere = [
        told(home, "sessions", "show", "--json"),
        told(home, "export", "--format", "json"),
        told(home, "triage", "-o", "json"),
        told(home, "stats", "-o", "json")["total"],
    ]
    assert [(one["cost_usd"], one["cost_is_estimate"]) for one in everywhere] == [
        (pytest.approx(cost_usd), True)
    ] * 4
    said = f"about ${cost_usd:.4f}"
    assert said in ran.err
    for command in (["sessions", "show"], ["export"], ["triage"], ["trace"], ["stats"]):
        assert said in asked(home, *command), command
    assert list(told(home, "stats", "-o", "json")["models"]) == ["anthropic/claude-opus-5-5"]
    assert asked(home, "triage").startswith(f"session {result['session']}: ")


def test_attempts_that_break_off_are_counted_and_limited(home: Path) -> None:
    ran, requests = run(home, [CUT] * 6, "--max-cost", "0.036", "-o", "json")
    (result,) = ran.events
    assert (ran.code, result["ending"]) == (6, "cost_limit")
    assert 1 <= requests < 6
    assert result["usage"]["input"] == 1500 * requests
    assert result["cost_is_estimate"] is True
    assert f"about ${result['cost_usd']:.4f} is spent" in result["error"]["message"]
    broken = f"0 requests, {requests} attempt{'s' * (requests != 1)} broken off"
    assert broken in ran.err
    assert broken in asked(home, "trace")


def test_retry_is_announced_in_one_sentence(home: Path) -> None:
    ran, _ = run(home, [CUT, anthropic.says("Done.")])
    (line,) = [line for line in ran.err.splitlines() if "retrying" in line]
    words = line.partition("] ")[2]
    assert words.startswith(
        "the connection was closed in the middle of the answer (dropping 48 characters): "
        "retrying in "
    )
    assert words.endswith(" s, attempt 2 of 6")


def test_denial_names_its_remedy_once(home: Path) -> None:
    edit = {"path": "a.txt", "old_string": "one", "new_string": "two"}
    replies = [anthropic.calls(anthropic.call("c1", "edit_file", edit)), anthropic.says("No.")]
    ran, _ = run(home, replies)
    assert ran.err.count("--allow") == 1
    assert "  fix: --allow 'edit(./a.txt)'\n" in ran.err


def test_one_request_is_one_request(home: Path) -> None:
    ran, _ = run(home, [READ], "--max-turns", "1")
    assert "error: the limit of 1 request is reached" in ran.err
    stats = asked(home, "stats")
    assert re.search(r"        1 call\b(?!s)", stats)  # a slow one has a bar behind it
    assert " 1 request\n" in stats


def test_interrupted_reply_keeps_the_cost_of_a_session_known(tmp_path: Path) -> None:
    with live(tmp_path, [says("Hello."), STALLED, says("Again.")]) as session:
        term = session.term
        term.ready()
        term.send("first")
        term.wait("Hello.")
        term.send("second")
        term.wait("eight nine")
        term.key("escape")
        term.wait("interrupted")
        term.wait("about $0.0")
        term.send("/cost")
        term.wait("1512 (20 % cached)")
        term.wait("about $0.00")
        assert "not known" not in "\n".join(term.screen())


def test_limit_of_a_session_holds_over_all_its_processes(home: Path) -> None:
    dear = anthropic.events([anthropic.text("Done.")], final_usage={"output_tokens": 24_500})
    limited = ("--max-cost", "1", "-o", "json", "go")
    with Provider([stream(sse(dear))] * 5) as provider:
        ran = [
            run_against(provider, *flags, home=home, cwd=home.parent / "work")
            for flags in (limited, *[(*limited, "--continue")] * 4)
        ]
    assert [one.code for one in ran] == [0, 0, 6, 6, 6]
    spent_usd = sum(one.events[-1]["cost_usd"] for one in ran)
    assert 0 < spent_usd < 1
    message = ran[-1].events[-1]["error"]["message"]
    assert f"the limit of $1 is reached: ${spent_usd:.4f} is spent in this session" in message


def test_child_that_was_killed_with_its_parent_counts_in_the_resumed_session(home: Path) -> None:
    delegate = anthropic.calls(anthropic.call("c1", "delegate", {"task": "find it"}))
    with (
        Provider([delegate, READ, STALLED, anthropic.says("Done.")]) as provider,
        subprocess.Popen(
            [PROGRAM, "run", "--model", "opus", "go"],
            cwd=home.parent / "work",
            env=environment(home, **using(provider)),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        ) as process,
    ):
        assert provider.stalled.wait(30)
        process.kill()
        process.wait(30)
        flags = ("--continue", "--max-tokens", "1000000", "-o", "json")
        ran = run_against(provider, *flags, "go", home=home, cwd=home.parent / "work")
    assert ran.code == 0, ran.err
    usage = told(home, "sessions", "show", "--json")["usage"]
    assert (usage["input"], usage["output"]) == (3 * 12, 3 * 34)
    assert agentcli("audit", "verify", session_log(home), home=home).code == 0
