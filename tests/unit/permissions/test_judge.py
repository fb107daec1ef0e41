import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Literal

import pytest

from agentcli.types.errors import ToolError
from agentcli.types.messages import Json, ToolCall
from agentcli.types.tools import Effect, Raw
from agentcli.types.verdicts import ApprovalSpan, Mode, Question, RuleSuggestion, Verdict
from tests.unit.permissions.court import NO, YES, YES_FOR_THE_SESSION, Person, court_of


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "src").mkdir()
    return tmp_path.resolve()


@pytest.mark.parametrize(
    ("mode", "verdicts"),
    [
        ("plan", ["allow", "allow", "deny", "deny", "deny", "deny", "deny", "deny"]),
        ("ask", ["allow", "allow", "deny", "deny", "deny", "deny", "deny", "deny"]),
        ("auto-edit", ["allow", "allow", "allow", "deny", "deny", "deny", "deny", "deny"]),
        ("auto", ["allow", "allow", "allow", "allow", "allow", "allow", "deny", "deny"]),
    ],
)
def test_mode_decides_what_needs_nobody(mode: Mode, verdicts: list[str], root: Path) -> None:
    court = court_of(root, mode=mode)

    heard = [
        court.hear("read_file", path="a.py"),
        court.hear("bash", command="git log | head -3"),
        court.hear("edit_file", path="src/a.py"),
        court.hear("bash", command="make"),
        court.hear("bash", command="for f in *; do echo $f; done"),
        court.hear("mcp__x__y"),
        court.hear("edit_file", path="../other/a.py"),
        court.hear("edit_file", path=".git/hooks/pre-commit"),
    ]

    assert [verdict.decision for verdict in heard] == verdicts


def test_denial_without_a_person_names_what_would_have_permitted_it(root: Path) -> None:
    court = court_of(root)

    def denied(name: str, **args: Json) -> Verdict:
        verdict = court.hear(name, **args)
        assert (verdict.decision, verdict.by) == ("deny", "nobody")
        return verdict

    pushed = denied("bash", command="git push origin main")
    assert (pushed.reason, pushed.remedy) == (
        "no rule allows git push origin main, and this run cannot ask",
        "--allow 'bash(git push:*)'",
    )
    built = denied("bash", command="npm run build && rm -rf dist | head -1")
    assert built.remedy == "--allow 'bash(npm run build:*)' --allow 'bash(rm -rf dist)'"
    assert denied("edit_file", path="src/a.py").remedy == "--allow 'edit(src/**)'"
    assert denied("edit_file", path="a.py").remedy == "--allow 'edit(./a.py)'"
    assert denied("bash", command="echo $HOME").remedy == "--allow bash"
    foreign = denied("edit_file", path="/etc/passwd")
    assert "no rule can allow it" in foreign.reason
    assert foreign.remedy == ""


@pytest.mark.parametrize(
    "command",
    [
        *["git push origin main", "pytest -q && make", "npm run build; npx tsc -p .", "make"],
        *["rm -rf dist", "python -m pytest -q", "python x.py 1", "cd src && cargo test --all"],
        *["env A=1 make", "timeout 9 make", "sort -o x y", "git log --output=x", "find . -delete"],
        *[
            "uv run pytest",
            "bash run.sh",
            "tar --to-command=sh -xf a",
            "sed -i s/a/b/ x",
            "touch x y",
        ],
    ],
)
def test_named_permission_permits_exactly_that(command: str, root: Path) -> None:
    person = Person([NO])
    court_of(root, person=person).hear("bash", command=command)
    rules = person.questions[0].suggestion.rules
    assert rules

    permitted = court_of(root, allow=rules)

    assert permitted.hear("bash", command=command).decision == "allow"
    assert permitted.hear("bash", command=f"{command}; touch other").decision == "deny"


def test_deny_rule_holds_in_every_mode_and_nobody_is_asked(root: Path) -> None:
    person = Person([])
    for mode in ("plan", "ask", "auto-edit", "auto"):
        court = court_of(
            root, mode=mode, allow=("bash",), deny=("bash(git push:*)",), person=person
        )
        for command in ("git push", "ls; git -C . push", "for x in a; do git push; done"):
            verdict = court.hear("bash", command=command)
            assert (verdict.decision, verdict.by, verdict.rule) == (
                *("deny", "rule"),
                "deny bash(git push:*)",
            )
            assert "rules.toml:3" in verdict.reason
    assert person.questions == []


def test_command_that_hides_what_it_runs_is_asked_about_where_commands_are_denied(
    root: Path,
) -> None:
    person = Person([YES, NO])
    court = court_of(root, mode="auto", allow=("bash",), deny=("bash(git push:*)",), person=person)

    assert court.hear("bash", command="g=gi; ${g}t push").decision == "allow"
    assert court.hear("bash", command="for f in *; do echo $f; done").decision == "deny"
    assert court.hear("bash", command="make all").decision == "allow"
    assert [question.verdict.reason for question in person.questions] == [
        "rule deny bash(git push:*) (rules.toml:3) may apply: variable ${…} hides what would run",
        "rule deny bash(git push:*) (rules.toml:3) may apply: variable $… hides what would run",
    ]
    nobody = court_of(root, mode="auto", allow=("bash",), deny=("bash(git push:*)",))
    assert nobody.hear("bash", command="for f in *; do echo $f; done").by == "nobody"


