"""Tokens used and their cost, added up from facts. Only this module knows which facts cost.

Every figure of tokens and money shown to a user or a program is a sum of `compute_spending`.
"""

from collections.abc import Iterable, Sequence
from typing import TypeAlias

from agentcli.types.agents import AgentEnded
from agentcli.types.events import (
    AsideAnswered,
    CallFinished,
    Compacted,
    Event,
    Fact,
    ModelReplied,
    SessionForked,
    TokensSpent,
)
from agentcli.types.fast_dataclass import dataclass
from agentcli.types.messages import Usage
from agentcli.types.tools import ChildTurn
from agentcli.types.words import pluralize


@dataclass(frozen=True, slots=True, kw_only=True)
class Spending:
    requests: int = 0
    """Requests that were answered, at least in part."""
    broken_off: int = 0
    """Attempts that a provider accepted and did not answer."""
    usage: Usage = Usage()
    known_usd: float = 0.0
    unpriced: int = 0
    """The number of requests and attempts without a known price."""

    def __add__(self, other: "Spending") -> "Spending":
        return Spending(
            requests=self.requests + other.requests,
            broken_off=self.broken_off + other.broken_off,
            usage=self.usage + other.usage,
            known_usd=self.known_usd + other.known_usd,
            unpriced=self.unpriced + other.unpriced,
        )

    @property
    def cost_usd(self) -> float | None:
        """The total cost; None if the price of a part is not known."""
        return None if self.unpriced else self.known_usd

    @property
    def is_estimate(self) -> bool:
        return self.usage.is_estimate

    @property
    def estimate_prefix(self) -> str:
        """The word before every sum of money that is partly estimated."""
        return "about " if self.is_estimate else ""

    @property
    def cost_text(self) -> str:
        """The cost as text for the user."""
        known = f"{self.estimate_prefix}${self.known_usd:.4f}"
        if not self.unpriced:
            return known
        unpriced = f"{pluralize(self.unpriced, 'request')} without a known price"
        return f"{known} and {unpriced}" if self.known_usd else "price not known"

    @property
    def request_summary(self) -> str:
        """The number of requests, for the user: `1 request, 2 attempts broken off`."""
        broken = f", {pluralize(self.broken_off, 'attempt')} broken off" if self.broken_off else ""
        return pluralize(self.requests, "request") + broken


NO_SPENDING = Spending()


Paid: TypeAlias = ModelReplied | TokensSpent | Compacted | AsideAnswered | CallFinished | AgentEnded
PAID = (
    *("model_replied", "tokens_spent", "compacted", "aside_answered"),
    *("call_finished", "agent_ended"),
)
"""The types of the facts that may cost: all others cost nothing."""


def compute_spending(event: Event) -> Spending:
    match event:
        case ModelReplied():
            return _count_reply(event)
        case TokensSpent(why=why, usage=usage, cost_usd=cost_usd):
            is_broken = why == "broken_off"
            return _build_spending(
                usage, cost_usd, requests=int(not is_broken), broken_off=int(is_broken)
            )
        case (
            Compacted(usage=usage, cost_usd=cost_usd)
            | AsideAnswered(usage=usage, cost_usd=cost_usd)
        ):
            return _build_spending(usage, cost_usd, requests=1)
        case CallFinished(result=result) if isinstance(result.details, ChildTurn):
            return compute_child_spending(result.details)
        case AgentEnded(turn=turn):
            return compute_child_spending(turn)
        case _:
            return NO_SPENDING


def compute_child_spending(child: ChildTurn) -> Spending:
    return _build_spending(child.usage, child.cost_usd)


def sum_spending(events: Iterable[Event]) -> Spending:
    return sum(map(compute_spending, events), NO_SPENDING)


def select_own_facts(facts: Sequence[Fact]) -> Sequence[Fact]:
    """Return the facts of the session itself, without those a fork copied from its origin."""
    for index in reversed(range(len(facts))):
        if isinstance(facts[index], SessionForked):
            return facts[index:]
    return facts


def _count_reply(reply: ModelReplied) -> Spending:
    usage, cost_usd = reply.message.usage, reply.cost_usd
    if reply.message.stop == "cancelled" and cost_usd is None and usage == Usage():
        # Older logs recorded no usage for replies that were interrupted.
        return Spending(requests=1, usage=Usage(is_estimate=True))
    return _build_spending(usage, cost_usd, requests=1)


def _build_spending(
    usage: Usage, cost_usd: float | None, *, requests: int = 0, broken_off: int = 0
) -> Spending:
    return Spending(
        requests=requests,
        broken_off=broken_off,
        usage=usage,
        known_usd=cost_usd or 0.0,
        unpriced=int(cost_usd is None),
    )
