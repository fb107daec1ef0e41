"""No rhythm of typing a message answers a question; a single key that is meant as one does."""

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import cycle, islice
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prompt_toolkit.application import Application
from prompt_toolkit.application.current import set_app
from prompt_toolkit.input import DummyInput
from prompt_toolkit.key_binding.key_processor import KeyPress
from prompt_toolkit.keys import Keys
from prompt_toolkit.layout import BufferControl, Layout, Window
from prompt_toolkit.output import DummyOutput

from agentcli.types.messages import ToolCall
from agentcli.types.tools import Command, Effect
from agentcli.types.verdicts import Question, RuleSuggestion, Verdict
from agentcli.ui.repl.actions import Actions
from agentcli.ui.repl.answers import AnswerKeys, Answers
from agentcli.ui.repl.approval import (
    GRACE_S,
    PAUSE_S,
    ApprovalPrompt,
    PendingApproval,
    PendingPlan,
)
from agentcli.ui.repl.composer import ALONE_S
from agentcli.ui.repl.repl import build_bindings
from agentcli.ui.repl.state import ReplState
from tests.support.desk import UnseenTerminal, build_composer, build_state
from tests.support.examples import examples
from tests.support.virtual_time import run_virtually

TYPISTS_MS = {
    "fast, 95 words a minute": (92, 118, 84, 131, 76, 109, 143, 88, 97, 165, 71, 122, 104, 90),
    "usual, 55 words a minute": (164, 211, 142, 248, 187, 133, 302, 176, 159, 224, 198, 147, 271),
    "uneven, bursts and stops": (61, 74, 390, 58, 83, 69, 445, 66, 91, 52, 410, 77, 63, 480, 70),
    "two fingers": (288, 341, 263, 412, 377, 305, 459, 322, 351, 396, 274, 438, 367, 310),
    "searching for each key": (512, 640, 478, 701, 586, 733, 549, 668, 497, 715, 602, 744, 530),
    "key repeat and rolled keys": (9, 31, 12, 33, 8, 31, 15, 27, 11, 30, 6, 33, 10, 29, 14),
}
MESSAGES = (
    "when you are done please also run the linter",
    "also say what you changed",
    "yesterday the same test failed",
    "say why",
    "no, not that file",
    "any news?",
    "yes",
    "as before",
    "my mistake, ven is fine",
    "every name in a sane way, maybe",
)
FIRST = "please mend the divide function"
"""What the user has typed before there is any question."""
PAUSES_S = (0.3, 0.6, 0.9, 1.2, 1.7, 2.5, 5.0)
QUESTION = Question(
    call=ToolCall(id="c1", name="bash", input={"command": "pytest"}),
    effect=Effect.EXECUTE,
    preview=Command(command="pytest", cwd="/w"),
    verdict=Verdict(decision="ask", by="mode", reason="no rule allows pytest"),
    own_input={"command": "pytest"},
    suggestion=RuleSuggestion(rules=("bash(pytest:*)",), session="bash(pytest:*)"),
)
Kind = Literal["call", "plan"]


class DrawnAtOnce(UnseenTerminal):
    """A screen that is drawn at once, and that shows all of the question."""

    def __init__(self, state: ReplState) -> None:
        super().__init__()
        self._state = state
        self.approvals: ApprovalPrompt | None = None

    def redraw(self) -> None:
        if isinstance(self._state.pending, PendingApproval):
            self._state.pending.is_cut = False
        if self.approvals is not None:
            self.approvals.note_shown()


class Given(Answers):
    """Notes the letters that are taken as answers, and answers no."""

    def __init__(self, desk: "Desk", clock: Callable[[], float]) -> None:
        self.letters: list[str] = []
        self._state = desk.state
        self._approvals = desk.approvals
        self.keys = AnswerKeys(
            desk.state,
            desk.approvals,
            composer=desk.composer,
            terminal=desk.terminal,
            answers=self,
            clock=clock,
        )

    def give(self, key: str) -> None:
        self.letters.append(key)
        super().refuse()

    def refuse(self) -> None:
        self.letters.append("stop")
        super().refuse()


