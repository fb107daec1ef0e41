"""A question to the user that nobody answers by accident.

It waits for a message that is being written, and ignores keys for a moment after it is drawn.
Nothing is selected, and it accepts no yes to what was not shown.
"""

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Literal, TypeVar

from agentcli.types.fast_dataclass import dataclass
from agentcli.types.messages import Json
from agentcli.types.verdicts import Mode, Question, Verdict
from agentcli.ui.render.wording import USER_DENIED, USER_DENIED_AND_SAID

TYPING_S = 1.0
"""The user is typing if a key came within this time."""
PAUSE_S = 1.5
"""A user who typed has stopped after this time without a key. A message may still be unsent."""
GRACE_S = 0.3
"""The time after the question is drawn until a key counts."""
LOOK_S = 0.1
"""The interval between two checks whether the user still types."""

Letter = Literal["y", "s", "a", "n", "e", "v", "m"]
LETTERS: tuple[Letter, ...] = ("y", "s", "a", "n", "e", "v", "m")
AGREEING_LETTERS = frozenset({"y", "s", "a", "m"})
LASTING_LETTERS = frozenset({"s", "a"})
SERVER_LETTERS: tuple[Letter, ...] = ("y", "n", "v")
PLAN_LETTERS: tuple[Letter, ...] = ("y", "a", "n", "e", "m")
EDITABLE = ("command", "new_text", "content", "patch")
"""The arguments of tools that a user may want to change before they run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleOffer:
    """The rules that the two lasting answers would store, and why one of them is not available."""

    rules: tuple[str, ...] = ()
    session: str = ""
    reason: str = ""
    uncovered: tuple[str, ...] = ()
    """The parts of a command line that no rule allows yet."""
    editable: bool = True

    def find_obstacle(self, letter: Letter) -> str:
        """Return why the answer is not available, or an empty string if it is."""
        if letter == "a" and not self.rules:
            return self.reason or "no rule can name it"
        if letter == "m" and not self.editable:
            return "there is nothing to edit in it"
        return (self.reason or "no rule can name it") if letter == "s" and not self.session else ""


T = TypeVar("T")


@dataclass(slots=True, kw_only=True)
class PendingQuestion:
    """A question on the screen, about anything."""

    opened: bool = False
    counts_from: float = float("inf")
    """The time from which keys are answers, never before the question was drawn."""
    is_wanted: bool = False
    """True if the user has asked for the question, even over a message that is being written."""
    selected: int | None = None
    awaits_enter: bool = False
    """True if a letter has selected an answer and Enter agrees to it."""
    instead: bool = False
    """True while the user types what to do instead."""


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
    def letters(self) -> tuple[Letter, ...]:
        return PLAN_LETTERS

    def offers(self, letter: Letter) -> bool:
        return letter in PLAN_LETTERS


@dataclass(slots=True, kw_only=True)
class PendingApproval(PendingQuestion):
    """The question whether a call may run."""

    question: Question
    offer: RuleOffer
    position: tuple[int, int]
    """The number of the call, and the number of calls in the same reply."""
    answer: "asyncio.Future[Verdict]"
    is_cut: bool = True
    """True if part of the call is not on the screen. True until it is drawn."""
    hides_rules: bool = False
    """True if the rules that the lasting answers would store are not on the screen."""
    was_viewed: bool = False

    @property
    def letters(self) -> tuple[Letter, ...]:
        """The possible answers. A server's question has no lasting ones."""
        return LETTERS if self.question.form is None else SERVER_LETTERS

    def offers(self, letter: Letter) -> bool:
        if letter not in self.letters:
            return False
        return not self.offer.find_obstacle(letter) and not self._is_locked(letter)

    def _is_locked(self, letter: Letter) -> bool:
        """Return whether the answer agrees to something that was not shown."""
        hidden = (self.is_cut and letter in AGREEING_LETTERS) or (
            self.hides_rules and letter in LASTING_LETTERS
        )
        return hidden and not self.was_viewed


