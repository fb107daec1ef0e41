import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from types import FrameType
from typing import Any

import pytest

from agentcli.features.insights.finding import Level, TriageCase, TriageFinding
from agentcli.features.insights.trace import build_trace
from agentcli.features.insights.triage import CHECKS, run_checks
from agentcli.tools.contracts import load_spec
from agentcli.types.checks import AnswerChecked, Claim, ClaimsChecked, Verified
from agentcli.types.errors import Ending
from agentcli.types.events import (
    CallFinished,
    CallJudged,
    Compacted,
    Entry,
    Fact,
    HookRan,
    ModelFailed,
    ModelReplied,
    ResultsTrimmed,
    SessionEnded,
    SessionStarted,
    TurnEnded,
    TurnStarted,
    Warned,
)
from agentcli.types.messages import AssistantMessage, Json, Stop, Text, ToolCall, Usage, UserMessage
from agentcli.types.own_tools import BUILT_IN
from agentcli.types.tools import (
    Command,
    Details,
    Effect,
    ErrorKind,
    FileView,
    Matches,
    ToolResult,
)
from agentcli.types.verdicts import By, Decision, Verdict

STARTED = SessionStarted(
    session="s", version="1", workspace="/w", model="m/n", mode="auto", tools=(), tools_sha256=""
)
ASKED = TurnStarted(message=UserMessage(content=(Text(text="go"),)))
DONE: list[Fact] = [TurnEnded(ending=Ending.DONE), SessionEnded(exit_code=0)]


def replied(
    *calls: ToolCall,
    stop: Stop = "end",
    usage: Usage | None = None,
    cost_usd: float | None = 0.0,
    retries: int = 0,
) -> ModelReplied:
    return ModelReplied(
        message=AssistantMessage(
            content=calls or (Text(text="done"),),
            stop="tool_calls" if calls else stop,
            protocol="test",
            model="m/n",
            usage=usage or Usage(),
        ),
        cost_usd=cost_usd,
        retries=retries,
    )


def a_call(name: str = "read_file", call_id: str = "c1", **given: Json) -> ToolCall:
    return ToolCall(id=call_id, name=name, input=dict(given))


def judged(call: ToolCall, decision: Decision = "allow", by: By = "nobody") -> CallJudged:
    verdict = Verdict(decision=decision, by=by, reason="because")
    return CallJudged(call=call, effect=Effect.READ, verdict=verdict)


def finished(
    call: ToolCall,
    error: ErrorKind | None = None,
    *,
    text: str = "fine",
    truncated: bool = False,
    details: Details | None = None,
    duration_s: float = 0.1,
) -> CallFinished:
    result = ToolResult(
        call_id=call.id,
        name=call.name,
        status="error" if error else "ok",
        content=(Text(text=text),),
        error=error,
        truncated=truncated,
        details=details,
    )
    return CallFinished(result=result, duration_s=duration_s)


def ran(call: ToolCall, **how: Any) -> list[Fact]:
    return [replied(call), judged(call), finished(call, **how)]


def case(facts: Sequence[Fact], **more: Any) -> TriageCase:
    entries = [
        Entry(seq=number, at="2026-01-01T00:00:00.000Z", session="s", parent=None, fact=fact)
        for number, fact in enumerate(facts, start=1)
    ]
    return TriageCase(trace=build_trace(entries), **more)


def found(facts: Sequence[Fact], **more: Any) -> list[tuple[str, Level, int]]:
    return [(one.check, one.level, one.record) for one in run_checks(case(facts, **more))]


def test_good_session_has_no_findings() -> None:
    call = a_call(path="a")
    schemas = {name: load_spec(name).schema for name in BUILT_IN}
    assert found([STARTED, ASKED, *ran(call), replied(), *DONE], schemas=schemas) == []


