from collections.abc import Sequence

import pytest

from agentcli.types.checks import Verified
from agentcli.types.deltas import RetryDelta
from agentcli.types.errors import Ending, RunOutcome
from agentcli.types.events import CallFinished, CallJudged, ContextNote, Event, ModelReplied, Warned
from agentcli.types.messages import AssistantMessage, Text, ToolCall
from agentcli.types.tools import Command, Diff, Effect, ToolResult
from agentcli.types.verdicts import Verdict
from agentcli.ui.oneshot.plain import ProgressRenderer, format_answer
from agentcli.ui.tally import Tally

CALL = ToolCall(id="c1", name="bash", input={"command": "make"})
ASKED = ModelReplied(
    message=AssistantMessage(
        content=(Text(text="Let me\x1b[2J see."), CALL), stop="tool_calls", protocol="p", model="m"
    )
)
JUDGED = CallJudged(
    call=CALL,
    effect=Effect.EXECUTE,
    verdict=Verdict(decision="allow", by="mode", reason="auto"),
)


class Kept:
    def __init__(self) -> None:
        self.lines: list[str] = []

    def write_line(self, text: str) -> None:
        self.lines.append(text.partition("] ")[2] or text)

    def write_card(self, title: str, body: Sequence[str]) -> None:
        self.write_line(title)
        self.lines += [f"| {line}" for line in body]


def told(*events: Event, quiet: bool = False) -> list[str]:
    page = Kept()
    story = ProgressRenderer(page, quiet=quiet)
    for event in events:
        story(event)
    return page.lines


def finished(details: Command | Diff) -> CallFinished:
    result = ToolResult(call_id="c1", name="bash", status="ok", content=(), details=details)
    return CallFinished(result=result, duration_s=2.0)


@pytest.mark.parametrize(
    ("event", "lines"),
    [
        (Warned(code="c", message="mind\x07"), ["warning: mind�"]),
        (ContextNote(text="first\nsecond", why="verify"), ["Note to the model: first …"]),
        (
            ContextNote(
                text="Instructions of this project.\n\nUse tabs.\n",
                why="instructions",
                loaded="AGENTS.md (1 line)",
            ),
            ["Loaded AGENTS.md (1 line)"],
        ),
        (
            ContextNote(text="Read one.\n- a\n- b", why="instructions", loaded="2 skills"),
            ["Loaded 2 skills"],
        ),
        (
            ContextNote(text="Plan mode: calls are denied.", why="plan_mode"),
            ["Plan mode: read-only"],
        ),
        (ContextNote(text="Go on.", why="plan_mode_over"), ["Plan mode is over"]),
        (
            ContextNote(text="Steps of the plan that are done: 1 of 2.", why="plan_steps"),
            ["Note to the model: Steps of the plan that are done: 1 of 2."],
        ),
        (Verified(command="make  x", exit_code=0, output=""), ["verify make x: passed (0ms)"]),
        (
            Verified(command="x", exit_code=3, output="bad\n"),
            ["verify x: exit 3 (0ms)", "| bad"],
        ),
        (Verified(command="x", exit_code=None, output=""), ["verify x: did not finish (0ms)"]),
        (
            RetryDelta(reason="busy", status=429, wait_s=2.5, attempt=2, attempts=6),
            ["busy: retrying in 2.5 s, attempt 2 of 6"],
        ),
    ],
)
def test_event_is_told_in_a_line(event: Event, lines: list[str]) -> None:
    assert told(event) == lines
    assert told(event, quiet=True) == []


def test_call_is_a_card_with_its_body() -> None:
    command = Command(command="make", cwd="/", exit_code=3, output_lines=9, head="a\nb", tail="z")
    assert told(ASKED, JUDGED, finished(command)) == [
        "Let me�[2J see.",
        "bash make: exit 3, 9 lines (2.0s)",
        "| a",
        "| b",
        "| …",
        "| z",
    ]


def test_heart_beats_only_where_nothing_was_said() -> None:
    page = Kept()
    story = ProgressRenderer(page)
    story.report_alive(60.0)
    assert page.lines == []
    story.report_alive(0.0)
    assert page.lines == ["still working: waiting for the model"]
    story(ASKED)
    story(JUDGED)
    story.report_alive(0.0)
    assert page.lines[-1].startswith("still working: bash make, ")


@pytest.mark.parametrize(
    ("outcome", "lines"),
    [
        (RunOutcome(ending=Ending.DONE), []),
        (
            RunOutcome(ending=Ending.DENIED, message="no", hint="--allow x"),
            ["error: no", "  fix: --allow x"],
        ),
        (RunOutcome(ending=Ending.REFUSED), ["error: refused"]),
        (RunOutcome(ending=Ending.INTERNAL, message="bug"), []),
    ],
)
def test_last_word_is_the_error_and_how_to_fix_it(outcome: RunOutcome, lines: list[str]) -> None:
    page = Kept()
    ProgressRenderer(page, quiet=True).finish(outcome, Tally())
    assert page.lines == lines


def test_answer_is_data_where_data_was_asked_for() -> None:
    assert format_answer(Tally(structured={"n": "ü"})) == '{\n  "n": "ü"\n}'
    tally = Tally()
    said = AssistantMessage(content=(Text(text="words"),), stop="end", protocol="t", model="m")
    tally(ModelReplied(message=said))
    assert format_answer(tally) == "words"
