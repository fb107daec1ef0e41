"""The interface for programs: the examples of its page are run, and the rest in this process."""

import asyncio
import gc
import re
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import agentcli
from agentcli import AgentError, AsyncSession, Session, allow, tool
from agentcli.api.sessions import SessionOptions
from agentcli.settings import _OPTION_CHECKS
from agentcli.types.deltas import TextDelta
from agentcli.types.errors import Ending, SettingsError, UsageError
from agentcli.types.events import (
    CallFinished,
    CallJudged,
    ContextNote,
    Event,
    SessionEnded,
    TurnEnded,
)
from agentcli.types.verdicts import Question, Verdict
from tests.support.program import agentcli as run_agentcli
from tests.support.program import environment, script

PAGE = Path(__file__).parents[2] / "docs/guides/python.md"
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)

pytestmark = pytest.mark.usefixtures("own_directories", "verified_logs")


def bash(command: str) -> dict[str, Any]:
    return {"calls": [{"bash": {"command": command}}]}


def write(path: str, content: str) -> dict[str, Any]:
    return {"calls": [{"write_file": {"path": path, "content": content}}]}


@pytest.fixture
def model(tmp_path: Path) -> Any:
    return lambda *replies: script(tmp_path / "script.json", replies)


# The examples of the page


def run_example(number: int, replies: Sequence[Any], *, home: Path, workspace: Path) -> list[str]:
    program = home / "example.py"
    program.write_text(EXAMPLES[number])
    ran = subprocess.run(
        [sys.executable, program],
        cwd=workspace,
        env=environment(home, AGENTCLI_MODEL=script(home / "script.json", replies)),
        capture_output=True,
        text=True,
        timeout=110,
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    return ran.stdout.splitlines()


def test_example_of_a_task(home: Path, workspace: Path) -> None:
    (workspace / "hello.py").write_text("print('Oi.')\n")
    edit = {"path": "hello.py", "old_text": "Oi.", "new_text": "Good day."}
    replies = [{"calls": [{"edit_file": edit}]}, "It is polite now."]
    *said, last = run_example(0, replies, home=home, workspace=workspace)
    assert said == ["It is polite now.", "hello.py: +1 -1"]
    assert last.startswith("done, 2 requests, session ")
    traced = run_agentcli("trace", last.split()[-1], home=home)
    assert (traced.code, "make the greeting in hello.py polite" in traced.out) == (0, True)


def test_example_of_tools_and_events(home: Path, workspace: Path) -> None:
    calls = [{"count_stock": {"article": article}} for article in ("B-2", "C-3")]
    replies = [{"calls": calls}, {"text": "B-2.", "usage": {"output_tokens": 7}}]
    said = run_example(1, replies, home=home, workspace=workspace)
    assert sorted(said[:4]) == [  # the two run at the same time
        "[count_stock {'article': 'B-2'}: allow]",
        "[count_stock {'article': 'C-3'}: allow]",
        "[error: There is no article C-3. The articles are A-7, B-2.]",
        "[ok: 0 pieces]",
    ]
    assert said[4:] == ["B-2.", "7 tokens"]


def test_example_of_decisions(home: Path, workspace: Path) -> None:
    (workspace / "docs").mkdir()
    replies = [
        write("docs/options.md", "All.\n"),
        "All done.",
        "Described.",  # the second time, since nothing was checked
        write("README.md", "All.\n"),
        "Not there.",
        "Not there.",  # likewise, since a call was denied
    ]
    said = run_example(2, replies, home=home, workspace=workspace)
    reason = "denied write_file: only changes below docs/ are wanted here"
    assert said == ["Described.", "Not there.", reason]
    assert [path.name for path in workspace.rglob("*.md")] == ["options.md"]


# The interface


def test_import_loads_nothing_else() -> None:
    code = "import agentcli, sys; print([m for m in sys.modules if m.startswith('agentcli.')])"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout == "[]\n"


def test_every_public_name_is_there_and_others_are_not() -> None:
    assert all(getattr(agentcli, name) for name in agentcli.__all__)
    with pytest.raises(AttributeError, match="no attribute 'Sesion'"):
        getattr(agentcli, "Se" + "sion")


def test_options_are_the_settings_that_matter_to_a_program() -> None:
    of_the_screen = {
        "theme",
        "diff_colors",
        "notify",
        "editing",
        "accessible",
        "keys",
        "statusline",
    }
    elsewhere = of_the_screen | {"verify"}  # an argument of its own
    assert SessionOptions.__annotations__.keys() == _OPTION_CHECKS.keys() - elsewhere


def test_turns_continue_one_conversation_and_add_up(workspace: Path, model: Any) -> None:
    usage = {"input_tokens": 10, "output_tokens": 2}
    replies = [{"text": "One.", "usage": usage}, {"text": "Two.", "usage": usage}]
    thresholds = gc.get_threshold()
    with Session(workspace, model=model(*replies)) as session:
        assert [session.run("a").answer, session.run("b").answer] == ["One.", "Two."]
        assert session.result is not None and session.result.usage.output_tokens == 2
        assert session.spending.usage.output_tokens == 4
        log = session.log
    assert gc.get_threshold() == thresholds
    assert '"session_ended"' in log.read_text().splitlines()[-1]
    with Session(workspace, model=model("Three."), resume=log.parent.name) as session:
        assert session.run("c").answer == "Three."
        assert sum(isinstance(fact, TurnEnded) for fact in session.facts) == 3
    writes = model(write("a.txt", "x"), "Four.")
    with Session(model=writes, resume=log.parent.name, mode="auto") as session:
        assert session.run("d").answer == "Four."
    assert (workspace / "a.txt").read_text() == "x"


def test_call_without_anybody_to_ask_is_denied_and_shows(workspace: Path, model: Any) -> None:
    with Session(workspace, model=model(write("a.txt", "x"), "No.")) as session:
        result = session.run("go")
    assert (result.outcome.ending, int(result.exit_code)) == (Ending.DENIED, 5)
    ((call, verdict),) = result.denials
    assert (call.name, verdict.by) == ("write_file", "nobody")
    with pytest.raises(AgentError):
        result.raise_unless_done()


@pytest.mark.parametrize(
    ("answer", "content"),
    [(True, "x"), (False, None), (allow(input={"path": "a.txt", "content": "y"}), "y"), (7, None)],
)
def test_answer_of_the_program_decides(
    answer: Any, content: str | None, workspace: Path, model: Any
) -> None:
    async def approve(question: Question) -> Verdict:
        asked.append(question.call.name)
        return answer  # type: ignore[no-any-return]

    asked: list[str] = []
    with Session(workspace, model=model(write("a.txt", "x"), "."), approve=approve) as session:
        session.run("go")
    path = workspace / "a.txt"
    assert (asked, path.read_text() if path.exists() else None) == (["write_file"], content)


def test_command_runs_in_the_sandbox_of_the_settings_and_its_changes_are_found(
    workspace: Path, model: Any
) -> None:
    replies = model(bash("echo one > a.txt"), "Done.")
    with Session(workspace, model=replies, mode="auto", sandbox="off") as session:
        result = session.run("go")
    assert (result.changed, result.calls) == ({"a.txt": (1, 0)}, 1)
    assert "+one" in result.patch


def test_stream_ends_with_the_turn_and_has_its_deltas(workspace: Path, model: Any) -> None:
    async def collect() -> list[Event]:
        async with AsyncSession(workspace, model=model("Hi.")) as session:
            return [event async for event in session.stream("go")]

    events = asyncio.run(collect())
    assert any(isinstance(event, TextDelta) for event in events)
    assert isinstance(events[-1], TurnEnded)


class Wait:
    """A tool that waits for ever, and tells when it began."""

    def __init__(self) -> None:
        self.has_begun = threading.Event()

        @tool(effect="read")
        async def wait() -> None:
            "Wait for ever."
            self.has_begun.set()
            await asyncio.Event().wait()

        self.tool = wait


def test_leaving_a_stream_stops_the_turn(workspace: Path, model: Any) -> None:
    replies = model({"calls": [{"wait": {}}]}, ".")
    with Session(workspace, model=replies, tools=[Wait().tool]) as session:
        for event in session.stream("go"):
            if isinstance(event, CallJudged):
                break
        assert session.result is None
        assert isinstance(session.facts[-1], TurnEnded)
        log = session.log
    assert '"exit_code":130' in log.read_text().splitlines()[-1]


def test_interrupt_from_another_thread_is_a_result(workspace: Path, model: Any) -> None:
    wait, replies = Wait(), model({"calls": [{"wait": {}}]}, ".")
    with Session(workspace, model=replies, tools=[wait.tool]) as session:

        def stop() -> None:
            wait.has_begun.wait()
            session.interrupt()

        threading.Thread(target=stop).start()
        result = session.run("go")
        assert result.outcome.ending is Ending.CANCELLED


def test_message_to_the_running_turn_is_read_before_the_next_reply(
    workspace: Path, model: Any
) -> None:
    @tool(effect="read")
    def look() -> str:
        "Look."
        session.steer("only the first one")
        return "seen"

    with Session(workspace, model=model({"calls": [{"look": {}}]}, "."), tools=[look]) as session:
        session.run("go")
        notes = [fact.text for fact in session.facts if isinstance(fact, ContextNote)]
    assert "only the first one" in notes


@pytest.mark.parametrize(
    "error",
    [ZeroDivisionError("by nothing"), SystemExit("by nothing"), UsageError("by nothing", hint="")],
)
@pytest.mark.parametrize("is_async", [True, False])
def test_tool_that_raises_is_an_error_for_the_model(
    error: BaseException, is_async: bool, workspace: Path, model: Any
) -> None:
    def fail() -> None:
        "Fail."
        raise error

    async def fail_later() -> None:
        "Fail."
        raise error

    failing = tool(name="fail", effect="read")(fail_later if is_async else fail)

    replies = [{"calls": [{"fail": {}}]}, "."]
    with Session(workspace, model=model(*replies), tools=[failing]) as session:
        session.run("go")
        (finished,) = (fact for fact in session.facts if isinstance(fact, CallFinished))
    assert finished.result.text == f"{type(error).__name__}: by nothing"


@pytest.mark.parametrize("error", [ZeroDivisionError("by nothing"), SystemExit("by nothing")])
def test_program_that_fails_to_decide_denies(
    error: BaseException, workspace: Path, model: Any
) -> None:
    def approve(question: Question) -> bool:
        raise error

    with Session(workspace, model=model(bash("touch made"), "."), approve=approve) as session:
        ((_, verdict),) = session.run("go").denials
    assert verdict.reason == f"the program failed to decide: {type(error).__name__}: by nothing"
    assert not (workspace / "made").exists()


class Approver:
    async def __call__(self, question: Question) -> bool:
        return True


def test_object_that_decides_later_is_awaited(workspace: Path, model: Any) -> None:
    with Session(workspace, model=model(bash("touch made"), "."), approve=Approver()) as session:
        assert not session.run("go").denials
    assert (workspace / "made").exists()


def test_session_without_async_works_where_a_loop_is_running(workspace: Path, model: Any) -> None:
    async def run() -> str:
        with Session(workspace, model=model("hello")) as session:
            return session.run("go").answer

    assert asyncio.run(run()) == "hello"


def test_effect_of_a_tool_decides_and_rules_name_it(workspace: Path, model: Any) -> None:
    @tool(effect="network")
    def call() -> str:
        "Call somebody."
        return "hello"

    replies = [{"calls": [{"call": {}}]}, "."]
    decisions = []
    for rules in ([], ["tool(call)"]):
        with Session(workspace, model=model(*replies), tools=[call], allow=rules) as session:
            session.run("go")
            decisions += [one.verdict.by for one in session.facts if isinstance(one, CallJudged)]
    assert decisions == ["nobody", "rule"]


def test_answer_that_has_a_schema_is_data(workspace: Path, model: Any) -> None:
    schema: Any = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    with Session(workspace, model=model('{"n": 7}'), answer_schema=schema) as session:
        assert session.run("how many?").data == {"n": 7}


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"modle": "x"}, UsageError, "unknown setting 'modle'"),
        ({"max_turns": "many"}, UsageError, "max-turns must be a whole number"),
        ({"model": "script/none.json"}, SettingsError, "cannot read the script"),
        ({"workspace": "/no/such"}, UsageError, "cannot open /no/such"),
        ({"resume": "nothing-like-it"}, AgentError, "nothing-like-it"),
        ({"allow": ["bash("]}, AgentError, "bash"),
        ({"allow": "bash(ls)"}, UsageError, "allow must be a list of texts"),
        ({"verify": "pytest -q"}, UsageError, "verify must be a list of texts"),
        ({"tools": [print]}, UsageError, "<built-in function print> is not a tool"),
        ({"answer_schema": []}, UsageError, "answer_schema cannot be .*: it is not an object"),
        ({"answer_schema": {"type": "string"}}, UsageError, "an answer is always an object"),
        ({"answer_schema": {"$ref": "#/none"}}, UsageError, "'#/none' is not defined"),
    ],
)
def test_what_cannot_be_opened_says_why(
    options: dict[str, Any], error: type[Exception], message: str, workspace: Path, model: Any
) -> None:
    before = threading.active_count()
    with (
        pytest.raises(error, match=message),
        Session(**{"workspace": workspace, "model": model("."), **options}),
    ):
        pass
    assert threading.active_count() == before


