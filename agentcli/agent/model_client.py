"""The model client: each request fits the window, and each reply is recorded with its price.

A conversation that does not fit is shortened. If the model is overloaded, another one takes over,
provided that the user named one.
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
from agentcli.types.provider import Message, Price, Request, ServedModel, ToolChoice
from agentcli.types.tools import ToolMessage, ToolSpec

# A provider's prompt cache: whether it can be used, and if not, why, in words for the user.


WORTH_REPORTING_TOKENS = 2048
"""The least size worth reporting; shorter prompts cost little and are not always cached."""
CACHE_LIFETIME_S = 300.0
"""The shortest lifetime that any provider promises; most keep a prompt longer."""


class CacheWatch:
    """Compares each request with the one before, by identity if that is enough."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._before: Request | None = None
        self._cached_tokens = 0
        """The tokens of the request before that its provider cached."""
        self._at = 0.0

    def explain_cold_cache(self, request: Request) -> str:
        """Return why some of the request cannot be read from the cache, or an empty string."""
        if self._before is None:
            return "it is the first request"
        if changed := _find_first_change(self._before, request):
            return changed
        idle_s = self._clock() - self._at
        return f"{_format_minutes(idle_s)} have passed" if idle_s > CACHE_LIFETIME_S else ""

    def detect_miss(self, request: Request, usage: Usage) -> str | None:
        """Return a sentence if the cache should have been read and was not, or not all of it."""
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
        return f"{some} prompt tokens were not read from the cache: {why}"


def _sum_cache_tokens(usage: Usage) -> int:
    return usage.cache_read_tokens + usage.cache_write_tokens


def _explain_expiry(idle_s: float) -> str:
    if idle_s < CACHE_LIFETIME_S:
        return "nothing changed, so the provider dropped it"
    return f"nothing changed, so it expired {_format_minutes(idle_s)} after the last request"


def _format_minutes(seconds: float) -> str:
    minutes = round(seconds / 60)
    return "1 minute" if minutes == 1 else f"{minutes} minutes"


def _find_first_change(before: Request, now: Request) -> str:
    """Return the first difference, in the order in which a prompt is built."""
    for name, was, is_now in (
        ("the model", before.model, now.model),
        ("the tools", before.tools, now.tools),
        ("the system prompt", before.system, now.system),
        ("the choice of tools", before.tool_choice, now.tool_choice),
        ("the answer format", before.answer_schema, now.answer_schema),
    ):
        if was is not is_now and was != is_now:
            return f"{name} changed"
    if len(now.messages) < len(before.messages):
        return "the conversation was compacted"
    for number, (old, new) in enumerate(zip(before.messages, now.messages, strict=False), 1):
        if old is not new and old != new:
            return _describe_change(number, old, new)
    return ""


def _describe_change(number: int, old: Message, new: Message) -> str:
    if isinstance(old, ToolMessage) and isinstance(new, ToolMessage):
        return "old results were left out to make room"
    return f"message {number} changed"


# The cost of a request, forecast before it is sent if it is high.


LARGE_USD = 0.25
LARGE_TOKENS = 100_000
"""The number of uncached tokens that is high if the price is not known."""


def forecast_cost(*, tokens: int, cached_tokens: int, why_cold: str, price: Price) -> str | None:
    """Return a warning for the user, or None if the cost is low.

    `cached_tokens` is what the provider counted of the request before, and may have cached.
    `why_cold` says why the prompt is not cached all the same."""
    cached = 0 if why_cold else min(cached_tokens, tokens)
    cost_usd = price(Usage(input_tokens=tokens - cached, cache_read_tokens=cached))
    if (tokens - cached < LARGE_TOKENS) if cost_usd is None else cost_usd < LARGE_USD:
        return None
    cost = "price unknown" if cost_usd is None else f"about ${cost_usd:.2f}"
    where = f"not cached ({why_cold})" if why_cold else "most of it cached"
    return f"the next request has about {tokens:,} prompt tokens, {where}: {cost}"


OVERFLOWS_MAX = 2
"""The number of times per turn that a conversation is shortened and sent again."""

FallBack: TypeAlias = Callable[[str], Awaitable[bool]]
"""Takes the name of an overloaded model. Returns whether another one is in use now."""


