"""What is known of the model in use, which its provider may add to while the session goes on."""

import asyncio
from collections.abc import Awaitable, Callable

from agentcli.types.messages import Usage
from agentcli.wire.dialect import Model

WORTH_ASKING_TOKENS = 2048
"""A shorter conversation fits every model, so nobody is asked for its sake."""


class LearnedModel:
    def __init__(self, model: Model, ask: Callable[[], Awaitable[Model]] | None = None) -> None:
        """`ask` None: all that can be known is known."""
        self.model = model
        self._ask = ask
        self._asking: asyncio.Task[None] | None = None

    def note(self, usage: Usage) -> None:
        """After each reply: asks once, beside whatever happens next."""
        if self._ask is None or self._asking is not None:
            return
        if usage.prompt_tokens >= WORTH_ASKING_TOKENS:
            self._asking = asyncio.get_running_loop().create_task(self._learn(self._ask))

    async def close(self) -> None:
        if self._asking is not None:
            self._asking.cancel()
            await asyncio.wait([self._asking])

    async def _learn(self, ask: Callable[[], Awaitable[Model]]) -> None:
        self.model = await ask()
