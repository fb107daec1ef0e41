from pathlib import Path

import pytest

from agentcli.permissions.decide import CommandConditions, PolicyDecider
from agentcli.permissions.readonly import ReadProver
from agentcli.permissions.rules import RuleDecision, RuleError, parse_rule
from agentcli.permissions.subject import CallSubject, SubjectFactory
from agentcli.permissions.suggest import suggest_rules
from agentcli.types.grants import NO_GRANTS
from agentcli.types.tools import Effect
from agentcli.types.verdicts import Mode, Verdict

Rules = list[tuple[RuleDecision, str]]


def build(root: Path, rules: Rules, url: str) -> tuple[PolicyDecider, CallSubject]:
    made = [parse_rule(text, decision, source="user") for decision, text in rules]
    prover = ReadProver(
        workspace=root, resolve=lambda name: Path("/usr/bin", name), cwd=lambda: root
    )
    subjects = SubjectFactory(workspace=root, cwd=lambda: root)
    decider = PolicyDecider(
        rules=made, find_conditions=lambda: CommandConditions(prover=prover, is_confined=True)
    )
    return decider, subjects.build("web_fetch", {"url": url}, effect=Effect.NETWORK)


def decide(root: Path, rules: Rules, url: str, mode: Mode = "ask") -> Verdict:
    decider, subject = build(root, rules, url)
    return decider.decide(subject, mode=mode)


@pytest.mark.parametrize("mode", ["plan", "ask", "auto-edit", "auto"])
def test_page_is_asked_about_in_every_mode_and_allowed_by_a_rule(
    mode: Mode, tmp_path: Path
) -> None:
    url = "https://docs.x.org/a"
    asked = decide(tmp_path, [], url, mode)
    assert (asked.decision, asked.by) == ("ask", "mode")
    assert asked.reason == "no rule allows pages of docs.x.org"
    assert decide(tmp_path, [("allow", "web(docs.x.org)")], url, mode).decision == "allow"


@pytest.mark.parametrize(
    ("rule", "url", "is_allowed"),
    [
        ("web(docs.x.org)", "https://docs.x.org/", True),
        ("web(docs.x.org)", "http://docs.x.org/", True),
        ("web(docs.x.org)", "https://DOCS.X.ORG./", True),
        ("web(docs.x.org)", "https://docs.x.org:8443/", False),
        ("web(docs.x.org:8443)", "https://docs.x.org:8443/", True),
        ("web(docs.x.org)", "https://docs.x.org.evil.org/", False),
        ("web(docs.x.org)", "https://x.org/", False),
        ("web(*.x.org)", "https://docs.x.org/", True),
        ("web(*.x.org)", "https://x.org/", False),
        ("web(python)", "https://pypi.org/project/a/", True),
        ("network(docs.x.org)", "https://docs.x.org/", True),
        ("web", "https://any.host.org/", True),
        ("web_fetch", "https://any.host.org/", True),
        ("web", "http://localhost/", False),
        ("web", "http://dev.localhost:8000/", False),
        ("web", "http://127.0.0.1/", False),
        ("web", "http://169.254.169.254/", False),
        ("web", "http://10.1.2.3/", False),
        ("web", "http://[::1]/", False),
        ("web", "http://93.184.216.34/", True),
        ("web(localhost:8000)", "http://localhost:8000/", True),
        ("web(10.1.2.3)", "http://10.1.2.3/", True),
        ("bash", "https://docs.x.org/", False),
        ("read(**)", "https://docs.x.org/", False),
    ],
)
def test_rule_allows_pages_of_its_hosts_alone(
    rule: str, url: str, is_allowed: bool, tmp_path: Path
) -> None:
    verdict = decide(tmp_path, [("allow", rule)], url)
    assert (verdict.decision == "allow") == is_allowed


@pytest.mark.parametrize(
    "rule", ["web", "web(docs.x.org)", "network(*.x.org)", "web_fetch", "effect(network)"]
)
@pytest.mark.parametrize("decision", ["deny", "ask"])
def test_deny_and_ask_win_over_allow_whatever_the_port(
    rule: str, decision: RuleDecision, tmp_path: Path
) -> None:
    allowed: tuple[RuleDecision, str] = ("allow", "web(docs.x.org:8443)")
    verdict = decide(tmp_path, [allowed, (decision, rule)], "https://docs.x.org:8443/")
    assert (verdict.decision, verdict.by) == (decision, "rule")


def test_rule_for_pages_gives_commands_nothing(tmp_path: Path) -> None:
    decider, _ = build(tmp_path, [("allow", "web(docs.x.org)")], "https://docs.x.org/")
    assert decider.decide_host("docs.x.org", 443, NO_GRANTS).decision == "ask"


@pytest.mark.parametrize(
    ("url", "rule"),
    [
        ("https://docs.x.org/a", "web(docs.x.org)"),
        ("http://localhost:8000/", "web(localhost:8000)"),
    ],
)
def test_suggested_rule_names_the_host(url: str, rule: str, tmp_path: Path) -> None:
    decider, subject = build(tmp_path, [], url)
    review = decider.review(subject, mode="auto")
    assert suggest_rules(review).rules == (rule,)
    assert decide(tmp_path, [("allow", rule)], url).decision == "allow"


@pytest.mark.parametrize("text", ["web(*)", "web(https://x.org)", "web(x.org/a)", "web(1.2.3)"])
def test_rule_that_names_no_host_is_refused(text: str) -> None:
    with pytest.raises(RuleError):
        parse_rule(text, "allow", source="user")
