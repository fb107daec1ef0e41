"""From a key to an answer, for the question that is open.

A letter is held until it is certain that it stands alone. If another key follows, both make a
word. The word goes to the input, and the question waits for the input again. A letter never gives
an answer that lasts longer than the session: the letter selects it, and Enter agrees.
"""

import asyncio
import time
from collections.abc import Callable
from typing import TypeVar, cast

from agentcli.system.plain_text import show_controls
from agentcli.types.errors import AgentError
from agentcli.types.forms import ServerForm
from agentcli.types.messages import Json
from agentcli.types.verdicts import Question, Verdict
from agentcli.ui.repl.answer_table import INSTEAD_ANSWER, AnswerChoice
from agentcli.ui.repl.approval import (
    EDITABLE,
    GRACE_S,
    ApprovalPrompt,
    PendingApproval,
    PendingPlan,
    PlanAnswer,
    build_pending,
    find_choice,
)
from agentcli.ui.repl.composer import Composer
from agentcli.ui.repl.external import Handover
from agentcli.ui.repl.forms import (
    build_question_answer,
    fill_in_on_terminal,
    fill_in_until_answered,
)
from agentcli.ui.repl.screen import LiveScreen
from agentcli.ui.repl.state import ReplState
from agentcli.ui.repl.terminal import Terminal

T = TypeVar("T")


