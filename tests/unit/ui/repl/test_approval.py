import asyncio
from dataclasses import replace
from typing import Any

import pytest

from agentcli.types.messages import ToolCall
from agentcli.types.tools import Command, Effect
from agentcli.types.verdicts import Question, RuleSuggestion, Verdict
from agentcli.ui.render.wording import describe_decision
from agentcli.ui.repl.answer_table import ANSWERS_BY_KEY, Letter
from agentcli.ui.repl.approval import (
    GRACE_S,
    PAUSE_S,
    ApprovalPrompt,
    PendingApproval,
    PendingPlan,
    PlanAnswer,
    build_no_answer,
)
from agentcli.ui.repl.line_mode import parse_answer
from tests.support.desk import UnseenTerminal, build_composer, build_state

OFFER = RuleSuggestion(rules=("bash(pytest:*)",), session="bash(pytest:*)")
QUESTION = Question(
    call=ToolCall(id="c1", name="bash", input={"command": "pytest"}),
    effect=Effect.EXECUTE,
    preview=Command(command="pytest", cwd="/w"),
    verdict=Verdict(decision="ask", by="mode", reason="no rule allows pytest"),
    own_input={"command": "pytest"},
    suggestion=OFFER,
)


class Desk:
    """A user at a keyboard, and a clock that stands still until it is moved."""

    def __init__(self, *, typed_s_ago: float = 100.0, is_composing: bool = False) -> None:
        self.now = 1000.0 - typed_s_ago
        self.state = build_state()
        self.composer = build_composer(lambda: self.now)
        self.composer.rhythm.touch()
        if is_composing:
            self.composer.set_text("half a message")
        self.now = 1000.0
        self.terminal = UnseenTerminal()
        self.approvals = ApprovalPrompt(
            self.state, self.composer, terminal=self.terminal, clock=lambda: self.now
        )

    async def ask(self) -> "asyncio.Task[Verdict]":
        answer: asyncio.Future[Verdict] = asyncio.get_running_loop().create_future()
        asked = PendingApproval(question=QUESTION, answer=answer)
        task = asyncio.ensure_future(self.approvals.wait_for_answer(asked, asked.answer))
        await asyncio.sleep(0)
        return task

    async def ask_about_plan(self) -> "asyncio.Task[PlanAnswer]":
        asked = PendingPlan(plan="1. Go.", answer=asyncio.get_running_loop().create_future())
        task = asyncio.ensure_future(self.approvals.wait_for_answer(asked, asked.answer))
        await asyncio.sleep(0)
        return task

    @property
    def asked(self) -> PendingApproval:
        assert isinstance(self.state.pending, PendingApproval)
        return self.state.pending

    def answer(self, letter: Letter, **more: Any) -> None:
        self.approvals.answer(ANSWERS_BY_KEY[letter], **more)


def test_question_opens_at_once_where_nobody_types() -> None:
    async def go() -> None:
        desk = Desk()
        task = await desk.ask()
        assert (desk.approvals.is_open, desk.approvals.takes_keys) == (True, False)
        desk.now += 100
        assert not desk.approvals.takes_keys  # nobody has seen it yet
        desk.approvals.note_shown()
        assert not desk.approvals.takes_keys
        desk.now += GRACE_S
        assert desk.approvals.takes_keys
        desk.answer("y")
        assert (await task).decision == "allow"

    asyncio.run(go())


@pytest.mark.parametrize(("typed_s_ago", "is_composing"), [(0.5, False), (1.2, True)])
def test_question_waits_for_who_types_and_opens_on_demand(
    typed_s_ago: float, is_composing: bool
) -> None:
    async def go() -> None:
        desk = Desk(typed_s_ago=typed_s_ago, is_composing=is_composing)
        task = await desk.ask()
        assert (desk.approvals.is_waiting, desk.approvals.is_open) == (True, False)
        desk.approvals.open_now()
        await asyncio.sleep(0.01)
        assert desk.approvals.is_open
        desk.answer("n")
        assert (await task).decision == "deny"

    asyncio.run(go())


def test_no_key_counts_at_once_when_an_editor_gives_the_terminal_back() -> None:
    async def go() -> None:
        desk = Desk()
        task = await desk.ask()
        desk.approvals.note_shown()
        desk.now += GRACE_S
        assert desk.approvals.takes_keys
        desk.terminal.returned_at = desk.now
        assert not desk.approvals.takes_keys
        desk.now += GRACE_S
        assert desk.approvals.takes_keys
        desk.answer("n")
        assert (await task).decision == "deny"

    asyncio.run(go())


def test_key_within_the_grace_puts_the_answer_off() -> None:
    async def go() -> None:
        desk = Desk()
        task = await desk.ask()
        desk.approvals.note_shown()
        desk.now += GRACE_S / 2
        desk.approvals.postpone()
        desk.now += GRACE_S
        assert not desk.approvals.takes_keys
        desk.now += PAUSE_S
        assert desk.approvals.takes_keys
        task.cancel()

    asyncio.run(go())


