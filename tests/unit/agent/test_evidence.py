from collections.abc import Sequence

import pytest

from agentcli.agent.evidence import Evidence
from agentcli.types.checks import BaseCheck, Verified
from agentcli.types.events import (
    CallFinished,
    CallJudged,
    Checkpointed,
    Event,
    TurnStarted,
    Undone,
)
from agentcli.types.messages import Text, ToolCall, UserMessage
from agentcli.types.tools import Command, Diff, Effect, ToolResult
from agentcli.types.verdicts import Verdict

TURN = TurnStarted(message=UserMessage(content=(Text(text="go"),)))
ALLOWED = Verdict(decision="allow", by="mode", reason="")


def edit(path: str, *, stored: bool = True) -> list[Event]:
    result = ToolResult(
        call_id=f"edit {path}",
        name="edit_file",
        status="ok",
        content=(),
        details=Diff(path=path, unified="", added=1, removed=0),
    )
    changed = Checkpointed(
        call_id=result.call_id, before="a", after="b", paths=(path,), paths_total=1
    )
    return [*([changed] if stored else []), CallFinished(result=result)]


def run(command: str, *, code: int = 0, changes: Sequence[str] = (), out: str = "") -> list[Event]:
    call = ToolCall(id=f"bash {command}", name="bash", input={"command": command})
    ran = Command(
        command=command,
        cwd="/",
        exit_code=code,
        duration_s=0.1,
        output_bytes=len(out),
        output_lines=1,
        shown_lines=1,
        head=out,
    )
    result = ToolResult(
        call_id=call.id, name="bash", status="ok" if not code else "error", content=(), details=ran
    )
    changed = Checkpointed(
        call_id=call.id, before="a", after="b", paths=tuple(changes), paths_total=len(changes)
    )
    judged = CallJudged(call=call, effect=Effect.EXECUTE, verdict=ALLOWED)
    return [judged, *([changed] if changes else []), CallFinished(result=result)]


def check(command: str, code: int | None, base: BaseCheck | None = None) -> list[Event]:
    return [Verified(command=command, exit_code=code, output="", base=base)]


