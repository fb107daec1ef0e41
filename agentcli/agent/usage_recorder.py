"""Usage of requests whose replies are not displayed: it is recorded all the same."""

from agentcli.types.deltas import AttemptBrokenOff, Delta
from agentcli.types.events import Emit, TokensSpent
from agentcli.types.messages import AssistantMessage
from agentcli.types.provider import ModelProvider, OnDelta, Price, Request


def build_usage_recorder(emit: Emit, price: Price) -> OnDelta:
    """Return a listener that records only broken-off attempts; the caller records the reply."""

    def show(delta: Delta) -> None:
        if isinstance(delta, AttemptBrokenOff):
            cost_usd = price(delta.usage)
            emit(TokensSpent(why="broken_off", usage=delta.usage, cost_usd=cost_usd))

    return show


class RecordingProvider:
    """A provider for callers that record no fact of their own, such as an evaluator of a call."""

    def __init__(self, provider: ModelProvider, *, emit: Emit, price: Price) -> None:
        self._provider = provider
        self._emit = emit
        self._price = price

    async def send(self, request: Request, on_delta: OnDelta) -> AssistantMessage:
        reply = await self._provider.send(request, build_usage_recorder(self._emit, self._price))
        cost_usd = self._price(reply.usage)
        self._emit(TokensSpent(why="evaluation", usage=reply.usage, cost_usd=cost_usd))
        return reply

    async def close(self) -> None:
        await self._provider.close()
