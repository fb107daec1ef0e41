"""A provider's prompt cache: whether it can be used, and what a request costs without it."""

import time
from collections.abc import Callable

from agentcli.types.fast_dataclass import dataclass
from agentcli.types.messages import Usage
from agentcli.types.provider import CACHE_LIFETIME_S, Message, Price, Request
from agentcli.types.tools import ToolMessage

WORTH_REPORTING_TOKENS = 2048
"""The least size worth reporting; shorter prompts cost little and are not always cached."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CachedPrompt:
    """The prompt that a provider keeps, for the user."""

    tokens: int
    left_s: float
    """The time until it expires; 0 if it has."""
    cold_usd: float | None
    """The cost of sending it once more after that; None if the price is not known."""


class CacheWatch:
    """Compares each request with the one before, by identity if that is enough."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._before: Request | None = None
        self._cached_tokens = 0
        """The tokens of the request before that its provider cached."""
        self._at = 0.0

    def forecast_cost(
        self, request: Request, *, tokens: int, cached_tokens: int, price: Price
    ) -> str | None:
        """Return a warning if the next request costs much, or None."""
        return forecast_cost(
            tokens=tokens,
            cached_tokens=cached_tokens,
            why_cold=self.explain_cold_cache(request),
            price=price,
            is_long=request.cache_lifetime_s > CACHE_LIFETIME_S,
        )

    def explain_cold_cache(self, request: Request) -> str:
        """Return why some of the request cannot be read from the cache, or an empty string."""
        if self._before is None:
            return "it is the first request"
        if changed := _find_first_change(self._before, request):
            return changed
        idle_s = self._clock() - self._at
        if idle_s <= request.cache_lifetime_s:
            return ""
        return f"{_format_minutes(idle_s)} have passed"

    def measure(self) -> tuple[int, float]:
        """Return the tokens that the provider keeps, and the seconds until it drops them."""
        if self._before is None:
            return 0, 0.0
        left_s = self._at + self._before.cache_lifetime_s - self._clock()
        return self._cached_tokens, max(0.0, left_s)

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
        why = _find_first_change(before, request) or _explain_expiry(
            idle_s, request.cache_lifetime_s
        )
        uncached = usage.prompt_tokens - usage.cache_read_tokens
        some = f"{uncached} of {usage.prompt_tokens}" if usage.cache_read_tokens else f"{uncached}"
        return f"{some} prompt tokens were not read from the cache: {why}"


def _sum_cache_tokens(usage: Usage) -> int:
    return usage.cache_read_tokens + usage.cache_write_tokens


def _explain_expiry(idle_s: float, lifetime_s: float) -> str:
    if idle_s < lifetime_s:
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
    for number, (old, new) in enumerate(zip(before.messages, now.messages, strict=False), 1):
        if old is not new and old != new:
            if len(now.messages) < len(before.messages):
                return "the conversation was compacted"
            return _describe_change(number, old, new=new)
    return ""  # after a rewind it is shorter, and its beginning is still cached


def _describe_change(number: int, old: Message, *, new: Message) -> str:
    if isinstance(old, ToolMessage) and isinstance(new, ToolMessage):
        return "old results were left out to make room"
    return f"message {number} changed"


# The cost of a request, forecast before it is sent if it is high.


LARGE_USD = 0.25
CHEAP_TOKENS = 10_000
"""A shorter prompt costs less than `LARGE_USD`, whatever the model."""
LARGE_TOKENS = 100_000
"""The number of uncached tokens that is high if the price is not known."""


def forecast_cost(
    *, tokens: int, cached_tokens: int, why_cold: str, price: Price, is_long: bool = False
) -> str | None:
    """Return a warning for the user, or None if the cost is low.

    `cached_tokens` is what the provider counted of the request before, and may have cached.
    `why_cold` says why the prompt is not cached all the same.
    `is_long` is true if the provider keeps it for an hour, which costs more."""
    cached = 0 if why_cold else min(cached_tokens, tokens)
    cost_usd = price(build_prompt_usage(tokens, cached=cached, is_long=is_long))
    if (tokens - cached < LARGE_TOKENS) if cost_usd is None else cost_usd < LARGE_USD:
        return None
    cost = "price unknown" if cost_usd is None else f"about ${cost_usd:.2f}"
    where = f"not cached ({why_cold})" if why_cold else "most of it cached"
    return f"the next request has about {tokens:,} prompt tokens, {where}: {cost}"


def build_prompt_usage(tokens: int, *, cached: int = 0, is_long: bool) -> Usage:
    """Return the usage of a prompt whose new part is written to the cache."""
    new = tokens - cached
    return Usage(
        cache_read_tokens=cached,
        cache_write_tokens=new,
        long_cache_write_tokens=new if is_long else 0,
    )