UNDO = Undone(id="u", action="undo", numbers=(1,), before="a", after="b", paths=("a.py",))
CASES: dict[str, tuple[list[Event], str]] = {
    "nothing changed": (run("pytest -q"), ""),
    "a test after the edit": (
        [*edit("a.py"), *run("pytest -q")],
        "verified: pytest -q, exit 0, after the last edit",
    ),
    "two checks": (
        [*edit("a.py"), *run("ruff check ."), *run("pytest -q")],
        "verified: ruff check . and pytest -q, exit 0, after the last edit",
    ),
    "an edit after the test": (
        [*edit("a.py"), *run("pytest -q"), *edit("b.py"), *edit("c.py"), *edit("b.py")],
        "not verified: 2 files changed since the last test run",
    ),
    "no test": ([*edit("a.py"), *run("ls")], "not verified: 1 file changed, and no test was run"),
    "an edit without a stored state": (
        edit("a.py", stored=False),
        "not verified: 1 file changed, and no test was run",
    ),
    "a failed test": (
        [*edit("a.py"), *run("pytest -q", code=1)],
        "not verified: pytest -q failed after the last edit (exit code 1)",
    ),
    "a failure behind a pipe": (
        [*edit("a.py"), *run("pytest -q | tail -3", out="1 failed in 0.1s")],
        "not verified: pytest -q | tail -3 failed after the last edit "
        '(exit code 0, but it printed "1 failed in 0.1s")',
    ),
    "a test that passes the second time": (
        [*edit("a.py"), *run("pytest -x", code=1), *run("pytest -q")],
        "verified: pytest -q, exit 0, after the last edit",
    ),
    "another check that still fails": (
        [*edit("a.py"), *run("mypy", code=1), *run("pytest -q")],
        "not verified: mypy failed after the last edit (exit code 1)",
    ),
    "a command that edits": (
        [*run("pytest -q"), *run("sed -i s/a/b/ a.py", changes=["a.py"])],
        "not verified: 1 file changed since the last test run",
    ),
    "a command that makes directories": (
        run("cp -r old new", changes=["new", "new/d", "new/d/a.py", "new/d/b.py", "new/e.py"]),
        "not verified: 3 files changed, and no test was run",
    ),
    "a command that edits and tests": (
        run("sed -i s/a/b/ a.py && pytest -q", changes=["a.py"]),
        "verified: sed -i s/a/b/ a.py && pytest -q, exit 0, after the last edit",
    ),
    "a check that writes files": (
        [*edit("a.py"), *run("pytest -q"), *run("tsc -b", changes=["out.js"])],
        "verified: pytest -q and tsc -b, exit 0, after the last edit",
    ),
    "an earlier turn's edit": (
        [*edit("a.py"), TURN, *edit("b.py")],
        "not verified: 2 files changed, and no test was run",
    ),
    "a turn that only looks": ([*edit("a.py"), TURN, *run("ls")], ""),
    "an undo after the test": (
        [*edit("a.py"), *run("pytest -q"), UNDO],
        "not verified: 1 file changed since the last test run",
    ),
    "a check of the user": (
        [*edit("a.py"), *check("./ok.sh", 0)],
        "verified: ./ok.sh, exit 0, after the last edit",
    ),
    "a check of the user that did not finish": (
        [*edit("a.py"), *check("./ok.sh", None)],
        "not verified: ./ok.sh failed after the last edit (did not finish)",
    ),
    "a check that passes only as the run changed it": (
        [*edit("ok.sh"), *check("./ok.sh", 0, BaseCheck(files=("ok.sh",), exit_code=1))],
        "not verified: ./ok.sh failed after the last edit (with its own files as they were)",
    ),
    "a check that passes as it was, too": (
        [*edit("ok.sh"), *check("./ok.sh", 0, BaseCheck(files=("ok.sh",), exit_code=0))],
        "verified: ./ok.sh, exit 0, after the last edit",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_verification_says_what_the_record_shows(name: str) -> None:
    events, text = CASES[name]
    evidence = Evidence()
    for event in (TURN, *events):
        evidence(event)
    found = evidence.build_verification()
    assert (found.text if found else "") == text
    assert found is None or found.is_verified is text.startswith("verified")


def test_long_command_is_shortened() -> None:
    evidence = Evidence()
    for event in (TURN, *edit("a.py"), *run("pytest " + "a" * 500 + "\n-q")):
        evidence(event)
    found = evidence.build_verification()
    assert found is not None
    assert len(found.text) < 120
    assert "\n" not in found.text


def test_paths_that_a_fact_only_counts_make_a_least_number() -> None:
    evidence = Evidence()
    paths = tuple(f"{number}.py" for number in range(50))
    stored = Checkpointed(call_id="c", before="a", after="b", paths=paths, paths_total=80)
    for event in (TURN, stored):
        evidence(event)
    found = evidence.build_verification()
    assert found is not None
    assert found.text == "not verified: at least 50 files changed, and no test was run"


def test_files_of_the_stored_states_replace_the_paths_of_facts() -> None:
    evidence = Evidence()
    for event in (TURN, *edit("a.py"), *run("pytest -q"), *run("mkdir d", changes=["d"])):
        evidence(event)
    assert [fact.call_id for fact in evidence.unchecked_changes] == ["bash mkdir d"]
    evidence.replace_unchecked(())
    found = evidence.build_verification()
    assert found is not None
    assert found.text == "verified: pytest -q, exit 0, after the last edit"


def test_files_without_stored_states_stay_unchecked() -> None:
    evidence = Evidence()
    for event in (TURN, *edit("a.py", stored=False), *edit("new/b.py")):
        evidence(event)
    evidence.replace_unchecked(["new/b.py", "new/c.py"])
    found = evidence.build_verification()
    assert found is not None
    assert found.unchecked == ("a.py", "new/b.py", "new/c.py")
