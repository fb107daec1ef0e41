from dataclasses import replace
from pathlib import Path

import pytest

from agentcli.permissions.decide import CommandConditions, PolicyDecider
from agentcli.permissions.explain import Explanation, explain, parse_query
from agentcli.permissions.policy import (
    load_rules,
    parse_option_rules,
    parse_rule_tables,
    store_rule,
)
from agentcli.permissions.readonly import ReadProver
from agentcli.permissions.rules import PermissionRule, RuleError
from agentcli.permissions.subject import SubjectFactory
from agentcli.types.errors import SettingsError, UsageError
from agentcli.types.tools import Effect

GOOD = """
# mine
[[rule]]
decision = "allow"
rule = "bash(pytest:*)"
match = ["pytest -q", "pytest -q && pytest -x"]
not_match = ["pytest; rm x", "pytest $(x)", "env pytest"]

[[rule]]
decision = "deny"
rule = "bash(git push:*)"
match = ["git push", "env git push"]
not_match = ["git pull"]

[[rule]]
decision = "ask"
rule = "edit(**/.env*)"
match = [".env", "a/.env.local"]
not_match = ["env.py"]
reason = "has keys"

[[rule]]
decision = "allow"
rule = "mcp(github:get_*)"
match = ["github:get_issue"]
not_match = ["github:close", "other:get_issue"]
"""


@pytest.fixture
def rules_file(tmp_path: Path) -> Path:
    return tmp_path / "rules.toml"


def test_rules_know_where_they_stand(rules_file: Path) -> None:
    rules_file.write_text(GOOD)

    rules = load_rules(rules_file, source="user")

    assert [(str(rule), rule.source, rule.where) for rule in rules] == [
        ("allow bash(pytest:*)", "user", f"{rules_file}:3"),
        ("deny bash(git push:*)", "user", f"{rules_file}:9"),
        ("ask edit(**/.env*)", "user", f"{rules_file}:15"),
        ("allow mcp(github:get_*)", "user", f"{rules_file}:22"),
    ]


def test_missing_file_has_no_rules_unless_it_was_asked_for(rules_file: Path) -> None:
    assert load_rules(rules_file, source="user") == ()
    with pytest.raises(SettingsError, match=r"cannot read the rules in .*rules\.toml"):
        load_rules(rules_file, source="policy", must_exist=True)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[[rule]\n", "is not valid TOML.*line 1"),
        ('[[rules]]\ndecision = "deny"\n', r"has no rules, only \[\[rule\]\]"),
        ('rule = "bash"\n', r"written as \[\[rule\]\] tables"),
        ("rule = [1]\n", r"written as \[\[rule\]\] tables"),
        ('\n[[rule]]\ndecision = "permit"\nrule = "bash"\n', r":2: .*not \"permit\""),
        ('[[rule]]\nrule = "bash"\n', ":1: decision must be allow, ask, deny or judge, not null"),
        ('[[rule]]\ndecision = "deny"\n', ":1: the rule is missing"),
        ('[[rule]]\ndecision = "deny"\nrule = 3\n', ":1: the rule is missing"),
        ('[[rule]]\ndecision = "deny"\nrule = "bsh"\n', ":1: .*Did you mean bash"),
        ('[[rule]]\ndecision = "deny"\nrule = "bash"\nmatches = []\n', "Did you mean match"),
        ('[[rule]]\ndecision = "deny"\nrule = "bash"\nmatch = "x"\n', "match must be a list"),
        (
            '[[rule]]\ndecision = "deny"\nrule = "bash(rm:*)"\nmatch = ["ls"]\n',
            ":1: deny bash.rm:.. does not match its own example 'ls' in match",
        ),
        (
            '[[rule]]\ndecision = "allow"\nrule = "bash(ls:*)"\nnot_match = ["ls -l"]\n',
            "matches its own example 'ls -l' in not_match",
        ),
        ('[[rule]]\ndecision = "allow"\nrule = "bash(env:*)"\n', "env runs whatever follows"),
    ],
)
def test_broken_file_is_refused_with_its_line(text: str, message: str, rules_file: Path) -> None:
    rules_file.write_text(text)

    with pytest.raises(SettingsError, match=message) as caught:
        load_rules(rules_file, source="user")

    assert str(rules_file) in str(caught.value)
    assert caught.value.hint


def test_unreadable_file_is_refused(rules_file: Path) -> None:
    rules_file.write_bytes(b"\xff\xfe")
    with pytest.raises(SettingsError, match="cannot read the rules"):
        load_rules(rules_file, source="user")


def test_project_file_may_not_allow(rules_file: Path) -> None:
    rules_file.write_text('[[rule]]\ndecision="deny"\nrule="bash(a:*)"\n' + GOOD)

    with pytest.raises(SettingsError, match=r"rules\.toml:6: a project may only add ask and deny"):
        load_rules(rules_file, source="project")


def test_rules_may_stand_in_a_settings_file(rules_file: Path) -> None:
    document = {"model": "x", "rule": [{"decision": "deny", "rule": "bash"}]}

    rules = parse_rule_tables(
        document, "model = 'x'\n[[rule]]\n", path=rules_file, source="project"
    )

    assert [rule.where for rule in rules] == [f"{rules_file}:2"]