class DeskActions(Actions):
    """The actions that need neither a session nor a screen."""

    def __init__(self, desk: "Desk") -> None:
        self._desk = desk
        self._state = desk.state
        self._composer = desk.composer
        self._approvals = desk.approvals
        self._answers = desk.given
        self._terminal = desk.terminal

    def submit(self) -> None:
        if self._composer.text:
            self._desk.sent.append(self._composer.take()[0])

    def complete(self) -> None:
        self._approvals.open_now()


@dataclass
class Desk:
    """The real keys, input and question; a screen that is drawn at once."""

    sent: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        clock = asyncio.get_running_loop().time
        self.state = build_state()
        self.composer = build_composer(clock)
        self.terminal = DrawnAtOnce(self.state)
        self.approvals = ApprovalPrompt(
            self.state, self.composer, terminal=self.terminal, clock=clock
        )
        self.terminal.approvals = self.approvals
        self.given = Given(self, clock)
        self.app: Application[None] = Application(
            layout=Layout(Window(BufferControl(self.composer.buffer))),
            key_bindings=build_bindings(
                DeskActions(self), self.given, state=self.state, approvals=self.approvals
            ),
            input=DummyInput(),
            output=DummyOutput(),
        )
        self.app.key_processor.before_key_press += lambda _: self.approvals.note_key()

    @property
    def answers(self) -> list[str]:
        return self.given.letters

    def ask(self, kind: Kind) -> "asyncio.Future[Any]":
        if kind == "plan":
            plan = PendingPlan(plan="1. Go.", answer=asyncio.get_running_loop().create_future())
            return asyncio.ensure_future(self.approvals.wait_for_answer(plan, plan.answer))
        call = PendingApproval(question=QUESTION, answer=asyncio.get_running_loop().create_future())
        return asyncio.ensure_future(self.approvals.wait_for_answer(call, call.answer))

    def press(self, *keys: str) -> None:
        with set_app(self.app):
            for key in keys:
                press = KeyPress(Keys.Enter, "\r") if key == "\r" else KeyPress(*_named(key))
                self.app.key_processor.feed(press)
            self.app.key_processor.process_keys()

    async def type(self, text: str, gaps_s: Iterator[float]) -> None:
        for key in text:
            self.press(key)
            await asyncio.sleep(next(gaps_s))

    @property
    def text(self) -> str:
        return "".join([*self.sent, self.composer.text])


def _named(key: str) -> tuple[Keys | str, str]:
    names = {"\t": Keys.Tab, "\x7f": Keys.Backspace, "\x1b": Keys.Escape}
    return names.get(key, key), key


def gaps(typist: str, start: int) -> Iterator[float]:
    return islice(cycle(gap / 1000 for gap in TYPISTS_MS[typist]), start, None)


async def typed_across(
    desk: Desk,
    message: str,
    typist: str,
    *,
    start: int,
    pause_at: int,
    pause_s: float,
    asked_at: int,
    kind: Kind,
) -> None:
    """`asked_at` -1: the question is open before the first key."""
    rhythm = gaps(typist, start)
    await desk.type(FIRST + "\r", gaps(typist, 0))
    question = desk.ask(kind) if asked_at < 0 else None
    await asyncio.sleep(PAUSE_S + GRACE_S + 1)
    for index, key in enumerate(message):
        if index == asked_at:
            question = desk.ask(kind)
        desk.press(key)
        await asyncio.sleep(pause_s if index == pause_at else next(rhythm))
    await asyncio.sleep(PAUSE_S + 2)
    if question is not None:
        question.cancel()


@pytest.mark.parametrize("typist", TYPISTS_MS)
@examples(25)
@given(data=st.data())
def test_no_rhythm_of_typing_a_message_answers(typist: str, data: st.DataObject) -> None:
    kind: Kind = data.draw(st.sampled_from(["call", "plan"]))
    message = data.draw(st.sampled_from(MESSAGES))
    pause_at = data.draw(st.integers(0, len(message) - 1))
    asked_at = data.draw(st.integers(-1, len(message) - 1))
    pause_s = data.draw(st.sampled_from(PAUSES_S))
    start = data.draw(st.integers(0, len(TYPISTS_MS[typist]) - 1))
    if pause_at == 0 and asked_at < 0:
        pause_at = 1  # a first letter that stands alone at an open question is an answer

    async def go() -> tuple[list[str], str]:
        desk = Desk()
        await typed_across(
            desk,
            message,
            typist,
            start=start,
            pause_at=pause_at,
            pause_s=pause_s,
            asked_at=asked_at,
            kind=kind,
        )
        return desk.answers, desk.text

    assert run_virtually(go()) == ([], FIRST + message)


