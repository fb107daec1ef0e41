"""Make any history acceptable to any dialect.

After `normalize`, whatever came in:
- every call is answered exactly once, by its id, in order, in the very next message;
- call ids are unique in the whole history; ids and tool names fit every provider;
- nothing is empty, no text holds half a character, and there is a message before every reply;
- echoes are sent only to the protocol and model that made them.

Replies are appended to what was sent. So a history cut before any reply normalizes to a prefix of
the longer one's normal form: caches stay warm, and thinking that is bound to its prefix stays
valid.
"""

import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, wraps
from typing import Any, NamedTuple, TypeAlias, TypeGuard, TypeVar, TypeVarTuple
from zlib import crc32

from agentcli.providers.arguments import make_sendable, replace_unpaired
from agentcli.providers.dialect import Model
from agentcli.system.lazy import compile_later
from agentcli.types.computer import COMPUTER
from agentcli.types.fast_dataclass import dataclass
from agentcli.types.messages import (
    AssistantMessage,
    Block,
    Document,
    Echo,
    Image,
    Opaque,
    Text,
    Thinking,
    ToolCall,
    UserMessage,
)
from agentcli.types.provider import Message, Request
from agentcli.types.tools import ErrorKind, ToolMessage, ToolResult, ToolSpec

# Tool names and call ids in the alphabet that every provider accepts. Each encoding depends on the
# name or id alone, so it is the same in every request, whatever else is in it.


_ACCEPTED_NAME = compile_later(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
_NAME_CHARS = 64
_ID_CHARS = 40
_FOREIGN = compile_later(r"[^A-Za-z0-9_-]")


def encode_name(name: str) -> str:
    """Return the name itself if every provider accepts it, else a readable one with a digest."""
    if _ACCEPTED_NAME.fullmatch(name):
        return name
    readable = _FOREIGN.sub("_", name)
    if not re.match(r"[A-Za-z_]", readable):
        readable = f"_{readable}"
    return _cut(readable, f"_{_hash_text(name)}", limit=_NAME_CHARS)


def encode_id(call_id: str, *, suffix: str = "") -> str:
    """Return an id that every provider accepts. The caller must keep ids unique: two may clash."""
    readable = _FOREIGN.sub("_", call_id) or "call"
    if len(readable) + len(suffix) > _ID_CHARS:
        suffix = f"_{_hash_text(call_id)}{suffix}"
    return _cut(readable, suffix, limit=_ID_CHARS)


def _hash_text(text: str) -> str:
    return f"{crc32(text.encode('utf-8', 'replace')):08x}"


def _cut(text: str, suffix: str, *, limit: int) -> str:
    return text[: limit - len(suffix)] + suffix


# Cleaning one message: nothing empty, broken or foreign, and no image the model cannot see


T = TypeVar("T", bound=Block | AssistantMessage | ToolResult)
B = TypeVar("B", bound=Text | Image | Document)


_UNSEEN = "This model cannot see it."
NO_OUTPUT = "(no output)"
NO_TEXT = "(empty message)"
IMAGE_MEDIA_TYPES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})


def clean_result(result: ToolResult, call_id: str, *, name: str, model: Model) -> ToolResult:
    shown = (_show_block(one, model) for one in result.content)
    content = _clean_texts(shown) or (Text(text=NO_OUTPUT),)
    found = tuple(map(encode_name, result.found))
    return replace_values(result, call_id=call_id, name=name, content=content, found=found)


def replace_values(record: T, **values: Any) -> T:
    """Return the record with these values; the record itself if it already has them.

    It nearly always does.
    """
    is_same = all([getattr(record, name) == value for name, value in values.items()])
    return record if is_same else replace(record, **values)


def clean_user(message: UserMessage, model: Model) -> UserMessage:
    shown = (_show_block(one, model) for one in message.content)
    content = _clean_texts(shown) or (Text(text=NO_TEXT),)
    return message if content == message.content else UserMessage(content=content)


def _clean_texts(blocks: Iterable[B]) -> tuple[B, ...]:
    """Return the blocks without empty texts. A text of ASCII is nearly always good already."""
    return tuple(
        replace_values(block, text=replace_unpaired(block.text), echo=None)
        if isinstance(block, Text) and not (block.echo is None and block.text.isascii())
        else block
        for block in blocks
        if not isinstance(block, Text) or block.text.strip()
    )


def show_image(image: Image, model: Model) -> Text | Image:
    if model.images and image.media_type in IMAGE_MEDIA_TYPES:
        return image
    return Text(text=f"[An image ({image.media_type}) was here. {_UNSEEN}]")


def _show_block(block: Text | Image | Document, model: Model) -> Text | Image | Document:
    match block:
        case Image():
            return show_image(block, model)
        case Document():
            return show_document(block, model)
        case _:
            return block


def show_document(document: Document, model: Model) -> Text | Document:
    """Return a document for models that take such files, and its text for others."""
    if document.data and model.documents:
        return document
    return Text(text=document.text or f"[{document.name} was here, without text. {_UNSEEN}]")


