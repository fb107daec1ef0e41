"""The Responses protocol: items in, items out.

Stateless by default: nothing is stored, and the model's own items are sent back whole and in order.
A reasoning item is sent with the item it led to or not at all. An item whose reasoning cannot be
sent is sent without its id. The reason is that the provider looks for the other half of either.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache

from agentcli.providers.arguments import wrap_arguments
from agentcli.providers.dialect import STORED, TOOLS_KEPT, Exchange, Model, encode_part
from agentcli.providers.normalize import RequestTools, find_request_tools
from agentcli.providers.openai import provider_tools
from agentcli.providers.openai.content import (
    build_answer_format,
    build_data_url,
    build_result_content,
    build_result_text,
    dump_compact,
    encode_service_tier,
)
from agentcli.providers.openai.errors import read_error
from agentcli.providers.openai.provider_tools import declare_hosted, list_included
from agentcli.providers.openai.responses_items import (
    PATCH_FIELD,
    PROTOCOL,
    SEARCH_CALL,
    SEARCH_TOOL,
)
from agentcli.providers.openai.responses_reply import ResponsesDecoder
from agentcli.providers.strict import OPENAI, build_strict_schema, with_object_root
from agentcli.types.computer import COMPUTER
from agentcli.types.messages import (
    AssistantMessage,
    Document,
    Echo,
    Image,
    Json,
    Opaque,
    Text,
    Thinking,
    ToolCall,
    UserMessage,
)
from agentcli.types.provider import Message, Request, ToolChoice
from agentcli.types.tools import ToolMessage, ToolResult, ToolSpec

# Tools in the Responses protocol: declared at the start, or loaded when they are found.


Item = dict[str, Json]

FOUND = "found"
"""The type of our own item that holds tool names. In a request, the tools replace it."""


def _declare_tools(declared: RequestTools, model: Model) -> Iterator[Json]:
    """Yield the tools, without those that the provider loads when they are found."""
    names = {spec.name for spec in declared.hidden}
    for spec in declared.own:
        if names and spec.name == SEARCH_TOOL:
            yield {
                "type": "tool_search",
                "execution": "client",
                "description": spec.description,
                "parameters": with_object_root(spec.schema),
            }
        elif spec.name not in names:
            yield _encode_tool(spec, model)


def make_loaded_item(item: Item, deferred: tuple[ToolSpec, ...], *, model: Model) -> Item:
    """Return the result of a search, with the tools that are still available."""
    specs = {spec.name: spec for spec in deferred}
    names = item["names"] if isinstance(item["names"], list) else []
    found = [specs[name] for name in names if isinstance(name, str) and name in specs]
    return {
        "type": "tool_search_output",
        "call_id": item["call_id"],
        "execution": "client",
        "status": "completed",
        "tools": [{**_encode_tool(spec, model), "defer_loading": True} for spec in found],
    }


@lru_cache(maxsize=TOOLS_KEPT)
def _encode_tool(spec: ToolSpec, model: Model) -> Item:
    if _is_custom(spec, model):
        grammar: Json = {"type": "grammar", "syntax": "lark", "definition": spec.grammar}
        return {
            "type": "custom",
            "name": spec.name,
            "description": spec.description,
            "format": grammar,
        }
    subset = build_strict_schema(spec, OPENAI, model=model)
    return {
        "type": "function",
        "name": spec.name,
        "description": spec.description,
        "parameters": with_object_root(spec.schema) if subset is None else subset,
        "strict": subset is not None,
    }


def _is_custom(spec: ToolSpec, model: Model) -> bool:
    return model.patch_tool and bool(spec.grammar)


def encode_choice(choice: ToolChoice, tools: Sequence[ToolSpec], *, model: Model) -> Json:
    if choice in ("auto", "none"):
        return choice
    if not model.forced_tool_choice:
        return "auto"
    if choice == "required":
        return choice
    is_custom = any(spec.name == choice and _is_custom(spec, model) for spec in tools)
    return {"type": "custom" if is_custom else "function", "name": choice}


__all__ = [
    "HISTORY_KEY",
    "PROTOCOL",
    "build_headers",
    "encode",
    "open_exchange",
    "read_error",
]

HISTORY_KEY = "input"

LEAST_OUTPUT_TOKENS = 16
CACHE_KEY_CHARS = 64

PATCH_TOOL = "apply_patch"


def build_headers(key: str | None) -> dict[str, str]:
    return {"authorization": f"Bearer {key}"} if key else {}


def open_exchange(model: Model, key: str | None) -> Exchange:
    return Exchange(
        path="/v1/responses",
        headers=build_headers(key),
        decoder=ResponsesDecoder(model),
    )


def encode(
    request: Request, model: Model, *, start: int = 0, end: int | None = None
) -> dict[str, Json]:
    is_stored = STORED in model.quirks
    continued, start = _find_continuation(request.messages) if is_stored else (None, start)
    body: dict[str, Json] = {
        "model": model.name,
        "input": [
            make_loaded_item(item, request.deferred, model=model)
            if item.get("type") == FOUND
            else item
            for item in encode_part(
                _encode_items, request.messages, model=model, start=start, end=end
            )
        ],
        "stream": True,
        "store": is_stored,
    }
    if continued is not None:
        body["previous_response_id"] = continued
    if request.system:
        body["instructions"] = request.system
    declared = find_request_tools(request, model)
    hosted = declared.hosted
    own = provider_tools.DECLARATIONS if declared.has_computer else ()
    if request.tools or hosted or own:
        body["tools"] = [*_declare_tools(declared, model), *declare_hosted(hosted), *own]
        body["tool_choice"] = encode_choice(request.tool_choice, request.tools, model=model)
        body["parallel_tool_calls"] = request.parallel
    body |= _encode_reasoning(request, model)
    # What the provider does not store must come to us: thoughts encrypted, calls with results.
    sealed = ["reasoning.encrypted_content"] if model.thinking and not is_stored else []
    if included := [*sealed, *list_included(hosted)]:
        body["include"] = included
    if answer := build_answer_format(request, model):
        body["text"] = {"format": {"type": "json_schema", **answer}}
    if request.output_limit_tokens is not None:
        body["max_output_tokens"] = max(LEAST_OUTPUT_TOKENS, request.output_limit_tokens)
    body |= encode_service_tier(request)
    if request.session:
        body["prompt_cache_key"] = request.session[:CACHE_KEY_CHARS]
    return body


def _find_continuation(messages: Sequence[Message]) -> tuple[str | None, int]:
    """Return the id of the last response the provider has, and the index of the first new message.

    Return (None, 0) if the provider knows a call of it by another id than ours. Then the whole
    conversation is sent."""
    for position in range(len(messages) - 1, -1, -1):
        message = messages[position]
        if isinstance(message, AssistantMessage) and message.echo is not None:
            knows = all(
                _read_own(call.echo).get("call_id") == call.id for call in message.tool_calls
            )
            return (str(message.echo.data), position + 1) if knows else (None, 0)
    return None, 0


def _encode_reasoning(request: Request, model: Model) -> dict[str, Json]:
    if not model.thinking:
        return {}
    effort = request.effort or model.effort
    wanted: dict[str, Json] = {"effort": effort} if effort else {}
    return {"reasoning": {**wanted, "summary": "auto"}}


def _encode_items(message: Message, before: Message | None, model: Model) -> Sequence[Item]:
    """Return the items of a message. The type of a result depends on the call before it."""
    match message:
        case UserMessage():
            return [{"type": "message", "role": "user", "content": _encode_parts(message.content)}]
        case AssistantMessage():
            return _encode_reply(message, model)
        case ToolMessage():
            return _encode_answers(message, before, model=model)


def _encode_parts(content: Sequence[Text | Image | Document]) -> list[Json]:
    return [_encode_part(block) for block in content]


def _encode_part(block: Text | Image | Document) -> Json:
    match block:
        case Text():
            return {"type": "input_text", "text": block.text}
        case Image():
            return {"type": "input_image", "image_url": build_data_url(block), "detail": "auto"}
        case Document():
            return {
                "type": "input_file",
                "filename": block.name,
                "file_data": build_data_url(block),
            }


def _encode_answers(message: ToolMessage, reply: Message | None, *, model: Model) -> Sequence[Item]:
    calls = reply.tool_calls if isinstance(reply, AssistantMessage) else ()
    items = {call.id: _encode_call(call, model) for call in calls}
    answers = [
        item
        for result in message.results
        for item in _list_answers(result, items.get(result.call_id, {}))
    ]
    # What is said of a result comes after all results: none may wait for it.
    return sorted(answers, key=lambda item: item["type"] == "message")


def _list_answers(result: ToolResult, call: Item) -> Sequence[Item]:
    if call.get("type") == provider_tools.CALL:
        return provider_tools.make_answers(result, call)
    if call.get("type") == SEARCH_CALL:
        return [{"type": FOUND, "call_id": result.call_id, "names": [*result.found]}]
    answer: Item = {
        "type": f"{call.get('type', 'function_call')}_output",
        "call_id": result.call_id,
        "output": _encode_output(result),
    }
    # A program waits for the result; `caller` tells it apart from the model.
    return [{**answer, "caller": call["caller"]} if "caller" in call else answer]


def _encode_output(result: ToolResult) -> Json:
    if not all(isinstance(block, Text) for block in result.content):
        return _encode_parts(build_result_content(result))
    return build_result_text(result)


def _encode_reply(reply: AssistantMessage, model: Model) -> Sequence[Item]:
    items: list[Item] = []
    reasoning: list[Item] = []
    with_ids = True
    for block in reply.content:
        if not isinstance(block, Thinking):
            item = _encode_item(block, model, with_id=with_ids)
            is_own = with_ids and block.echo is not None
            items += [*reasoning, item] if is_own else [item]
            reasoning = []
        elif _can_send(block, model):
            reasoning.append(_read_own(block.echo))
        else:
            with_ids = False
    return items


def _can_send(thought: Thinking, model: Model) -> bool:
    """Return whether a thought can be sent back.

    Without its content, encrypted or plain, it is only the id of something that nobody stored.
    """
    item = _read_own(thought.echo)
    has_content = bool(item.get("encrypted_content") or item.get("content"))
    return has_content or ("id" in item and STORED in model.quirks)


def _read_own(echo: Echo | None) -> Item:
    """Return the item as the provider sent it; empty if the reply is another provider's."""
    return dict(echo.data) if echo is not None and isinstance(echo.data, dict) else {}


