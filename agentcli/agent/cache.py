"""A provider's prompt cache: whether it can be read, and why it was not, in words for a person.

Each request is compared with the one before, and the first part that is not as it was is named: all
that stands behind it had to be paid for again.
"""

import time
from collections.abc import Callable

from agentcli.types.messages import Usage
from agentcli.types.tools import ToolMessage
from agentcli.types.wire import Message, Request

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
