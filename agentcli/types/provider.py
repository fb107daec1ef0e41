"""The interface to a model: one request, one reply, whatever the protocol."""

from collections.abc import Callable
from typing import Literal, Protocol, TypeAlias

from agentcli.types.deltas import Delta
from agentcli.types.fast_dataclass import dataclass
from agentcli.types.messages import AssistantMessage, Json, Usage, UserMessage
from agentcli.types.tools import ToolMessage, ToolSpec

Message: TypeAlias = UserMessage | AssistantMessage | ToolMessage

CACHE_LIFETIME_S = 300.0
"""The shortest lifetime of a cached prompt that any provider promises."""
LONG_CACHE_LIFETIME_S = 3600.0

ToolChoice: TypeAlias = Literal["auto", "required", "none"] | str
"""A name that is none of the three words is the tool that must be called."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """Everything sent to a model. Between two steps of a session only `messages` grows."""

    model: str
    system: str
    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...] = ()
    deferred: tuple[ToolSpec, ...] = ()
    """Tools that a search can find. If a provider cannot load late, found ones are in
    `tools` too."""
    tool_choice: ToolChoice = "auto"
    parallel: bool = True
    """True if the model may make several calls in one reply."""
    output_limit_tokens: int | None = None
    computer: bool = False
    """True if the computer tool is among the tools. Dialects that have one declare their own."""
    hosted: tuple[str, ...] = ()
    """Tools that the provider runs itself. Those that the model does not have are left out."""
    answer_schema: Json = None
    """The JSON Schema of the reply's text, if the model can be held to one."""
    effort: str | None = None
    cache_lifetime_s: float = CACHE_LIFETIME_S
    """How long the provider should keep the prompt, if it lets us choose."""
    service_tier: str | None = None
    """The provider's own word for how fast and at what price it answers."""
    session: str = ""
    """Groups the requests of one conversation, for providers that route their cache by a key."""


OnDelta: TypeAlias = Callable[[Delta], None]
Price: TypeAlias = Callable[[Usage], float | None]
"""A function that returns the cost in USD of some usage; None if it is not known."""


EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
"""The words for how much a model thinks. A dialect takes the nearest that its provider knows."""


class ModelProvider(Protocol):
    """A model that answers requests."""

    async def send(self, request: Request, on_delta: OnDelta) -> AssistantMessage:
        """Return the reply, never one with half a tool call in it. Raise ProviderError."""
        ...

    async def close(self) -> None: ...


class ServedModel(Protocol):
    """A model, the provider that serves it, and how it is asked."""

    @property
    def provider(self) -> ModelProvider: ...

    @property
    def name(self) -> str: ...

    @property
    def price(self) -> Price: ...

    @property
    def effort(self) -> str | None:
        """How much it thinks; None for its own default."""
        ...

    @property
    def cache_lifetime_s(self) -> float:
        """How long its provider keeps a prompt."""
        ...

    @property
    def service_tier(self) -> str | None: ...


ProviderWrapper: TypeAlias = Callable[[ModelProvider], ModelProvider]
"""A function that wraps a provider in one that may reduce or refuse a request before it is sent."""
