"""The limits of a session: what it may spend; steps, time, pace and repeated calls of a turn.

To add a limit of a turn: a setting (`types/settings`, `RUN_LIMITS`), its field and its check in
`TurnLimits`, and its ending in `types/errors`.
"""

import asyncio
import json
import math
import time
from collections import Counter, defaultdict, deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from hashlib import sha256
from typing import TypeAlias

from agentcli.system.tokens import RequestSize, estimate
from agentcli.types.deltas import AttemptBrokenOff, Delta
from agentcli.types.errors import Ending, ProviderError, ProviderErrorKind, ToolError
from agentcli.types.events import TurnEnded
from agentcli.types.fast_dataclass import dataclass
from agentcli.types.messages import AssistantMessage, ToolCall, Usage
from agentcli.types.provider import CACHE_LIFETIME_S, ModelProvider, OnDelta, Price, Request
from agentcli.types.settings import Settings
from agentcli.types.spending import NO_SPENDING, Spending
from agentcli.types.tools import Command, ErrorKind, ToolResult
from agentcli.types.words import pluralize

PACE_WINDOW_S = 60.0
CALLS_PER_MINUTE = 1000
REPEATS_WARNED = 3
REPEATS_END = 5
FAILURES_WARNED = 10
FAILURES_END = 25
"""The number of different calls of a tool that may fail in a row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnLimits:
    """The limits of one turn; None means no limit."""

    steps: int | None = 100
    wall_s: float | None = None

    @classmethod
    def from_settings(cls, settings: Settings) -> "TurnLimits":
        return cls(steps=settings.max_turns, wall_s=settings.timeout)

    def build_step_limit(self) -> TurnEnded:
        """Return the end of a turn that has sent as many requests as `steps`."""
        return TurnEnded(
            ending=Ending.STEP_LIMIT,
            message=f"the limit of {pluralize(self.steps or 0, 'request')} is reached",
            hint="raise --max-turns",
        )

    def build_timeout(self) -> TurnEnded:
        """Return the end of a turn that took longer than `wall_s`."""
        return TurnEnded(
            ending=Ending.TIME_LIMIT,
            message=f"the time limit of {self.wall_s:g} s is reached",
            hint="raise --timeout",
        )


class Pace:
    """Refuses a tool that is called too often within a minute."""

    def __init__(self, calls_per_minute: int = CALLS_PER_MINUTE) -> None:
        """`calls_per_minute` is the limit for each tool."""
        self._limit = calls_per_minute
        self._recent: defaultdict[str, deque[float]] = defaultdict(deque)

    def admit(self, tool: str) -> None:
        recent, now = self._recent[tool], time.monotonic()
        while recent and now - recent[0] >= PACE_WINDOW_S:
            recent.popleft()
        if len(recent) >= self._limit:
            raise ToolError(
                f"{tool} was called {self._limit} times within a minute, which is the limit. "
                "Combine the calls into fewer ones, or work with what you have.",
                kind=ErrorKind.LIMITED,
            )
        recent.append(now)


class Breaker:
    """Detects a model that goes in circles.

    Progress is any pair of call and result not seen before in the turn; it clears the counts.
    Without progress, each step that repeats a pair counts: A B A B ... is a circle like A A ...
    A tool that only ever fails is one, too, however different its calls are. A command that ran has
    not failed in this sense, whatever its exit code.
    """

    def __init__(self) -> None:
        self._seen: set[str] = set()
        self._counts: Counter[str] = Counter()
        self._in_step: set[str] = set()
        self._failures: Counter[str] = Counter()
        """How often each tool has failed since it last succeeded."""
        self.tripped: str | None = None
        """A description of the call that was repeated too often, or None."""

    def begin_turn(self) -> None:
        self._seen.clear()
        self._counts.clear()
        self._failures.clear()
        self.tripped = None

    def begin_step(self) -> None:
        self._in_step.clear()

    def observe(self, call: ToolCall, result: ToolResult) -> str | None:
        """Count a call; return a warning for the model if it leads nowhere."""
        return self._observe_repeat(call, result) or self._observe_failure(result)

    def _observe_failure(self, result: ToolResult) -> str | None:
        if result.status == "ok" or isinstance(result.details, Command):
            self._failures.pop(result.name, None)
            return None
        self._failures[result.name] += 1
        count = self._failures[result.name]
        if count >= FAILURES_END:
            self.tripped = f"{count} calls of {result.name} in a row failed"
        if count < FAILURES_WARNED:
            return None
        return (
            f"[This is call number {count} of {result.name} in a row that failed. Find out why "
            f"before the next one: after {FAILURES_END} the turn is ended.]"
        )

    def _observe_repeat(self, call: ToolCall, result: ToolResult) -> str | None:
        pair = _hash_call(call, result)
        if pair in self._in_step:
            return None
        self._in_step.add(pair)
        if pair not in self._seen:
            self._seen.add(pair)
            self._counts.clear()
        self._counts[pair] += 1
        count = self._counts[pair]
        if count >= REPEATS_END:
            self.tripped = f"{call.name} was called {count} times with the same input and result"
        if count < REPEATS_WARNED:
            return None
        return (
            f"[This is the {_format_ordinal(count)} time you made exactly this call with this "
            f"result. Do something else: at the {_format_ordinal(REPEATS_END)} the turn is ended.]"
        )


def _hash_call(call: ToolCall, result: ToolResult) -> str:
    text = result.text
    if isinstance(result.details, Command) and result.details.log_path:
        text = text.replace(result.details.log_path, "")  # numbered per call, so never the same
    data = json.dumps([call.name, call.input, result.status, text], sort_keys=True)
    return sha256(data.encode()).hexdigest()  # the text itself would store all outputs again


def _format_ordinal(count: int) -> str:
    return {3: "third", 4: "fourth", 5: "fifth"}.get(count, f"{count}th")


# The spending limits of a session, checked against the worst case before a request is sent.
#
# An admitted request never crosses the cap: its output limit is lowered to what is left. If too
# little is left, the request is not sent. The worst-case cost of requests in flight is reserved, so
# another request waits for them if it must. Every request through `wrap_provider` counts: turns,
# compaction, child agents, evaluators. Every attempt counts, retries included.


OutputLimit: TypeAlias = Callable[[], int | None]

SHORTEST_REPLY_TOKENS = 1024
"""The shortest useful reply; with fewer tokens a model cannot say anything of use."""

UNKNOWN_OUTPUT_TOKENS = 32_000
"""The assumed output limit of a model whose limit is not known."""

CAUTION = 1.5
"""The safety factor for our token estimate, since vocabularies differ between models."""


class Share:
    """A part of a budget that is set aside for one agent before it starts."""

    def __init__(self, cost_usd: float) -> None:
        self.cap_usd = cost_usd
        self.spent_usd = 0.0
        self.reserved_usd = 0.0
        """The most that its requests in flight may cost."""

    @property
    def left_usd(self) -> float:
        return self.cap_usd - self.spent_usd - self.reserved_usd

    @property
    def unspent_usd(self) -> float:
        """The part that no request has used or reserved."""
        return max(0.0, self.left_usd)


class Budget:
    def __init__(
        self,
        *,
        cost_usd: float | None = None,
        tokens: int | None = None,
        spent: Spending = NO_SPENDING,
    ) -> None:
        """None means no cap. `spent` is what the session has already spent, read from its log."""
        self._cost_cap_usd = cost_usd
        self._token_cap = tokens
        self._cost_usd = spent.known_usd
        self._used = spent.usage
        self._reserved: list[tuple[int, float]] = []
        """The most tokens and money that each request in flight may cost."""
        self._released = asyncio.Event()
        self._shares: list[Share] = []

    def wrap_provider(
        self,
        provider: ModelProvider,
        *,
        price: Price,
        output_limit: OutputLimit,
        share: Share | None = None,
    ) -> ModelProvider:
        """Return the provider, limited to this budget and to a share of it, if one is given.

        It is the provider itself if there is no cap."""
        if self._cost_cap_usd is None and self._token_cap is None and share is None:
            return provider
        return _BudgetedProvider(
            provider, self, price=price, output_limit=output_limit, share=share
        )

    def open_share(self, cost_usd: float) -> Share:
        """Set money aside for an agent. Raise ProviderError if there is not that much left."""
        left_usd = self._find_left_usd(None)
        if left_usd is not None and cost_usd > left_usd:
            raise ProviderError(
                f"${cost_usd:g} for another agent is more than is left: "
                f"{self._estimate_prefix}${max(0.0, left_usd):.4f} of ${self._cost_cap_usd:g}",
                kind=ProviderErrorKind.COST_CAP,
                hint="raise --max-cost",
            )
        share = Share(cost_usd)
        self._shares.append(share)
        return share

    def close_share(self, share: Share) -> None:
        """Give back what an agent did not spend."""
        self._shares.remove(share)
        self._released.set()

    def spend(self, usage: Usage, price: Price, *, share: Share | None = None) -> None:
        cost_usd = price(usage) or 0.0
        self._cost_usd += cost_usd
        self._used += usage
        if share is not None:
            share.spent_usd += cost_usd

    def _find_left_usd(self, share: Share | None) -> float | None:
        """Return what a request of this share, or of none, may cost; None without a cap."""
        others_usd = sum(one.unspent_usd for one in self._shares if one is not share)
        reserved_usd = sum(usd for _, usd in self._reserved)
        cap = self._cost_cap_usd
        left = [cap - self._cost_usd - reserved_usd - others_usd] if cap is not None else []
        return min([*left, *([share.left_usd] if share else [])], default=None)

    @property
    def _tokens(self) -> int:
        return self._used.prompt_tokens + self._used.output_tokens

    @property
    def _estimate_prefix(self) -> str:
        return "about " if self._used.is_estimate else ""

    @asynccontextmanager
    async def admit(
        self, prompt_tokens: int, wanted_tokens: int, *, price: Price, share: Share | None = None
    ) -> AsyncIterator[int]:
        """Reserve the worst-case cost of one request and yield its reply limit.

        The limit is at most `wanted_tokens`. Raise ProviderError if the budget is too small."""
        limit = await self._wait_for_allowance(prompt_tokens, price, share=share)
        allowed = min(wanted_tokens, limit)
        worst = (prompt_tokens + allowed, _price_worst_case(prompt_tokens, allowed, price=price))
        self._reserved.append(worst)
        if share is not None:
            share.reserved_usd += worst[1]
        try:
            yield allowed
        finally:
            self._reserved.remove(worst)
            if share is not None:
                share.reserved_usd -= worst[1]
            self._released.set()

    async def _wait_for_allowance(
        self, prompt_tokens: int, price: Price, *, share: Share | None
    ) -> int:
        while True:
            try:
                return self._limit_reply(prompt_tokens, price, share=share)
            except ProviderError:
                if not self._reserved and (share is not None or not self._shares):
                    raise
            self._released.clear()
            await self._released.wait()

    def _limit_reply(self, prompt_tokens: int, price: Price, *, share: Share | None) -> int:
        return min(
            self._limit_reply_by_tokens(prompt_tokens),
            self._limit_reply_by_cost(prompt_tokens, price, share=share),
        )

    def _limit_reply_by_tokens(self, prompt_tokens: int) -> int:
        cap = self._token_cap
        if cap is None:
            return UNLIMITED
        room = cap - self._tokens - sum(tokens for tokens, _ in self._reserved) - prompt_tokens
        if room < SHORTEST_REPLY_TOKENS:
            raise ProviderError(
                f"the limit of {cap} tokens is reached: "
                f"{self._estimate_prefix}{self._tokens} are used in "
                f"this session, and the next request has about {prompt_tokens}",
                kind=ProviderErrorKind.TOKEN_CAP,
                hint="raise --max-tokens",
            )
        return room

    def _limit_reply_by_cost(self, prompt_tokens: int, price: Price, *, share: Share | None) -> int:
        left_usd, prompt_usd = self._find_left_usd(share), _price_prompt(prompt_tokens, price)
        if left_usd is None or prompt_usd is None:
            return UNLIMITED
        with_reply_usd = _price_worst_case(prompt_tokens, SHORTEST_REPLY_TOKENS, price=price)
        if with_reply_usd > left_usd:
            raise self._build_cost_error(with_reply_usd, share)
        per_token_usd = (with_reply_usd - prompt_usd) / SHORTEST_REPLY_TOKENS
        if per_token_usd <= 0:
            return UNLIMITED
        return math.floor((left_usd - prompt_usd) / per_token_usd)

    def _build_cost_error(self, next_usd: float, share: Share | None) -> ProviderError:
        cap_usd = share.cap_usd if share else self._cost_cap_usd
        spent_usd = share.spent_usd if share else self._cost_usd
        return ProviderError(
            f"the limit of ${cap_usd:g} is reached: "
            f"{self._estimate_prefix}${spent_usd:.4f} is spent "
            f"{'by this agent' if share else 'in this session'}, "
            f"and the next request could cost ${next_usd:.4f}",
            kind=ProviderErrorKind.COST_CAP,
            hint="raise agent_max_cost" if share else "raise --max-cost",
        )


UNLIMITED = 2**53


class _BudgetedProvider:
    def __init__(
        self,
        provider: ModelProvider,
        budget: Budget,
        *,
        price: Price,
        output_limit: OutputLimit,
        share: Share | None,
    ) -> None:
        self._provider = provider
        self._budget = budget
        self._price = price
        self._output_limit = output_limit
        self._share = share
        self._size = RequestSize(count=estimate, caution=CAUTION)

    async def send(self, request: Request, on_delta: OnDelta) -> AssistantMessage:
        prompt_tokens = self._size.measure(request)
        wanted = request.output_limit_tokens or self._output_limit() or UNKNOWN_OUTPUT_TOKENS
        is_long = request.cache_lifetime_s > CACHE_LIFETIME_S
        price = _price_long_writes(self._price) if is_long else self._price
        async with self._budget.admit(
            prompt_tokens, wanted, price=price, share=self._share
        ) as allowed:
            if allowed < wanted:
                request = replace(request, output_limit_tokens=allowed)
            return await self._send_and_charge(request, on_delta)

    async def _send_and_charge(self, request: Request, on_delta: OnDelta) -> AssistantMessage:
        def charge_delta(delta: Delta) -> None:
            if isinstance(delta, AttemptBrokenOff):
                self._budget.spend(delta.usage, self._price, share=self._share)
            on_delta(delta)

        reply = await self._provider.send(request, charge_delta)
        self._budget.spend(reply.usage, self._price, share=self._share)
        self._size.learn(request, reply.usage)
        return reply

    async def close(self) -> None:
        await self._provider.close()


def _price_long_writes(price: Price) -> Price:
    """Return the price for requests whose whole prompt is kept for an hour."""
    return lambda usage: price(replace(usage, long_cache_write_tokens=usage.cache_write_tokens))


def _price_prompt(prompt_tokens: int, price: Price) -> float | None:
    """Return the highest price of a prompt: all of it new, or all of it written to the cache."""
    fresh = price(Usage(input_tokens=prompt_tokens))
    written = price(Usage(cache_write_tokens=prompt_tokens))
    return None if fresh is None or written is None else max(fresh, written)


def _price_worst_case(prompt_tokens: int, reply_tokens: int, *, price: Price) -> float:
    fresh = price(Usage(input_tokens=prompt_tokens, output_tokens=reply_tokens)) or 0.0
    written = price(Usage(cache_write_tokens=prompt_tokens, output_tokens=reply_tokens)) or 0.0
    return max(fresh, written)