class ApprovalPrompt:
    """Implements `types.verdicts.AskUser` on a screen whose input must not be disturbed."""

    def __init__(
        self,
        *,
        is_composing: Callable[[], bool],
        measure_quiet_s: Callable[[], float],
        build_offer: Callable[[Question], RuleOffer],
        find_position: Callable[[Question], tuple[int, int]],
        on_change: Callable[[], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`on_change` is called when the screen has to be drawn again."""
        self.pending: PendingApproval | PendingPlan | None = None
        self._is_composing = is_composing
        self._measure_quiet_s = measure_quiet_s
        self._build_offer = build_offer
        self._find_position = find_position
        self._on_change = on_change
        self._clock = clock
        self._open_now = asyncio.Event()

    async def __call__(self, question: Question) -> Verdict:
        asked = PendingApproval(
            question=question,
            offer=self._build_offer(question),
            position=self._find_position(question),
            answer=asyncio.get_running_loop().create_future(),
        )
        return await self._wait_for_answer(asked, asked.answer)

    async def ask_about_plan(self, plan: str) -> tuple[PlanAnswer, str]:
        """Return the answer, and the plan as the user edited it."""
        asked = PendingPlan(plan=plan, answer=asyncio.get_running_loop().create_future())
        return await self._wait_for_answer(asked, asked.answer), asked.plan

    async def _wait_for_answer(
        self, pending: PendingApproval | PendingPlan, answer: "asyncio.Future[T]"
    ) -> T:
        self.pending = pending
        self._open_now.clear()
        try:
            self._on_change()
            await self._wait_until_idle()
            pending.opened, pending.is_wanted = True, self._open_now.is_set()
            self._on_change()
            return await answer
        finally:
            self.pending = None
            self._on_change()

    @property
    def is_waiting(self) -> bool:
        """True if there is a question and the keyboard still belongs to the input."""
        return self.pending is not None and not self.pending.opened

    @property
    def is_open(self) -> bool:
        return self.pending is not None and self.pending.opened

    @property
    def takes_keys(self) -> bool:
        """True until the first answer. Other keys typed with it are no further answers."""
        asked = self.pending
        if asked is None or not asked.opened or asked.answer.done():
            return False
        is_free = asked.is_wanted or not self._is_composing()
        return is_free and self._clock() >= asked.counts_from

    def open_now(self) -> None:
        """Open the question because the user asks for it, whatever is being written."""
        self._open_now.set()
        if self.pending is not None and self.pending.opened:
            self.pending.is_wanted = True
            self.rest()

    def note_shown(self) -> None:
        """Start the grace period after a drawing. Keys typed before it do not count."""
        asked = self.pending
        if asked is not None and asked.opened and asked.counts_from == float("inf"):
            asked.counts_from = self._clock() + GRACE_S

    def postpone(self) -> None:
        """Postpone the answers after a key went to the input: the user means to type on."""
        asked = self.pending
        if asked is not None:
            asked.is_wanted = False
            if asked.counts_from != float("inf"):
                asked.counts_from = self._clock() + PAUSE_S

    def rest(self) -> None:
        """Count no key until the question is drawn again."""
        if self.pending is not None:
            self.pending.counts_from = float("inf")
            self._on_change()

    def select(self, step: int) -> None:
        asked = self.pending
        if asked is None:
            return
        choices = [index for index, letter in enumerate(LETTERS) if asked.offers(letter)]
        if asked.selected is None:
            asked.selected = choices[0] if step > 0 else choices[-1]
        else:
            near = [one for one in choices if (one - asked.selected) * step > 0]
            if near:
                asked.selected = near[0] if step > 0 else near[-1]
        self._on_change()

    def allow(self, *, lasting: Literal["", "session", "always"] = "") -> None:
        reason = {"": "once", "session": "for this session", "always": "always"}[lasting]
        rule = None
        if lasting and isinstance(self.pending, PendingApproval):
            rule = ", ".join(self.pending.offer.rules) or self.pending.offer.session
        self._resolve(
            Verdict(decision="allow", by="user", reason=f"the user approved it {reason}", rule=rule)
        )

    def deny(self, instead: str = "") -> None:
        reason = f"{USER_DENIED_AND_SAID}{instead}" if instead else USER_DENIED
        self._resolve(Verdict(decision="deny", by="user", reason=reason))

    def dismiss(self) -> None:
        """Give a server's question no answer, which is not the same as a no."""
        self._resolve(Verdict(decision="ask", by="user", reason="the user gave no answer"))

    def modify(self, new_input: Json) -> None:
        self._resolve(
            Verdict(
                decision="modify",
                by="user",
                reason="the user changed it before it ran",
                input=new_input,
            )
        )

    def decide_on_plan(self, answer: PlanAnswer) -> None:
        if isinstance(self.pending, PendingPlan) and not self.pending.answer.done():
            self.pending.answer.set_result(answer)
            self.open_now()

    def mark_viewed(self) -> None:
        if isinstance(self.pending, PendingApproval):
            self.pending.was_viewed = True
        self.rest()

    def _resolve(self, verdict: Verdict) -> None:
        if isinstance(self.pending, PendingApproval) and not self.pending.answer.done():
            self.pending.answer.set_result(verdict)

    async def _wait_until_idle(self) -> None:
        """Wait until the input is empty and the user has stopped typing, or asks for the question.

        A question never opens over a message: the user sends or clears the message first.
        """
        if self._measure_quiet_s() >= TYPING_S and not self._is_composing():
            return
        while self._is_composing() or self._measure_quiet_s() < PAUSE_S:
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_S):
                    await self._open_now.wait()
                    return
