"""Messages: the neutral vocabulary of a conversation, whatever protocol carries it.

Pure values. A provider's private data is in `Echo`, and only its own dialect reads it.
"""

from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from agentcli.types.fast_dataclass import dataclass

if TYPE_CHECKING:
    Json: TypeAlias = "dict[str, Json] | list[Json] | str | int | float | bool | None"
else:
    Json = Any  # pydantic, which reads logs back, cannot follow a recursive alias


@dataclass(frozen=True, slots=True, kw_only=True)
class Echo:
    """Opaque data a provider wants back verbatim. Only its own protocol and model may read it."""

    protocol: str
    model: str
    data: Json


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    text: str
    echo: Echo | None = None
    type: Literal["text"] = "text"


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    media_type: str
    data: str
    """The bytes in base64."""
    type: Literal["image"] = "image"


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """Pages of a PDF that were attached or read: a file, and its text for models that take none."""

    name: str
    data: str
    """The file with these pages alone, in base64; empty if it could not be made."""
    text: str
    """The text of the pages; empty if they are images."""
    pages: int
    media_type: str = "application/pdf"
    type: Literal["document"] = "document"


@dataclass(frozen=True, slots=True, kw_only=True)
class Thinking:
    text: str
    """May be empty: some providers send only what must be echoed."""
    echo: Echo | None = None
    type: Literal["thinking"] = "thinking"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    id: str
    """Echoed verbatim in the result."""
    name: str
    input: Json
    """A mapping; a string if the arguments were not JSON."""
    caller: str | None = None
    """The id of the program that made this call, for programmatic calling."""
    echo: Echo | None = None
    type: Literal["tool_call"] = "tool_call"


@dataclass(frozen=True, slots=True, kw_only=True)
class Opaque:
    """A block that we do not understand but must send back at the same position."""

    echo: Echo
    type: Literal["opaque"] = "opaque"


Block: TypeAlias = Text | Thinking | ToolCall | Opaque
Content: TypeAlias = tuple[Text | Image | Document, ...]
Attachment: TypeAlias = str | Image | Document
"""What goes to the model besides the words of a message."""

Stop = Literal[
    "end",  # the model is done
    "tool_calls",  # run them
    "length",  # cut off at the output limit
    "overflow",  # the conversation no longer fits the window
    "paused",  # send the same history again
    "refusal",
    "error",
    "cancelled",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Tokens of one request. The kinds of input do not overlap; reasoning is part of output."""

    input_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    long_cache_write_tokens: int = 0
    """The part of `cache_write_tokens` that the provider keeps for an hour."""
    output_tokens: int = 0
    reasoning_tokens: int = 0
    searches: int = 0
    """The web searches that the provider made, which cost extra."""
    is_estimate: bool = False
    """True if the provider did not report all of it, and the rest is our own count."""

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            input_tokens=self.input_tokens + other.input_tokens,
            cache_read_tokens=self.cache_read_tokens + other.cache_read_tokens,
            cache_write_tokens=self.cache_write_tokens + other.cache_write_tokens,
            long_cache_write_tokens=self.long_cache_write_tokens + other.long_cache_write_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            reasoning_tokens=self.reasoning_tokens + other.reasoning_tokens,
            searches=self.searches + other.searches,
            is_estimate=self.is_estimate or other.is_estimate,
        )

    @property
    def prompt_tokens(self) -> int:
        return self.input_tokens + self.cache_read_tokens + self.cache_write_tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class UserMessage:
    content: Content
    role: Literal["user"] = "user"


@dataclass(frozen=True, slots=True, kw_only=True)
class HostedCall:
    """A call that the provider made itself while it wrote a reply."""

    tool: str
    """web_search, web_fetch or code_execution, whatever the provider calls it."""
    subject: str
    """The query, the address or the code."""
    results: int = 0
    error: str = ""
    """The provider's word for what went wrong; empty if nothing did."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WebSource:
    """A page that a reply cites."""

    url: str
    title: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AssistantMessage:
    content: tuple[Block, ...]
    stop: Stop
    protocol: str
    model: str
    usage: Usage = Usage()
    stop_detail: str = ""
    """The reason why it stopped, in the provider's words: a refusal's category, a limit's name."""
    cut_off: tuple[str, ...] = ()
    """The tools of calls that were incomplete when the reply ended; `content` has no such call."""
    echo: Echo | None = None
    """Data of the reply as a whole, such as the id that continues it on the server."""
    request_id: str = ""
    """The provider's id of the request, to name it to the provider's support; empty if unknown."""
    hosted: tuple[HostedCall, ...] = ()
    """The calls that the provider made itself. Their items are in `content`, for it alone."""
    sources: tuple[WebSource, ...] = ()
    role: Literal["assistant"] = "assistant"

    @property
    def text(self) -> str:
        return "".join(block.text for block in self.content if isinstance(block, Text))

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        return tuple(block for block in self.content if isinstance(block, ToolCall))
