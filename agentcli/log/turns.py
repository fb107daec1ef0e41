"""The position in a conversation at which a log ends. Light, since the first request needs it."""

from collections.abc import Sequence

from agentcli.types.events import Fact, TurnEnded, TurnStarted


def is_in_turn(facts: Sequence[Fact]) -> bool:
    for fact in reversed(facts):
        if isinstance(fact, TurnStarted | TurnEnded):
            return isinstance(fact, TurnStarted)
    return False