def test_crash_in_a_turn_is_an_error_and_a_running_session_is_not() -> None:
    call = a_call(path="a")
    cut: list[Fact] = [STARTED, ASKED, replied(call), judged(call)]
    assert found(cut) == [("crash", Level.ERROR, 4), ("unanswered", Level.ERROR, 3)]
    assert found(cut, is_running=True) == [("crash", Level.NOTE, 4)]
    assert found([STARTED, ASKED, replied(), DONE[0]]) == [("crash", Level.WARNING, 4)]


def test_empty_log_is_an_error() -> None:
    assert found([]) == [("crash", Level.ERROR, 0)]


@pytest.mark.parametrize("ending", [one for one in Ending if one is not Ending.DONE])
def test_every_other_ending_than_done_is_told(ending: Ending) -> None:
    facts: list[Fact] = [
        STARTED,
        ASKED,
        replied(),
        TurnEnded(ending=ending),
        SessionEnded(exit_code=1),
    ]
    level = Level.WARNING if ending is Ending.CANCELLED else Level.ERROR
    assert found(facts) == [("ending", level, 4)]


def test_signal_is_told_as_the_ending_of_the_turn_that_it_cancelled() -> None:
    signalled = SessionEnded(exit_code=143, ending=Ending.TERMINATED)
    cut: list[Fact] = [STARTED, ASKED, replied(), TurnEnded(ending=Ending.CANCELLED)]
    assert found([*cut, signalled]) == [("ending", Level.ERROR, 4)]
    assert found([*cut[:3], DONE[0], signalled, *cut[1:], DONE[1]]) == [
        ("ending", Level.WARNING, 8)
    ]


@pytest.mark.parametrize("stop", ["length", "refusal", "error", "overflow"])
def test_reply_that_stopped_early_is_told(stop: Stop) -> None:
    assert found([STARTED, ASKED, replied(stop=stop), *DONE]) == [("stop", Level.WARNING, 3)]


def test_result_that_nobody_asked_for_is_an_error() -> None:
    facts = [STARTED, ASKED, replied(), finished(a_call(call_id="lost")), *DONE]
    assert found(facts) == [("orphan", Level.ERROR, 4)]


def test_second_answer_to_a_call_is_an_error() -> None:
    call = a_call(path="a")
    assert found([STARTED, ASKED, *ran(call), finished(call), *DONE]) == [
        ("orphan", Level.ERROR, 6)
    ]


def test_same_id_in_another_reply_is_another_call() -> None:
    one, other = a_call(path="a"), a_call(path="b")
    assert found([STARTED, ASKED, *ran(one), *ran(other), *DONE]) == []


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "path missing"),
        ({"path": 1}, "path is not of type string"),
        ({"path": "a", "colour": "red"}, "colour unknown"),
        ("{broken", "they are not JSON"),
        ([], "they are not an object"),
    ],
)
def test_arguments_that_do_not_fit_the_schema_are_told(given: Json, words: str) -> None:
    call = ToolCall(id="c1", name="read_file", input=given)
    facts = [STARTED, ASKED, replied(call), finished(call, ErrorKind.INVALID_INPUT), *DONE]
    schemas = {"read_file": load_spec("read_file").schema}
    (finding,) = run_checks(case(facts, schemas=schemas))
    assert (finding.check, finding.level, finding.record) == ("arguments", Level.WARNING, 3)
    assert finding.what.endswith(words)


def test_error_that_a_later_call_made_up_for_is_a_note() -> None:
    failed = ran(a_call(path="a"), error=ErrorKind.FAILED, text="No such file: a.")
    later = ran(a_call(path="b", call_id="c2"))
    assert found([STARTED, ASKED, *failed, *later, *DONE]) == [("error", Level.NOTE, 5)]
    (finding,) = run_checks(case([STARTED, ASKED, *failed, replied(), *DONE]))
    assert (finding.check, finding.level) == ("error", Level.WARNING)
    assert finding.what == "read_file a failed: No such file: a."