def _encode_item(block: Text | ToolCall | Opaque, model: Model, *, with_id: bool) -> Item:
    match block:
        case ToolCall():
            item = _encode_call(block, model)
            return item if with_id else _without(item, "id", "status")
        case Text():
            own = _read_own(block.echo)
            return own if with_id and own else _make_message(block.text, own.get("phase"))
        case Opaque():
            return _read_own(block.echo)


def _make_message(text: str, phase: Json) -> Item:
    item: Item = {"type": "message", "role": "assistant", "content": text}
    return {**item, "phase": phase} if phase else item


def _encode_call(call: ToolCall, model: Model) -> Item:
    own = _read_own(call.echo)
    if own.get("type") in (SEARCH_CALL, provider_tools.CALL) or (call.name == COMPUTER and own):
        return {**own, "call_id": call.id}
    if own:
        return {**own, "call_id": call.id, "name": call.name}
    if call.name == SEARCH_TOOL and model.loads_tools:
        return {
            "type": SEARCH_CALL,
            "call_id": call.id,
            "execution": "client",
            "status": "completed",
            "arguments": wrap_arguments(call.input),
        }
    match call.input:
        case dict(arguments) if _is_patch(call.name, arguments, model=model):
            given: Item = {"type": "custom_tool_call", "input": arguments[PATCH_FIELD]}
        case str(arguments):
            given = {"type": "function_call", "arguments": arguments}
        case arguments:
            given = {"type": "function_call", "arguments": dump_compact(arguments)}
    return {**given, "call_id": call.id, "name": call.name}


def _is_patch(name: str, arguments: Mapping[str, Json], *, model: Model) -> bool:
    is_text = isinstance(arguments.get(PATCH_FIELD), str)
    return model.patch_tool and name == PATCH_TOOL and is_text


def _without(item: Item, *keys: str) -> Item:
    return {key: value for key, value in item.items() if key not in keys}
