"""Make any history acceptable to any dialect, and say what a change of model would lose.

After `normalize`, whatever came in:
- every call is answered exactly once, by its id, in order, in the very next message;
- call ids are unique in the whole history; ids and tool names fit every provider;
- nothing is empty, no text holds half a character, and somebody speaks before every reply;
- what a provider wants back is there for the protocol and model that made it, and for no other.

Replies are appended to what was sent, so a history cut before any reply normalises to a prefix of
what the longer one does: caches stay warm, and thinking stays valid that is bound to its prefix.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

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
from agentcli.types.tools import ErrorKind, ToolMessage, ToolResult
from agentcli.types.wire import Message
from agentcli.wire.characters import whole, whole_json
from agentcli.wire.dialect import Model
from agentcli.wire.memo import remembered
from agentcli.wire.names import wire_id, wire_name

GO_ON = UserMessage(content=(Text(text="Continue."),))
"""Said where a reply would stand without anything before it to reply to."""

NOT_RUN = "Cancelled before it ran."
NO_OUTPUT = "(no output)"
NO_TEXT = "(empty message)"
IMAGE_MEDIA_TYPES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})


def normalize(messages: Sequence[Message], model: Model) -> tuple[Message, ...]:
    """Messages that needed no change are the same objects again."""
    normal: list[Message] = []
    times_wanted: dict[str, int] = {}
    for reply, followers in _exchanges(messages):
        if reply is None:
            normal.extend(_clean_user(it, model) for it in followers if isinstance(it, UserMessage))
            continue
        if not _awaits_reply(normal, model):
            normal.append(GO_ON)
        wanted = _wanted_ids(reply, model)
        ids = _claimed(wanted, times_wanted)
        normal.extend(_settled(reply, model, "" if ids == wanted else "\n".join(ids), *followers))
    if not _awaits_reply(normal, model):
        normal.append(GO_ON)
    return tuple(normal)


def _exchanges(
    messages: Sequence[Message],
) -> Iterable[tuple[AssistantMessage | None, list[Message]]]:
    """Each reply with all that was said until the next one; what precedes the first has none."""
    reply: AssistantMessage | None = None
    followers: list[Message] = []
    for message in messages:
        if isinstance(message, AssistantMessage):
            yield reply, followers
            reply, followers = message, []
        else:
            followers.append(message)
    yield reply, followers


def _awaits_reply(messages: Sequence[Message], model: Model) -> bool:
    """Whether a reply may come next: never at the start, nor after a finished reply."""
    if not messages:
        return False
    last = messages[-1]
    if not isinstance(last, AssistantMessage):
        return True
    return last.stop == "paused" and last.protocol == model.protocol


@remembered
def _wanted_ids(reply: AssistantMessage, model: Model) -> tuple[str, ...]:
    return tuple(call.id for call in _clean_reply(reply, model).tool_calls)


def _claimed(wanted: tuple[str, ...], times_wanted: dict[str, int]) -> tuple[str, ...]:
    """Ids nobody has yet: the wanted ones where they are free, else with a number."""
    return tuple([_claim(call_id, times_wanted) for call_id in wanted])


def _claim(wanted: str, times_wanted: dict[str, int]) -> str:
    claimed = wanted
    while claimed in times_wanted:
        times_wanted[wanted] += 1
        claimed = wire_id(wanted, suffix=f"_{times_wanted[wanted]}")
    times_wanted[claimed] = 1
    return claimed


@remembered
def _settled(
    reply: AssistantMessage, model: Model, new_ids: str, *followers: Message
) -> tuple[Message, ...]:
    """A reply with its answers, then what else was said until the next reply."""
    said = _clean_reply(reply, model)
    ids = new_ids.split("\n") if new_ids else [call.id for call in said.tool_calls]
    settled: list[Message] = []
    if said.content:
        settled.append(_renamed(said, ids) if new_ids else said)
    if ids:
        results = _matched(reply, ids, followers=followers, model=model)
        settled.append(_answers(results, followers))
    users = (it for it in followers if isinstance(it, UserMessage))
    return (*settled, *(_clean_user(user, model) for user in users))


def _answers(results: tuple[ToolResult, ...], followers: Sequence[Message]) -> ToolMessage:
    """The message that holds just these results already, or a new one."""
    for message in followers:
        if isinstance(message, ToolMessage) and message.results == results:
            return message
    return ToolMessage(results=results)


def _matched(
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
        name = wire_name(call.name)
        if found:
            matched.append(_clean_result(found.pop(0), call_id, name=name, model=model))
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


def _clean_result(result: ToolResult, call_id: str, *, name: str, model: Model) -> ToolResult:
    content = _clean_content(result.content, model) or (Text(text=NO_OUTPUT),)
    clean = replace(result, call_id=call_id, name=name, content=content)
    return result if clean == result else clean


@remembered
def _clean_user(message: UserMessage, model: Model) -> UserMessage:
    content = _clean_content(message.content, model) or (Text(text=NO_TEXT),)
    return message if content == message.content else UserMessage(content=content)


def _clean_content(content: Sequence[Text | Image], model: Model) -> tuple[Text | Image, ...]:
    seen = (_seen(block, model) if isinstance(block, Image) else block for block in content)
    return tuple(
        Text(text=whole(block.text)) if isinstance(block, Text) else block
        for block in seen
        if not isinstance(block, Text) or block.text.strip()
    )


def _seen(image: Image, model: Model) -> Text | Image:
    if model.images and image.media_type in IMAGE_MEDIA_TYPES:
        return image
    return Text(text=f"[An image ({image.media_type}) stood here. This model cannot see it.]")


def _renamed(message: AssistantMessage, ids: Sequence[str]) -> AssistantMessage:
    remaining = iter(ids)
    content = tuple(
        replace(block, id=next(remaining)) if isinstance(block, ToolCall) else block
        for block in message.content
    )
    return replace(message, content=content)


@remembered
def _clean_reply(message: AssistantMessage, model: Model) -> AssistantMessage:
    blocks = (_clean_block(block, message, model=model) for block in message.content)
    content = tuple(block for block in blocks if block is not None)
    echo = message.echo if _is_own(message.echo, model) else None
    clean = replace(message, content=content, echo=echo)
    return message if clean == message else clean


def _clean_block(block: Block, message: AssistantMessage, *, model: Model) -> Block | None:
    match block:
        case Thinking() | Opaque():
            return block if _is_own(block.echo, model) else None
        case Text():
            own = block.echo if _is_own(block.echo, model) else None
            if own is None and not block.text.strip():
                return None
            return replace(block, text=whole(block.text), echo=own)
        case ToolCall():
            return _clean_call(block, message, model=model)


def _clean_call(call: ToolCall, message: AssistantMessage, *, model: Model) -> ToolCall:
    is_own = message.protocol == model.protocol and message.model == model.name
    return replace(
        call,
        # Who minted an id gets it back as it was, whatever alphabet it used.
        id=call.id if is_own and call.id and call.id.isprintable() else wire_id(call.id),
        name=wire_name(call.name),
        input=whole_json(call.input),
        echo=call.echo if _is_own(call.echo, model) else None,
    )


def _is_own(echo: Echo | None, model: Model) -> bool:
    return echo is not None and echo.protocol == model.protocol and echo.model == model.name


def received(
    message: AssistantMessage, *, after: Sequence[Message], names: Mapping[str, str]
) -> AssistantMessage:
    """A reply as the rest of the program knows it: our tool names, and ids that are new to it."""
    if not message.tool_calls:
        return message
    taken: dict[str, int] = {}
    for earlier in after:
        if isinstance(earlier, AssistantMessage):
            taken.update((call.id, 1) for call in earlier.tool_calls)
    content = tuple(
        replace(
            block,
            id=_claim(block.id or wire_id(""), taken),
            name=names.get(block.name, block.name),
        )
        if isinstance(block, ToolCall)
        else block
        for block in message.content
    )
    return message if content == message.content else replace(message, content=content)


def dropped(messages: Sequence[Message], model: Model) -> list[str]:
    """What going on with this model would lose, in sentences for a person."""
    replies = [message for message in messages if isinstance(message, AssistantMessage)]
    blocks = [block for reply in replies for block in reply.content]
    thoughts = sum(isinstance(b, Thinking) and not _is_own(b.echo, model) for b in blocks)
    private = sum(isinstance(b, Opaque) and not _is_own(b.echo, model) for b in blocks)
    images = sum(not isinstance(_seen(image, model), Image) for image in _images(messages))
    last_tokens = replies[-1].usage.prompt_tokens if replies else 0
    sentences = []
    if thoughts:
        sentences.append(
            f"{_counted(thoughts, 'thought')} of another model: {model.name} cannot read them."
        )
    if private:
        sentences.append(
            f"{_counted(private, 'block')} only its own provider reads, such as searches it ran."
        )
    if images:
        sentences.append(f"{_counted(images, 'image')}: {model.name} cannot see them.")
    if model.window_tokens is not None and last_tokens > model.window_tokens:
        sentences.append(
            f"The beginning: {last_tokens:,} tokens do not fit the {model.window_tokens:,}"
            f" of {model.name}."
        )
    return sentences


def _images(messages: Sequence[Message]) -> Iterable[Image]:
    for message in messages:
        match message:
            case UserMessage():
                yield from (block for block in message.content if isinstance(block, Image))
            case ToolMessage():
                for result in message.results:
                    yield from (block for block in result.content if isinstance(block, Image))


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
