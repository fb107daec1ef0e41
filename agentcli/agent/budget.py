"""What a session may spend: held against the worst a request can cost before it is sent.

The cap is never crossed by a request that was admitted: its output limit is lowered to what is
left, and where too little is left it is not sent. What requests on their way may still cost is not
left: another waits for them where it must. Whoever asks a model through `wire` counts: turns,
compaction, child agents, opinions; and every attempt does, that of a request made again too.
"""

import asyncio
import math
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TypeAlias

from agentcli.agent.size import RequestSize
from agentcli.machine.tokens import estimate
from agentcli.types.deltas import BrokenOff, Delta
from agentcli.types.errors import WireError, WireErrorKind
from agentcli.types.messages import AssistantMessage, Usage
from agentcli.types.spending import NOTHING, Spending
from agentcli.types.wire import Price, Request, Show, Wire

OutputLimit: TypeAlias = Callable[[], int | None]

SHORTEST_REPLY_TOKENS = 1024
"""With less room than this a model cannot say anything of use."""

UNKNOWN_OUTPUT_TOKENS = 32_000
"""For a model whose output limit nobody knows."""

CAUTION = 1.5
"""Vocabularies differ: a prompt may have so many times the tokens that we estimate."""


class Budget:
    def __init__(
        self,
        *,
        cost_usd: float | None = None,
        tokens: int | None = None,
        spent: Spending = NOTHING,
    ) -> None:
        """None: no cap. `spent`: what the session has spent already, as its record says."""
        self._cost_cap_usd = cost_usd
        self._token_cap = tokens
        self._cost_usd = spent.known_usd
        self._used = spent.usage
        self._held: list[tuple[int, float]] = []
        """Tokens and money that requests on their way may cost at most."""
        self._came_back = asyncio.Event()

    def wire(self, wire: Wire, *, price: Price, output_limit: OutputLimit) -> Wire:
        """The wire, asked within this budget."""
        if self._cost_cap_usd is None and self._token_cap is None:
            return wire
        return _Budgeted(wire, self, price=price, output_limit=output_limit)

    def spend(self, usage: Usage, price: Price) -> None:
        self._cost_usd += price(usage) or 0.0
        self._used += usage

    @property
    def _tokens(self) -> int:
        return self._used.prompt_tokens + self._used.output_tokens

    @property
    def _about(self) -> str:
        return "about " if self._used.is_estimate else ""

    @asynccontextmanager
    async def admit(
        self, prompt_tokens: int, wanted_tokens: int, price: Price
    ) -> AsyncIterator[int]:
        """For one request: how long its reply may be, `wanted_tokens` at most.

        Raises WireError where it is one too many."""
        allowed = min(wanted_tokens, await self._room(prompt_tokens, price))
        worst = (prompt_tokens + allowed, _worst_usd(prompt_tokens, allowed, price))
        self._held.append(worst)
        try:
            yield allowed
        finally:
            self._held.remove(worst)
            self._came_back.set()

    async def _room(self, prompt_tokens: int, price: Price) -> int:
        while True:
            try:
                return self._reply_limit(prompt_tokens, price)
            except WireError:
                if not self._held:
                    raise
            self._came_back.clear()
            await self._came_back.wait()

    def _reply_limit(self, prompt_tokens: int, price: Price) -> int:
        return min(
            self._reply_within_tokens(prompt_tokens),
            self._reply_within_cost(prompt_tokens, price),
        )

    def _reply_within_tokens(self, prompt_tokens: int) -> int:
        cap = self._token_cap
        if cap is None:
            return UNLIMITED
        room = cap - self._tokens - sum(tokens for tokens, _ in self._held) - prompt_tokens
        if room < SHORTEST_REPLY_TOKENS:
            raise WireError(
                f"the limit of {cap} tokens is reached: {self._about}{self._tokens} are used in "
                f"this session, and the next request has about {prompt_tokens}",
                kind=WireErrorKind.TOKEN_CAP,
                hint="raise --max-tokens",
            )
        return room

    def _reply_within_cost(self, prompt_tokens: int, price: Price) -> int:
        cap, prompt_usd = self._cost_cap_usd, _prompt_usd(prompt_tokens, price)
        if cap is None or prompt_usd is None:
            return UNLIMITED
        with_reply_usd = _worst_usd(prompt_tokens, SHORTEST_REPLY_TOKENS, price)
        left_usd = cap - self._cost_usd - sum(usd for _, usd in self._held)
        if with_reply_usd > left_usd:
            raise WireError(
                f"the limit of ${cap:g} is reached: {self._about}${self._cost_usd:.4f} is spent "
                f"in this session, and the next request could cost ${with_reply_usd:.4f}",
                kind=WireErrorKind.COST_CAP,
                hint="raise --max-cost",
            )
        per_token_usd = (with_reply_usd - prompt_usd) / SHORTEST_REPLY_TOKENS
        if per_token_usd <= 0:
            return UNLIMITED
        return math.floor((left_usd - prompt_usd) / per_token_usd)


UNLIMITED = 2**53


class _Budgeted:
    def __init__(
        self, wire: Wire, budget: Budget, *, price: Price, output_limit: OutputLimit
    ) -> None:
        self._wire = wire
        self._budget = budget
        self._price = price
        self._output_limit = output_limit
        self._size = RequestSize(count=estimate, caution=CAUTION)

    async def ask(self, request: Request, show: Show) -> AssistantMessage:
        prompt_tokens = self._size.of(request)
        wanted = request.output_limit_tokens or self._output_limit() or UNKNOWN_OUTPUT_TOKENS
        async with self._budget.admit(prompt_tokens, wanted, self._price) as allowed:
            if allowed < wanted:
                request = replace(request, output_limit_tokens=allowed)
            return await self._asked(request, show)

    async def _asked(self, request: Request, show: Show) -> AssistantMessage:
        def shown(delta: Delta) -> None:
            if isinstance(delta, BrokenOff):
                self._budget.spend(delta.usage, self._price)
            show(delta)

        reply = await self._wire.ask(request, shown)
        self._budget.spend(reply.usage, self._price)
        self._size.learn(request, reply.usage)
        return reply

    async def close(self) -> None:
        await self._wire.close()


def _prompt_usd(prompt_tokens: int, price: Price) -> float | None:
    """At the dearest: all of it new, or all of it written to the cache."""
    fresh = price(Usage(input_tokens=prompt_tokens))
    written = price(Usage(cache_write_tokens=prompt_tokens))
    return None if fresh is None or written is None else max(fresh, written)


def _worst_usd(prompt_tokens: int, reply_tokens: int, price: Price) -> float:
    fresh = price(Usage(input_tokens=prompt_tokens, output_tokens=reply_tokens)) or 0.0
    written = price(Usage(cache_write_tokens=prompt_tokens, output_tokens=reply_tokens)) or 0.0
    return max(fresh, written)