def test_options_become_rules() -> None:
    rules = parse_option_rules(allow=["edit", "bash(pytest:*)"], deny=["bash(git push:*)"])

    assert [(str(rule), rule.where) for rule in rules] == [
        ("deny bash(git push:*)", "--deny"),
        ("allow edit", "--allow"),
        ("allow bash(pytest:*)", "--allow"),
    ]
    with pytest.raises(UsageError, match=r"--allow bash.xargs:.*runs whatever follows it"):
        parse_option_rules(allow=["bash(xargs:*)"])
    with pytest.raises(UsageError, match=r"--deny .*is not a rule"):
        parse_option_rules(deny=["bash(("])


def test_stored_rule_is_loaded_again_and_stored_once(tmp_path: Path) -> None:
    path = tmp_path / "new/rules.toml"
    for text in ("bash(pytest:*)", "bash(git commit -m 'a \"b\"')", "bash(pytest:*)", "edit(é/**)"):
        store_rule(path, text)

    assert [rule.text for rule in load_rules(path, source="user")] == [
        "bash(pytest:*)",
        "bash(git commit -m 'a \"b\"')",
        "edit(é/**)",
    ]
    with pytest.raises(RuleError):
        store_rule(path, "bash(env:*)")


def test_reason_of_a_rule_is_one_short_line(rules_file: Path) -> None:
    rules_file.write_text(
        '[[rule]]\ndecision = "deny"\nrule = "edit(gen/**)"\nreason = """made by\n  make"""\n'
        f'[[rule]]\ndecision = "deny"\nrule = "edit(x)"\nreason = "{"long" * 100}"\n'
    )
    made, long = (rule.reason for rule in load_rules(rules_file, source="user"))
    assert (made, len(long)) == ("made by make", 200)


def test_storing_keeps_what_the_file_says(rules_file: Path) -> None:
    rules_file.write_text(GOOD.rstrip())
    store_rule(rules_file, "bash(make:*)")

    text = rules_file.read_text()

    assert text.startswith(GOOD.rstrip())
    assert [rule.text for rule in load_rules(rules_file, source="user")][-1] == "bash(make:*)"


def test_rule_that_holds_at_times_does_not_stand_for_one_that_always_does(tmp_path: Path) -> None:
    path = tmp_path / "rules.toml"
    path.write_text('[[rule]]\ndecision = "deny"\nrule = "bash(git push:*)"\nwhen = "untrusted"\n')
    store_rule(path, "bash(git push:*)", decision="deny")
    store_rule(path, "bash(git push:*)", decision="deny")
    assert [rule.when for rule in load_rules(path, source="user")] == ["untrusted", "always"]


@pytest.mark.parametrize(
    ("query", "command"),
    [
        ("bash: { rm x; }", "{ rm x; }"),
        ('bash: {"command": "ls"}', "ls"),
        ('bash: { "command": "ls" }', "ls"),
    ],
)
def test_group_of_a_shell_is_no_json(query: str, command: str) -> None:
    assert parse_query(query) == ("bash", {"command": command})


def explain_query(root: Path, query: str, *rules: PermissionRule) -> Explanation:
    prover = ReadProver(
        workspace=root, resolve=lambda name: Path("/usr/bin", name), cwd=lambda: root
    )
    return explain(
        *parse_query(query),
        decider=PolicyDecider(
            rules=rules, find_conditions=lambda: CommandConditions(prover=prover, is_confined=True)
        ),
        subjects=SubjectFactory(workspace=root, cwd=lambda: root),
        mode="ask",
    )


def test_explanation_tells_verdict_and_what_would_allow_it(tmp_path: Path) -> None:
    def explained(query: str, *rules: PermissionRule) -> tuple[str, str, tuple[str, ...]]:
        answer = explain_query(tmp_path.resolve(), query, *rules)
        rule_texts = answer.suggestion.rules if answer.suggestion else ()
        return answer.verdict.decision, answer.verdict.reason, rule_texts

    deny = parse_option_rules(deny=["bash(git push:*)"])
    assert explained("bash: git push") == ("ask", "no rule allows git push", ("bash(git push:*)",))
    assert explained("bash: git push", *deny) == (
        "deny",
        "rule deny bash(git push:*) (--deny) forbids it",
        (),
    )
    with_reason = [replace(one, reason="a colleague pushes") for one in deny]
    assert explained("bash: git push", *with_reason)[1].endswith("forbids it: a colleague pushes")
    assert explained("bash: ls -l | wc -l") == ("allow", "ask mode allows reading", ())
    assert explained("edit_file: src/a.py") == (
        "ask",
        "edits need your OK in ask mode",
        ("edit(src/**)",),
    )
    assert explained("read_file: src/a.py") == ("allow", "ask mode allows reading", ())


@pytest.mark.parametrize(
    ("query", "effect"),
    [
        ("write_file: a.py", "write"),
        ("apply_patch: a.py", "write"),
        ("grep: src", "read"),
        ("bash: make", "execute"),
        ("bash: ls -l", "read"),
        ('bash: {"command": "ls -l", "background": true}', "execute"),
        ("bash: cd src && ls", "execute"),
        ("web_fetch: https://docs.example.org/", "network"),
        ("web_search: x", "network"),
        ("mcp__hub__get: ", "execute"),
    ],
)
def test_explanation_goes_by_rules_for_effects(query: str, effect: str, tmp_path: Path) -> None:
    denying = []
    for one in Effect:
        (rule,) = parse_option_rules(deny=[f"effect({one})"])
        if explain_query(tmp_path.resolve(), query, rule).verdict.decision == "deny":
            denying.append(one.value)
    assert denying == [effect]


@pytest.mark.parametrize("query", ["git push", "bash:", "frob: x", ""])
def test_query_that_is_no_call_is_refused(query: str) -> None:
    with pytest.raises(UsageError):
        parse_query(query)
