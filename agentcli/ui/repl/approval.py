"""A question to the user that nobody answers by accident. Its answers are in `answer_table`.

It waits for a message that is being written, and ignores keys for a moment after it is drawn.
Nothing is selected, and it accepts no yes to what was not shown.
"""

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TypeVar

from agentcli.types.fast_dataclass import dataclass
from agentcli.types.forms import ServerForm
from agentcli.types.messages import Json, ToolCall
from agentcli.types.verdicts import WIDE, Mode, Question, RuleSuggestion, Verdict
from agentcli.ui.repl.answer_table import (
    ANSWERS_BY_KEY,
    CALL_ANSWERS,
    DIGITS,
    INSTEAD_ANSWER,
    PLAN_ANSWERS,
    STOP_ANSWER,
    AnswerChoice,
    Letter,
)
from agentcli.ui.repl.composer import Composer
from agentcli.ui.repl.state import ReplState
from agentcli.ui.repl.terminal import Terminal

_FORM_LABELS = {"form": "yes, fill it in", "url": "yes, open it", "tools": "yes, accept them"}
_FORM_LETTERS = ("y", "n", "v")
"""The answers to a server's question. None of them lasts."""
EDITABLE = ("command", "new_text", "content", "patch")
"""The arguments of tools that a user may want to change before they run."""


# Questions that wait for an answer


T = TypeVar("T")


@dataclass(slots=True, kw_only=True)
class PendingQuestion:
    """A question on the screen, about anything."""

    opened: bool = False
    counts_from: float = float("inf")
    """The time from which keys are answers, never before the question was drawn."""
    is_wanted: bool = False
    """True if the user has asked for the question, even over a message that is being written."""
    selected: Letter | None = None
    awaits_enter: bool = False
    """True if a letter has selected an answer and Enter agrees to it."""
    being_typed: AnswerChoice | None = None
    """The answer whose line the user is typing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanAnswer:
    """The answer to a plan: follow it in `mode`, or change it as `instead` says.

    With neither, the question stays open.
    """

    mode: Mode | None = None
    instead: str = ""


@dataclass(slots=True, kw_only=True)
class PendingPlan(PendingQuestion):
    """The question whether to follow the plan that was just proposed."""

    plan: str
    answer: "asyncio.Future[PlanAnswer]"

    @property
    def choices(self) -> tuple[AnswerChoice, ...]:
        return PLAN_ANSWERS

    def offers(self, choice: AnswerChoice) -> bool:
        return choice in PLAN_ANSWERS


@dataclass(slots=True, kw_only=True)
class PendingApproval(PendingQuestion):
    """The question whether a call may run."""

    question: Question
    position: tuple[int, int] = (1, 1)
    """The number of the call, and the number of calls in the same reply."""
    answer: "asyncio.Future[Verdict]"
    is_cut: bool = True
    """True if part of the call is not on the screen. True until it is drawn."""
    hides_rules: bool = False
    """True if the rules that the lasting answers would store are not on the screen."""
    was_viewed: bool = False

    @property
    def choices(self) -> tuple[AnswerChoice, ...]:
        form = self.question.form
        if form is None:
            return CALL_ANSWERS
        if form.kind == "question":
            return tuple(_iter_question_answers(form))
        yes, *others = (one for one in CALL_ANSWERS if one.key in _FORM_LETTERS)
        label = _FORM_LABELS[form.kind]
        return (replace(yes, label=label, short=label), *others)

    @property
    def stop_choice(self) -> AnswerChoice:
        """What stopping answers. A server's question gets no answer by it, which is not a no."""
        if self.question.form is None:
            return STOP_ANSWER
        return replace(STOP_ANSWER, decision=None, reason=build_no_answer().reason)

    @property
    def suggestion(self) -> RuleSuggestion:
        return self.question.suggestion

    def offers(self, choice: AnswerChoice) -> bool:
        return not self.find_obstacle(choice) and not self._is_locked(choice)

    def find_obstacle(self, choice: AnswerChoice) -> str:
        """Return why the answer is not available, or an empty string if it is."""
        if choice.is_lasting and not self.describe_scope(choice):
            return self.suggestion.reason or "no rule can name it"
        return "nothing to edit" if choice.opens == "editor" and not self._is_editable else ""

    def describe_scope(self, choice: AnswerChoice) -> str:
        """Return what a lasting answer would cover, or an empty string if it is not available."""
        is_wide = choice.agrees and choice.lasts in WIDE
        return self.suggestion.session if is_wide else ", ".join(self.list_rules(choice))

    def list_rules(self, choice: AnswerChoice) -> tuple[str, ...]:
        """Return the rules that the answer makes, with what a yes gives to their commands."""
        found = self.suggestion
        return found.describe_rules() if choice.rule_decision == "allow" else found.rules

    @property
    def _is_editable(self) -> bool:
        given = self.question.own_input
        return isinstance(given, dict) and any(name in given for name in EDITABLE)

    def _is_locked(self, choice: AnswerChoice) -> bool:
        """Return whether the answer agrees to something that was not shown."""
        hidden = (self.is_cut and choice.agrees) or (self.hides_rules and choice.is_lasting)
        return hidden and not self.was_viewed

    def build_verdict(
        self, choice: AnswerChoice, *, instead: str = "", new_input: Json = None
    ) -> Verdict:
        """Return the verdict of an answer.

        `instead` is what the user wants instead; `new_input` are the arguments they changed."""
        found = self.suggestion
        return Verdict(
            decision="modify" if new_input is not None else choice.decision or "ask",
            by="user",
            reason=choice.reason + instead,
            rule=(", ".join(found.rules) or found.session) if choice.is_lasting else None,
            input=new_input,
            lasts=choice.lasts,
            instead=instead,
        )