@pytest.mark.parametrize(
    ("lasts", "questions"),
    [(None, 2), ("once", 2), ("turn", 1), ("session", 1), ("always", 1)],
)
def test_approval_is_remembered_if_it_lasts(
    root: Path, lasts: ApprovalSpan | None, questions: int
) -> None:
    person = Person([replace(YES, rule="bash(make)", lasts=lasts), YES])
    court = court_of(root, person=person)

    assert [court.hear("bash", command="make").decision for _ in range(2)] == ["allow", "allow"]
    assert len(person.questions) == questions


@pytest.mark.parametrize(("lasts", "questions"), [("turn", 2), ("session", 1), ("always", 1)])
def test_approval_for_the_turn_ends_with_it(
    root: Path, lasts: ApprovalSpan, questions: int
) -> None:
    person = Person([replace(YES, lasts=lasts), NO])
    court = court_of(root, person=person)

    assert court.hear("bash", command="make").decision == "allow"
    assert court.hear("bash", command="make").reason.endswith(
        f"({'this turn' if lasts == 'turn' else 'this session'}) allows it"
    )
    court.decider.drop("turn")
    court.hear("bash", command="make")
    assert len(person.questions) == questions


@pytest.mark.parametrize(("lasts", "questions"), [(None, 3), ("turn", 2), ("session", 1)])
def test_denial_is_remembered_if_it_lasts(
    root: Path, lasts: ApprovalSpan | None, questions: int
) -> None:
    person = Person([replace(NO, lasts=lasts), NO, NO])
    court = court_of(root, mode="auto-edit", person=person)

    assert [court.hear("bash", command="make all").decision for _ in range(2)] == ["deny", "deny"]
    court.decider.drop("turn")
    assert court.hear("bash", command="make all").decision == "deny"
    assert len(person.questions) == questions


def test_denial_that_lasts_covers_the_call_and_not_all_edits(root: Path) -> None:
    person = Person([replace(NO, lasts="session"), YES])
    court = court_of(root, person=person)

    assert [court.hear("edit_file", path="a.py").decision for _ in range(2)] == ["deny", "deny"]
    assert court.hear("edit_file", path="b.py").decision == "allow"


def test_denial_that_lasts_wins_over_a_rule_that_asks_each_time(root: Path) -> None:
    person = Person([replace(NO, lasts="session")])
    court = court_of(root, ask=("bash(make)",), person=person)

    assert [court.hear("bash", command="make").decision for _ in range(2)] == ["deny", "deny"]


def test_edit_approved_for_the_session_covers_edits_of_the_workspace_alone(root: Path) -> None:
    person = Person([YES_FOR_THE_SESSION, NO, NO, NO])
    court = court_of(root, ask=("edit(secret/**)",), deny=("edit(kept.py)",), person=person)

    assert court.hear("edit_file", path="a.py").decision == "allow"
    assert person.questions[0].suggestion.session == "all edits in this workspace"
    for path in ("b.py", "deep/er/c.py"):
        assert court.hear("write_file", path=path).decision == "allow"
    for path in ("kept.py", "secret/key.py", str(root.parent / "outside.py")):
        assert court.hear("edit_file", path=path).decision == "deny"


def test_edit_approved_always_covers_what_is_stored_alone(root: Path) -> None:
    person = Person([replace(YES, lasts="always"), NO])
    court = court_of(root, person=person)

    assert court.hear("edit_file", path="a.py").decision == "allow"
    assert court.hear("edit_file", path="a.py").decision == "allow"
    assert court.hear("edit_file", path="b.py").decision == "deny"


def test_ask_rule_asks_in_spite_of_allow_rules_and_mode(root: Path) -> None:
    person = Person([YES_FOR_THE_SESSION, YES, NO])
    court = court_of(root, mode="auto", allow=("bash",), ask=("bash(git push:*)",), person=person)

    heard = [court.hear("bash", command="git push").decision for _ in range(3)]

    assert heard == ["allow", "allow", "deny"]
    assert person.questions[-1].suggestion.reason == (
        "rule ask bash(git push:*) (rules.toml:3) requires approval"
    )


def test_question_carries_call_preview_reason_and_suggestion(root: Path) -> None:
    person = Person([YES])
    court = court_of(root, person=person)

    verdict = court.hear("bash", command="make all")

    assert verdict == YES
    call = ToolCall(id="c1", name="bash", input={"command": "make all"})
    assert person.questions == [
        Question(
            call=call,
            effect=Effect.EXECUTE,
            preview=Raw(text="preview"),
            verdict=Verdict(decision="ask", by="mode", reason="no rule allows make all"),
            own_input=call.input,
            suggestion=RuleSuggestion(
                rules=("bash(make all:*)",), session="bash(make all:*)", uncovered=("make all",)
            ),
        )
    ]


