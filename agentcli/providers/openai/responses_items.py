"""Converting one item of the Responses protocol to a neutral block.

An item that is done is stored in the block's echo as it came. Of an item that broke off, only the
readable text is kept, without an echo. A call that is not complete becomes no block at all.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from agentcli.providers.arguments import make_sendable, parse_arguments, replace_unpaired
from agentcli.providers.dialect import Model
from agentcli.providers.openai import provider_tools
from agentcli.providers.openai.content import dump_compact, restore_arguments
from agentcli.providers.openai.provider_tools import INTERPRETER
from agentcli.types.computer import COMPUTER
from agentcli.types.deltas import CallDelta, Delta, TextDelta, ThinkingDelta
from agentcli.types.messages import Block, Echo, Json, Opaque, Text, Thinking, ToolCall

PROTOCOL = "openai-responses"

PATCH_FIELD = "patch"
"""The argument of the neutral call that holds the text of a custom call."""

SEARCH_TOOL = "search_tools"
"""The search tool. Its calls have their own item type if the provider loads what it finds."""
SEARCH_CALL = "tool_search_call"

PARAGRAPH = "\n\n"


@dataclass(slots=True, kw_only=True)
class StreamedItem:
    index: int
    data: dict[str, Json]
    """The item as announced, and in the end as done."""
    pieces: list[str] = field(default_factory=list)
    is_written: bool = False
    """True if it is a call whose arguments are complete."""
    is_done: bool = False

    @property
    def kind(self) -> Json:
        return self.data.get("type")

    @property
    def is_call(self) -> bool:
        return self.kind in ("function_call", "custom_tool_call", provider_tools.CALL) or (
            # A search that the provider runs itself is not a call to us.
            self.kind == SEARCH_CALL and self.data.get("execution") == "client"
        )

    @property
    def is_complete(self) -> bool:
        return self.is_done and self.data.get("status", "completed") == "completed"

    @property
    def name(self) -> str:
        if self.is_computer:
            return COMPUTER
        return SEARCH_TOOL if self.kind == SEARCH_CALL else read_word(self.data, "name")

    @property
    def is_computer(self) -> bool:
        """True for a call of the computer tool, or of our function beside it."""
        return (
            self.kind == provider_tools.CALL
            or read_word(self.data, "name") == provider_tools.NAVIGATE
        )

    @property
    def text(self) -> str:
        """The text streamed so far."""
        return replace_unpaired("".join(self.pieces))

    def close(self, data: Mapping[str, Json]) -> None:
        # An absent field must not be sent back as null: the provider rejects some of them.
        keeps_null = data.get("type") == INTERPRETER  # there it requires them
        self.data = {
            key: make_sendable(value)
            for key, value in data.items()
            if value is not None or keeps_null
        }
        self.is_done = True


def make_block(item: StreamedItem, model: Model) -> Block | None:
    is_empty = item.kind == "message" and not _list_parts(item.data, "content")
    if not item.is_done or is_empty:
        return _make_partial_block(item)
    echo = Echo(protocol=PROTOCOL, model=model.name, data=item.data)
    match item.kind:
        case "message":
            return Text(text=_read_text(item.data), echo=echo)
        case "reasoning":
            return Thinking(text=_join_thought(item.data) or item.text, echo=echo)
        case _ if item.is_call:
            return _build_tool_call(item, model) if item.is_complete else None
        case str():
            return Opaque(echo=echo)
        case _:
            return None


def _make_partial_block(item: StreamedItem) -> Block | None:
    match item.kind if item.pieces else None:
        case "message":
            return Text(text=item.text)
        case "reasoning":
            return Thinking(text=item.text)
        case _:
            return None


def _build_tool_call(item: StreamedItem, model: Model) -> ToolCall:
    written = _read_arguments(item)
    own: dict[str, Json] = dict(item.data)
    given = parse_arguments(written)
    if item.kind == "function_call":
        own["arguments"] = restore_arguments(written)
    elif item.kind == "custom_tool_call":
        given = {PATCH_FIELD: written}
        own["input"] = written
        own.pop("status", None)  # sent with such a call, but rejected when sent back
    if item.is_computer:
        _, given = provider_tools.read_call(item.data, given)
    return ToolCall(
        id=_choose_call_id(item),
        name=item.name,
        input=given,
        caller=read_word(item.data.get("caller"), "caller_id") or None,
        echo=Echo(protocol=PROTOCOL, model=model.name, data=own),
    )


def make_call_delta(item: StreamedItem, piece: str) -> CallDelta:
    return CallDelta(
        call_id=_choose_call_id(item), name=item.name, arguments=replace_unpaired(piece)
    )


def make_deltas(item: StreamedItem, model: Model) -> Sequence[Delta]:
    """Return the deltas of an item that came in one piece."""
    match make_block(item, model):
        case Text(text=text) if text:
            return [TextDelta(text=text)]
        case Thinking(text=text) if text:
            return [ThinkingDelta(text=text)]
        case ToolCall():
            return [make_call_delta(item, _read_arguments(item))]
        case _:
            return ()


def find_refusal(item: StreamedItem) -> str:
    return "".join(read_word(part, "refusal") for part in _list_parts(item.data, "content"))


def _choose_call_id(item: StreamedItem) -> str:
    return read_word(item.data, "call_id") or read_word(item.data, "id") or f"call_{item.index}"


def _read_arguments(item: StreamedItem) -> str:
    """Return a call's arguments as the model wrote them."""
    given = item.data.get("arguments", item.data.get("input"))
    if isinstance(given, dict):
        return dump_compact(given)
    return given if isinstance(given, str) and given else item.text


def _read_text(data: Mapping[str, Json]) -> str:
    parts = _list_parts(data, "content")
    return "".join(read_word(part, "text") or read_word(part, "refusal") for part in parts)


def _join_thought(data: Mapping[str, Json]) -> str:
    parts = _list_parts(data, "summary") or _list_parts(data, "content")
    return PARAGRAPH.join(read_word(part, "text") for part in parts)


def _list_parts(data: Mapping[str, Json], key: str) -> Sequence[Json]:
    parts = data.get(key)
    return parts if isinstance(parts, list) else ()


def read_word(data: Json, key: str) -> str:
    value = data.get(key) if isinstance(data, dict) else None
    return value if isinstance(value, str) else ""