def clean_reply(message: AssistantMessage, model: Model) -> AssistantMessage:
    blocks = (_clean_block(block, message, model=model) for block in message.content)
    content = tuple(block for block in blocks if block is not None)
    if not is_by(message, model):
        # Not every provider takes text between a call and its result, unless it is its own.
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
    # A provider's own computer tool may be off by now. Then its calls are those of a function.
    keeps_echo = is_own(call.echo, model) and (model.computer or call.name != COMPUTER)
    return replace_values(
        call,
        # The model that made an id gets it back unchanged, whatever its alphabet.
        id=call.id if is_kept else encode_id(call.id),
        name=encode_name(call.name),
        input=make_sendable(call.input),
        echo=call.echo if keeps_echo else None,
    )


def is_by(message: AssistantMessage, model: Model) -> bool:
    return (message.protocol, message.model) == (model.protocol, model.name)


def is_own(echo: Echo | None, model: Model) -> TypeGuard[Echo]:
    return echo is not None and (echo.protocol, echo.model) == (model.protocol, model.name)


GO_ON = UserMessage(content=(Text(text="Continue."),))
"""The message that is inserted if a reply has nothing before it to reply to."""

_Exchange: TypeAlias = tuple[AssistantMessage | None, list[Message]]
"""A reply and the messages up to the next one; None for the messages before the first reply."""

NOT_RUN = "Cancelled before it ran."


def normalize(messages: Sequence[Message], model: Model) -> tuple[Message, ...]:
    """Return the normal form. Messages that need no change stay the same objects."""
    return NormalizedHistory(model).normalize(messages)


class NormalizedHistory:
    """A conversation's normal form, kept while it grows: a step costs only what is new in it."""

    def __init__(self, model: Model) -> None:
        self.ids: Mapping[str, int] = {}
        """The ids of all calls in the latest history."""
        self._model = model
        self._over: list[Message] = []
        """The messages of all exchanges but the last, which may still grow."""
        self._normal: list[Message] = []
        """The normal form of `_over`."""
        self._times_wanted: dict[str, int] = {}

    def normalize(self, messages: Sequence[Message]) -> tuple[Message, ...]:
        if list(messages[: len(self._over)]) != self._over:  # fast: they are the same objects
            self._over, self._normal, self._times_wanted = [], [], {}
        *over, last = _iter_exchanges(messages[len(self._over) :])
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


def _iter_exchanges(messages: Sequence[Message]) -> Iterator[_Exchange]:
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
    """Append a reply with its results, then the user messages up to the next reply."""
    reply, followers = exchange
    if reply is not None:
        if not _awaits_reply(normal, model):
            normal.append(GO_ON)
        cleaned = clean_reply(reply, model)
        ids = [_claim(call.id, times_wanted) for call in cleaned.tool_calls]
        if cleaned.content or cleaned.echo:
            normal.append(_rename_calls(cleaned, ids))
        if ids:
            results = _match_results(reply, ids, followers=followers, model=model)
            normal.append(_build_answers(results, followers))
    normal.extend(clean_user(it, model) for it in followers if isinstance(it, UserMessage))


def _awaits_reply(messages: Sequence[Message], model: Model) -> bool:
    """Return whether a reply may come next: never at the start, nor after a finished reply."""
    if not messages:
        return False
    last = messages[-1]
    if not isinstance(last, AssistantMessage):
        return True
    return last.stop == "paused" and is_by(last, model)


def _claim(wanted: str, times_wanted: dict[str, int]) -> str:
    """Return the wanted id, with a number if it is already taken; record it as taken."""
    claimed = wanted
    while claimed in times_wanted:
        times_wanted[wanted] += 1
        claimed = encode_id(wanted, suffix=f"_{times_wanted[wanted]}")
    times_wanted[claimed] = 1
    return claimed


def _build_answers(results: tuple[ToolResult, ...], followers: Sequence[Message]) -> ToolMessage:
    """Return the message that already holds exactly these results, or a new one."""
    for message in followers:
        if isinstance(message, ToolMessage) and message.results == results:
            return message
    return ToolMessage(results=results)


def _match_results(
    reply: AssistantMessage, ids: Sequence[str], *, followers: Sequence[Message], model: Model
) -> tuple[ToolResult, ...]:
    """Return one result for each call, in order. A missing result becomes an error.

    Each result is used once, so calls with the same id get theirs in turn.
    """
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
            matched.append(_build_not_run(call_id, name))
    return tuple(matched)


def _build_not_run(call_id: str, name: str) -> ToolResult:
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
    """Return a reply for the rest of the program: with our tool names, and ids not yet `taken`."""
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


# A whole request, with its tools


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedRequest:
    request: Request
    """In the form that every dialect takes."""
    ids: Mapping[str, int]
    """The ids of all calls in it."""
    names: Mapping[str, str]
    """Our names of the tools by the encoded ones. One not in it was made up by the model."""


