import asyncio
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from agentcli.agent.history import History
from agentcli.features.programs.run_program import ProgramHost as ProgramGround
from agentcli.features.programs.run_program import RunProgram
from agentcli.log.reader import read_log
from agentcli.sandbox.limits import CommandLimits
from agentcli.system.process_table import ProcessTable
from agentcli.types.events import CallJudged
from agentcli.types.messages import Text, ToolCall
from agentcli.types.tools import Output, ToolContext, ToolResult
from tests.support.confined import LAYERS, Confined, confined
from tests.support.files import ignore
from tests.support.mcp_links import Unfiltered
from tests.support.program import Ran, agentcli, script, session_log

pytestmark = pytest.mark.usefixtures("verified_logs")

FILES = 500
COUNT = """
hits = {row.split(":")[0] for row in grep("TODO", path="src").splitlines() if ":" in row}
texts = {path: read_file(path=f"src/f{path}.py") for path in range(500)}
print(sum("TODO" in text for text in texts.values()), "of", len(texts))
"""


class Ground:
    def __init__(self, tmp_path: Path) -> None:
        self.home, self.work = tmp_path / "home", tmp_path / "work"
        self.home.mkdir()
        (self.work / "src").mkdir(parents=True)
        self.script = tmp_path / "s.json"

    def run(self, program: str, *options: str, programs: str = "true") -> Ran:
        replies = [{"calls": [{"run_program": {"program": dedent(program)}}]}, "Done."]
        model = script(self.script, replies)
        return agentcli(
            *("run", "--model", model, "-o", "stream-json", "--mode", "auto", *options, "go"),
            home=self.home,
            cwd=self.work,
            env={"AGENTCLI_PROGRAMS": programs},
        )


@pytest.fixture
def ground(tmp_path: Path) -> Ground:
    return Ground(tmp_path)


def finished(ran: Ran) -> list[dict[str, Any]]:
    return [event for event in ran.events if event["type"] == "tool.finished"]


def test_program_over_many_files_returns_one_short_result(ground: Ground) -> None:
    for number in range(FILES):
        todo = "  # TODO" if number % 50 == 0 else ""
        (ground.work / "src" / f"f{number}.py").write_text(f"value = {number}{todo}\n")
    ran = ground.run(COUNT)
    *inner, outer = finished(ran)
    assert (ran.code, outer["model_text"]) == (0, "10 of 500\n[501 calls]\n[exit code 0]")
    assert len(inner) == 501
    requested = [event for event in ran.events if event["type"] == "tool.requested"]
    (whole,) = [event["id"] for event in requested if "caller" not in event]
    assert {event["caller"] for event in requested if "caller" in event} == {whole}
    assert ran.err.count("\n") < 20
    facts = [entry.fact for entry in read_log(session_log(ground.home)).entries]
    callers = [fact.call.caller for fact in facts if isinstance(fact, CallJudged)]
    assert callers == [None, *([whole] * 501)]
    messages = str(History(facts).build_messages())
    assert ("10 of 500" in messages, "value = 499" in messages) == (True, False)
    assert len(messages) < 5000


@pytest.mark.parametrize("layer", [*LAYERS, "off"])
def test_program_is_confined_and_its_calls_are_judged(layer: str, ground: Ground) -> None:
    if layer != "off":
        with confined(layer, ground.home / "probe"):
            """It works here, or else the test is skipped."""
    (ground.work / ".env").write_text("hidden")
    program = """
    print(write_file(path="made.txt", content="made\\n").splitlines()[0])
    print(bash("echo from bash").splitlines()[0])
    try:
        print(read_file(".env"))
    except ToolError as error:
        print(error)
    """
    ran = ground.run(program, "--sandbox", layer, "--deny", "read(**/.env)")
    *_, outer = finished(ran)
    said = outer["model_text"].split("\n")
    assert (said[1], said[3:]) == ("from bash", ["[3 calls]", "[exit code 0]"])
    assert said[2].startswith("Denied: rule deny read(**/.env)")
    assert (ground.work / "made.txt").read_text() == "made\n"
    undone = agentcli("undo", "--turn", "1", home=ground.home, cwd=ground.work)
    assert (undone.code, (ground.work / "made.txt").exists()) == (0, False)


def test_program_needs_a_yes_and_plan_mode_has_none(ground: Ground) -> None:
    asked = ground.run("print(1)", "--mode", "ask")
    assert (asked.code, finished(asked)[0]["status"]) == (5, "denied")
    assert "--allow run_program" in asked.err
    allowed = ground.run("print(1)", "--mode", "ask", "--allow", "run_program")
    assert (allowed.code, finished(allowed)[0]["model_text"]) == (
        0,
        "1\n[0 calls]\n[exit code 0]",
    )
    planned = ground.run("print(1)", "--mode", "plan")
    assert finished(planned)[0]["status"] == "denied"


def test_program_is_offered_only_when_wanted(ground: Ground) -> None:
    ran = ground.run("print(1)", programs="false")
    assert finished(ran)[0]["error"] == "unknown_tool"
    (opened,) = [event for event in ran.events if event["type"] == "session.started"]
    assert "run_program" not in opened["tools"]


def test_readers_of_the_record_know_whose_the_calls_were(ground: Ground) -> None:
    program = """
    print(len(find_files("*.py")))
    for attempt in (lambda: read_file("none.py"), lambda: read_file(5, 6, 7, 8)):
        try:
            attempt()
        except (ToolError, TypeError):
            pass
    try:
        read_file(nothing=1)
    except ToolError as error:
        print(error)
    """
    assert ground.run(program).code == 0
    log = session_log(ground.home)
    triage = agentcli("triage", "-o", "json", log, home=ground.home, cwd=ground.work)
    assert ('"calls": 4' in triage.out, '"orphan"' in triage.out) == (True, False)
    replayed = agentcli("replay", "--check", log, home=ground.home, cwd=ground.work)
    assert replayed.code == 0, replayed.out


@pytest.mark.parametrize("layer", LAYERS)
def test_program_that_takes_too_much_memory_is_ended(layer: str, tmp_path: Path) -> None:
    limits = CommandLimits(memory_bytes=200 * 1024**2)
    program = "import time\nkept = bytearray(b'x' * 600_000_000)\ntime.sleep(60)\nprint('alive')\n"

    async def scenario(place: Confined) -> Output:
        ledger = ProcessTable()
        ground = ProgramGround(
            workspace=place.workspace,
            out_dir=tmp_path,
            sandbox=place.sandbox,
            environ=place.environ,
            processes=ledger,
            clean=Unfiltered,
        )
        tool = RunProgram(ground, functions=dict)
        context = ToolContext(
            call_id="c1", workspace=place.workspace, progress=ignore, dispatch=never
        )
        try:
            return await tool.run(tool.parse({"program": program, "timeout": 50}), context)
        finally:
            await ledger.close()

    with confined(layer, tmp_path / "ground", limits=limits) as place:
        output = asyncio.run(scenario(place))
    (said,) = output.content
    assert isinstance(said, Text)
    assert "alive" not in said.text
    assert "memory" in said.text


async def never(call: ToolCall) -> ToolResult:
    raise AssertionError("it calls nothing")