def test_unknown_tool_is_told_once() -> None:
    call = a_call("teleport")
    facts = [STARTED, ASKED, replied(call), finished(call, ErrorKind.UNKNOWN_TOOL), *DONE]
    assert found(facts) == [("unknown-tool", Level.WARNING, 3)]


def test_same_call_more_than_three_times_is_told_at_its_first() -> None:
    three = [fact for number in range(3) for fact in ran(a_call(call_id=f"c{number}", path="a"))]
    assert found([STARTED, ASKED, *three, *DONE]) == []
    four = [*three, *ran(a_call(call_id="c9", path="a"))]
    assert found([STARTED, ASKED, *four, *DONE]) == [("repeated", Level.WARNING, 3)]


def test_cut_result_is_told_unless_the_rest_was_read() -> None:
    command = Command(command="make", cwd="/w", log_path="/s/out/1.log")
    cut = ran(a_call("bash", command="make"), truncated=True, details=command)
    assert found([STARTED, ASKED, *cut, replied(), *DONE]) == [("cut", Level.WARNING, 5)]
    rest = ran(a_call("read_file", "c2", path="/s/out/1.log"))
    assert found([STARTED, ASKED, *cut, *rest, *DONE]) == []
    part = ran(a_call(path="a"), truncated=True)
    more = ran(a_call("read_file", "c2", path="a", offset=100))
    assert found([STARTED, ASKED, *part, *more, *DONE]) == []


@pytest.mark.parametrize(
    ("call", "details"),
    [
        (
            a_call(path="a", limit=3),
            FileView(path="a", media="text", size_bytes=9, first_line=5, last_line=7),
        ),
        (
            a_call("grep", pattern="x", limit=2),
            Matches(target="x", path=".", matches=2, files=1, more=True),
        ),
        (
            a_call("find_files", glob="*", max_results=2),
            Matches(target="*", path=".", matches=0, files=2, more=True),
        ),
    ],
)
def test_result_that_is_as_long_as_the_model_asked_is_not_cut(
    call: ToolCall, details: Details
) -> None:
    facts = [STARTED, ASKED, *ran(call, truncated=True, details=details), replied(), *DONE]
    assert found(facts) == []
    assert isinstance(call.input, dict)
    unlimited = replace(call, input={**call.input, "limit": 400, "max_results": 400})
    facts = [STARTED, ASKED, *ran(unlimited, truncated=True, details=details), replied(), *DONE]
    assert found(facts) == [("cut", Level.WARNING, 5)]


def exits(command: str, code: int) -> list[Fact]:
    details = Command(command=command, cwd="/w", exit_code=code)
    return ran(a_call("bash", command=command), details=details)


@pytest.mark.parametrize(
    ("runs", "records"),
    [
        ([("pytest -q", 2)], [5]),
        ([("cd a && CI=1 pytest -q | tail", 1), ("pytest", 0)], []),
        ([("pytest", 0), ("ruff check", 1), ("pytest tests", 4)], [8, 11]),
        ([("python -m pytest", 1), ("python -m mypy", 0)], [5]),
        ([("grep -q x a", 1), ("test -e b", 1), ("diff a b", 1)], []),
        ([("grep x nothing", 2)], [5]),
        ([("", 1)], [5]),
    ],
)
def test_program_whose_last_run_failed_is_told(
    runs: list[tuple[str, int]], records: list[int]
) -> None:
    facts = [fact for command, code in runs for fact in exits(command, code)]
    assert found([STARTED, ASKED, *facts, replied(), *DONE]) == [
        ("command", Level.WARNING, record) for record in records
    ]