def prepare_request(request: Request, normal: NormalizedHistory) -> PreparedRequest:
    choice, tools, deferred = request.tool_choice, request.tools, request.deferred
    names = {encode_name(spec.name): spec.name for spec in (*tools, *deferred)}
    if COMPUTER in names or any(encoded != own for encoded, own in names.items()):
        tools, deferred = _rename_tools(tools), _rename_tools(deferred)
    prepared = replace(
        request,
        messages=normal.normalize(request.messages),
        tools=tools,
        computer=any(it.name == COMPUTER for it in request.tools),
        deferred=deferred,
        tool_choice=choice if choice in ("auto", "required", "none") else encode_name(choice),
    )
    return PreparedRequest(request=prepared, ids=normal.ids, names=names)


@lru_cache
def _rename_tools(specs: tuple[ToolSpec, ...]) -> tuple[ToolSpec, ...]:
    """Return the tools without the one that dialects declare in their own way."""
    return tuple(
        replace(spec, name=encode_name(spec.name)) for spec in specs if spec.name != COMPUTER
    )


# The tools of a request: which of ours it declares, which it hides, and which are the provider's.
#
# A provider runs most of its own tools itself. One that rejects such a tool is asked again without
# it. Some providers load a tool of ours when a search finds it, and hide it until then. A found
# tool stays hidden as long as the result that names it is in the conversation. Compaction removes
# that result and begins a new prompt: then the tool is declared like any other.


_SEPARATOR = "\n"
"""A separator that occurs in no tool name."""


class RequestTools(NamedTuple):
    own: tuple[ToolSpec, ...]
    """Our tools. A hosted tool wins over ours of its name: a model takes each name once."""
    hidden: tuple[ToolSpec, ...]
    """Those of ours that the model does not see until a result names them."""
    hosted: list[str]
    """The tools that the provider runs itself, as far as they are asked for and it has them."""
    has_computer: bool
    """True if the provider's own computer tool is declared."""


def find_request_tools(request: Request, model: Model) -> RequestTools:
    """Return the tools to declare. `own` and `hidden` are the same objects until they change."""
    hosted = [name for name in request.hosted if name in model.hosted]
    return RequestTools(
        own=_without(request.tools, _SEPARATOR.join(hosted)) if hosted else request.tools,
        hidden=_find_hidden(request) if model.loads_tools and request.deferred else (),
        hosted=hosted,
        has_computer=request.computer and model.computer,
    )


def _find_hidden(request: Request) -> tuple[ToolSpec, ...]:
    named = set(_find_loaded(request.messages))
    deferred = {spec.name for spec in request.deferred}
    lost = [it.name for it in request.tools if it.name in deferred and it.name not in named]
    return _without(request.deferred, _SEPARATOR.join(lost)) if lost else request.deferred


def _find_loaded(messages: Sequence[Message]) -> Iterator[str]:
    for message in messages:
        if isinstance(message, ToolMessage):
            yield from _list_found(message)


A = TypeVarTuple("A")
R = TypeVar("R")

LIMIT_ENTRIES = 65_536
"""Far more than one conversation needs. Beyond it all is forgotten, which costs one slow step."""


def memoize(make: Callable[[*A], R]) -> Callable[[*A], R]:
    """Call `make` once per arguments. Strings are compared by value, all else by identity.

    So the fields of an old message, which are in the log by now, are not read again."""
    made: dict[tuple[Hashable, ...], tuple[tuple[Any, ...], R]] = {}

    @wraps(make)
    def remember(*args: *A) -> R:
        key = tuple([arg if type(arg) is str else id(arg) for arg in args])
        entry = made.get(key)
        if entry is None:
            if len(made) >= LIMIT_ENTRIES:
                made.clear()
            entry = made[key] = (args, make(*args))
        return entry[1]

    return remember


@memoize
def _list_found(message: ToolMessage) -> list[str]:
    return [name for result in message.results for name in result.found]


@lru_cache
def _without(specs: tuple[ToolSpec, ...], names: str) -> tuple[ToolSpec, ...]:
    left_out = names.split(_SEPARATOR)
    if not any(spec.name in left_out for spec in specs):
        return specs
    return tuple(spec for spec in specs if spec.name not in left_out)


# Tools that a provider rejects


_NAMES = {
    "web_search": compile_later(r"web_search|google_?search", re.IGNORECASE),
    "web_fetch": compile_later(r"web_fetch|url_?context", re.IGNORECASE),
    "code_execution": compile_later(r"code_?execution|code_?interpreter", re.IGNORECASE),
}
_COMPUTER_NAMES = compile_later(r"\bcomputer|browser_toolset", re.IGNORECASE)
"""What providers call these tools when they reject them."""


def drop_rejected(model: Model, request: Request, *, message: str) -> tuple[Model, str]:
    """Return the model without the tools that an error message names, and their names.

    Only tools that the request declares count. The names are empty if none of them is meant."""
    declared = find_request_tools(request, model)
    rejected = {name for name in declared.hosted if _NAMES[name].search(message)}
    is_computer = declared.has_computer and bool(_COMPUTER_NAMES.search(message))
    left = replace(
        model, hosted=model.hosted - rejected, computer=model.computer and not is_computer
    )
    names = [*sorted(rejected), *(["computer"] if is_computer else [])]
    return left, " and ".join(names)
