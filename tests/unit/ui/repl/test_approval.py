import asyncio

import pytest

from agentcli.types.messages import ToolCall
from agentcli.types.tools import Command, Effect
from agentcli.types.verdicts import Question, Verdict
from agentcli.ui.repl.approval import (
    GRACE_S,
    LETTERS,
    PAUSE_S,
    ApprovalPrompt,
    Letter,
    PendingApproval,
    PendingPlan,
    PlanAnswer,
    RuleOffer,
)

OFFER = RuleOffer(rules=("bash(pytest:*)",), session="bash(pytest:*)")
QUESTION = Question(
    call=ToolCall(id="c1", name="bash", input={"command": "pytest"}),
    effect=Effect.EXECUTE,
    preview=Command(command="pytest", cwd="/w"),
    verdict=Verdict(decision="ask", by="mode", reason="no rule matches"),
)


class Desk:
    """Somebody at a keyboard, and a clock that stands still until it is moved."""

    def __init__(self, *, typed_s_ago: float = 100.0, is_composing: bool = False) -> None:
        self.now = 1000.0
        self.last_key = self.now - typed_s_ago
        self.is_composing = is_composing
        self.approvals = ApprovalPrompt(
            is_composing=lambda: self.is_composing,
            measure_quiet_s=lambda: self.now - self.last_key,
            build_offer=lambda question: OFFER,
            find_position=lambda question: (1, 1),
            on_change=lambda: None,
            clock=lambda: self.now,
        )

    async def ask(self) -> "asyncio.Task[Verdict]":
        task = asyncio.ensure_future(self.approvals(QUESTION))
        await asyncio.sleep(0)
        return task


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
        desk.approvals.allow()
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
        desk.approvals.deny()
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
    async def answered(act: str) -> Verdict:
        desk = Desk()
        task = await desk.ask()
        match act:
            case "once":
                desk.approvals.allow()
            case "session":
                desk.approvals.allow(lasting="session")
            case "instead":
                desk.approvals.deny("use make")
            case _:
                desk.approvals.modify({"command": "pytest -q"})
        return await task

    async def go() -> list[tuple[str, str, object, object]]:
        verdicts = [await answered(act) for act in ("once", "session", "instead", "modify")]
        return [(it.decision, it.by, it.rule, it.input) for it in verdicts]

    assert asyncio.run(go()) == [
        ("allow", "user", None, None),
        ("allow", "user", "bash(pytest:*)", None),
        ("deny", "user", None, None),
        ("modify", "user", None, {"command": "pytest -q"}),
    ]


def test_nothing_is_selected_until_an_arrow_and_what_is_locked_is_passed_over() -> None:
    async def go() -> list[int | None]:
        desk = Desk()
        task = await desk.ask()
        asked = desk.approvals.pending
        assert isinstance(asked, PendingApproval)
        found = [asked.selected]
        asked.is_cut = True
        for step in (1, 1, -1):
            desk.approvals.select(step)
            found.append(asked.selected)
        task.cancel()
        return found

    assert asyncio.run(go()) == [None, 3, 4, 3]


@pytest.mark.parametrize(
    ("offer", "letter", "offered"),
    [
        (OFFER, "s", True),
        (OFFER, "a", True),
        (RuleOffer(session="exactly this command", reason="contains $(…)"), "a", False),
        (RuleOffer(session="exactly this command", reason="contains $(…)"), "s", True),
        (RuleOffer(reason="rule ask"), "s", False),
        (RuleOffer(reason="rule ask"), "y", True),
    ],
)
def test_lasting_answers_are_offered_where_a_rule_can_be_had(
    offer: RuleOffer, letter: Letter, offered: bool
) -> None:
    loop = asyncio.new_event_loop()
    asked = PendingApproval(
        question=QUESTION, offer=offer, position=(1, 1), answer=loop.create_future()
    )
    asked.is_cut = False
    assert asked.offers(letter) is offered
    loop.close()


def test_question_that_was_never_drawn_cannot_be_agreed_to() -> None:
    async def asked_and_unseen() -> list[Letter]:
        asked = PendingApproval(
            question=QUESTION,
            offer=RuleOffer(rules=("bash(ls:*)",), session="bash(ls:*)"),
            position=(1, 1),
            answer=asyncio.get_running_loop().create_future(),
        )
        return [letter for letter in LETTERS if asked.offers(letter)]

    assert asyncio.run(asked_and_unseen()) == ["n", "e", "v"]


def test_plan_never_comes_up_over_a_message() -> None:
    async def go() -> None:
        desk = Desk(typed_s_ago=100.0, is_composing=True)
        task = asyncio.ensure_future(desk.approvals.ask_about_plan("1. Go."))
        await asyncio.sleep(0)
        assert (desk.approvals.is_waiting, desk.approvals.is_open) == (True, False)
        desk.approvals.decide_on_plan(PlanAnswer(instead="slower"))
        assert await task == (PlanAnswer(instead="slower"), "1. Go.")
        assert desk.approvals.pending is None

    asyncio.run(go())


def test_plan_is_decided_on_by_its_own_letters() -> None:
    async def go() -> None:
        desk = Desk()
        task = asyncio.ensure_future(desk.approvals.ask_about_plan("1. Go."))
        await asyncio.sleep(0)
        asked = desk.approvals.pending
        assert isinstance(asked, PendingPlan)
        assert [letter for letter in LETTERS if asked.offers(letter)] == ["y", "a", "n", "e", "m"]
        desk.approvals.allow(lasting="always")  # an answer to another question
        asked.plan = "1. Go slowly."
        desk.approvals.decide_on_plan(PlanAnswer(mode="auto-edit"))
        assert await task == (PlanAnswer(mode="auto-edit"), "1. Go slowly.")

    asyncio.run(go())
