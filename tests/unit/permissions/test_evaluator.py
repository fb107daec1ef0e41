import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from agentcli.permissions.evaluator import ModelEvaluator
from agentcli.permissions.hooks import Hook
from agentcli.permissions.judge import EvaluationRequest
from agentcli.types.errors import ProviderError, ProviderErrorKind
from agentcli.types.messages import Text, ToolCall, UserMessage
from agentcli.types.tools import Effect
from agentcli.types.verdicts import Mode, Verdict
from tests.support.session import ListWire, Reply, call, reply
from tests.unit.permissions.court import YES, Person, court_of

ASKS = Verdict(decision="ask", by="evaluator", reason="rule judge bash wants it", rule="judge bash")


def _opinion(answer: Reply | str, command: str = "make") -> tuple[Verdict, ListWire]:
    wire = ListWire([reply(answer) if isinstance(answer, str) else answer])
    matter = EvaluationRequest(
        call=ToolCall(id="1", name="bash", input={"command": command}),
        effect=Effect.EXECUTE,
        workspace="/w",
        mode="ask",
        verdict=ASKS,
    )
    evaluator = ModelEvaluator(
        wire, model="m", session="s", clean=lambda text: text.replace("hunter2", "***")
    )
    return asyncio.run(evaluator(matter)), wire


def _says(decision: Any, **more: Any) -> str:
    return json.dumps({"decision": decision, "reason": "why", **more})


@pytest.mark.parametrize("decision", ["allow", "ask", "deny"])
def test_opinion_is_the_verdict_with_the_rule_that_wanted_it(decision: str) -> None:
    verdict, _ = _opinion(_says(decision))

    assert (verdict.decision, verdict.by, verdict.rule) == (decision, "evaluator", "judge bash")
    assert verdict.reason == f"m says {decision}: why (rule judge bash wants it)"


def test_model_is_told_the_call_alone_without_tools_and_secrets() -> None:
    _, wire = _opinion(_says("allow"), "make hunter2")

    (request,) = wire.requests
    (message,) = request.messages
    assert isinstance(message, UserMessage)
    (told,) = message.content
    assert isinstance(told, Text)
    assert request.tools == ()
    assert json.loads(told.text) == {
        "workspace": "/w",
        "mode": "ask",
        "tool": "bash",
        "effect": "execute",
        "arguments": {"command": "make ***"},
    }


def test_answer_may_stand_in_a_fence() -> None:
    assert _opinion(f"```json\n{_says('allow')}\n```")[0].decision == "allow"


@pytest.mark.parametrize(
    "answer",
    [
        "",
        "allow",
        '"allow"',
        '["allow"]',
        f"Sure! {_says('allow')}",
        f"{_says('allow')} {_says('allow')}",
        _says("yes"),
        _says(True),
        _says(["allow"]),
        _says("allow", sure=True),
        '{"decision": "allow"}',
        '{"decision": "allow", "reason": 3}',
        '{"decision": "deny", "decision": "allow", "reason": "x"}',
        "[" * 100_000,
        reply(_says("allow"), stop="length"),
        reply(_says("allow"), call("bash", command="rm")),
        ProviderError("no network", kind=ProviderErrorKind.UNAVAILABLE),
    ],
)
def test_nonsense_and_failure_ask(answer: Reply | str) -> None:
    verdict, _ = _opinion(answer)

    assert (verdict.decision, verdict.by) == ("ask", "evaluator")
    assert verdict.reason.startswith("m gave no decision: ")


def test_call_that_is_too_long_is_not_even_sent() -> None:
    verdict, wire = _opinion(_says("allow"), "x" * 20_000)

    assert (verdict.decision, wire.requests) == ("ask", [])


def test_words_of_the_model_are_bounded_and_clean() -> None:
    long = json.dumps({"decision": "deny", "reason": "\x1b[2Jhunter2 " + "x" * 9000})

    verdict, _ = _opinion(long)

    assert verdict.reason.startswith("m says deny: *** xxx")
    assert len(verdict.reason) < 500


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path.resolve()


def _judge(decision: str) -> ModelEvaluator:
    return ModelEvaluator(ListWire([reply(_says(decision))]), model="m", session="s")


def test_judge_rule_lets_the_model_decide_in_every_direction(root: Path) -> None:
    modes: tuple[Mode, ...] = ("ask", "auto")
    for mode in modes:
        for decision, expected in (("allow", "allow"), ("deny", "deny"), ("ask", "deny")):
            court = court_of(root, mode=mode, judged=("bash(make:*)",), opinion=_judge(decision))
            assert court.hear("bash", command="make").decision == expected


def test_model_cannot_lift_deny_ask_or_plan(root: Path) -> None:
    wire = ListWire([])
    opinion = ModelEvaluator(wire, model="m", session="s")
    courts = [
        court_of(root, judged=("bash",), opinion=opinion, deny=("bash(make:*)",)),
        court_of(root, judged=("bash",), opinion=opinion, ask=("bash(make:*)",)),
        court_of(root, judged=("bash",), opinion=opinion, mode="plan"),
    ]

    assert [court.hear("bash", command="make").decision for court in courts] == ["deny"] * 3
    assert wire.requests == []


def test_model_cannot_lift_what_a_hook_asks_about(root: Path) -> None:
    hook = Hook(event="PreToolUse", command="exit 1")
    wire = ListWire([])
    court = court_of(
        root, judged=("bash",), opinion=ModelEvaluator(wire, model="m", session="s"), hooks=(hook,)
    )

    assert court.hear("bash", command="make").decision == "deny"
    assert wire.requests == []


def test_model_cannot_free_commands_where_nothing_confines_them(root: Path) -> None:
    court = court_of(root, judged=("bash",), opinion=_judge("allow"), is_confined=False)

    assert court.hear("bash", command="make").decision == "deny"


def test_model_that_wants_to_ask_has_a_person_asked_with_its_reason(root: Path) -> None:
    person = Person([YES])
    court = court_of(root, mode="auto", judged=("bash",), opinion=_judge("ask"), person=person)

    assert court.hear("bash", command="make") == YES
    assert person.questions[0].verdict.by == "evaluator"
    assert "m says ask: why" in person.questions[0].verdict.reason


def test_judge_rule_without_a_model_asks(root: Path) -> None:
    verdict = court_of(root, mode="auto", judged=("bash",)).hear("bash", command="make")

    assert (verdict.decision, verdict.by) == ("deny", "nobody")
    assert "asks a model to decide" in verdict.reason
