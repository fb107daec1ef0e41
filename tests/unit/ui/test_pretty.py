import re

import pytest

from agentcli.types.errors import Ending, RunOutcome
from agentcli.types.events import Event, ModelReplied, SessionStarted, Warned
from agentcli.types.messages import AssistantMessage, Text, ToolCall, Usage
from agentcli.ui.oneshot.pretty import TerminalRenderer
from agentcli.ui.oneshot.pretty_view import TerminalView
from agentcli.ui.render.paint import Paint
from agentcli.ui.render.theme import NONE
from agentcli.ui.tally import Tally
from tests.support.scenes import failing, read

STARTED = SessionStarted(
    session="7f3a",
    version="1",
    workspace="/src/demo",
    model="test/model",
    mode="ask",
    tools=(),
    tools_sha256="",
)


def view() -> TerminalView:
    return TerminalView(Paint(columns=100, theme=NONE, color="none", accessible=True))


def replied(text: str, *calls: ToolCall) -> ModelReplied:
    message = AssistantMessage(
        content=(Text(text=text), *calls),
        stop="tool_calls" if calls else "end",
        protocol="test",
        model="test/model",
        usage=Usage(input_tokens=1200, output_tokens=30),
    )
    return ModelReplied(message=message)


def played(*events: Event, outcome: RunOutcome) -> Tally:
    face, tally = TerminalRenderer(view), Tally()
    tally.began -= 8
    for event in events:
        tally(event)
        face(event)
    face.finish(outcome, tally)
    return tally


def test_story_is_told_in_cards(capsys: pytest.CaptureFixture[str]) -> None:
    first, second = read("calc.py"), failing()
    assert first.judged and second.judged
    played(
        STARTED,
        replied("I'll *look* at it.", first.judged.call, second.judged.call),
        first.judged,
        first.finished,
        second.judged,
        second.finished,
        Warned(code="x", message="careful"),
        replied("Done."),
        outcome=RunOutcome(ending=Ending.DONE),
    )
    out, err = capsys.readouterr()
    blocks = err.split("\n\n")
    assert out == ""
    assert blocks[0] == "agentcli 1 · test/model · ask mode\nworkspace /src/demo"
    assert blocks[1] == "I'll look at it."
    assert blocks[2] == "Finished read_file calc.py  14 lines, 2 milliseconds"
    assert blocks[3].startswith("Failed bash pytest -q  exit 3, 2.1 seconds, 61 lines")
    assert blocks[4] == "warning: careful"
    assert re.fullmatch(r"done in [\d.]+ seconds, 2 tools, in 2.4k out 60", blocks[5])


def test_failed_run_ends_with_what_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    outcome = RunOutcome(ending=Ending.DENIED, message="it was denied", hint="--allow x")
    played(STARTED, replied("I could not."), outcome=outcome)
    assert capsys.readouterr().err.endswith(
        "\n\nI could not.\n\nerror: it was denied\n  fix: --allow x\n"
    )


def test_nothing_is_opened_for_a_run_that_never_began(capsys: pytest.CaptureFixture[str]) -> None:
    def refuse() -> TerminalView:
        raise AssertionError("opened")

    face = TerminalRenderer(refuse)
    face(STARTED)
    face.finish(RunOutcome(ending=Ending.MISCONFIGURED, message="no key", hint="set one"), Tally())
    assert capsys.readouterr().err.endswith("error: no key\n  fix: set one\n")


def test_row_of_a_running_call_is_erased(capsys: pytest.CaptureFixture[str]) -> None:
    paint = Paint(columns=100, theme=NONE, color="none")
    face, one = TerminalRenderer(lambda: TerminalView(paint)), failing()
    assert one.judged
    face(one.judged)
    face(one.finished)
    running, erased, card = capsys.readouterr().err.partition("\r\x1b[K")
    assert "bash" in running and "\n" not in running and erased
    assert card.startswith("\x1b[1m✗")
