"""Make any history acceptable to any dialect.

After `normalize`, whatever came in:
- every call is answered exactly once, by its id, in order, in the very next message;
- call ids are unique in the whole history; ids and tool names fit every provider;
- nothing is empty, no text holds half a character, and somebody speaks before every reply;
- what a provider wants back is there for the protocol and model that made it, and for no other.

Replies are appended to what was sent, so a history cut before any reply normalises to a prefix of
what the longer one does: caches stay warm, and thinking stays valid that is bound to its prefix.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias, TypeGuard, TypeVar

from agentcli.providers.arguments import replace_unpaired, replace_unpaired_json
from agentcli.providers.dialect import Model
from agentcli.providers.incremental import count_common_start
from agentcli.providers.names import encode_id, encode_name
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
from agentcli.types.provider import Message
from agentcli.types.tools import ErrorKind, ToolMessage, ToolResult

# One message of a conversation as a model may get it: nothing empty, broken, foreign or unseen.


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


GO_ON = UserMessage(content=(Text(text="Continue."),))
"""Said where a reply would stand without anything before it to reply to."""

_Exchange: TypeAlias = tuple[AssistantMessage | None, list[Message]]
"""A reply with all that was said until the next one; what precedes the first has none."""

NOT_RUN = "Cancelled before it ran."


def normalize(messages: Sequence[Message], model: Model) -> tuple[Message, ...]:
    """Messages that needed no change are the same objects again."""
    return NormalizedHistory(model).normalize(messages)


class NormalizedHistory:
    """A conversation's normal form, kept while it grows: a step costs what is new in it."""

    def __init__(self, model: Model) -> None:
        self.ids: Mapping[str, int] = {}
        """Those of all calls in the latest history."""
        self._model = model
        self._over: list[Message] = []
        """The messages of all exchanges but the last, to which more may be said."""
        self._normal: list[Message] = []
        """What became of them."""
        self._times_wanted: dict[str, int] = {}

    def normalize(self, messages: Sequence[Message]) -> tuple[Message, ...]:
        if count_common_start(self._over, messages) < len(self._over):
            self._over, self._normal, self._times_wanted = [], [], {}
        *over, last = _exchanges(messages[len(self._over) :])
        for exchange in over:
            _append_exchange(
                exchange, self._normal, times_wanted=self._times_wanted, model=self._model
            )
            reply, followers = exchange
            self._over += [reply, *followers] if reply else followers
        normal, times_wanted = [*self._normal], dict(self._times_wanted)
        _append_exchange(last, normal, times_wanted=times_wanted, model=self._model)
        if not _awaits_reply(normal, self._model):
            normal.append(GO_ON)
        self.ids = times_wanted
        return tuple(normal)


def _exchanges(messages: Sequence[Message]) -> Iterator[_Exchange]:
    reply: AssistantMessage | None = None
    followers: list[Message] = []
    for message in messages:
        if isinstance(message, AssistantMessage):
            yield reply, followers
            reply, followers = message, []
        else:
            followers.append(message)
    yield reply, followers


def _append_exchange(
    exchange: _Exchange, normal: list[Message], *, times_wanted: dict[str, int], model: Model
) -> None:
    """Appends a reply with its answers, then what else was said until the next reply."""
    reply, followers = exchange
    if reply is not None:
        if not _awaits_reply(normal, model):
            normal.append(GO_ON)
        said = clean_reply(reply, model)
        ids = [_claim(call.id, times_wanted) for call in said.tool_calls]
        if said.content or said.echo:
            normal.append(_rename_calls(said, ids))
        if ids:
            results = _match_results(reply, ids, followers=followers, model=model)
            normal.append(_answers(results, followers))
    normal.extend(clean_user(it, model) for it in followers if isinstance(it, UserMessage))


def _awaits_reply(messages: Sequence[Message], model: Model) -> bool:
    """Whether a reply may come next: never at the start, nor after a finished reply."""
    if not messages:
        return False
    last = messages[-1]
    if not isinstance(last, AssistantMessage):
        return True
    return last.stop == "paused" and is_by(last, model)


def _claim(wanted: str, times_wanted: dict[str, int]) -> str:
    """The wanted id where nobody has it yet, else with a number."""
    claimed = wanted
    while claimed in times_wanted:
        times_wanted[wanted] += 1
        claimed = encode_id(wanted, suffix=f"_{times_wanted[wanted]}")
    times_wanted[claimed] = 1
    return claimed


def _answers(results: tuple[ToolResult, ...], followers: Sequence[Message]) -> ToolMessage:
    """The message that holds just these results already, or a new one."""
    for message in followers:
        if isinstance(message, ToolMessage) and message.results == results:
            return message
    return ToolMessage(results=results)


def _match_results(
    reply: AssistantMessage, ids: Sequence[str], *, followers: Sequence[Message], model: Model
) -> tuple[ToolResult, ...]:
    """One result for each call, in order; each result is used once, so twins get theirs in turn."""
    waiting: dict[str, list[ToolResult]] = {}
    for message in followers:
        for result in message.results if isinstance(message, ToolMessage) else ():
            waiting.setdefault(result.call_id, []).append(result)
    matched = []
    for call, call_id in zip(reply.tool_calls, ids, strict=True):
        found = waiting.get(call.id)
        name = encode_name(call.name)
        if found:
            matched.append(clean_result(found.pop(0), call_id, name=name, model=model))
        else:
            matched.append(_not_run(call_id, name))
    return tuple(matched)


def _not_run(call_id: str, name: str) -> ToolResult:
    return ToolResult(
        call_id=call_id,
        name=name,
        status="error",
        content=(Text(text=NOT_RUN),),
        error=ErrorKind.NOT_RUN,
    )


def _rename_calls(message: AssistantMessage, ids: Sequence[str]) -> AssistantMessage:
    if [call.id for call in message.tool_calls] == [*ids]:
        return message
    remaining = iter(ids)
    content = tuple(
        replace(block, id=next(remaining)) if isinstance(block, ToolCall) else block
        for block in message.content
    )
    return replace(message, content=content)


def restore_names(
    message: AssistantMessage, *, taken: Mapping[str, int], names: Mapping[str, str]
) -> AssistantMessage:
    """A reply as the rest of the program knows it: our tool names, and ids that are new to it."""
    if not message.tool_calls and not message.cut_off:
        return message
    times_wanted = dict(taken)
    content = tuple(
        replace_values(
            block,
            id=_claim(block.id or encode_id(""), times_wanted),
            name=names.get(block.name, block.name),
        )
        if isinstance(block, ToolCall)
        else block
        for block in message.content
    )
    cut_off = tuple(names.get(name, name) for name in message.cut_off if name)
    return replace_values(message, content=content, cut_off=cut_off)
