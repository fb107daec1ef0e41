from collections.abc import Sequence

import pytest

from agentcli.agent.claims import check_claims
from agentcli.types.events import CallFinished, CallJudged, Fact, Verified
from agentcli.types.messages import Text, ToolCall
from agentcli.types.tools import Command, Details, Diff, Effect, ToolResult
from agentcli.types.verdicts import Verdict

SHA = "ab" * 32


def done(details: Details, *, effect: Effect, text: str = "", call_id: str = "c") -> list[Fact]:
    call = ToolCall(id=call_id, name="t", input={})
    result = ToolResult(
        call_id=call_id, name="t", status="ok", content=(Text(text=text),), details=details
    )
    verdict = Verdict(decision="allow", by="mode", reason="")
    return [
        CallJudged(call=call, effect=effect, verdict=verdict),
        CallFinished(result=result),
    ]


def ran(
    command: str, exit_code: int, text: str = "", effect: Effect = Effect.EXECUTE
) -> list[Fact]:
    return done(Command(command=command, cwd="/", exit_code=exit_code), effect=effect, text=text)


def wrote(path: str, *, created: bool = False, sha256: str = SHA) -> list[Fact]:
    diff = Diff(path=path, unified="", added=1, removed=0, created=created, sha256=sha256)
    return done(diff, effect=Effect.WRITE)


def verdicts(text: str, facts: Sequence[Fact], files: dict[str, str] | None = None) -> list[str]:
    found = check_claims(text, facts, lambda path: (files or {}).get(path))
    return [f"{claim.about}: {claim.verdict}" for claim in found]


PASSED = ran("pytest -q", 0, "3 passed in 0.1s")


@pytest.mark.parametrize(
    ("facts", "verdict"),
    [
        (PASSED, "supported"),
        ([*ran("pytest -q", 1, "1 failed"), *PASSED], "supported"),
        ([*PASSED, *ran("pytest -q", 1, "1 failed, 2 passed")], "not_supported"),
        (ran("npm test", 1), "not_supported"),
        (ran("npm run test", 0), "supported"),
        (ran("go test ./...", 0), "supported"),
        ([*PASSED, *wrote("a.py")], "unknown"),
        (ran("pytest -q | tail -3", 0, "3 passed"), "unknown"),
        (ran("pytest -q | tail -3", 0, "1 failed, 2 passed"), "not_supported"),
        (ran("pytest -q || true", 0, "2 failed"), "not_supported"),
        (ran("cd sub && pytest -q 2>&1", 0, "3 passed"), "supported"),
        (ran("./ci.sh", 0), "unknown"),
        ([], "not_supported"),
        ([Verified(command="pytest", exit_code=0, output="")], "supported"),
    ],
)
def test_tests_pass_is_held_against_the_last_run_of_tests(facts: list[Fact], verdict: str) -> None:
    assert verdicts("All tests pass now.", facts) == [f"tests: {verdict}"]


@pytest.mark.parametrize(
    "text",
    [
        "All 12 tests pass.",
        "The test suite passes.",
        "- **12 passed** in 0.3 s",
        "Tests are green.",
        "The tests now all pass.",
    ],
)
def test_ways_to_say_that_tests_pass(text: str) -> None:
    assert verdicts(text, []) == ["tests: not_supported"]


@pytest.mark.parametrize(
    "text",
    [
        "The tests do not pass.",
        "Tests should pass now.",
        "Run pytest to see whether the tests pass.",
        "If the tests pass, merge it.",
        "I couldn't make the tests pass.",
        "The tests will pass once the server is up.",
        "Do the tests pass?",
        "```\nAll tests pass.\n```",
        "I fixed the off-by-one error.",
        "This could have created `a/b.py`.",
        "",
    ],
)
def test_what_is_no_statement_of_fact_is_no_claim(text: str) -> None:
    assert verdicts(text, []) == []


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        ("I ran `pytest -q`.", "supported"),
        ("I ran `pytest -q` successfully.", "not_supported"),
        ("I also ran `pytest`.", "supported"),
        ("I ran `pytest -x`.", "unknown"),
        ("I've executed `mypy .`.", "not_supported"),
        ("Ran `ruff check`.", "not_supported"),
    ],
)
def test_command_is_held_against_the_commands_that_ran(text: str, verdict: str) -> None:
    assert verdicts(text, ran("pytest -q", 1)) == [f"command: {verdict}"]


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        ("I created `src/new.py`.", "supported"),
        ("I updated src/old.py.", "supported"),
        ("Added a test to `src/old.py`.", "supported"),
        ("Removed the dead branch from `src/old.py`.", "supported"),
        ("I created `src/old.py`.", "unknown"),
        ("I changed `src/moved.py`.", "unknown"),
        ("I created `src/missing.py`.", "not_supported"),
        ("I edited `src/untouched.py`.", "not_supported"),
        ("I deleted `src/untouched.py`.", "not_supported"),
        ("I removed `src/missing.py`.", "unknown"),
    ],
)
def test_file_is_held_against_diffs_and_hashes(text: str, verdict: str) -> None:
    facts = [*wrote("src/new.py", created=True), *wrote("src/old.py"), *wrote("src/moved.py")]
    files = {
        "src/new.py": SHA,
        "src/old.py": SHA,
        "src/moved.py": "cd" * 32,
        "src/untouched.py": "ef" * 32,
    }
    assert verdicts(text, facts, files) == [f"file: {verdict}"]


def test_command_may_have_changed_what_no_tool_did() -> None:
    text, files = "I updated `src/a.py`.", {"src/a.py": SHA}
    assert verdicts(text, ran("make fmt", 0), files) == ["file: unknown"]
    assert verdicts(text, ran("ls", 0, effect=Effect.READ), files) == ["file: not_supported"]


def test_deleted_file_that_a_command_named_is_supported() -> None:
    assert verdicts("I deleted `src/a.py`.", ran("git rm src/a.py", 0)) == ["file: supported"]


def test_path_that_cannot_be_looked_at_is_passed_over() -> None:
    def refuse(path: str) -> str | None:
        raise ValueError(path)

    assert check_claims("I created `/etc/x.conf`.", [], refuse) == ()


def test_long_answer_is_bounded() -> None:
    assert len(check_claims("All tests pass.\n" * 5000, [], lambda path: None)) == 40