class ModelClient:
    def __init__(
        self,
        *,
        model: Callable[[], ServedModel],
        template: Request,
        journal: Journal,
        compactor: Compactor | None = None,
        fall_back: FallBack | None = None,
        tools: Callable[[], tuple[ToolSpec, ...]] | None = None,
        deferred: Callable[[], tuple[ToolSpec, ...]] = tuple,
    ) -> None:
        """`model` returns the model to send the next request to.
        `compactor` keeps the conversation within the model's window.
        `fall_back` is called if the model is overloaded; None if there is no other.
        `tools` returns the tools to declare now; if None, those of the template are declared.
        `deferred` returns the tools that the model can search for."""
        self._model = model
        self._template = template
        self._journal = journal
        self._compactor = compactor
        self._fall_back = fall_back
        self._tools = tools
        self._deferred = deferred
        self._asked: ServedModel | None = None
        """The model of the last request."""
        self._cache = CacheWatch()
        self._overflows = 0
        self._is_forecast_due = False

    def begin_turn(self) -> None:
        self._overflows = 0
        self._is_forecast_due = True

    async def send(self, *, tool_choice: ToolChoice = "auto") -> AssistantMessage:
        """Return the next reply; raise ProviderError."""
        model = self._asked = self._model()
        request = self._build_request(model, tool_choice)
        if self._compactor is not None:
            request = await self._compactor.fit_request(
                request, provider=model.provider, price=model.price
            )
        began, partial = time.monotonic(), _PartialReply(self._journal.append, price=model.price)
        self._forecast_cost(request, model.price)
        try:
            reply = await model.provider.send(request, partial.handle_delta)
        except ProviderError as error:
            partial.flush_usage()
            if error.was_sent:
                self._journal.append(
                    ModelFailed(
                        kind=error.kind,
                        message=str(error),
                        hint=error.hint,
                        retry_after_s=error.retry_after_s,
                    )
                )
            raise
        except asyncio.CancelledError:
            if partial.text:
                self._journal.append(
                    partial.build_cancelled_reply(model.name, time.monotonic() - began)
                )
            partial.flush_usage()
            raise
        partial.flush_usage()
        self._record_usage(request, reply)
        self._journal.append(
            ModelReplied(
                message=reply,
                duration_s=round(time.monotonic() - began, 4),
                cost_usd=model.price(reply.usage),
                retries=partial.retries,
            )
        )
        return reply

    async def try_to_recover(self, error: ProviderError) -> bool:
        """Try to fix the cause and return whether the next attempt may succeed."""
        if error.kind is ProviderErrorKind.OVERFLOW:
            return await self.shrink_conversation()
        if not error.is_temporary or self._fall_back is None or self._asked is None:
            return False
        return await self._fall_back(self._asked.name)

    async def shrink_conversation(self) -> bool:
        """Shorten a conversation that no longer fits; return False if that is impossible."""
        self._overflows += 1
        if self._compactor is None or self._overflows > OVERFLOWS_MAX:
            return False
        model = self._model()
        return await self._compactor.recover_from_overflow(
            self._build_request(model), provider=model.provider, price=model.price
        )

    async def compact(self) -> bool:
        """Compact between two turns, at the user's request."""
        if self._compactor is None:
            return False
        model = self._model()
        return await self._compactor.compact(
            self._build_request(model), provider=model.provider, price=model.price
        )

    def _build_request(self, model: ServedModel, tool_choice: ToolChoice = "auto") -> Request:
        tools = self._tools() if self._tools else self._template.tools
        return replace(
            self._template,
            model=model.name,
            effort=model.effort,
            messages=self._journal.build_messages(),
            tools=tools,
            deferred=self._deferred(),
            tool_choice=tool_choice,
        )

    def _forecast_cost(self, request: Request, price: Price) -> None:
        """Warn once per turn, if the request is expensive."""
        if self._compactor is None or not self._is_forecast_due:
            return
        self._is_forecast_due = False
        tokens, counted = self._compactor.measure(request)
        large = forecast_cost(
            tokens=tokens,
            cached_tokens=counted,
            why_cold=self._cache.explain_cold_cache(request),
            price=price,
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
    """The part of a reply received so far, in case it never ends.

    The usage of an attempt that broke off is recorded once nothing else will record it."""

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
        """Record the usage of an attempt that broke off, if there was one."""
        used, self._pending_usage = self._pending_usage, None
        if used is not None:
            cost_usd = self._price(used)
            self._emit(TokensSpent(why="broken_off", usage=used, cost_usd=cost_usd))

    @property
    def text(self) -> str:
        return "".join(self._pieces)

    def build_cancelled_reply(self, model: str, duration_s: float) -> ModelReplied:
        """Build a reply from the part that was received."""
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


# The system prompt: stable byte for byte, so that it stays cached.


@cache
def load_system_prompt() -> str:
    return Path(__file__).with_name("prompt.md").read_text(encoding="utf-8").strip()
