"""Requests whose replies nobody watches: what they use is recorded all the same."""

from agentcli.types.deltas import BrokenOff, Delta
from agentcli.types.events import Emit, TokensSpent
from agentcli.types.messages import AssistantMessage
from agentcli.types.wire import Price, Request, Show, Wire


def unseen(tell: Emit, price: Price) -> Show:
    """For who records the reply: here only what broke off is."""

    def show(delta: Delta) -> None:
        if isinstance(delta, BrokenOff):
            cost_usd = price(delta.usage)
            tell(TokensSpent(why="broken_off", usage=delta.usage, cost_usd=cost_usd))

    return show


class Recorded:
    """A wire for who leaves no fact of its own behind: an opinion on a call."""

    def __init__(self, wire: Wire, *, tell: Emit, price: Price) -> None:
        self._wire = wire
        self._tell = tell
        self._price = price

    async def ask(self, request: Request, show: Show) -> AssistantMessage:
        reply = await self._wire.ask(request, unseen(self._tell, self._price))
        cost_usd = self._price(reply.usage)
        self._tell(TokensSpent(why="opinion", usage=reply.usage, cost_usd=cost_usd))
        return reply

    async def close(self) -> None:
        await self._wire.close()
