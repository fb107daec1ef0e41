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
from agentcli.agent.forecast import forecast_cost
from agentcli.agent.journal import Journal
from agentcli.agent.room import Compactor
from agentcli.types.deltas import AttemptBrokenOff, Delta, RetryDelta, TextDelta
from agentcli.types.errors import ProviderError, ProviderErrorKind
from agentcli.types.events import Emit, ModelFailed, ModelReplied, TokensSpent, Warned
from agentcli.types.messages import AssistantMessage, Text, Usage
from agentcli.types.tools import ToolSpec
from agentcli.types.wire import ModelProvider, Price, Request, ToolChoice

OVERFLOWS_MAX = 2
"""How often in a turn a conversation that does not fit is shortened and sent again."""

OVERLOADED = (ProviderErrorKind.UNAVAILABLE, ProviderErrorKind.RATE_LIMITED, ProviderErrorKind.CUT)

FallBack: TypeAlias = Callable[[], Awaitable[bool]]
"""Puts another model in this one's place, by `Asking.use`; False: there is none."""


async def refuse_fallback() -> bool:
    return False


class ModelClient:
    def __init__(
        self,
        *,
        provider: ModelProvider,
        template: Request,
        journal: Journal,
        price: Price,
        compactor: Compactor | None = None,
        tools: Callable[[], tuple[ToolSpec, ...]] | None = None,
        deferred: Callable[[], tuple[ToolSpec, ...]] = tuple,
    ) -> None:
        """`room`: keeps the conversation within the model's window.
        `tools`: what the model is told of now; None: what the template says.
        `deferred`: what it can find."""
        self._provider = provider
        self._template = template
        self._journal = journal
        self._price = price
        self._compactor = compactor
        self._tools = tools
        self._deferred = deferred
        self._cache = CacheWatch()
        self._overflows = 0
        self._is_forecast_due = False
        self.fall_back: FallBack = refuse_fallback

    @property
    def model(self) -> str:
        return self._template.model

    def switch_model(self, *, provider: ModelProvider, model: str, price: Price) -> None:
        """Another model from the next request on."""
        self._provider = provider
        self._template = replace(self._template, model=model)
        self._price = price

    def begin_turn(self) -> None:
        self._overflows = 0
        self._is_forecast_due = True

    async def send(self, *, tool_choice: ToolChoice = "auto") -> AssistantMessage:
        """The next reply. Raises WireError."""
        request = self._build_request(tool_choice)
        if self._compactor is not None:
            request = await self._compactor.fit_request(
                request, provider=self._provider, price=self._price
            )
        began, partial = time.monotonic(), _PartialReply(self._journal.append, price=self._price)
        self._forecast_cost(request)
        try:
            reply = await self._provider.send(request, partial.handle_delta)
        except ProviderError as error:
            partial.flush_usage()
            if error.was_sent:
                self._journal.append(
                    ModelFailed(kind=error.kind, message=str(error), hint=error.hint)
                )
            raise
        except asyncio.CancelledError:
            if partial.text:
                self._journal.append(
                    partial.build_cancelled_reply(self.model, time.monotonic() - began)
                )
            partial.flush_usage()
            raise
        partial.flush_usage()
        self._record_usage(request, reply)
        self._journal.append(
            ModelReplied(
                message=reply,
                duration_s=round(time.monotonic() - began, 4),
                cost_usd=self._price(reply.usage),
                retries=partial.retries,
            )
        )
        return reply

    async def try_to_recover(self, error: ProviderError) -> bool:
        """Whether the next attempt may succeed, after something was done about it."""
        if error.kind is ProviderErrorKind.OVERFLOW:
            return await self.shrink_conversation()
        return error.kind in OVERLOADED and await self.fall_back()

    async def shrink_conversation(self) -> bool:
        """Of a conversation that does not fit any more; False: it cannot be made to."""
        self._overflows += 1
        if self._compactor is None or self._overflows > OVERFLOWS_MAX:
            return False
        return await self._compactor.recover_from_overflow(
            self._build_request(), provider=self._provider, price=self._price
        )

    async def compact(self) -> bool:
        """Between two turns, when the person wants it."""
        if self._compactor is None:
            return False
        return await self._compactor.compact(
            self._build_request(), provider=self._provider, price=self._price
        )

    def _build_request(self, tool_choice: ToolChoice = "auto") -> Request:
        tools = self._tools() if self._tools else self._template.tools
        return replace(
            self._template,
            messages=self._journal.build_messages(),
            tools=tools,
            deferred=self._deferred(),
            tool_choice=tool_choice,
        )

    def _forecast_cost(self, request: Request) -> None:
        """Once a turn, where what follows costs much."""
        if self._compactor is None or not self._is_forecast_due:
            return
        self._is_forecast_due = False
        tokens, counted = self._compactor.measure(request)
        large = forecast_cost(
            tokens=tokens,
            cached_tokens=counted,
            why_cold=self._cache.explain_cold_cache(request),
            price=self._price,
        )
        if large is not None:
            self._journal.append(Warned(code="cost.forecast", message=large))

    def _record_usage(self, request: Request, reply: AssistantMessage) -> None:
        if self._compactor is not None:
            self._compactor.learn(request, reply.usage)
        missed = self._cache.detect_miss(request, reply.usage)
        if missed is not None:
            self._journal.append(Warned(code="cache.missed", message=missed))


class _PartialReply:
    """What was shown of a reply that is still coming, in case it never ends.

    What an attempt used that broke off is told when it is known that nothing else will tell it."""

    def __init__(self, emit: Emit, *, price: Price) -> None:
        self._emit = emit
        self._price = price
        self._pieces: list[str] = []
        self._pending_usage: Usage | None = None
        self.retries = 0

    def handle_delta(self, delta: Delta) -> None:
        match delta:
            case TextDelta(text=text):
                self._pieces.append(text)
            case AttemptBrokenOff(usage=usage):
                self._pending_usage = usage
                return
            case RetryDelta():
                self.flush_usage()
                self._pieces.clear()
                self.retries += 1
            case _:
                pass
        self._emit(delta)

    def flush_usage(self) -> None:
        """Nothing became of the attempt that broke off, if one did."""
        used, self._pending_usage = self._pending_usage, None
        if used is not None:
            cost_usd = self._price(used)
            self._emit(TokensSpent(why="broken_off", usage=used, cost_usd=cost_usd))

    @property
    def text(self) -> str:
        return "".join(self._pieces)

    def build_cancelled_reply(self, model: str, duration_s: float) -> ModelReplied:
        """The part that came is what became of it."""
        used, self._pending_usage = self._pending_usage or Usage(), None
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