def test_answers_say_who_gave_them_and_what_they_store() -> None:
    async def answered(letter: Letter, **more: Any) -> Verdict:
        desk = Desk()
        task = await desk.ask()
        desk.answer(letter, **more)
        return await task

    async def go() -> list[tuple[str, str, object, object]]:
        verdicts = [
            await answered("y"),
            await answered("s"),
            await answered("e", instead="use make"),
            await answered("m", new_input={"command": "pytest -q"}),
        ]
        return [(it.decision, it.by, it.rule, it.input) for it in verdicts]

    assert asyncio.run(go()) == [
        ("allow", "user", None, None),
        ("allow", "user", "bash(pytest:*)", None),
        ("deny", "user", None, None),
        ("modify", "user", None, {"command": "pytest -q"}),
    ]


def test_nothing_is_selected_until_an_arrow_and_what_is_locked_is_passed_over() -> None:
    async def go() -> list[Letter | None]:
        desk = Desk()
        task = await desk.ask()
        asked = desk.asked
        found = [asked.selected]
        asked.is_cut = True
        for step in (1, 1, -1):
            desk.approvals.select(step)
            found.append(asked.selected)
        task.cancel()
        return found

    assert asyncio.run(go()) == [None, "n", "e", "n"]


@pytest.mark.parametrize(
    ("offer", "letter", "offered"),
    [
        (OFFER, "s", True),
        (OFFER, "a", True),
        (RuleSuggestion(session="exactly this command", reason="contains $(…)"), "a", False),
        (RuleSuggestion(session="exactly this command", reason="contains $(…)"), "s", True),
        (RuleSuggestion(reason="rule ask"), "s", False),
        (RuleSuggestion(reason="rule ask"), "y", True),
    ],
)
def test_lasting_answers_are_offered_where_a_rule_can_be_had(
    offer: RuleSuggestion, letter: Letter, offered: bool
) -> None:
    loop = asyncio.new_event_loop()
    asked = PendingApproval(
        question=replace(QUESTION, suggestion=offer), answer=loop.create_future()
    )
    asked.is_cut = False
    assert asked.offers(ANSWERS_BY_KEY[letter]) is offered
    loop.close()


@pytest.mark.parametrize(
    ("line", "described"),
    [
        ("yes", "approved by you, once"),
        ("S", "approved by you, for this session"),
        ("A", "approved by you, always"),
        ("no", "denied by you"),
        ("v", 'denied by you: "v"'),
        ("use make", 'denied by you: "use make"'),
    ],
)
def test_typed_line_is_an_answer_of_the_table_or_what_to_do_instead(
    line: str, described: str
) -> None:
    loop = asyncio.new_event_loop()
    asked = PendingApproval(question=QUESTION, answer=loop.create_future())
    answer = parse_answer(line, asked)
    assert answer is not None
    choice, instead = answer
    assert describe_decision(asked.build_verdict(choice, instead=instead)) == described
    loop.close()


@pytest.mark.parametrize("ends_turn", [True, False])
def test_any_row_of_the_table_can_stop_the_turn_once_it_is_recorded(*, ends_turn: bool) -> None:
    async def go() -> None:
        desk = Desk()
        desk.state.task = turn = asyncio.ensure_future(asyncio.sleep(1000))
        question = await desk.ask()
        question.add_done_callback(lambda _: order.append("answered"))
        turn.add_done_callback(lambda _: order.append("stopped"))
        order: list[str] = []
        desk.approvals.answer(replace(ANSWERS_BY_KEY["n"], ends_turn=ends_turn))
        assert (await question).decision == "deny"
        await asyncio.wait([turn], timeout=None if ends_turn else 0)
        assert (turn.cancelled(), desk.state.interrupts) == (ends_turn, int(ends_turn))
        assert order == ["answered", "stopped"][: 1 + ends_turn]
        turn.cancel()

    asyncio.run(go())


def test_question_that_was_never_drawn_cannot_be_agreed_to() -> None:
    async def asked_and_unseen() -> list[Letter]:
        asked = PendingApproval(
            question=QUESTION,
            answer=asyncio.get_running_loop().create_future(),
        )
        return [choice.key for choice in asked.choices if asked.offers(choice)]

    assert asyncio.run(asked_and_unseen()) == ["n", "e", "v"]


def test_plan_never_comes_up_over_a_message() -> None:
    async def go() -> None:
        desk = Desk(is_composing=True)
        task = await desk.ask_about_plan()
        assert (desk.approvals.is_waiting, desk.approvals.is_open) == (True, False)
        desk.approvals.decide_on_plan(PlanAnswer(instead="slower"))
        assert await task == PlanAnswer(instead="slower")
        assert desk.state.pending is None

    asyncio.run(go())


def test_plan_is_decided_on_by_its_own_answers() -> None:
    async def go() -> None:
        desk = Desk()
        task = await desk.ask_about_plan()
        asked = desk.state.pending
        assert isinstance(asked, PendingPlan)
        assert [choice.key for choice in asked.choices] == ["y", "a", "n", "e", "m"]
        desk.approvals.resolve(build_no_answer())  # an answer to another question
        assert not task.done()
        desk.approvals.decide_on_plan(PlanAnswer(mode="auto-edit"))
        assert await task == PlanAnswer(mode="auto-edit")

    asyncio.run(go())
