"""Why a provider's prompt cache was missed: the first part of the prompt that is not as it was."""

from agentcli.types.messages import Usage
from agentcli.types.wire import Request

WORTH_TELLING_TOKENS = 2048
"""Shorter prompts are not cached by every provider, and cost little."""


class CacheWatch:
    """Compares each request with the one before, by identity where that is enough."""

    def __init__(self) -> None:
        self._before: Request | None = None
        self._was_cached = False

    def miss(self, request: Request, usage: Usage) -> str | None:
        """A sentence when the cache should have been read and was not."""
        before, self._before = self._before, request
        was_cached, self._was_cached = self._was_cached, _touched_cache(usage)
        if before is None or not was_cached or usage.cache_read_tokens:
            return None
        if usage.prompt_tokens < WORTH_TELLING_TOKENS:
            return None
        changed = _first_change(before, request)
        why = f"{changed} changed" if changed else "nothing in it changed, so it had expired"
        return f"{usage.prompt_tokens} tokens of prompt were not read from the cache: {why}"


def _touched_cache(usage: Usage) -> bool:
    return bool(usage.cache_read_tokens or usage.cache_write_tokens)


def _first_change(before: Request, now: Request) -> str | None:
    if before.model != now.model:
        return "the model"
    if before.tools != now.tools:
        return "the tools"
    if before.system != now.system:
        return "the system prompt"
    for index, message in enumerate(before.messages):
        if index >= len(now.messages) or (
            now.messages[index] is not message and now.messages[index] != message
        ):
            return f"message {index + 1}"
    return None
