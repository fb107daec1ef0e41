"""What the answers to an open question do."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from agentcli.machine.plain import visible
from agentcli.types.errors import AgentError
from agentcli.types.forms import Form
from agentcli.ui.repl.approval import EDITABLE, LETTERS, Asked, AskedPlan, Letter
from agentcli.ui.repl.form_lines import fill_in_here, unless_answered
from agentcli.ui.repl.outside import edited
from agentcli.ui.repl.plan_answers import PlanAnswers

if TYPE_CHECKING:
    from agentcli.ui.repl.repl import Repl


class Answering:
    def __init__(self, repl: "Repl") -> None:
        self._repl = repl
        self.plan = PlanAnswers(repl)

    def answer(self, key: str) -> None:
        asked = self._repl.approvals.asked
        if asked is None or asked.answer.done():
            return
        if key == "stop":
            self._refuse(asked)
        else:
            self._choose(key, asked)

    def write(self, text: str) -> None:
        """What was typed is no answer, so it is the beginning of a message."""
        self._repl.composer.rhythm.touch()
        self._repl.composer.paste(text)

    def _refuse(self, asked: Asked | AskedPlan) -> None:
        if isinstance(asked, AskedPlan):
            self.plan.keep_planning()
            return
        if asked.question.form is not None:
            self._repl.approvals.dismiss()
        else:
            self._repl.approvals.deny()
        # After the answer has been recorded.
        asyncio.get_running_loop().call_soon(self._repl.turns.interrupt)

    def _choose(self, key: str, asked: Asked | AskedPlan) -> None:
        letter = next((one for one in LETTERS if one == key), None)
        if letter is None:
            return
        if isinstance(asked, AskedPlan):
            self.plan.choose(letter, asked)
        elif not asked.offers(letter):
            why_not = visible(asked.offer.why_not(letter)) or "view it first, with v"
            self._repl.notice(f"{letter} is not offered: {why_not}")
        else:
            self._choose_for_call(letter, asked)

    def _choose_for_call(self, letter: Letter, asked: Asked) -> None:
        approvals = self._repl.approvals
        choices: dict[Letter, Callable[[], None]] = {
            "y": partial(self._agree, asked),
            "s": partial(approvals.allow, lasting="session"),
            "a": partial(self._allow_always, asked),
            "n": approvals.deny,
            "e": partial(self.ask_what_instead, asked),
            "v": lambda: self._repl.actions.do(self._view(asked)),
            "m": lambda: self._repl.actions.do(self._modify(asked)),
        }
        choices[letter]()

    def _agree(self, asked: Asked) -> None:
        form = asked.question.form
        if form is not None and form.fields:
            self._repl.actions.do(self._fill_in(asked, form))
        else:
            self._repl.approvals.allow()

    async def _fill_in(self, asked: Asked, form: Form) -> None:
        """Whoever gives up is back at the question, which can still be answered."""
        values = await self._repl.terminal.hand_over(
            lambda: unless_answered(fill_in_here(form), asked.answer)
        )
        if values is None:
            self._repl.approvals.viewed()
        else:
            self._repl.approvals.modify(values)

    def _allow_always(self, asked: Asked) -> None:
        try:
            self._repl.store_rules(asked)
        except AgentError as error:
            self._repl.fail(str(error), error.hint)
            return
        self._repl.approvals.allow(lasting="always")

    def ask_what_instead(self, asked: Asked | AskedPlan) -> None:
        asked.instead = True
        self._repl.screen.answer.reset()
        self._repl.screen.layout.focus(self._repl.screen.answer_window)

    def answer_line(self) -> None:
        text = self._repl.screen.answer.text.strip()
        if text:
            self.leave_answer_line()
            if isinstance(self._repl.approvals.asked, AskedPlan):
                self.plan.change(text)
            else:
                self._repl.approvals.deny(text)

    def leave_answer_line(self) -> None:
        if self._repl.approvals.asked is not None:
            self._repl.approvals.asked.instead = False
            self._repl.approvals.rest()
        self._repl.screen.layout.focus(self._repl.screen.input_window)

    def lose_question(self) -> None:
        """It went away while its answer was being written: that is kept, and so is the keyboard."""
        self._repl.answer_keys.release()
        screen = self._repl.screen
        if screen.layout.has_focus(screen.answer_window):
            if screen.answer.text.strip():
                self._repl.composer.put_before(screen.answer.text)
            self.leave_answer_line()

    async def _view(self, asked: Asked) -> None:
        await self._repl.page(self._repl.stage.viewed_question(asked))
        self._repl.approvals.viewed()

    async def _modify(self, asked: Asked) -> None:
        given = self._repl.session.input_of(asked.question.call)
        assert isinstance(given, dict)  # it would not be offered
        name = next(key for key in EDITABLE if key in given)
        before = str(given[name])
        after = await self._repl.terminal.hand_over(
            lambda: edited(before, suffix=".txt", workspace=self._repl.settings.workspace)
        )
        if after is None:
            self._repl.notice("the editor failed: nothing was changed")
            self._repl.approvals.viewed()
        elif after.rstrip("\n") == before.rstrip("\n"):
            self._repl.approvals.viewed()
        else:
            self._repl.approvals.modify({**given, name: after.rstrip("\n")})
