"""One turn: ask the model, run its calls, until there is nothing left to run.

Every way out is a `TurnEnded` with its ending. Caps are checked before each request, so that what
they forbid is never sent.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import TypeAlias

from agentcli.agent.cache import CacheWatch
from agentcli.agent.dispatch import Dispatcher
from agentcli.agent.journal import Journal
from agentcli.agent.limits import Breaker, Limits
from agentcli.agent.outcome import denied_for_good
from agentcli.agent.schedule import run_batch
from agentcli.types.errors import WireError, WireErrorKind
from agentcli.types.events import (
    Delta,
    Ending,
    ModelFailed,
    ModelReplied,
    RetryDelta,
    TextDelta,
    Told,
    TurnEnded,
    TurnStarted,
    Warned,
)
from agentcli.types.messages import AssistantMessage, Text, Usage, UserMessage
from agentcli.types.wire import Request, Wire

STUMBLES_MAX = 3
"""Replies in a row that were cut off or malformed before the turn is given up."""

CUT_OFF = "Your reply was cut off at the output limit. Continue exactly where it stopped."
CUT_OFF_CALL = (
    "Not run: your reply was cut off at the output limit. Make the call again, with less in it."
)
NOT_COMPLETE = "Not run: your reply did not end as it should."

Price: TypeAlias = Callable[[Usage], float | None]
Notices: TypeAlias = Callable[[], Sequence[Told]]
Shorten: TypeAlias = Callable[[], Awaitable[bool]]


class Loop:
    def __init__(
        self,
        *,
        wire: Wire,
        template: Request,
        journal: Journal,
        dispatcher: Dispatcher,
        breaker: Breaker,
        limits: Limits,
        price: Price,
        parallel: bool = True,
        notices: Notices = tuple,
        shorten: Shorten | None = None,
    ) -> None:
        """`notices`: what the model has to be told before its next reply.
        `shorten`: makes a conversation fit that no longer does; False when it cannot."""
        self._wire = wire
        self._template = template
        self._journal = journal
        self._dispatcher = dispatcher
        self._breaker = breaker
        self._limits = limits
        self._price = price
        self._parallel = parallel
        self._notices = notices
        self._shorten = shorten
        self._cache = CacheWatch()
        self._cost_usd = 0.0
        self._tokens = 0
        self._stumbles = 0

    async def turn(self, message: UserMessage) -> TurnEnded:
        first_fact = len(self._journal.facts)
        self._journal.tell(TurnStarted(message=message))
        self._breaker.begin_turn()
        self._stumbles = 0
        try:
            async with asyncio.timeout(self._limits.wall_s):
                ended = await self._steps()
        except TimeoutError:
            ended = TurnEnded(
                ending=Ending.TIME_LIMIT,
                message=f"the time limit of {self._limits.wall_s:g} s is reached",
            )
        except asyncio.CancelledError:
            self._journal.tell(TurnEnded(ending=Ending.CANCELLED, message="interrupted"))
            raise
        if ended.ending is Ending.DONE:
            ended = denied_for_good(self._journal.facts[first_fact:]) or ended
        self._journal.tell(ended)
        return ended

    async def _steps(self) -> TurnEnded:
        step = 0
        while True:
            over = self._over(step)
            if over is not None:
                return over
            step += 1
            for told in self._notices():
                self._journal.tell(told)
            try:
                reply = await self._ask()
            except WireError as error:
                if error.kind is WireErrorKind.OVERFLOW and await self._shortened():
                    continue
                return TurnEnded(ending=error.ending, message=str(error), hint=error.hint)
            ended = await self._act_on(reply)
            if ended is not None:
                return ended

    async def _ask(self) -> AssistantMessage:
        began, partial = time.monotonic(), Partial(self._journal.tell)
        request = replace(self._template, messages=self._journal.messages())
        try:
            reply = await self._wire.ask(request, partial.show)
        except WireError as error:
            self._journal.tell(ModelFailed(kind=error.kind, message=str(error), hint=error.hint))
            raise
        except asyncio.CancelledError:
            if partial.text:
                self._journal.tell(ModelReplied(message=partial.message(self._template.model)))
            raise
        missed = self._cache.miss(request, reply.usage)
        if missed is not None:
            self._journal.tell(Warned(code="cache.missed", message=missed))
        cost_usd = self._price(reply.usage)
        self._cost_usd += cost_usd or 0.0
        self._tokens += reply.usage.prompt_tokens + reply.usage.output_tokens
        self._journal.tell(
            ModelReplied(
                message=reply, duration_s=round(time.monotonic() - began, 4), cost_usd=cost_usd
            )
        )
        return reply

    async def _act_on(self, reply: AssistantMessage) -> TurnEnded | None:
        """The stop reason decides. None: ask again."""
        match reply.stop:
            case "end" | "tool_calls" if reply.tool_calls:
                return await self._run(reply)
            case "end" | "tool_calls":
                return TurnEnded(ending=Ending.DONE)
            case "paused":
                return None
            case "length":
                return self._stumbled(reply, Ending.LENGTH, CUT_OFF, CUT_OFF_CALL)
            case "error":
                told = f"Your reply could not be used ({reply.stop_detail}). Try again."
                return self._stumbled(reply, Ending.PROVIDER_FAILED, told, NOT_COMPLETE)
            case "overflow" | "refusal" | "cancelled":
                self._refuse_calls(reply, NOT_COMPLETE)
                return await self._gave_up(reply)

    async def _gave_up(self, reply: AssistantMessage) -> TurnEnded | None:
        if reply.stop == "refusal":
            why = f": {reply.stop_detail}" if reply.stop_detail else ""
            return TurnEnded(ending=Ending.REFUSED, message=f"the model refused{why}")
        if reply.stop == "cancelled":
            return TurnEnded(ending=Ending.CANCELLED, message="interrupted")
        if await self._shortened():
            return None
        return TurnEnded(
            ending=Ending.OVERFLOW, message="the conversation no longer fits the model"
        )

    async def _run(self, reply: AssistantMessage) -> TurnEnded | None:
        self._stumbles = 0
        self._breaker.begin_step()
        await run_batch(
            reply.tool_calls,
            is_read=self._dispatcher.is_read if self._parallel else lambda call: False,
            run=self._dispatcher.dispatch,
        )
        if self._breaker.tripped is not None:
            return TurnEnded(ending=Ending.REPEATED, message=self._breaker.tripped)
        return None

    def _stumbled(
        self, reply: AssistantMessage, ending: Ending, told: str, told_of_calls: str
    ) -> TurnEnded | None:
        self._stumbles += 1
        self._refuse_calls(reply, told_of_calls)
        if self._stumbles > STUMBLES_MAX:
            return TurnEnded(
                ending=ending, message=f"{self._stumbles} replies in a row ended with {reply.stop}"
            )
        if not reply.tool_calls:
            self._journal.tell(Told(text=told, why=reply.stop))
        return None

    def _refuse_calls(self, reply: AssistantMessage, why: str) -> None:
        for call in reply.tool_calls:
            self._dispatcher.refuse(call, why)

    async def _shortened(self) -> bool:
        return self._shorten is not None and await self._shorten()

    def _over(self, step: int) -> TurnEnded | None:
        limits = self._limits
        if limits.steps is not None and step >= limits.steps:
            return TurnEnded(
                ending=Ending.STEP_LIMIT, message=f"the limit of {limits.steps} steps is reached"
            )
        if limits.cost_usd is not None and self._cost_usd >= limits.cost_usd:
            return TurnEnded(
                ending=Ending.COST_LIMIT, message=f"the limit of ${limits.cost_usd:g} is reached"
            )
        if limits.tokens is not None and self._tokens >= limits.tokens:
            return TurnEnded(
                ending=Ending.TOKEN_LIMIT, message=f"the limit of {limits.tokens} tokens is reached"
            )
        return None


class Partial:
    """What was shown of a reply that is still coming, in case it never ends."""

    def __init__(self, tell: Callable[[Delta], None]) -> None:
        self._tell = tell
        self.text = ""

    def show(self, delta: Delta) -> None:
        match delta:
            case TextDelta(text=text):
                self.text += text
            case RetryDelta():
                self.text = ""
            case _:
                pass
        self._tell(delta)

    def message(self, model: str) -> AssistantMessage:
        return AssistantMessage(
            content=(Text(text=self.text),), stop="cancelled", protocol="", model=model
        )
