from dataclasses import replace
from pathlib import Path
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from agentcli.permissions.decide import CommandConditions, PolicyDecider
from agentcli.permissions.readonly import ReadProver
from agentcli.permissions.rules import DECISIONS, PermissionRule, Source, parse_rule
from agentcli.permissions.shell import PlainLine
from agentcli.permissions.subject import CallSubject, SubjectFactory
from agentcli.types.tools import Effect
from agentcli.types.verdicts import MODES, Mode
from tests.property.test_shell import LINES
from tests.support.examples import examples
from tests.unit.permissions import work

ROOT = Path("/workspace")
SUBJECTS = SubjectFactory(workspace=ROOT, cwd=lambda: ROOT, real_path=lambda path: path)
PROVER = ReadProver(workspace=ROOT, resolve=lambda name: Path("/usr/bin", name), cwd=lambda: ROOT)

_TEXTS = [
    *["bash", "bash(git push:*)", "bash(git:*)", "bash(pytest:*)", "bash(rm:*)", "bash(make lint)"],
    *["edit", "edit(src/**)", "edit(**/.env*)", "write_file(a.py)", "read", "read(src/**)"],
    *["mcp", "mcp(x)", "mcp(x:y)", "edit_file", "delegate"],
]
_SOURCES: list[Source] = ["user", "policy", "command line", "session"]


def _parsed(text: str, decision: int, source: Source) -> PermissionRule:
    return parse_rule(text, DECISIONS[decision], source=source)


RULES = st.builds(_parsed, st.sampled_from(_TEXTS), st.integers(0, 2), st.sampled_from(_SOURCES))
_KNOWN = st.one_of(
    st.sampled_from(
        ["git push", "git push -f", "pytest -q; git push", "rm x", "ls", "make lint", "$x", "make"]
    ).map(lambda line: SUBJECTS.build("bash", {"command": line}, effect=Effect.EXECUTE)),
    st.tuples(
        st.sampled_from(["edit_file", "write_file", "read_file"]),
        st.sampled_from(["a.py", "src/b.py", ".env", "../x", "src/../.env"]),
    ).map(lambda pair: SUBJECTS.build(pair[0], {"path": pair[1]}, effect=Effect.WRITE)),
    st.sampled_from(["y", "z"]).map(
        lambda tool: SUBJECTS.build(tool, {}, effect=Effect.READ, source="mcp x")
    ),
)
SUBJECT = st.builds(replace, _KNOWN, effect=st.sampled_from(list(Effect)))


def _decision(rules: list[PermissionRule], subject: CallSubject, mode: Mode) -> str:
    decider = PolicyDecider(
        rules=rules, find_conditions=lambda: CommandConditions(prover=PROVER, is_confined=True)
    )
    return decider.decide(subject, mode=mode).decision


@examples(200)
@given(st.lists(RULES, max_size=8), SUBJECT, st.sampled_from(MODES), st.randoms())
def test_order_of_rules_does_not_matter(
    rules: list[PermissionRule], subject: CallSubject, mode: Mode, random: Random
) -> None:
    shuffled = list(rules)
    random.shuffle(shuffled)

    assert _decision(rules, subject, mode) == _decision(shuffled, subject, mode)


@examples(200)
@given(st.lists(RULES, max_size=8), RULES, SUBJECT, st.sampled_from(MODES))
def test_deny_wins_whatever_else_there_is(
    rules: list[PermissionRule],
    extra: PermissionRule,
    subject: CallSubject,
    mode: Mode,
) -> None:
    if _decision(rules, subject, mode) == "deny":
        assert _decision([extra, *rules], subject, mode) == "deny"
        assert _decision([*rules, extra], subject, mode) == "deny"


@examples(150)
@given(st.lists(RULES, max_size=6), SUBJECT, st.sampled_from(MODES), st.sampled_from(_TEXTS))
def test_one_more_ask_or_deny_rule_never_allows_more(
    rules: list[PermissionRule], subject: CallSubject, mode: Mode, text: str
) -> None:
    order = ["allow", "ask", "deny"]
    before = order.index(_decision(rules, subject, mode))
    for decision in (1, 2):
        after = _decision([*rules, _parsed(text, decision, "user")], subject, mode)
        assert order.index(after) >= before


@examples(300)
@given(
    LINES, st.sampled_from(work.ALLOWED), st.sampled_from(["; ", " && ", " | ", "\n", " & ", " "])
)
def test_what_is_added_to_an_allowed_line_must_be_allowed_itself(
    line: str, allowed: str, joiner: str
) -> None:
    rules = [parse_rule(text, "allow", source="user") for text in work.RULES]
    subject = SUBJECTS.build("bash", {"command": f"{allowed}{joiner}{line}"}, effect=Effect.EXECUTE)

    if _decision(rules, subject, "ask") == "allow":
        assert isinstance(subject.line, PlainLine)
        assert not [part for part in subject.line.parts if part.program.startswith("zq")]
