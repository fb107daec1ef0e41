"""The shape every model protocol takes here: pure functions over dictionaries.

A dialect is a module with the names of `Dialect`. It opens no socket, keeps no state between
requests, and is the only place where its protocol's words appear. `encode` turns a neutral request
into a body; a `Decoder` is fed the events of one streamed reply and gives one neutral message.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

from agentcli.types.deltas import Delta
from agentcli.types.errors import ProviderError
from agentcli.types.fast_dataclass import dataclass
from agentcli.types.messages import AssistantMessage, Json, Usage
from agentcli.types.provider import Request


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """USD per million tokens."""

    input: float
    output: float
    cache_read: float | None = None
    cache_write: float | None = None
    long_input_tokens: int | None = None
    """From this prompt size on the factors below apply."""
    long_input_factor: float = 1.0
    long_output_factor: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """What we know of a model: enough to ask it correctly and to count what it costs."""

    provider: str
    """The word before the slash: anthropic, openai, openai-chat, gemini, ollama, ..."""
    name: str
    """As the provider spells it."""
    protocol: str
    """Which dialect: anthropic, openai-responses, openai-chat, gemini, gemini-interactions."""
    window_tokens: int | None = None
    output_tokens: int | None = None
    price: Price | None = None
    images: bool = True
    strict_tools: bool = True
    forced_tool_choice: bool = True
    """Whether the model may be made to call a tool."""
    answer_schemas: bool = True
    """Whether the provider can hold it to a schema for its answer."""
    loads_tools: bool = False
    """Whether its provider takes tools in where they are found, with all before as it was."""
    thinking: bool = False
    effort: str | None = None
    patch_tool: bool = False
    """Trained on the grammar-constrained apply_patch."""
    quirks: frozenset[str] = frozenset()
    """Departures of a compatible server, by name; each is read by its dialect only."""
    known: bool = True
    """False: not in the catalogue, so limits and price are not known."""


class Decoder(Protocol):
    """Assembles one reply from its events, in the order they came."""

    def feed(self, event: Mapping[str, Json]) -> Sequence[Delta]:
        """What can be shown now. Unknown events are passed over. Raises WireError on an error.

        A server that does not stream sends its whole answer as the only event.
        """
        ...

    def message(self) -> AssistantMessage:
        """The whole reply, once the stream has ended.

        Raises WireError(kind=CUT) when the stream ended before the reply did. A call whose
        arguments are not JSON keeps them as a string; a half-received call is never in it.
        """
        ...

    def usage(self) -> Usage:
        """What the provider has said of it so far, at any time; zeros where it said nothing."""
        ...


class Dialect(Protocol):
    PROTOCOL: str
    HISTORY_KEY: str
    """The key of the body whose list grows from step to step; everything else stays the same."""

    def encode(self, request: Request, model: Model) -> dict[str, Json]:
        """The body. Must not change what it gave before: its history only grows.

        The request is normal already (`normalize.py`): calls are answered, ids are unique, tool
        names fit, foreign echoes are gone. A call's id stands in `ToolCall.id`, never in its echo.
        What becomes of one message is made once (`growing.py`): a step costs what is new in it.
        """
        ...

    def decoder(self, model: Model) -> Decoder:
        """Echoes it makes carry `PROTOCOL` and `model.name`, the name that was asked for."""
        ...

    def path(self, model: Model) -> str:
        """Below the base address, from its version on and with its query: `/v1/messages`.

        The version is left out where the base address has one already (`address.py`).
        """
        ...

    def headers(self, key: str | None) -> dict[str, str]: ...

    def error(self, status: int, headers: Mapping[str, str], body: Json) -> ProviderError:
        """An HTTP error as a sentence. `body` is a string where it was not JSON.

        Its kind decides whether it is tried again: RATE_LIMITED, UNAVAILABLE and CUT are.
        `failures.py` has what is common to all. Header names are in lower case.
        """
        ...
