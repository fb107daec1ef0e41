"""Chat Completions, for OpenAI and for every server that imitates it.

Optional fields are left out, since a server may reject what it does not know. Results come right
after their calls. Images among them follow in a user message, because only there images are
allowed. Adjacent user messages become one: many templates demand that the roles alternate.
"""

from collections.abc import Sequence
from functools import lru_cache
from operator import and_

from agentcli.providers.dialect import TOOLS_KEPT, Exchange, Model, join_runs
from agentcli.providers.openai.chat_quirks import (
    MAX_COMPLETION_TOKENS,
    MAX_TOKENS,
    NO_EFFORT,
    NO_NULL_CONTENT,
    NO_PARALLEL_SWITCH,
    NO_REASONING_BACK,
    NO_STREAM_USAGE,
    NO_STRICT,
    NO_TOOL_CHOICE,
    REASONING_BACK,
)
from agentcli.providers.openai.chat_reply import ARGUMENTS, EXTRA, PROTOCOL, ChatDecoder
from agentcli.providers.openai.content import (
    build_answer_format,
    build_data_url,
    build_result_text,
    dump_compact,
    encode_service_tier,
)
from agentcli.providers.openai.errors import read_error
from agentcli.providers.strict import OPENAI, build_strict_schema, with_object_root
from agentcli.system.lazy import compile_later
from agentcli.types.messages import (
    AssistantMessage,
    Content,
    Document,
    Image,
    Json,
    Text,
    Thinking,
    ToolCall,
    UserMessage,
)
from agentcli.types.provider import Message, Request, ToolChoice
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

IMAGE_FOLLOWS = "(see the image below)"

_NO_EFFORT_FROM = (5, 6)
"""The first version of GPT that refuses tools in this protocol unless the effort is none."""

_GPT = compile_later(r"gpt-(\d+)(?:\.(\d+))?(?![\w])")


def build_headers(key: str | None) -> dict[str, str]:
    return {"authorization": f"Bearer {key}"} if key else {}


def open_exchange(model: Model, key: str | None) -> Exchange:
    return Exchange(
        path="/v1/chat/completions",
        headers=build_headers(key),
        decoder=ChatDecoder(model),
    )


def encode(
    request: Request, model: Model, *, start: int = 0, end: int | None = None
) -> dict[str, Json]:
    messages = [
        item for message in request.messages[start:end] for item in _encode_message(message, model)
    ]
    body: dict[str, Json] = {
        "model": model.name,
        "messages": [
            *(_encode_system(request.system) if start == 0 else ()),
            *_join_users(messages),
        ],
        "stream": True,
    }
    if NO_STREAM_USAGE not in model.quirks:
        body["stream_options"] = {"include_usage": True}
    if request.tools:
        body["tools"] = [_encode_tool(spec, model) for spec in request.tools]
        if (choice := _encode_tool_choice(request.tool_choice, model)) != "auto":
            body["tool_choice"] = choice
        if not request.parallel and NO_PARALLEL_SWITCH not in model.quirks:
            body["parallel_tool_calls"] = False
    body |= encode_service_tier(request)
    if effort := _choose_effort(request, model):
        body["reasoning_effort"] = effort
    if answer := build_answer_format(request, model):
        body["response_format"] = {"type": "json_schema", "json_schema": answer}
    if request.output_limit_tokens is not None:
        is_old = MAX_TOKENS in model.quirks and MAX_COMPLETION_TOKENS not in model.quirks
        name = "max_tokens" if is_old else "max_completion_tokens"
        body[name] = request.output_limit_tokens
    return body


def _choose_effort(request: Request, model: Model) -> str | None:
    if NO_EFFORT in model.quirks:
        return None
    gpt = _GPT.match(model.name)
    version = (int(gpt[1]), int(gpt[2] or 0)) if gpt else (0, 0)
    if request.tools and version >= _NO_EFFORT_FROM:
        return "none"
    return (request.effort or model.effort) if model.thinking else None


@lru_cache(maxsize=TOOLS_KEPT)
def _encode_tool(spec: ToolSpec, model: Model) -> Json:
    subset = None if NO_STRICT in model.quirks else build_strict_schema(spec, OPENAI, model=model)
    function: dict[str, Json] = {
        "name": spec.name,
        "description": spec.description,
        "parameters": with_object_root(spec.schema) if subset is None else subset,
    }
    if subset is not None:
        function["strict"] = True
    return {"type": "function", "function": function}