def test_message_that_is_no_text_is_refused_and_the_session_goes_on(
    workspace: Path, model: Any
) -> None:
    nothing: Any = None
    with Session(workspace, model=model("Done.")) as session:
        for send in (session.run, session.steer):
            with pytest.raises(UsageError, match="None is not a text"):
                send(nothing)
        assert session.run("go").answer == "Done."


def test_misuse_says_what_would_be_right(workspace: Path, model: Any) -> None:
    @tool
    def bash() -> None:
        "Do it."

    with pytest.raises(UsageError, match="there is a tool bash already"):
        Session(workspace, model=model("."), tools=[bash]).__enter__()
    session = Session(workspace, model=model("."))
    with pytest.raises(UsageError, match="the session is not open"):
        session.run("go")
    with pytest.raises(UsageError, match="the session is not open"):
        session.steer("go")
    with pytest.raises(UsageError, match="the session is open already"), session, session:
        pass
    with pytest.raises(UsageError, match="cannot approve always"):
        allow(lasts="always")

    async def run_twice() -> None:
        async with AsyncSession(workspace, model=model(".", ".")) as session:
            await asyncio.gather(session.run("a"), session.run("b"))

    with pytest.raises(UsageError, match="a turn is running"):
        asyncio.run(run_twice())


def test_session_ends_with_the_outcome_of_its_last_turn(workspace: Path, model: Any) -> None:
    async def run() -> list[Any]:
        facts: list[Any] = []
        session = AsyncSession(workspace, model=model({"error": {"message": "down"}}))
        async with session:
            await session.run("go")
            facts = session._open_session.journal.facts
        return facts

    ended = asyncio.run(run())[-1]
    assert isinstance(ended, SessionEnded)
    assert (ended.exit_code, ended.ending) == (4, Ending.PROVIDER_FAILED)
