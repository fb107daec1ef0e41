"""How a model is asked: one request, one reply, whatever the protocol."""

from collections.abc import Callable
from typing import Literal, Protocol, TypeAlias

from agentcli.types.deltas import Delta
from agentcli.types.fast_dataclass import dataclass
from agentcli.types.messages import AssistantMessage, Json, Usage, UserMessage
from agentcli.types.tools import ToolMessage, ToolSpec

Message: TypeAlias = UserMessage | AssistantMessage | ToolMessage

ToolChoice: TypeAlias = Literal["auto", "required", "none"] | str
"""A name that is none of the three words is the tool that must be called."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """Everything a model is told. Between two steps of a session only `messages` grows."""

    model: str
    system: str
    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...] = ()
    deferred: tuple[ToolSpec, ...] = ()
    """Those that can be found. What was found is in `tools` too, for who cannot load it later."""
    tool_choice: ToolChoice = "auto"
    parallel: bool = True
    """Whether the model may make several calls in one reply."""
    output_limit_tokens: int | None = None
    answer_schema: Json = None
    """What the reply's text must be JSON of, where the model can be held to it."""
    effort: str | None = None
    session: str = ""
    """Groups the requests of one conversation, for providers that route their cache by a key."""


OnDelta: TypeAlias = Callable[[Delta], None]
Price: TypeAlias = Callable[[Usage], float | None]
"""What so many tokens cost in USD; None: it is not known."""


class ModelProvider(Protocol):
    """A model that can be asked."""

    async def send(self, request: Request, on_delta: OnDelta) -> AssistantMessage:
        """Raises WireError. Never returns a message with half a tool call in it."""
        ...

    async def close(self) -> None: ...


ProviderWrapper: TypeAlias = Callable[[ModelProvider], ModelProvider]
"""Puts around a wire what may lower or refuse a request before it is sent."""
