"""Where the tokens of a request come from: the sources a person can do something about."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from agentcli.agent.history import PINNED, SUMMARISED, History
from agentcli.agent.size import count_message_tokens, count_spec_tokens
from agentcli.machine.tokens import estimate
from agentcli.types.events import ContextNote, Fact
from agentcli.types.messages import Text
from agentcli.types.tools import ToolMessage, ToolSpec
from agentcli.types.wire import Message


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenSource:
    name: str
    tokens: int


def list_token_sources(
    *, system: str, tools: Sequence[ToolSpec], facts: Iterable[Fact]
) -> list[TokenSource]:
    """In the order of a request; all of them together are about what it costs to send."""
    facts = list(facts)
    totals = {"system prompt": estimate(system)}
    for spec in tools:
        owner = "tools" if spec.source == "built-in" else f"tools of {spec.source}"
        totals[owner] = totals.get(owner, 0) + count_spec_tokens(spec)
    pinned = {
        fact.text: str(fact.why)
        for fact in facts
        if isinstance(fact, ContextNote) and fact.why in PINNED
    }
    others = ("summary", "conversation", "tool results")
    totals |= dict.fromkeys((*map(str, PINNED), *others), 0)
    for message in History(facts).build_messages():
        totals[_classify_message(message, pinned)] += count_message_tokens(message, estimate)
    return [TokenSource(name=name, tokens=tokens) for name, tokens in totals.items() if tokens]


def _classify_message(message: Message, pinned: Mapping[str, str]) -> str:
    if isinstance(message, ToolMessage):
        return "tool results"
    first = message.content[0] if message.content else None
    text = first.text if isinstance(first, Text) else ""
    if text in pinned:
        return pinned[text]
    return "summary" if text.startswith(SUMMARISED) else "conversation"
