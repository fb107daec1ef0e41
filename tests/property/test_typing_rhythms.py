"""No rhythm of typing a message answers a question; a single key that is meant as one does."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import cycle, islice
from pathlib import Path
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prompt_toolkit.application import Application
from prompt_toolkit.application.current import set_app
from prompt_toolkit.history import InMemoryHistory
from prompt_toolkit.input import DummyInput
from prompt_toolkit.key_binding import KeyBindings
from prompt_toolkit.key_binding.key_processor import KeyPress
from prompt_toolkit.keys import Keys
from prompt_toolkit.layout import BufferControl, Layout, Window
from prompt_toolkit.output import DummyOutput

from agentcli.types.messages import ToolCall
from agentcli.types.tools import Command, Effect
from agentcli.types.verdicts import Question, Verdict
from agentcli.ui.repl.answer_keys import ALONE_S, AnswerKeys, Rhythm
from agentcli.ui.repl.approval import (
    GRACE_S,
    PAUSE_S,
    ApprovalPrompt,
    PendingApproval,
    PlanAnswer,
    RuleOffer,
)
from agentcli.ui.repl.completion import ServerCompletions
from agentcli.ui.repl.composer import Composer
from agentcli.ui.repl.keys import TABLE, build_bindings
from agentcli.ui.repl.mentions import WorkspaceFiles
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
    verdict=Verdict(decision="ask", by="mode", reason="no rule matches"),
)
OFFER = RuleOffer(rules=("bash(pytest:*)",), session="bash(pytest:*)")
FILES = WorkspaceFiles(Path("/nowhere"))
Kind = Literal["call", "plan"]


class NoMenu:
    def list_completions(self, typed: str) -> Iterator[tuple[str, str, int]]:
        return iter(())


@dataclass
class Desk:
    """The real keys, input and question; a screen that is drawn at once."""

    files: WorkspaceFiles
    answers: list[str] = field(default_factory=list)
    sent: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        clock = asyncio.get_running_loop().time
        self.composer = Composer(
            history=InMemoryHistory(),
            menu=NoMenu(),
            files=self.files,
            server_completions=ServerCompletions(lambda: None),
            rhythm=Rhythm(clock),
        )
        self.approvals = ApprovalPrompt(
            is_composing=lambda: self.composer.is_used,
            measure_quiet_s=self.composer.rhythm.quiet_s,
            build_offer=lambda question: OFFER,
            find_position=lambda question: (1, 1),
            on_change=self._draw,
            clock=clock,
        )
        self.answer_keys = AnswerKeys(
            self.approvals,
            alone_s=self.composer.rhythm.alone_s,
            answer=self._answer,
            write=self._write,
            changed=self._draw,
            clock=clock,
        )
        self.app: Application[None] = Application(
            layout=Layout(Window(BufferControl(self.composer.buffer))),
            key_bindings=self._bindings(),
            input=DummyInput(),
            output=DummyOutput(),
        )
        self.app.key_processor.before_key_press += lambda _: self._key_pressed()

    def _bindings(self) -> KeyBindings:
        actions = {row.action: lambda: None for row in TABLE}
        for name in ("answer_line", "leave_answer_line", "leave_shell"):
            actions[name] = lambda: None
        actions["submit"] = self._submit
        actions["complete"] = self.approvals.open_now
        return build_bindings(
            actions,
            approvals=self.approvals,
            paste=self._paste,
            answer_keys=self.answer_keys,
            is_answering=lambda: False,
            is_bare_shell=lambda: False,
        )

    def _draw(self) -> None:
        """What is drawn shows all of the question."""
        if isinstance(self.approvals.pending, PendingApproval):
            self.approvals.pending.is_cut = False
        self.approvals.note_shown()

    def _key_pressed(self) -> None:
        if not self.approvals.takes_keys:
            self.composer.rhythm.touch()
            self.approvals.postpone()

    def _answer(self, letter: str) -> None:
        self.answers.append(letter)
        self.approvals.deny()
        self.approvals.decide_on_plan(PlanAnswer())

    def _write(self, text: str) -> None:
        self.composer.rhythm.touch()
        self.composer.paste(text)

    def _paste(self, text: str) -> None:
        if self.approvals.takes_keys:
            self.answer_keys.paste(text)
        else:
            self.composer.paste(text)

    def _submit(self) -> None:
        if self.composer.text:
            self.sent.append(self.composer.take()[0])

    def ask(self, kind: Kind) -> "asyncio.Future[object]":
        if kind == "plan":
            return asyncio.ensure_future(self.approvals.ask_about_plan("1. Go."))
        return asyncio.ensure_future(self.approvals(QUESTION))

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
        desk = Desk(FILES)
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


@pytest.mark.parametrize("typist", TYPISTS_MS)
@pytest.mark.parametrize("message", MESSAGES)
def test_question_never_opens_over_a_message(typist: str, message: str) -> None:
    async def go() -> None:
        desk = Desk(FILES)
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


@pytest.mark.parametrize("typist", TYPISTS_MS)
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
        desk = Desk(FILES)
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
        desk = Desk(FILES)
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
        desk = Desk(FILES)
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
        desk = Desk(FILES)
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
        desk = Desk(FILES)
        await desk.type(FIRST + "\r", gaps("fast, 95 words a minute", 0))
        return desk.composer.rhythm.alone_s()

    assert run_virtually(go()) == ALONE_S