@pytest.mark.parametrize(
    ("hidden", "failure"),
    [
        ({"pipe": "pytest 2, tail 0"}, "exit code 0; in the pipe: pytest 2, tail 0"),
        ({"tail": "1 error in 0.50s"}, 'exit code 0, but it printed "1 error in 0.50s"'),
    ],
)
def test_collection_error_behind_exit_code_0_is_told(hidden: Any, failure: str) -> None:
    command = "pytest -q 2>&1 | tail -3"
    details = replace(Command(command=command, cwd="/w", exit_code=0), **hidden)
    facts = ran(a_call("bash", command=command), details=details)
    (finding,) = run_checks(case([STARTED, ASKED, *facts, replied(), *DONE]))
    assert finding.what == f"bash {command} ended with {failure}"


def test_denial_names_the_rule_that_would_allow_it() -> None:
    call = a_call("bash", command="pytest -q")
    denied: list[Fact] = [replied(call), judged(call, "deny"), finished(call, ErrorKind.DENIED)]
    (finding,) = run_checks(case([STARTED, ASKED, *denied, *DONE]))
    assert (finding.check, finding.level) == ("denied", Level.WARNING)
    assert finding.fix == "to allow it: --allow 'bash(pytest:*)'"


def test_denial_names_the_option_that_the_run_named() -> None:
    call = a_call("bash", command="npm test")
    verdict = judged(call, "deny").verdict
    named = replace(verdict, remedy="--allow 'bash(npm test:*)'")
    denial = CallJudged(call=call, effect=Effect.EXECUTE, verdict=named)
    denied: list[Fact] = [replied(call), denial, finished(call, ErrorKind.DENIED)]
    (finding,) = run_checks(case([STARTED, ASKED, *denied, *DONE]))
    assert finding.fix == "to allow it: --allow 'bash(npm test:*)'"


@pytest.mark.parametrize(
    ("by", "fix"),
    [
        ("rule", "to allow it, change the rule that denied it"),
        ("user", "nothing: you decided it"),
        ("mode", "to allow it, leave plan mode: --mode ask"),
    ],
)
def test_denial_that_no_allow_can_lift_says_so(by: By, fix: str) -> None:
    call = a_call("bash", command="rm -rf .")
    denied: list[Fact] = [replied(call), judged(call, "deny", by), finished(call, ErrorKind.DENIED)]
    (finding,) = run_checks(case([STARTED, ASKED, *denied, *DONE]))
    assert finding.fix == fix


def test_call_of_the_same_reply_makes_up_for_nothing() -> None:
    one, other = a_call(path="a"), a_call("read_file", "c2", path="b")
    both: list[Fact] = [replied(one, other), judged(one), judged(other)]
    results = [finished(one, ErrorKind.FAILED), finished(other)]
    assert found([STARTED, ASKED, *both, *results, *DONE]) == [("error", Level.WARNING, 6)]


def test_expected_tool_that_was_not_called_is_an_error() -> None:
    facts = [STARTED, ASKED, *ran(a_call(path="a")), replied(), *DONE]
    assert found(facts, expected_tools=("read_file",)) == []
    assert found(facts, expected_tools=("bash",)) == [("expected", Level.ERROR, 0)]


def test_slowest_calls_come_first_and_few() -> None:
    calls = [
        fact
        for number in range(5)
        for fact in ran(a_call(call_id=f"c{number}", path=str(number)), duration_s=number + 0.5)
    ]
    told = [one.what for one in run_checks(case([STARTED, ASKED, *calls, *DONE]))]
    assert told == ["read_file 4 took 4.5 s", "read_file 3 took 3.5 s", "read_file 2 took 2.5 s"]


def test_cost_by_turn_names_the_dearest_first() -> None:
    cheap, dear = replied(cost_usd=0.25), replied(cost_usd=0.75)
    facts = [STARTED, ASKED, cheap, DONE[0], ASKED, dear, *DONE]
    assert [one.what for one in run_checks(case(facts))] == [
        "turn 2 cost $0.7500 (75% of $1.0000): 1 request",
        "turn 1 cost $0.2500 (25% of $1.0000): 1 request",
    ]


