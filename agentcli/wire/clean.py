"""One message of a conversation as a model may get it: nothing empty, broken, foreign or unseen.

What a provider wants back is there for the protocol and model that made it, and for no other.
What needs no change is the same object again.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeGuard, TypeVar

from agentcli.types.messages import (
    AssistantMessage,
    Block,
    Echo,
    Image,
    Opaque,
    Text,
    Thinking,
    ToolCall,
    UserMessage,
)
from agentcli.types.tools import ToolResult
from agentcli.wire.characters import replace_unpaired, replace_unpaired_json
from agentcli.wire.dialect import Model
from agentcli.wire.names import encode_id, encode_name

T = TypeVar("T", bound=Block | AssistantMessage | ToolResult)

NO_OUTPUT = "(no output)"
NO_TEXT = "(empty message)"
IMAGE_MEDIA_TYPES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})


def clean_result(result: ToolResult, call_id: str, *, name: str, model: Model) -> ToolResult:
    content = _clean_content(result.content, model) or (Text(text=NO_OUTPUT),)
    found = tuple(map(encode_name, result.found))
    return replace_values(result, call_id=call_id, name=name, content=content, found=found)


def replace_values(record: T, **values: Any) -> T:
    """The record with these values; itself where it has them already, as nearly always."""
    is_same = all([getattr(record, name) == value for name, value in values.items()])
    return record if is_same else replace(record, **values)


def clean_user(message: UserMessage, model: Model) -> UserMessage:
    content = _clean_content(message.content, model) or (Text(text=NO_TEXT),)
    return message if content == message.content else UserMessage(content=content)


def _clean_content(content: Sequence[Text | Image], model: Model) -> tuple[Text | Image, ...]:
    visible = (show_image(block, model) if isinstance(block, Image) else block for block in content)
    return tuple(
        replace_values(block, text=replace_unpaired(block.text), echo=None)
        if isinstance(block, Text)
        else block
        for block in visible
        if not isinstance(block, Text) or block.text.strip()
    )


def show_image(image: Image, model: Model) -> Text | Image:
    if model.images and image.media_type in IMAGE_MEDIA_TYPES:
        return image
    return Text(text=f"[An image ({image.media_type}) stood here. This model cannot see it.]")


def clean_reply(message: AssistantMessage, model: Model) -> AssistantMessage:
    blocks = (_clean_block(block, message, model=model) for block in message.content)
    content = tuple(block for block in blocks if block is not None)
    if not is_by(message, model):
        # Not every provider takes words between a call and its answer, unless they are its own.
        content = tuple(sorted(content, key=lambda block: isinstance(block, ToolCall)))
    echo = message.echo if is_own(message.echo, model) else None
    return replace_values(message, content=content, echo=echo)


def _clean_block(block: Block, message: AssistantMessage, *, model: Model) -> Block | None:
    match block:
        case Thinking() | Opaque():
            return block if is_own(block.echo, model) else None
        case Text():
            own = block.echo if is_own(block.echo, model) else None
            if own is None and not block.text.strip():
                return None
            return replace_values(block, text=replace_unpaired(block.text), echo=own)
        case ToolCall():
            return _clean_call(block, message, model=model)


def _clean_call(call: ToolCall, message: AssistantMessage, *, model: Model) -> ToolCall:
    is_kept = is_by(message, model) and call.id and call.id.isprintable()
    return replace_values(
        call,
        # Who minted an id gets it back as it was, whatever alphabet it used.
        id=call.id if is_kept else encode_id(call.id),
        name=encode_name(call.name),
        input=replace_unpaired_json(call.input),
        echo=call.echo if is_own(call.echo, model) else None,
    )


def is_by(message: AssistantMessage, model: Model) -> bool:
    return (message.protocol, message.model) == (model.protocol, model.name)


def is_own(echo: Echo | None, model: Model) -> TypeGuard[Echo]:
    return echo is not None and (echo.protocol, echo.model) == (model.protocol, model.name)