def _iter_question_answers(form: ServerForm) -> Iterator[AnswerChoice]:
    """Yield the choices of a question, then the user's own words, then no answer."""
    for key, (_, label) in zip(DIGITS, form.fields[0].choices, strict=False):
        yield AnswerChoice(key=key, label=label, short=label, decision="modify")
    own = "another answer, in your own words"
    yield replace(
        INSTEAD_ANSWER, label=own, short="another", decision="modify", asks_for="Your answer: "
    )
    yield replace(ANSWERS_BY_KEY["n"], label="no answer", short="no answer")
    yield ANSWERS_BY_KEY["v"]


def find_choice(pending: PendingApproval | PendingPlan, key: str) -> AnswerChoice | None:
    return next((choice for choice in pending.choices if choice.key == key), None)


def stop_after(choice: AnswerChoice, interrupt: Callable[[], object]) -> None:
    """Call `interrupt` after the answer has been recorded, if the answer ends the turn."""
    if choice.ends_turn:
        asyncio.get_running_loop().call_soon(interrupt)


def build_no_answer() -> Verdict:
    """Return the verdict of a server's question without an answer, which is not a no."""
    return Verdict(decision="ask", by="user", reason="the user gave no answer")


def build_pending(question: Question, *, calls: Sequence[ToolCall] = ()) -> PendingApproval:
    """Return the question as it is put to the user. `calls` are the calls of the same reply."""
    ids = [call.id for call in calls]
    asked = question.call.id
    return PendingApproval(
        question=question,
        position=(ids.index(asked) + 1, len(ids)) if asked in ids else (1, 1),
        answer=asyncio.get_running_loop().create_future(),
    )


# When a question opens, and from when on keys answer it


TYPING_S = 1.0
"""The user is typing if a key came within this time."""
PAUSE_S = 1.5
"""A user who typed has stopped after this time without a key. A message may still be unsent."""
GRACE_S = 0.3
"""The time after the question is drawn until a key counts."""
LOOK_S = 0.1
"""The interval between two checks whether the user still types."""


