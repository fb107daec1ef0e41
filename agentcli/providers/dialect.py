"""The interface of every model protocol: pure functions over dictionaries.

A dialect is a module with the names of `Dialect`. It opens no socket and keeps no state between
requests. Only the dialect knows the field names of its protocol. `encode` turns a neutral request
into a body; a `Decoder` turns the events of one streamed reply into one neutral message.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypeAlias, TypeVar

from agentcli.types.deltas import Delta
from agentcli.types.errors import ProviderError
from agentcli.types.fast_dataclass import dataclass
from agentcli.types.messages import AssistantMessage, Json, Usage
from agentcli.types.provider import Message, Request

STORED = "stored"
"""The quirk of a model whose provider stores the conversation. Requests have only what is new."""
TOOLS_KEPT = 4096
"""The number of tools whose declarations a dialect keeps: far more than a session has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """USD per million tokens."""

    input: float
    output: float
    cache_read: float | None = None
    cache_write: float | None = None
    long_cache_write: float | None = None
    """The price of what is kept for an hour."""
    long_input_tokens: int | None = None
    """The prompt size above which the factors below apply. None if they never do."""
    long_input_factor: float = 1.0
    long_output_factor: float = 1.0
    search: float = 0.0
    """USD for one web search of the provider's own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """A model: all that is needed to send it correct requests and to count their cost."""

    provider: str
    """The word before the slash: anthropic, openai, openai-chat, gemini, ollama, ..."""
    name: str
    """The name as the provider spells it."""
    protocol: str
    """The dialect: anthropic, openai-responses, openai-chat, gemini, gemini-interactions."""
    window_tokens: int | None = None
    output_tokens: int | None = None
    price: Price | None = None
    images: bool = True
    documents: bool = False
    """True if it takes the file of a PDF."""
    strict_tools: bool = True
    forced_tool_choice: bool = True
    """True if the model can be forced to call a tool."""
    answer_schemas: bool = True
    """True if the provider can enforce a schema for the answer."""
    loads_tools: bool = False
    """True if the provider can load tools when they are found, with the history unchanged."""
    hosted: frozenset[str] = frozenset()
    """The tools that the provider runs itself for this model."""
    computer: bool = False
    """True if the provider has a computer tool for this model, and the user wants it."""
    thinking: bool = False
    effort: str | None = None
    patch_tool: bool = False
    """True if the model is trained on the grammar-constrained apply_patch."""
    quirks: frozenset[str] = frozenset()
    """The deviations of a compatible server, by name. Each is read by its dialect only."""
    known: bool = True
    """False if the model is not in the catalogue, so its limits and price are unknown."""


class Decoder(Protocol):
    """The decoder of one reply, fed its events in the order they came."""

    def feed(self, event: Mapping[str, Json]) -> Sequence[Delta]:
        """Return what can be shown now. Ignore unknown events. Raise ProviderError on an error.

        A server that does not stream sends its whole answer as the only event.
        """
        ...

    def message(self) -> AssistantMessage:
        """Return the whole reply, once the stream has ended.

        Raise ProviderError(kind=CUT) if the stream ended before the reply did. A call whose
        arguments are not JSON keeps them as a string. A partly received call is never included.
        """
        ...

    def usage(self) -> Usage:
        """Return the usage that the provider has reported so far, with zeros for the rest.

        May be called at any time.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """Where a request goes besides its body, and the decoder of its reply."""

    path: str
    """The path below the base address, with its version and query: `/v1/messages`.

    The version is dropped if the base address already has one (`http/route.py`)."""
    headers: Mapping[str, str]
    decoder: Decoder
    """Its echoes carry `PROTOCOL` and the requested name of the model."""


class Dialect(Protocol):
    PROTOCOL: str
    HISTORY_KEY: str
    """The key of the body whose list grows with each step. Everything else stays the same."""

    def open_exchange(self, model: Model, key: str | None) -> Exchange: ...

    def encode(
        self, request: Request, model: Model, *, start: int = 0, end: int | None = None
    ) -> dict[str, Json]:
        """Return the body. Its history has the items of the messages from `start` to `end`.

        Where one of them follows a reply that says something, a body of the messages before and
        one of those from there on have the same items as a body of all of them. So a step costs
        only what is new in it (`connection.py`). If the provider stores the conversation
        (`STORED`), the whole body is asked for.

        The request is already normalized (`normalize.py`): calls are answered, ids are unique,
        tool names fit, foreign echoes are gone. A call's id is `ToolCall.id`, never in its echo.
        """
        ...

    def build_headers(self, key: str | None) -> dict[str, str]: ...

    def read_error(self, status: int, headers: Mapping[str, str], *, body: Json) -> ProviderError:
        """Return an HTTP error as a sentence. `body` is a string if it was not JSON.

        The kind decides about retries: RATE_LIMITED, UNAVAILABLE and CUT are retried.
        `failures.py` has what all dialects share. Header names are in lower case.
        """
        ...


def as_count(value: Json) -> int:
    """Return the number of something; 0 if it is missing or cannot be one.

    Some servers write whole numbers as floats, or -1 for a number that they do not know."""
    is_whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
    return max(0, int(value)) if is_whole and isinstance(value, int | float) else 0


# What several dialects do with the messages of a conversation


T = TypeVar("T")

Make: TypeAlias = Callable[[Message, Message | None, Model], Sequence[T]]
"""A function that encodes a message, given the one before it."""


def encode_part(
    make: Make[T], messages: Sequence[Message], *, model: Model, start: int, end: int | None
) -> list[T]:
    """Return the items of the messages from `start` to `end`."""
    made: list[T] = []
    for at in range(start, len(messages) if end is None else min(end, len(messages))):
        made += make(messages[at], messages[at - 1] if at else None, model)
    return made


def join_runs(items: list[T], is_like_next: bytes, *, join: Callable[..., T]) -> list[T]:
    """Return the items, with each run of neighbours that belong together as one.

    `is_like_next` has a 1 for each item that belongs to the same run as the next one.
    """
    joined: list[T] = []
    start = 0
    while (first := is_like_next.find(1, start)) >= 0:  # the search runs in C
        last = is_like_next.find(0, first)
        joined += [*items[start:first], join(*items[first : last + 1])]
        start = last + 1
    return [*joined, *items[start:]]