def _encode_tool_choice(choice: ToolChoice, model: Model) -> Json:
    if choice == "auto" or (choice == "none" and NO_TOOL_CHOICE not in model.quirks):
        return choice
    if not model.forced_tool_choice or NO_TOOL_CHOICE in model.quirks:
        return "auto"
    if choice == "required":
        return choice
    return {"type": "function", "function": {"name": choice}}


def _encode_system(text: str) -> list[dict[str, Json]]:
    return [{"role": "system", "content": text}] if text else []


def _join_users(messages: list[dict[str, Json]]) -> list[dict[str, Json]]:
    is_user = bytes([message["role"] == "user" for message in messages])
    return join_runs(messages, bytes(map(and_, is_user, is_user[1:])) + b"\0", join=_join_contents)


def _join_contents(*run: dict[str, Json]) -> dict[str, Json]:
    contents = [message["content"] for message in run]
    texts = [content for content in contents if isinstance(content, str)]
    if len(texts) == len(contents):
        return {"role": "user", "content": "\n\n".join(texts)}
    return {
        "role": "user",
        "content": [part for content in contents for part in _list_parts(content)],
    }


def _list_parts(content: Json) -> list[Json]:
    return content if isinstance(content, list) else [{"type": "text", "text": content}]


def _encode_message(message: Message, model: Model) -> Sequence[dict[str, Json]]:
    match message:
        case UserMessage():
            return [{"role": "user", "content": _encode_content(message.content)}]
        case AssistantMessage():
            return _encode_reply(message, model)
        case ToolMessage():
            return [*map(_encode_answer, message.results), *_encode_images(message.results)]


def _encode_content(content: Sequence[Text | Image] | Content) -> Json:
    if any(isinstance(block, Image) for block in content):
        return [_encode_part(block) for block in content if not isinstance(block, Document)]
    # The templates of local models take a string; not all of them take parts.
    return "\n\n".join(block.text for block in content if isinstance(block, Text))


def _encode_part(block: Text | Image) -> Json:
    match block:
        case Text():
            return {"type": "text", "text": block.text}
        case Image():
            return {"type": "image_url", "image_url": {"url": build_data_url(block)}}


def _encode_reply(reply: AssistantMessage, model: Model) -> Sequence[dict[str, Json]]:
    text = "\n\n".join(block.text for block in reply.content if isinstance(block, Text))
    calls: list[Json] = [_encode_call(call) for call in reply.tool_calls]
    if not calls and not text:
        return []
    nothing = "" if NO_NULL_CONTENT in model.quirks else None
    message: dict[str, Json] = {"role": "assistant", "content": text or nothing}
    if calls:
        message["tool_calls"] = calls
    return [message | _encode_reasoning(reply, model)]


def _encode_reasoning(reply: AssistantMessage, model: Model) -> dict[str, Json]:
    """Return the reasoning, under the field names that the server used.

    Most servers want it only with the calls that it led to.
    """
    is_wanted = REASONING_BACK in model.quirks
    if NO_REASONING_BACK in model.quirks or not (reply.tool_calls or is_wanted):
        return {}
    fields: dict[str, Json] = {}
    for block in reply.content:
        if isinstance(block, Thinking) and block.echo and isinstance(block.echo.data, dict):
            fields |= block.echo.data
    return fields or ({"reasoning_content": ""} if is_wanted else {})


def _encode_call(call: ToolCall) -> Json:
    own = call.echo.data if call.echo and isinstance(call.echo.data, dict) else {}
    # Servers pass the arguments we send back to a template that must parse them as an object.
    arguments = dump_compact(call.input) if isinstance(call.input, dict) else "{}"
    made: dict[str, Json] = {
        "id": call.id,
        "type": "function",
        "function": {"name": call.name, "arguments": own.get(ARGUMENTS, arguments)},
    }
    if EXTRA in own:
        made[EXTRA] = own[EXTRA]
    return made


def _encode_answer(result: ToolResult) -> dict[str, Json]:
    return {
        "role": "tool",
        "tool_call_id": result.call_id,
        "content": build_result_text(result) or IMAGE_FOLLOWS,
    }


def _encode_images(results: Sequence[ToolResult]) -> Sequence[dict[str, Json]]:
    parts: list[Json] = []
    for result in results:
        images = [_encode_part(block) for block in result.content if isinstance(block, Image)]
        if images:
            parts += [{"type": "text", "text": f"From {result.name}:"}, *images]
    return [{"role": "user", "content": parts}] if parts else []