class Answers:
    """Asks the user and carries out the answers. Implements `types.verdicts.AskUser`."""

    def __init__(
        self,
        state: ReplState,
        approvals: ApprovalPrompt,
        *,
        composer: Composer,
        screen: LiveScreen,
        terminal: Terminal,
        handover: Handover,
    ) -> None:
        self._state = state
        self._approvals = approvals
        self._composer = composer
        self._screen = screen
        self._terminal = terminal
        self._handover = handover
        self.keys = AnswerKeys(state, approvals, composer=composer, terminal=terminal, answers=self)

    async def __call__(self, question: Question) -> Verdict:
        asked = build_pending(question, calls=self._state.calls)
        return await self._ask(asked, asked.answer)

    async def ask_about_plan(self, plan: str) -> tuple[PlanAnswer, str]:
        """Return the answer, and the plan as the user edited it."""
        asked = PendingPlan(plan=plan, answer=asyncio.get_running_loop().create_future())
        return await self._ask(asked, asked.answer), asked.plan

    async def _ask(self, asked: PendingApproval | PendingPlan, answer: "asyncio.Future[T]") -> T:
        project = show_controls(self._state.settings.workspace.name)
        self._terminal.notify(self._state.settings.notify, f"{project} waits for your answer")
        self._terminal.set_title(f"? agentcli: {project} waits for you")
        try:
            return await self._approvals.wait_for_answer(asked, answer)
        finally:
            self._terminal.set_title(f"agentcli: {project}")
            self._finish_question()

    def _finish_question(self) -> None:
        """Keep an answer whose question went away as it was written, and keep the keyboard."""
        self.keys.pass_on_held()
        if self._screen.is_answer_line_open:
            if self._screen.answer.text.strip():
                self._composer.prepend_text(self._screen.answer.text)
            self._screen.close_answer_line()
        self._state.status.set_verb("Waiting for model")

    def give(self, key: str) -> None:
        """Give the answer of this key to the open question."""
        asked = self._state.pending
        choice = find_choice(asked, key) if asked is not None else None
        if asked is None or choice is None or asked.answer.done():
            return
        if isinstance(asked, PendingPlan):
            self._give_for_plan(choice, asked)
        elif not asked.offers(choice):
            why_not = show_controls(asked.find_obstacle(choice)) or "press v first"
            self._terminal.show_notice(f"{choice.key} is not available: {why_not}")
        else:
            self._give_for_call(choice, asked)

    def refuse(self) -> None:
        """Say no because the user stops. After a call, the turn stops, too."""
        asked = self._state.pending
        if isinstance(asked, PendingApproval):
            self._approvals.answer(asked.stop_choice)
        else:
            self._approvals.decide_on_plan(PlanAnswer())

    def _give_for_call(self, choice: AnswerChoice, asked: PendingApproval) -> None:
        form = asked.question.form
        match choice.key:
            case "1" | "2" | "3" | "4" if form is not None:
                self._approvals.resolve(build_question_answer(form, choice.key))
            case "y" if form is not None and form.fields:
                self._terminal.run_task(self._fill_in(choice, asked, form=form))
            case _ if choice.lasts == "always":
                self._answer_always(choice, asked)
            case _ if choice.asks_for:
                self._open_answer_line(choice, asked)
            case _ if choice.opens == "view":
                self._terminal.run_task(self._view(asked))
            case _ if choice.opens == "editor":
                self._terminal.run_task(self._modify(choice, asked))
            case _:
                self._approvals.answer(choice)

    def _give_for_plan(self, choice: AnswerChoice, asked: PendingPlan) -> None:
        if choice.asks_for:
            self._open_answer_line(choice, asked)
        elif choice.opens == "editor":
            self._terminal.run_task(self._modify_plan(asked))
        else:
            self._approvals.decide_on_plan(PlanAnswer(mode=choice.mode))

    async def _fill_in(
        self, choice: AnswerChoice, asked: PendingApproval, *, form: ServerForm
    ) -> None:
        """Fill in a server's form. After giving up, the user can still answer the question."""
        values = await self._terminal.hand_over(
            lambda: fill_in_until_answered(fill_in_on_terminal(form), asked.answer)
        )
        if values is None:
            self._approvals.mark_viewed()
        else:
            self._approvals.answer(choice, new_input=cast("Json", values))

    def _answer_always(self, choice: AnswerChoice, asked: PendingApproval) -> None:
        session, renderer = self._state.session, self._state.renderer
        assert session is not None and renderer is not None
        try:
            session.gate.store_rules(asked.suggestion, choice.rule_decision)
            renderer.say_saved_rules(asked, choice)
        except AgentError as error:
            renderer.transcript.add_error(str(error), error.hint)
            return
        self._approvals.answer(choice)

    async def _view(self, asked: PendingApproval) -> None:
        assert self._state.renderer is not None
        await self._handover.page(self._state.renderer.render_viewed_question(asked))
        self._approvals.mark_viewed()

    async def _modify(self, choice: AnswerChoice, asked: PendingApproval) -> None:
        given = asked.question.own_input
        assert isinstance(given, dict)  # otherwise it would not be offered
        name = next(key for key in EDITABLE if key in given)
        before = str(given[name])
        after = await self._handover.edit(before, suffix=".txt")
        if after is None:
            self._terminal.show_notice("The editor failed. Nothing was changed.")
            self._approvals.mark_viewed()
        elif after.rstrip("\n") == before.rstrip("\n"):
            self._approvals.mark_viewed()
        else:
            self._approvals.answer(choice, new_input={**given, name: after.rstrip("\n")})

    async def _modify_plan(self, asked: PendingPlan) -> None:
        after = await self._handover.edit(asked.plan, suffix=".md")
        if after is None or not after.strip():
            self._terminal.show_notice("The plan was not changed.")
        elif after.strip() != asked.plan:
            asked.plan = after.strip()
            assert self._state.renderer is not None
            renderer = self._state.renderer
            renderer.transcript.say(renderer.render_markdown(asked.plan))
        self._approvals.mark_viewed()

    # The line on which the user types the rest of an answer

    def _open_answer_line(self, choice: AnswerChoice, asked: PendingApproval | PendingPlan) -> None:
        asked.being_typed = choice
        self._screen.open_answer_line()

    def submit_answer_line(self) -> None:
        text, asked = self._screen.answer.text.strip(), self._state.pending
        choice = asked.being_typed if asked else None
        if text and choice:
            self.leave_answer_line()
            self.answer_in_words(text, choice)

    def answer_in_words(self, text: str, choice: AnswerChoice = INSTEAD_ANSWER) -> None:
        """Give an answer that the user has typed: what to do instead, or as the choice says."""
        asked = self._state.pending
        if isinstance(asked, PendingPlan):
            self._approvals.decide_on_plan(PlanAnswer(instead=text))
        elif asked is not None and asked.question.form is not None:
            self._approvals.resolve(build_question_answer(asked.question.form, text))
        elif asked is not None:
            self._approvals.answer(choice, instead=text)

    def leave_answer_line(self) -> None:
        if self._state.pending is not None:
            self._state.pending.being_typed = None
            self._approvals.rest()
        self._screen.close_answer_line()