@pytest.mark.parametrize(
    "command",
    [
        "git push origin main --force",
        "git push -fu origin main",
        "git push --force-with-lease=main",
        "git push origin +main",
        "git reset --hard HEAD",
        "git clean -xfd",
        "git branch -D old",
        "git checkout -- .",
    ],
)
def test_suggestion_for_what_cannot_be_had_again_is_the_exact_command(
    root: Path, command: str
) -> None:
    person = Person([NO])
    court_of(root, person=person).hear("bash", command=command)
    assert person.questions[0].suggestion.rules == (f"bash({command})",)


def test_nobody_is_asked_about_what_cannot_be_done(root: Path) -> None:
    person = Person([])
    with pytest.raises(ToolError, match="it cannot be done"):
        court_of(root, person=person).hear("edit_file", path="a.py", impossible=True)
    assert person.questions == []


@pytest.mark.parametrize("rule", ["ask", "deny"])
def test_why_it_cannot_be_done_is_not_told_of_a_file_that_may_not_be_read(
    root: Path, rule: Literal["ask", "deny"]
) -> None:
    person, reading = Person([NO]), ("read(**/.env)",)
    is_asked = rule == "ask"
    court = court_of(root, person=person, ask=reading * is_asked, deny=reading * (not is_asked))
    assert court.hear("write_file", path=".env", impossible=True) == NO
    assert [question.preview for question in person.questions] == [None]
    person.answers.append(NO)
    edited = court.hear("edit_file", path=".env", impossible=True)
    assert (edited.decision, edited.by) == ("deny", "user" if is_asked else "rule")
    assert [question.preview for question in person.questions] == [None] * (1 + is_asked)


def test_yes_for_the_session_covers_the_next_one(root: Path) -> None:
    person = Person([YES_FOR_THE_SESSION] * 3)
    court = court_of(root, person=person)

    for command in ("pytest -q", "echo $(date)", "pytest -x tests"):
        assert court.hear("bash", command=command).decision == "allow"
    assert court.hear("bash", command="echo $(date)").rule == "allow bash(echo $(date))"
    assert court.hear("edit_file", path="src/a.py").decision == "allow"
    assert court.hear("edit_file", path="src/b.py").decision == "allow"
    assert len(person.questions) == 3


def test_yes_for_the_session_works_for_tools_of_plugins_and_servers(root: Path) -> None:
    person = Person([YES_FOR_THE_SESSION] * 2)
    court = court_of(root, person=person)

    for name in ("fetch_page", "mcp__x__y"):
        assert [court.hear(name).by for _ in range(2)] == ["user", "rule"]
    assert person.answers == []


def test_suggestion_sees_arguments_as_the_tool_does(root: Path) -> None:
    person = Person([YES, YES])
    court = court_of(root, person=person)
    court.hear("bash", cmd="pytest -q")
    court.hear("mcp__x__y")

    suggested = [question.suggestion.rules for question in person.questions]
    assert suggested == [("bash(pytest:*)",), ("mcp(x:y)",)]


def test_answer_for_the_session_reaches_questions_that_wait(root: Path) -> None:
    person = Person([YES_FOR_THE_SESSION])
    court = court_of(root, person=person)

    async def both() -> list[Verdict]:
        hearings = (court.hearing("bash", command=f"pytest {name}") for name in "ab")
        return await asyncio.gather(*hearings)

    verdicts = asyncio.run(both())

    assert [verdict.decision for verdict in verdicts] == ["allow", "allow"]
    assert len(person.questions) == 1


def test_what_a_person_types_instead_is_judged_again(root: Path) -> None:
    def changed(command: str) -> Verdict:
        return Verdict(decision="modify", by="user", reason="changed", input={"command": command})

    person = Person([changed("make b"), changed("git push")])
    court = court_of(root, deny=("bash(git push:*)",), person=person)

    assert court.hear("bash", command="make a") == changed("make b")
    verdict = court.hear("bash", command="make a")
    assert (verdict.decision, verdict.by) == ("deny", "rule")


def test_rules_see_arguments_as_the_tool_does(root: Path) -> None:
    court = court_of(root, mode="auto", deny=("bash(git push:*)", "edit(**/.env)"))

    assert court.hear("bash", cmd="git push").decision == "deny"
    assert court.hear("edit_file", file_path=".env").decision == "deny"
    assert court.hear("edit_file", file_path="env").decision == "allow"


def test_without_a_sandbox_no_command_runs_by_itself(root: Path) -> None:
    court = court_of(root, mode="auto", allow=("bash(pytest:*)",), is_confined=False)

    assert court.hear("bash", command="ls").by == "nobody"
    assert court.hear("bash", command="make").by == "nobody"
    assert court.hear("bash", command="pytest -q").by == "nobody"
    assert court.hear("read_file", path="a").decision == "allow"


def test_mode_can_change_between_calls(root: Path) -> None:
    court = court_of(root)
    assert court.hear("bash", command="make").decision == "deny"
    court.judge.mode.value = "auto"
    assert court.hear("bash", command="make").decision == "allow"