class ApprovalPrompt:
    """Opens a question, and decides when keys count as answers to it."""

    def __init__(
        self,
        state: ReplState,
        composer: Composer,
        *,
        terminal: Terminal,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._state = state
        self._composer = composer
        self._terminal = terminal
        self._clock = clock
        self._open_now = asyncio.Event()

    async def wait_for_answer(
        self, pending: PendingApproval | PendingPlan, answer: "asyncio.Future[T]"
    ) -> T:
        self._state.pending = pending
        self._open_now.clear()
        # Where no turn runs, nothing else draws that keys count by now.
        ticks = asyncio.ensure_future(self._terminal.redraw_regularly(GRACE_S))
        try:
            self._terminal.redraw()
            await self._wait_until_idle()
            pending.opened, pending.is_wanted = True, self._open_now.is_set()
            self._terminal.redraw()
            return await answer
        finally:
            ticks.cancel()
            self._state.pending = None
            self._terminal.redraw()

    @property
    def is_waiting(self) -> bool:
        """True if there is a question and the keyboard still belongs to the input."""
        return self._state.pending is not None and not self._state.pending.opened

    @property
    def is_open(self) -> bool:
        return self._state.pending is not None and self._state.pending.opened

    @property
    def takes_keys(self) -> bool:
        """True until the first answer. Other keys typed with it are no further answers."""
        asked = self._state.pending
        if asked is None or not asked.opened or asked.answer.done():
            return False
        is_free = asked.is_wanted or not self._composer.is_used
        returned_at = self._terminal.returned_at  # a key may have been meant for an editor
        return is_free and self._clock() >= max(asked.counts_from, returned_at + GRACE_S)

    def open_now(self) -> None:
        """Open the question because the user asks for it, whatever is being written."""
        self._open_now.set()
        if self._state.pending is not None and self._state.pending.opened:
            self._state.pending.is_wanted = True
            self.rest()

    def note_shown(self) -> None:
        """Start the grace period after a drawing. Keys typed before it do not count."""
        asked = self._state.pending
        if asked is not None and asked.opened and asked.counts_from == float("inf"):
            asked.counts_from = self._clock() + GRACE_S

    def note_key(self) -> None:
        """Note, before each key, that the user is typing a message."""
        if not self.takes_keys:
            self._composer.rhythm.touch()
            self.postpone()

    def postpone(self) -> None:
        """Postpone the answers after a key went to the input: the user means to type on."""
        asked = self._state.pending
        if asked is not None:
            asked.is_wanted = False
            if asked.counts_from != float("inf"):
                asked.counts_from = self._clock() + PAUSE_S

    def rest(self) -> None:
        """Count no key until the question is drawn again."""
        if self._state.pending is not None:
            self._state.pending.counts_from = float("inf")
            self._terminal.redraw()

    def select(self, step: int) -> None:
        """Select the next answer that is offered, or with -1 the one before."""
        asked = self._state.pending
        if asked is None:
            return
        keys = [choice.key for choice in asked.choices]
        offered = [choice.key for choice in asked.choices if asked.offers(choice)]
        if asked.selected is None:
            asked.selected = offered[0 if step > 0 else -1]
        else:
            at = keys.index(asked.selected)
            near = [key for key in offered if (keys.index(key) - at) * step > 0]
            if near:
                asked.selected = near[0 if step > 0 else -1]
        self._terminal.redraw()

    def answer(self, choice: AnswerChoice, *, instead: str = "", new_input: Json = None) -> None:
        """Give an answer to the question about a call, unless it is answered."""
        asked = self._state.pending
        if isinstance(asked, PendingApproval) and not asked.answer.done():
            self.resolve(asked.build_verdict(choice, instead=instead, new_input=new_input))
            stop_after(choice, self._state.interrupt)

    def resolve(self, verdict: Verdict) -> None:
        """Answer the question about a call, unless it is answered."""
        asked = self._state.pending
        if isinstance(asked, PendingApproval) and not asked.answer.done():
            asked.answer.set_result(verdict)

    def decide_on_plan(self, answer: PlanAnswer) -> None:
        """Answer the question about a plan, unless it is answered."""
        asked = self._state.pending
        if isinstance(asked, PendingPlan) and not asked.answer.done():
            asked.answer.set_result(answer)
            self.open_now()

    def mark_viewed(self) -> None:
        if isinstance(self._state.pending, PendingApproval):
            self._state.pending.was_viewed = True
        self.rest()

    async def _wait_until_idle(self) -> None:
        """Wait until the input is empty and the user has stopped typing, or asks for the question.

        A question never opens over a message: the user sends or clears the message first.
        """
        composer = self._composer
        if composer.rhythm.quiet_s() >= TYPING_S and not composer.is_used:
            return
        while composer.is_used or composer.rhythm.quiet_s() < PAUSE_S:
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_S):
                    await self._open_now.wait()
                    return