# The keys of the answers: those that cannot begin a message


BACKSPACE = frozenset({"\x7f", "\x08"})
ONE_READ_S = 0.02
"""Keys that come within this time were not typed by hand."""


class AnswerKeys:
    def __init__(
        self,
        state: ReplState,
        approvals: ApprovalPrompt,
        *,
        composer: Composer,
        terminal: Terminal,
        answers: Answers,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._state = state
        self._approvals = approvals
        self._composer = composer
        self._terminal = terminal
        self._answers = answers
        self._clock = clock
        self._held: AnswerChoice | None = None
        """The answer of a typed letter that is neither an answer nor text yet."""
        self._held_at = 0.0
        self._enter_from = 0.0
        """The time from which Enter agrees to what the held letter has selected."""
        self._timer: asyncio.TimerHandle | None = None

    def press(self, key: str) -> None:
        """Take a letter of the answers, `enter`, `up` or `down`."""
        asked = self._state.pending
        if asked is None:
            return
        match key:
            case "up" | "down":
                self.drop()
                self._approvals.select(-1 if key == "up" else 1)
            case "enter":
                self._enter(asked)
            case _:
                self._take_letter(key, asked)

    def type(self, text: str) -> None:
        """Take any other key. It means that the user is not answering."""
        held = self.drop()
        self._approvals.postpone()
        is_key = text.startswith("\x1b") or (len(text) == 1 and not text.isprintable())
        written = ("" if text in BACKSPACE else held) + ("" if is_key else text)
        if written:
            self._composer.take_typed(written)

    def paste(self, text: str) -> None:
        """Put pasted text into the input, after a held letter. It answers nothing."""
        self.pass_on_held()
        self._approvals.postpone()
        self._composer.take_typed(text)

    def pass_on_held(self) -> None:
        """Give a held letter that can no longer be an answer to the input."""
        if held := self.drop():
            self._composer.take_typed(held)

    def drop(self) -> str:
        """Return the held letter, and no longer hold or select it."""
        self._stop_timer()
        held, self._held = self._held, None
        asked = self._state.pending
        if held is not None and asked is not None:
            asked.selected, asked.awaits_enter = None, False
        return held.key if held else ""

    def _take_letter(self, key: str, asked: PendingApproval | PendingPlan) -> None:
        choice = find_choice(asked, key)
        if choice is None or self._held is not None:
            self.type(key)
            return
        self._held, self._held_at = choice, self._clock()
        if asked.offers(choice):
            asked.selected = choice.key
        self._timer = asyncio.get_running_loop().call_later(
            self._composer.rhythm.compute_alone_s(), self._stand_alone, asked
        )

    def _enter(self, asked: PendingApproval | PendingPlan) -> None:
        now = self._clock()
        if self._held is not None and self._timer is not None:
            if now - self._held_at < ONE_READ_S:
                self.type("")
            else:
                self._enter_from = now + GRACE_S
                self._stand_alone(asked)
        elif asked.selected is not None and now >= self._enter_from:
            letter = asked.selected
            self.drop()
            self._answers.give(letter)

    def _stand_alone(self, asked: PendingApproval | PendingPlan) -> None:
        """Act on the held letter after no other key has followed it, or Enter has."""
        self._stop_timer()
        held = self._held
        if held is None or asked is not self._state.pending:
            self.pass_on_held()
        elif held.takes_enter and asked.offers(held):
            asked.awaits_enter = True
        else:
            self.drop()
            self._answers.give(held.key)
        self._terminal.redraw()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
