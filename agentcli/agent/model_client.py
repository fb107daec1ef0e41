"""One model, asked for replies: each request within its window, each reply recorded with its price.

Where a conversation does not fit it is shortened; where the model is overloaded another one takes
over, if the person has named one.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TypeAlias

from agentcli.agent.compaction import Compactor
from agentcli.agent.journal import Journal
from agentcli.types.deltas import AttemptBrokenOff, Delta, RetryDelta, TextDelta
from agentcli.types.errors import ProviderError, ProviderErrorKind
from agentcli.types.events import Emit, ModelFailed, ModelReplied, TokensSpent, Warned
from agentcli.types.messages import AssistantMessage, Text, Usage
from agentcli.types.provider import Message, ModelProvider, Price, Request, ToolChoice
from agentcli.types.tools import ToolMessage, ToolSpec

# A provider's prompt cache: whether it can be read, and why it was not, in words for a person.


WORTH_REPORTING_TOKENS = 2048
"""Shorter prompts are not cached by every provider, and cost little."""
CACHE_LIFETIME_S = 300.0
"""The least any provider promises; most keep a prompt longer."""


class CacheWatch:
    """Compares each request with the one before, by identity where that is enough."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._before: Request | None = None
        self._cached_tokens = 0
        """Of the request before, as far as its provider cached it."""
        self._at = 0.0

    def explain_cold_cache(self, request: Request) -> str:
        """Why nothing, or not all, can be read from the cache; empty: it can."""
        if self._before is None:
            return "it is the first request"
        if changed := _find_first_change(self._before, request):
            return changed
        idle_s = self._clock() - self._at
        return f"{_format_minutes(idle_s)} have passed" if idle_s > CACHE_LIFETIME_S else ""

    def detect_miss(self, request: Request, usage: Usage) -> str | None:
        """A sentence when the cache should have been read and was not, or not all of it."""
        before, self._before = self._before, request
        cached, self._cached_tokens = self._cached_tokens, _sum_cache_tokens(usage)
        now_s = self._clock()
        idle_s, self._at = now_s - self._at, now_s
        lost = cached - usage.cache_read_tokens
        is_small = lost < max(WORTH_REPORTING_TOKENS, cached // 4)
        if before is None or is_small or usage.prompt_tokens < WORTH_REPORTING_TOKENS:
            return None
        why = _find_first_change(before, request) or _explain_expiry(idle_s)
        uncached = usage.prompt_tokens - usage.cache_read_tokens
        some = f"{uncached} of {usage.prompt_tokens}" if usage.cache_read_tokens else f"{uncached}"
        return f"{some} tokens of prompt were not read from the cache: {why}"


def _sum_cache_tokens(usage: Usage) -> int:
    return usage.cache_read_tokens + usage.cache_write_tokens


def _explain_expiry(idle_s: float) -> str:
    if idle_s < CACHE_LIFETIME_S:
        return "nothing in it changed, so its provider did not keep it"
    return (
        f"nothing in it changed, so it had expired, {_format_minutes(idle_s)} after "
        "the last request"
    )


def _format_minutes(seconds: float) -> str:
    minutes = round(seconds / 60)
    return "1 minute" if minutes == 1 else f"{minutes} minutes"


def _find_first_change(before: Request, now: Request) -> str:
    """In the order in which a prompt is made of them."""
    for name, was, is_now in (
        ("the model", before.model, now.model),
        ("the tools", before.tools, now.tools),
        ("the system prompt", before.system, now.system),
        ("the choice of tools", before.tool_choice, now.tool_choice),
        ("the form of the answer", before.answer_schema, now.answer_schema),
    ):
        if was is not is_now and was != is_now:
            return f"{name} changed"
    if len(now.messages) < len(before.messages):
        return "the conversation was shortened"
    for number, (old, new) in enumerate(zip(before.messages, now.messages, strict=False), 1):
        if old is not new and old != new:
            return _describe_change(number, old, new)
    return ""


def _describe_change(number: int, old: Message, new: Message) -> str:
    if isinstance(old, ToolMessage) and isinstance(new, ToolMessage):
        return "old results were left out to make room"
    return f"message {number} changed"


# What a request will cost, said before it is sent, when that is much.


LARGE_USD = 0.25
LARGE_TOKENS = 100_000
"""Where nobody knows the price: so many that are not in a cache."""


def forecast_cost(*, tokens: int, cached_tokens: int, why_cold: str, price: Price) -> str | None:
    """A sentence for a person; None: it is nothing to speak of.

    `cached_tokens`: what the provider counted of the request before, and may have kept.
    `why_cold`: why it has to be read anew all the same."""
    cached = 0 if why_cold else min(cached_tokens, tokens)
    cost_usd = price(Usage(input_tokens=tokens - cached, cache_read_tokens=cached))
    if (tokens - cached < LARGE_TOKENS) if cost_usd is None else cost_usd < LARGE_USD:
        return None
    cost = "its price is not known" if cost_usd is None else f"about ${cost_usd:.2f}"
    where = f"none known to be cached ({why_cold})" if why_cold else "most of it cached"
    return f"the next request has about {tokens:,} tokens of prompt, {where}: {cost}"


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


# What the model is told before anything else: stable byte for byte, so that it stays cached.


@cache
def load_system_prompt() -> str:
    return Path(__file__).with_name("prompt.md").read_text(encoding="utf-8").strip()