def test_many_uncached_tokens_are_told() -> None:
    reply = replied(usage=Usage(input_tokens=5_000))
    assert found([STARTED, ASKED, reply, reply, *DONE]) == []
    assert found([STARTED, ASKED, reply, reply, reply, *DONE]) == [("no-cache", Level.NOTE, 3)]


@pytest.mark.parametrize(
    ("fact", "check", "level"),
    [
        (Warned(code="cache.missed", message="the tools changed"), "cache", Level.WARNING),
        (Warned(code="model.unknown", message="no price"), "warned", Level.NOTE),
        (replied(retries=2), "retry", Level.NOTE),
        (ModelFailed(kind="rate_limited", message="429"), "request", Level.WARNING),
        (HookRan(hook="lint", decision="failed", reason="exit 1"), "hook", Level.WARNING),
        (Compacted(summary="…", tokens_before=9000), "shortened", Level.NOTE),
        (ResultsTrimmed(results=(), freed_tokens=500), "shortened", Level.NOTE),
        (Verified(command="pytest", exit_code=1, output=""), "verify", Level.ERROR),
        (AnswerChecked(problem="no field x"), "verify", Level.ERROR),
        (
            ClaimsChecked(
                claims=(
                    Claim(text="tests pass", about="tests", verdict="not_supported", evidence="no"),
                )
            ),
            "claim",
            Level.WARNING,
        ),
    ],
)
def test_fact_is_told_by_its_check(fact: Fact, check: str, level: Level) -> None:
    assert found([STARTED, ASKED, fact, *DONE]) == [(check, level, 3)]


def test_most_important_comes_first() -> None:
    facts: list[Fact] = [
        STARTED,
        Warned(code="model.unknown", message="no price"),
        ASKED,
        replied(stop="length"),
        TurnEnded(ending=Ending.LENGTH),
        SessionEnded(exit_code=6),
    ]
    assert [level for _, level, _ in found(facts)] == [Level.ERROR, Level.WARNING, Level.NOTE]


def test_every_finding_says_what_why_and_what_to_do() -> None:
    call = a_call("bash", command="x" * 500 + "\x1b[31m\n")
    denied: list[Fact] = [replied(call), judged(call, "deny"), finished(call, ErrorKind.DENIED)]
    told: list[TriageFinding] = run_checks(case([STARTED, ASKED, *denied]))
    assert told
    for finding in told:
        assert finding.check in CHECKS
        for words in (finding.what, finding.why, finding.fix):
            assert words and "\x1b" not in words and "\n" not in words and len(words) < 400
    json.dumps([finding.what for finding in told])


def build_long_session(turns: int) -> list[Fact]:
    """Return turns in which calls fail, are repeated and cut."""
    facts: list[Fact] = [STARTED]
    for turn in range(turns):
        own = (
            a_call("bash", f"a{turn}", command=f"pytest {turn}"),
            a_call("edit_file", f"b{turn}", path=f"f{turn}"),
            a_call("read_file", f"c{turn}", path="same"),
        )
        failed = Command(command="pytest", cwd="/w", exit_code=1, duration_s=0.1)
        facts += [ASKED, replied(*own, retries=turn % 2), *map(judged, own)]
        facts += [
            finished(own[0], details=failed),
            finished(own[1], ErrorKind.FAILED),
            finished(own[2], truncated=True),
            TurnEnded(ending=Ending.DONE),
        ]
    return [*facts, SessionEnded(exit_code=0)]


def count_calls(given: TriageCase) -> int:
    calls = 0

    def count(frame: FrameType, event: str, of: object) -> None:
        nonlocal calls
        calls += 1

    sys.setprofile(count)
    try:
        run_checks(given)
    finally:
        sys.setprofile(None)
    return calls


def test_work_grows_with_the_session_and_not_with_its_square() -> None:
    short, long = (count_calls(case(build_long_session(turns))) for turns in (50, 400))
    assert long < 10 * short
