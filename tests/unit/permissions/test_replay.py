from dataclasses import replace
from pathlib import Path
from typing import cast

from agentcli.permissions.decide import CommandConditions, PolicyDecider
from agentcli.permissions.readonly import ReadProver
from agentcli.permissions.replay import (
    DeciderOf,
    PastCall,
    RuleProposal,
    judge_again,
    propose_rules,
)
from agentcli.permissions.rules import RuleDecision, parse_rule
from agentcli.types.messages import ToolCall
from agentcli.types.tools import Effect
from agentcli.types.verdicts import By, Decision, Verdict

ROOT = Path("/nowhere/workspace")


def past(command: str, decision: Decision = "allow", by: By = "user") -> PastCall:
    return PastCall(
        session="s",
        at="2026-01-01T00:00:00.000Z",
        call=ToolCall(id="1", name="bash", input={"command": command}),
        effect=Effect.EXECUTE,
        verdict=Verdict(decision=decision, by=by, reason="so"),
        mode="ask",
        workspace=ROOT,
        cwd=ROOT,
    )


def with_rules(*texts: str) -> DeciderOf:
    rules = [
        parse_rule(text, cast(RuleDecision, decision), source="user")
        for decision, text in (one.split(" ", 1) for one in texts)
    ]

    def decider_of(one: PastCall) -> PolicyDecider:
        prover = ReadProver(
            workspace=ROOT, resolve=lambda name: Path("/usr/bin", name), cwd=lambda: ROOT
        )
        return PolicyDecider(
            rules=rules, find_conditions=lambda: CommandConditions(prover=prover, is_confined=True)
        )

    return decider_of


def differing(pasts: list[PastCall], *rules: str) -> list[tuple[str, str, str]]:
    return [
        (cast("dict[str, str]", one.past.call.input)["command"], one.past.was, one.would.decision)
        for one in judge_again(pasts, with_rules(*rules))
        if one.differs
    ]


def test_only_what_would_be_judged_otherwise_differs() -> None:
    pasts = [past("make"), past("ls", by="mode"), past("git push", "deny", "rule"), past("pytest")]

    assert differing(pasts, "deny bash(git push:*)") == []
    assert differing(pasts, "allow bash(pytest:*)", "deny bash(ls:*)") == [
        ("ls", "allow", "deny"),
        ("git push", "deny", "ask"),
        ("pytest", "ask", "allow"),
    ]


def test_rule_for_an_effect_goes_by_the_effect_that_was_recorded() -> None:
    pasts = [past("make"), replace(past("ls", by="mode"), effect=Effect.READ)]
    assert differing(pasts, "deny effect(execute)") == [("make", "ask", "deny")]


def test_what_a_hook_decided_differs_only_where_a_rule_denies_it_now() -> None:
    pasts = [past("make", "allow", "hook"), past("npm test", "deny", "hook")]

    assert differing(pasts) == []
    assert differing(pasts, "allow bash(npm test:*)") == []
    assert differing(pasts, "deny bash(make:*)") == [("make", "allow", "deny")]


def found(pasts: list[PastCall], *rules: str) -> list[RuleProposal]:
    decider_of = with_rules(*rules)
    return propose_rules(judge_again(pasts, decider_of), decider_of)


def test_rule_that_spares_most_questions_comes_first() -> None:
    pasts = [past("pytest -q"), past("git commit -m x"), past("pytest"), past("pytest && ls")]

    assert found(pasts) == [
        RuleProposal(("bash(pytest:*)",), 3),
        RuleProposal(("bash(git commit:*)",), 1),
    ]
    assert found(pasts, "allow bash(pytest:*)") == [RuleProposal(("bash(git commit:*)",), 1)]


def test_rule_that_would_admit_a_refused_call_is_not_suggested() -> None:
    pasts = [past("git push origin a"), past("git push -f", "deny"), past("make x")]

    assert found(pasts) == [RuleProposal(("bash(make x:*)",), 1)]


def test_unanswered_question_is_no_refusal() -> None:
    assert found([past("pytest", "deny", "nobody")]) == [RuleProposal(("bash(pytest:*)",), 1)]


def test_line_that_no_rule_can_allow_gets_no_suggestion() -> None:
    assert found([past("echo $(date) > x")]) == []
