import sys
from pathlib import Path

import pytest

from agentcli.permissions.hooks import Hook
from tests.unit.permissions.court import YES, Person, court_of


def _says(code: str, *, matcher: str = "") -> Hook:
    """A hook in Python that has its input as `told`."""
    program = f"import json, sys; told = json.load(sys.stdin); {code}"
    return Hook(event="PreToolUse", command=(sys.executable, "-c", program), matcher=matcher)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "src").mkdir()
    return tmp_path.resolve()


def test_hook_may_refuse_with_a_reason(root: Path) -> None:
    hook = _says("sys.stderr.write('not on fridays'); sys.exit(2)", matcher="bash|edit_.*")
    court = court_of(root, mode="auto", hooks=(hook,))

    verdict = court.hear("bash", command="ls")

    assert (verdict.decision, verdict.by) == ("deny", "hook")
    assert verdict.reason.endswith("not on fridays")
    assert court.hear("read_file", path="a").decision == "allow"
    assert court.hear("edit_file", path="a").decision == "deny"


def test_hook_may_allow_but_not_lift_rules_or_plan(root: Path) -> None:
    hook = _says("print(json.dumps({'decision': 'allow', 'reason': 'known'}))")

    assert court_of(root, hooks=(hook,)).hear("bash", command="make").by == "hook"
    for court in (
        court_of(root, deny=("bash(make:*)",), hooks=(hook,)),
        court_of(root, ask=("bash(make:*)",), hooks=(hook,)),
        court_of(root, mode="plan", hooks=(hook,)),
    ):
        assert court.hear("bash", command="make").decision == "deny"


def test_hook_may_ask_for_a_person(root: Path) -> None:
    hook = _says("print(json.dumps({'decision': 'ask', 'reason': 'look at this'}))")
    person = Person([YES])

    assert (
        court_of(root, mode="auto", hooks=(hook,), person=person).hear("bash", command="ls") == YES
    )
    assert person.questions[0].verdict.by == "hook"
    assert court_of(root, mode="auto", hooks=(hook,)).hear("bash", command="ls").by == "nobody"


@pytest.mark.parametrize(
    "code", ["sys.exit(1)", "print('{not json')", "print(json.dumps({'decision': 'perhaps'}))"]
)
def test_hook_that_fails_has_not_agreed(code: str, root: Path) -> None:
    verdict = court_of(root, mode="auto", hooks=(_says(code),)).hear("bash", command="ls")

    assert (verdict.decision, verdict.by) == ("deny", "nobody")
    assert "the hook" in verdict.reason


def test_arguments_changed_by_a_hook_are_judged_again(root: Path) -> None:
    def change(command: str) -> Hook:
        return _says(f"print(json.dumps({{'updatedInput': {{'command': {command!r}}}}}))")

    court = court_of(root, deny=("bash(git push:*)",), hooks=(change("git log"),))
    verdict = court.hear("bash", command="make")
    assert (verdict.decision, verdict.input) == ("modify", {"command": "git log"})

    for changed, decision in (("git push", "deny"), ("make b", "deny")):
        court = court_of(root, deny=("bash(git push:*)",), hooks=(change(changed),))
        assert court.hear("bash", command="ls").decision == decision

    invalid = _says("print(json.dumps({'updatedInput': {'bad': 1}}))")
    assert "not valid" in court_of(root, hooks=(invalid,)).hear("bash", command="ls").reason


def test_preview_of_changed_arguments_is_not_shown(root: Path) -> None:
    hook = _says("print(json.dumps({'updatedInput': {'command': 'make b'}}))")
    person = Person([YES])
    court = court_of(root, hooks=(hook,), person=person)

    verdict = court.hear("bash", command="make a")

    assert (verdict.decision, verdict.by, verdict.input) == (
        "modify",
        "user",
        {"command": "make b"},
    )
    assert (person.questions[0].call.input, person.questions[0].preview) == (
        {"command": "make b"},
        None,
    )