@pytest.mark.parametrize(("typist", "message"), [*zip(cycle(TYPISTS_MS), MESSAGES, strict=False)])
def test_question_never_opens_over_a_message(typist: str, message: str) -> None:
    async def go() -> None:
        desk = Desk()
        await desk.type(message, gaps(typist, 0))
        question = desk.ask("call")
        for _ in range(100):
            await asyncio.sleep(1)
            assert desk.approvals.is_waiting
        desk.press("\r")
        await asyncio.sleep(PAUSE_S + 1)
        assert desk.approvals.is_open
        question.cancel()
        assert desk.answers == []

    run_virtually(go())


@pytest.mark.parametrize("typist", ["usual, 55 words a minute", "key repeat and rolled keys"])
@pytest.mark.parametrize(
    ("kind", "keys", "answer"),
    [
        *(("call", letter, letter) for letter in "ysnevm"),
        *(("plan", letter, letter) for letter in "ynem"),
        ("call", "a", ""),
        ("call", "a\r", "a"),
        ("plan", "a\r", "a"),
        ("call", "\x1b", "stop"),
        ("call", "\r", ""),
        ("call", "a\x7f\r", ""),
    ],
)
def test_single_key_that_is_meant_answers(typist: str, kind: Kind, keys: str, answer: str) -> None:
    async def go() -> list[str]:
        desk = Desk()
        await desk.type(FIRST + "\r", gaps(typist, 0))
        question = desk.ask(kind)
        await asyncio.sleep(PAUSE_S + 1)
        for key in keys:
            desk.press(key)
            await asyncio.sleep(1.1)
        question.cancel()
        return desk.answers

    assert run_virtually(go()) == ([answer] if answer else [])


def test_user_can_ask_for_the_question_over_a_message() -> None:
    async def go() -> tuple[list[str], str]:
        desk = Desk()
        await desk.type("half a mess", gaps("usual, 55 words a minute", 0))
        question = desk.ask("call")
        await asyncio.sleep(0)
        desk.press("\t")
        await asyncio.sleep(1)
        desk.press("y")
        await asyncio.sleep(1)
        await question
        return desk.answers, desk.text

    assert run_virtually(go()) == (["y"], "half a mess")


@pytest.mark.parametrize("keys", ["y\r", "yy", "a\r\r", "y y", "sure\r", "yes\r"])
def test_keys_of_one_read_answer_nothing(keys: str) -> None:
    async def go() -> list[str]:
        desk = Desk()
        question = desk.ask("call")
        await asyncio.sleep(GRACE_S)
        desk.press(*keys)
        await asyncio.sleep(10)
        question.cancel()
        return desk.answers

    assert run_virtually(go()) == []


@pytest.mark.parametrize("text", ["y", "a\r", "yes\n", "\x1b"])
@pytest.mark.parametrize("before", ["", "y"])
def test_pasted_text_answers_nothing(text: str, before: str) -> None:
    async def go() -> list[str]:
        desk = Desk()
        question = desk.ask("call")
        await asyncio.sleep(GRACE_S)
        if before:
            desk.press(before)
        with set_app(desk.app):
            desk.app.key_processor.feed(KeyPress(Keys.BracketedPaste, text))
            desk.app.key_processor.process_keys()
        await asyncio.sleep(10)
        question.cancel()
        return desk.answers

    assert run_virtually(go()) == []


def test_quick_typist_waits_no_longer_than_needed_for_an_answer() -> None:
    async def go() -> float:
        desk = Desk()
        await desk.type(FIRST + "\r", gaps("fast, 95 words a minute", 0))
        return desk.composer.rhythm.compute_alone_s()

    assert run_virtually(go()) == ALONE_S
