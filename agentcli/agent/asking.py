"""One model, asked for replies: each request within its window, each reply recorded with its price.

Where a conversation does not fit it is shortened; where the model is overloaded another one takes
over, if the person has named one.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TypeAlias

from agentcli.agent.cache import CacheWatch
from agentcli.agent.forecast import forecast
from agentcli.agent.journal import Journal
from agentcli.agent.room import Room
from agentcli.types.deltas import BrokenOff, Delta, RetryDelta, TextDelta
from agentcli.types.errors import WireError, WireErrorKind
from agentcli.types.events import Emit, ModelFailed, ModelReplied, TokensSpent, Warned
from agentcli.types.messages import AssistantMessage, Text, Usage
from agentcli.types.tools import ToolSpec
from agentcli.types.wire import Price, Request, ToolChoice, Wire

OVERFLOWS_MAX = 2
"""How often in a turn a conversation that does not fit is shortened and sent again."""

OVERLOADED = (WireErrorKind.UNAVAILABLE, WireErrorKind.RATE_LIMITED, WireErrorKind.CUT)

FallBack: TypeAlias = Callable[[], Awaitable[bool]]
"""Puts another model in this one's place, by `Asking.use`; False: there is none."""


async def nobody_else() -> bool:
    return False


class Asking:
    def __init__(
        self,
        *,
        wire: Wire,
        template: Request,
        journal: Journal,
        price: Price,
        room: Room | None = None,
        tools: Callable[[], tuple[ToolSpec, ...]] | None = None,
        deferred: Callable[[], tuple[ToolSpec, ...]] = tuple,
    ) -> None:
        """`room`: keeps the conversation within the model's window.
        `tools`: what the model is told of now; None: what the template says.
        `deferred`: what it can find."""
        self._wire = wire
        self._template = template
        self._journal = journal
        self._price = price
        self._room = room
        self._tools = tools
        self._deferred = deferred
        self._cache = CacheWatch()
        self._overflows = 0
        self._is_forecast_due = False
        self.fall_back: FallBack = nobody_else

    @property
    def model(self) -> str:
        return self._template.model

    def use(self, *, wire: Wire, model: str, price: Price) -> None:
        """Another model from the next request on."""
        self._wire = wire
        self._template = replace(self._template, model=model)
        self._price = price

    def begin_turn(self) -> None:
        self._overflows = 0
        self._is_forecast_due = True

    async def ask(self, *, tool_choice: ToolChoice = "auto") -> AssistantMessage:
        """The next reply. Raises WireError."""
        request = self._request(tool_choice)
        if self._room is not None:
            request = await self._room.make(request, wire=self._wire, price=self._price)
        began, partial = time.monotonic(), _Partial(self._journal.tell, price=self._price)
        self._forecast(request)
        try:
            reply = await self._wire.ask(request, partial.show)
        except WireError as error:
            partial.settle()
            if error.was_sent:
                self._journal.tell(
                    ModelFailed(kind=error.kind, message=str(error), hint=error.hint)
                )
            raise
        except asyncio.CancelledError:
            if partial.text:
                self._journal.tell(partial.replied(self.model, time.monotonic() - began))
            partial.settle()
            raise
        partial.settle()
        self._learn(request, reply)
        self._journal.tell(
            ModelReplied(
                message=reply,
                duration_s=round(time.monotonic() - began, 4),
                cost_usd=self._price(reply.usage),
                retries=partial.retries,
            )
        )
        return reply

    async def is_worth_repeating(self, error: WireError) -> bool:
        """Whether the next attempt may succeed, after something was done about it."""
        if error.kind is WireErrorKind.OVERFLOW:
            return await self.made_room()
        return error.kind in OVERLOADED and await self.fall_back()

    async def made_room(self) -> bool:
        """Of a conversation that does not fit any more; False: it cannot be made to."""
        self._overflows += 1
        if self._room is None or self._overflows > OVERFLOWS_MAX:
            return False
        return await self._room.after_overflow(self._request(), wire=self._wire, price=self._price)

    async def compact(self) -> bool:
        """Between two turns, when the person wants it."""
        if self._room is None:
            return False
        return await self._room.compact(self._request(), wire=self._wire, price=self._price)

    def _request(self, tool_choice: ToolChoice = "auto") -> Request:
        tools = self._tools() if self._tools else self._template.tools
        return replace(
            self._template,
            messages=self._journal.messages(),
            tools=tools,
            deferred=self._deferred(),
            tool_choice=tool_choice,
        )

    def _forecast(self, request: Request) -> None:
        """Once a turn, where what follows costs much."""
        if self._room is None or not self._is_forecast_due:
            return
        self._is_forecast_due = False
        tokens, counted = self._room.taken_by(request)
        large = forecast(
            tokens=tokens,
            cached_tokens=counted,
            why_cold=self._cache.why_cold(request),
            price=self._price,
        )
        if large is not None:
            self._journal.tell(Warned(code="cost.forecast", message=large))

    def _learn(self, request: Request, reply: AssistantMessage) -> None:
        if self._room is not None:
            self._room.learn(request, reply.usage)
        missed = self._cache.miss(request, reply.usage)
        if missed is not None:
            self._journal.tell(Warned(code="cache.missed", message=missed))


class _Partial:
    """What was shown of a reply that is still coming, in case it never ends.

    What an attempt used that broke off is told when it is known that nothing else will tell it."""

    def __init__(self, tell: Emit, *, price: Price) -> None:
        self._tell = tell
        self._price = price
        self._pieces: list[str] = []
        self._used: Usage | None = None
        self.retries = 0

    def show(self, delta: Delta) -> None:
        match delta:
            case TextDelta(text=text):
                self._pieces.append(text)
            case BrokenOff(usage=usage):
                self._used = usage
                return
            case RetryDelta():
                self.settle()
                self._pieces.clear()
                self.retries += 1
            case _:
                pass
        self._tell(delta)

    def settle(self) -> None:
        """Nothing became of the attempt that broke off, if one did."""
        used, self._used = self._used, None
        if used is not None:
            cost_usd = self._price(used)
            self._tell(TokensSpent(why="broken_off", usage=used, cost_usd=cost_usd))

    @property
    def text(self) -> str:
        return "".join(self._pieces)

    def replied(self, model: str, duration_s: float) -> ModelReplied:
        """The part that came is what became of it."""
        used, self._used = self._used or Usage(), None
        message = AssistantMessage(
            content=(Text(text=self.text),),
            stop="cancelled",
            protocol="",
            model=model,
            usage=used,
        )
        return ModelReplied(
            message=message,
            duration_s=round(duration_s, 4),
            cost_usd=self._price(used),
            retries=self.retries,
        )
