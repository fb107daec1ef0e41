"""The actions for the answers to an open question."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from agentcli.system.plain_text import show_controls
from agentcli.types.errors import AgentError
from agentcli.types.verdicts import ServerForm
from agentcli.ui.repl.approval import (
    EDITABLE,
    LETTERS,
    Letter,
    PendingApproval,
    PendingPlan,
    PlanAnswer,
)
from agentcli.ui.repl.commands.registry import CommandHost
from agentcli.ui.repl.external import edit_text
from agentcli.ui.repl.forms import fill_in_on_terminal, fill_in_until_answered

if TYPE_CHECKING:
    from agentcli.types.verdicts import Mode
    from agentcli.ui.repl.repl import Repl


# The answers to the question about a plan


PLAN_ACCEPTED = "Carry out the plan."
"""The message to the model when the user has accepted the plan."""
PLAN_CHANGED = "This is the plan as I have changed it:"
MODE_BY_LETTER: "dict[Letter, Mode]" = {"y": "ask", "a": "auto-edit"}


def get_proposed_plan(host: CommandHost) -> str:
    """Return the plan that the user has not decided on, or an empty string if there is none."""
    return host.session.plan_tracker.proposed if host.mode == "plan" else ""


def apply_plan_answer(host: CommandHost, plan: str, answer: PlanAnswer) -> str:
    """Apply the answer. Return what to send to the model next, or an empty string for nothing."""
    if answer.mode is None:
        planning = host.session.plan_tracker
        is_changed, planning.proposed = plan != planning.proposed, plan
        changed = f"\n\n{PLAN_CHANGED}\n\n{plan}" if is_changed and answer.instead else ""
        return answer.instead + changed
    host.set_mode(answer.mode)
    host.session.accept_plan(plan, mode=answer.mode)
    return PLAN_ACCEPTED


class PlanActions:
    def __init__(self, repl: "Repl") -> None:
        self._repl = repl

    def choose(self, letter: Letter, pending: PendingPlan) -> None:
        match letter:
            case "y" | "a":
                self._repl.approvals.decide_on_plan(PlanAnswer(mode=MODE_BY_LETTER[letter]))
            case "n":
                self.keep_planning()
            case "e":
                self._repl.actions.answer_actions.ask_alternative(pending)
            case "m":
                self._repl.actions.run_task(self._modify(pending))
            case _:
                pass

    def keep_planning(self) -> None:
        self._repl.approvals.decide_on_plan(PlanAnswer())

    def request_change(self, what: str) -> None:
        self._repl.approvals.decide_on_plan(PlanAnswer(instead=what))

    async def _modify(self, pending: PendingPlan) -> None:
        after = await self._repl.terminal.hand_over(
            lambda: edit_text(pending.plan, suffix=".md", workspace=self._repl.settings.workspace)
        )
        if after is None or not after.strip():
            self._repl.show_notice("the plan is as it was")
        elif after.strip() != pending.plan:
            pending.plan = after.strip()
            self._repl.print(self._repl.renderer.render_markdown(pending.plan))
        self._repl.approvals.mark_viewed()


class AnswerActions:
    def __init__(self, repl: "Repl") -> None:
        self._repl = repl
        self.plan = PlanActions(repl)

    def answer_key(self, key: str) -> None:
        asked = self._repl.approvals.pending
        if asked is None or asked.answer.done():
            return
        if key == "stop":
            self._refuse(asked)
        else:
            self._choose(key, asked)

    def start_message(self, text: str) -> None:
        """Put typed text into the input: it is no answer, so it begins a message."""
        self._repl.composer.rhythm.touch()
        self._repl.composer.paste(text)

    def _refuse(self, pending: PendingApproval | PendingPlan) -> None:
        if isinstance(pending, PendingPlan):
            self.plan.keep_planning()
            return
        if pending.question.form is not None:
            self._repl.approvals.dismiss()
        else:
            self._repl.approvals.deny()
        # After the answer has been recorded.
        asyncio.get_running_loop().call_soon(self._repl.turns.interrupt)

    def _choose(self, key: str, pending: PendingApproval | PendingPlan) -> None:
        letter = next((one for one in LETTERS if one == key), None)
        if letter is None:
            return
        if isinstance(pending, PendingPlan):
            self.plan.choose(letter, pending)
        elif not pending.offers(letter):
            why_not = show_controls(pending.offer.find_obstacle(letter)) or "view it first, with v"
            self._repl.show_notice(f"{letter} is not offered: {why_not}")
        else:
            self._choose_for_call(letter, pending)

    def _choose_for_call(self, letter: Letter, pending: PendingApproval) -> None:
        approvals = self._repl.approvals
        choices: dict[Letter, Callable[[], None]] = {
            "y": partial(self._agree, pending),
            "s": partial(approvals.allow, lasting="session"),
            "a": partial(self._allow_always, pending),
            "n": approvals.deny,
            "e": partial(self.ask_alternative, pending),
            "v": lambda: self._repl.actions.run_task(self._view(pending)),
            "m": lambda: self._repl.actions.run_task(self._modify(pending)),
        }
        choices[letter]()

    def _agree(self, pending: PendingApproval) -> None:
        form = pending.question.form
        if form is not None and form.fields:
            self._repl.actions.run_task(self._fill_in(pending, form))
        else:
            self._repl.approvals.allow()

    async def _fill_in(self, pending: PendingApproval, form: ServerForm) -> None:
        """Fill in a server's form. After giving up, the user can still answer the question."""
        values = await self._repl.terminal.hand_over(
            lambda: fill_in_until_answered(fill_in_on_terminal(form), pending.answer)
        )
        if values is None:
            self._repl.approvals.mark_viewed()
        else:
            self._repl.approvals.modify(values)

    def _allow_always(self, pending: PendingApproval) -> None:
        try:
            self._repl.store_rules(pending)
        except AgentError as error:
            self._repl.fail(str(error), error.hint)
            return
        self._repl.approvals.allow(lasting="always")

    def ask_alternative(self, pending: PendingApproval | PendingPlan) -> None:
        pending.instead = True
        self._repl.screen.answer.reset()
        self._repl.screen.layout.focus(self._repl.screen.answer_window)

    def submit_answer_line(self) -> None:
        text = self._repl.screen.answer.text.strip()
        if text:
            self.leave_answer_line()
            if isinstance(self._repl.approvals.pending, PendingPlan):
                self.plan.request_change(text)
            else:
                self._repl.approvals.deny(text)

    def leave_answer_line(self) -> None:
        if self._repl.approvals.pending is not None:
            self._repl.approvals.pending.instead = False
            self._repl.approvals.rest()
        self._repl.screen.layout.focus(self._repl.screen.input_window)

    def rescue_answer_line(self) -> None:
        """Keep an answer whose question went away as it was written, and keep the keyboard."""
        self._repl.answer_keys.release()
        screen = self._repl.screen
        if screen.layout.has_focus(screen.answer_window):
            if screen.answer.text.strip():
                self._repl.composer.prepend_text(screen.answer.text)
            self.leave_answer_line()

    async def _view(self, pending: PendingApproval) -> None:
        await self._repl.page(self._repl.renderer.render_viewed_question(pending))
        self._repl.approvals.mark_viewed()

    async def _modify(self, pending: PendingApproval) -> None:
        given = pending.question.own_input
        assert isinstance(given, dict)  # otherwise it would not be offered
        name = next(key for key in EDITABLE if key in given)
        before = str(given[name])
        after = await self._repl.terminal.hand_over(
            lambda: edit_text(before, suffix=".txt", workspace=self._repl.settings.workspace)
        )
        if after is None:
            self._repl.show_notice("the editor failed: nothing was changed")
            self._repl.approvals.mark_viewed()
        elif after.rstrip("\n") == before.rstrip("\n"):
            self._repl.approvals.mark_viewed()
        else:
            self._repl.approvals.modify({**given, name: after.rstrip("\n")})
