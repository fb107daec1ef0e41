"""Anthropic Messages: requests. Replies are read in `reply.py`, errors in `errors.py`.

A message is encoded the same way in every request: between two requests of a conversation only the
cache markers move. Thinking is bound to everything before it and would be refused otherwise.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

from agentcli.providers.anthropic import provider_tools
from agentcli.providers.anthropic.errors import read_error
from agentcli.providers.anthropic.provider_tools import declare_hosted
from agentcli.providers.anthropic.reply import PROTOCOL, MessagesDecoder
from agentcli.providers.arguments import wrap_arguments
from agentcli.providers.dialect import Exchange, Model
from agentcli.providers.normalize import RequestTools, find_request_tools
from agentcli.providers.strict import (
    ANTHROPIC,
    build_strict_schema,
    find_answer_schema,
    to_strict,
    with_object_root,
)
from agentcli.types.messages import (
    AssistantMessage,
    Block,
    Document,
    Image,
    Json,
    Opaque,
    Text,
    Thinking,
    ToolCall,
    UserMessage,
)
from agentcli.types.provider import CACHE_LIFETIME_S, Message, Request, ToolChoice
from agentcli.types.tools import ToolMessage, ToolResult, ToolSpec

__all__ = [
    "HISTORY_KEY",
    "PROTOCOL",
    "build_headers",
    "encode",
    "open_exchange",
    "read_error",
]

HISTORY_KEY = "messages"
VERSION = "2026-10-21"
DEFAULT_OUTPUT_TOKENS = 8192
"""The output limit for a model whose limit is unknown. Every model since 2024 allows it."""

_CACHE_CONTROL: dict[str, Json] = {"type": "ephemeral"}
_LONG_CACHE_CONTROL: dict[str, Json] = {"type": "ephemeral", "ttl": "1h"}
_UNSAID: Json = {"type": "text", "text": "(nothing more)"}
_LEAST_EFFORT = "low"
_STRICT_TOOLS = 20
_STRICT_OPTIONAL_FIELDS = 24
"""The most optional fields that the provider compiles, over all tools of a request."""


def build_headers(key: str | None) -> dict[str, str]:
    return {"anthropic-version": VERSION, **({"x-api-key": key} if key else {})}


def open_exchange(model: Model, key: str | None) -> Exchange:
    return Exchange(
        path="/v1/messages",
        headers=build_headers(key),
        decoder=MessagesDecoder(model),
    )


def encode(
    request: Request, model: Model, *, start: int = 0, end: int | None = None
) -> dict[str, Json]:
    body: dict[str, Json] = {
        "model": model.name,
        "max_tokens": _choose_output_limit(request.output_limit_tokens, model),
        "stream": True,
    }
    is_long = request.cache_lifetime_s > CACHE_LIFETIME_S
    marker = _LONG_CACHE_CONTROL if is_long else _CACHE_CONTROL
    if request.service_tier:
        body["service_tier"] = request.service_tier
    if request.system.strip():
        body["system"] = [{"type": "text", "text": request.system, "cache_control": marker}]
    is_forced = False
    declared = find_request_tools(request, model)
    if tools := _list_tools(declared, model, is_long=is_long):
        body["tools"] = tools
        choice = _encode_choice(request.tool_choice, model)
        is_forced = choice["type"] in ("any", "tool")
        if not request.parallel and choice["type"] != "none":
            choice["disable_parallel_tool_use"] = True
        body["tool_choice"] = choice
    if model.thinking and not is_forced:
        # Without `display`, some models send no text at all between two calls.
        body["thinking"] = {"type": "adaptive", "display": "summarized"}
    if output := _encode_output(request, model):
        body["output_config"] = output
    if container := _find_container(request.messages):
        body["container"] = container
    turns = [_encode_turn(message) for message in request.messages[start:end]]
    _load_found(turns, request.messages[start:end], hidden=declared.hidden)
    _mark_ends(turns, request.messages, marker=marker, start=start)
    body[HISTORY_KEY] = [*turns]
    return body


def _list_tools(declared: RequestTools, model: Model, *, is_long: bool) -> list[Json]:
    """Return our tools, and those that the provider runs itself."""
    hosted = declare_hosted(declared.hosted) if declared.hosted else []
    if declared.has_computer:
        hosted.append(provider_tools.DECLARATION)
    if not declared.own:
        return hosted
    return [*_declare_tools(declared.own, declared.hidden, model, is_long), *hosted]


def _encode_output(request: Request, model: Model) -> dict[str, Json]:
    output: dict[str, Json] = {}
    if effort := request.effort or model.effort:
        output["effort"] = _LEAST_EFFORT if effort in ("none", "minimal") else effort
    if request.answer_schema and (
        schema := to_strict(find_answer_schema(request, model), ANTHROPIC)
    ):
        output["format"] = {"type": "json_schema", "schema": schema}
    return output


def _choose_output_limit(wanted: int | None, model: Model) -> int:
    limit = model.output_tokens or DEFAULT_OUTPUT_TOKENS
    return limit if wanted is None else min(wanted, model.output_tokens or wanted)


def _encode_choice(choice: ToolChoice, model: Model) -> dict[str, Json]:
    match choice:
        case "auto" | "none":
            return {"type": choice}
        case _ if not model.forced_tool_choice:
            return {"type": "auto"}
        case "required":
            return {"type": "any"}
        case name:
            return {"type": "tool", "name": name}


@lru_cache
def _declare_tools(
    specs: tuple[ToolSpec, ...], deferred: tuple[ToolSpec, ...], model: Model, is_long: bool
) -> list[Json]:
    """Return the tools in order; built-in tools are strict if the provider can compile that many.

    Deferred tools come last. The model does not see them until a result names them. So the first
    declarations never change, and everything that is cached after them stays valid.
    """
    names = {spec.name for spec in deferred}
    shown = [spec for spec in specs if spec.name not in names]
    marker = _LONG_CACHE_CONTROL if is_long else _CACHE_CONTROL
    return [*_declare_visible(shown, model, marker=marker), *map(_declare_hidden, deferred)]


def _declare_hidden(spec: ToolSpec) -> Json:
    return {**_declare(spec), "input_schema": with_object_root(spec.schema), "defer_loading": True}


def _declare(spec: ToolSpec) -> dict[str, Json]:
    described: dict[str, Json] = {"description": spec.description}
    return {"name": spec.name, **(described if spec.description.strip() else {})}


def _declare_visible(
    specs: Sequence[ToolSpec], model: Model, *, marker: dict[str, Json]
) -> list[Json]:
    schemas = [build_strict_schema(spec, ANTHROPIC, model=model) for spec in specs]
    compiled = [schema for schema in schemas if schema is not None]
    is_compiled = (
        len(compiled) <= _STRICT_TOOLS
        and sum(map(_count_optional_fields, compiled)) <= _STRICT_OPTIONAL_FIELDS
    )
    tools: list[Json] = []
    for spec, schema in zip(specs, schemas, strict=True):
        tool = _declare(spec)
        if schema is not None and is_compiled:
            tool |= {"input_schema": schema, "strict": True}
        else:
            tool["input_schema"] = with_object_root(spec.schema)
        if spec is specs[-1]:
            tool["cache_control"] = marker
        tools.append(tool)
    return tools


def _count_optional_fields(schema: Mapping[str, Json]) -> int:
    properties, required = schema.get("properties"), schema.get("required")
    count = len(properties) if isinstance(properties, dict) else 0
    return count - (len(required) if isinstance(required, list) else 0)


def _find_container(messages: Sequence[Message]) -> Json:
    """Return the id of the container in which a program waits for the results of its calls."""
    last = next((it for it in reversed(messages) if isinstance(it, AssistantMessage)), None)
    return last.echo.data if last and last.echo else None


def _load_found(
    turns: list[dict[str, Json]], messages: Sequence[Message], *, hidden: tuple[ToolSpec, ...]
) -> None:
    """Replace the results that found hidden tools. `turns` are those of the messages."""
    for number, message in enumerate(messages if hidden else ()):
        if isinstance(message, ToolMessage) and any(it.found for it in message.results):
            turns[number] = _encode_loading(message, hidden)


def _encode_loading(message: ToolMessage, deferred: tuple[ToolSpec, ...]) -> dict[str, Json]:
    """Return the results with references to the tools they found instead of their text.

    A name that is not declared would be refused, so it is left out: its server may be gone.
    """
    declared = {spec.name for spec in deferred}
    blocks: list[Json] = []
    for result in message.results:
        names = [name for name in result.found if name in declared]
        references: list[Json] = [{"type": "tool_reference", "tool_name": name} for name in names]
        block = _encode_result(result)
        blocks.append(block | {"content": references} if references else block)
    return {"role": "user", "content": blocks}


def _mark_ends(
    turns: list[dict[str, Json]],
    messages: Sequence[Message],
    *,
    marker: dict[str, Json],
    start: int,
) -> None:
    """Put the cache markers on those of the turns, which begin with message `start`."""
    for number in _iter_cache_ends(messages):
        if 0 <= number - start < len(turns):
            turns[number - start] = _mark_cached(turns[number - start], marker)


def _iter_cache_ends(messages: Sequence[Message]) -> Iterable[int]:
    """Yield where to put cache markers: at the end of this request and of the one before.

    The next request reads the cache up to the first, this request up to the second.
    """
    has_reply = has_end = False
    for number in range(len(messages) - 1, -1, -1):
        if isinstance(messages[number], AssistantMessage):
            has_reply = True
        elif has_reply or not has_end:
            yield number
            has_end = True
            if has_reply:
                return


def _encode_turn(message: Message) -> dict[str, Json]:
    """Return one turn. Turns are never joined, so that sent turns never change."""
    if isinstance(message, AssistantMessage):
        content = [*map(_restore_block, message.content), *_build_closing(message)]
        return {"role": "assistant", "content": content}
    return {"role": "user", "content": [*_encode_blocks(message)]}


def _build_closing(reply: AssistantMessage) -> Sequence[Json]:
    """Return a closing text for a reply that ends in a thought, because it was cut off or empty.

    The provider refuses a thought as the last block.
    """
    last = next(reversed(reply.content), None)
    return [_UNSAID] if isinstance(last, Thinking) and reply.stop != "paused" else []


def _mark_cached(turn: dict[str, Json], marker: dict[str, Json]) -> dict[str, Json]:
    content = turn["content"]
    *blocks, last = content if isinstance(content, list) else [{}]
    marked = {**last, "cache_control": marker} if isinstance(last, dict) else last
    return {**turn, "content": [*blocks, marked]}


def _encode_blocks(message: UserMessage | ToolMessage) -> Iterable[dict[str, Json]]:
    if isinstance(message, UserMessage):
        return map(_encode_part, message.content)
    return map(_encode_result, message.results)


def _encode_result(result: ToolResult) -> dict[str, Json]:
    block: dict[str, Json] = {
        "type": "tool_result",
        "tool_use_id": result.call_id,
        "content": [_encode_part(part) for part in result.content],
    }
    return block | {"is_error": True} if result.status == "error" else block


def _encode_part(part: Text | Image | Document) -> dict[str, Json]:
    if isinstance(part, Text):
        return {"type": "text", "text": part.text}
    source: Json = {"type": "base64", "media_type": part.media_type, "data": part.data}
    if isinstance(part, Document):
        return {"type": "document", "source": source, "title": part.name}
    return {"type": "image", "source": source}


def _restore_block(block: Block) -> Json:
    """Return a block as it was received. The echo holds what the neutral form cannot."""
    match block:
        case Text():
            return {"type": "text", "text": block.text, **_read_extras(block)}
        case ToolCall():
            return {
                "type": "tool_use",
                "id": block.id,
                "name": block.name,
                "input": wrap_arguments(block.input),
                **_read_extras(block),
            }
        case Thinking() | Opaque():
            return _read_extras(block)


def _read_extras(block: Block) -> dict[str, Json]:
    data = block.echo.data if block.echo else None
    return data if isinstance(data, dict) else {}
