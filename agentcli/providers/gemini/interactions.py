"""Gemini's Interactions protocol: encoding a neutral request, and where to send it.

By default the service stores nothing: every request has the whole conversation as steps, and the
steps of a reply are sent back as they came. For a model with the quirk `stored`, the service stores
the conversation, and each request has only what is new after the reply it continues. Compaction on
our side does not shorten the stored conversation.
"""

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache

from agentcli.providers.arguments import wrap_arguments
from agentcli.providers.dialect import STORED, TOOLS_KEPT, Exchange, Model, encode_part
from agentcli.providers.gemini import provider_tools
from agentcli.providers.gemini.errors import read_error
from agentcli.providers.gemini.interactions_reply import PROTOCOL, InteractionsDecoder
from agentcli.providers.gemini.provider_tools import declare_in_interactions
from agentcli.providers.gemini.values import (
    UNSIGNED,
    as_mapping,
    choose_thinking_level,
    is_signing,
    is_validated,
    write_call,
)
from agentcli.providers.normalize import encode_name, find_request_tools, is_own
from agentcli.providers.strict import find_answer_schema, with_object_root
from agentcli.types.messages import (
    AssistantMessage,
    Document,
    Image,
    Json,
    Text,
    ToolCall,
    UserMessage,
)
from agentcli.types.provider import Message, Request
from agentcli.types.tools import ToolMessage, ToolResult, ToolSpec

__all__ = [
    "HISTORY_KEY",
    "PROTOCOL",
    "build_headers",
    "encode",
    "open_exchange",
    "read_error",
]

HISTORY_KEY = "input"

_REVISION = "2026-05-20"
_CHOICES = {"required": "any", "none": "none"}


def build_headers(key: str | None) -> dict[str, str]:
    credential = {"x-goog-api-key": key} if key else {}
    return {"Api-Revision": _REVISION, **credential}


def open_exchange(model: Model, key: str | None) -> Exchange:
    return Exchange(
        path="/v1beta/interactions",
        headers=build_headers(key),
        decoder=InteractionsDecoder(model),
    )


def encode(
    request: Request, model: Model, *, start: int = 0, end: int | None = None
) -> dict[str, Json]:
    body: dict[str, Json] = {
        "model": model.name,
        "stream": True,
        "store": STORED in model.quirks,
        **_encode_conversation(request.messages, model, start=start, end=end),
    }
    if request.system.strip():
        body["system_instruction"] = request.system
    declared = find_request_tools(request, model)
    hosted = declare_in_interactions(declared.hosted)
    if declared.has_computer:
        hosted.append(provider_tools.IN_INTERACTIONS)
    if request.tools or hosted:
        body["tools"] = [*map(_declare_tool, declared.own), *hosted]
    if generation := _encode_generation(request, model):
        body["generation_config"] = generation
    if schema := find_answer_schema(request, model):
        body["response_format"] = {
            "type": "text",
            "mime_type": "application/json",
            "schema": schema,
        }
    return body


def _encode_conversation(
    messages: Sequence[Message], model: Model, *, start: int, end: int | None
) -> dict[str, Json]:
    """Return the steps, without a paused reply at the end: it is continued with its token."""
    token: Json = None
    paused_id: Json = None
    while messages and isinstance(last := messages[-1], AssistantMessage) and last.stop == "paused":
        token = token or _build_echo_fields(last, model).get("continuation_token")
        paused_id = paused_id or _build_echo_fields(last, model).get("id")
        messages = messages[:-1]
    made: dict[str, Json] = {} if token is None else {"continuation_token": token}
    is_stored = STORED in model.quirks
    if is_stored and paused_id is not None:
        return {**made, "previous_interaction_id": paused_id}
    if is_stored:
        start, kept_id = _find_stored(messages, model)
        made.update({"previous_interaction_id": kept_id} if kept_id else {})
    made["input"] = encode_part(_encode_steps, messages, model=model, start=start, end=end)
    return made


def _build_echo_fields(message: AssistantMessage, model: Model) -> dict[str, Json]:
    """Return the fields to send back for the reply as a whole."""
    if is_own(message.echo, model) and isinstance(message.echo.data, dict):
        return message.echo.data
    return {}


def _find_stored(messages: Sequence[Message], model: Model) -> tuple[int, Json]:
    """Return how many messages the service has, and the id of the last reply among them.

    Return (0, None) if the service knows a call of that reply by another id than ours. Then the
    whole conversation is sent."""
    for count in range(len(messages), 0, -1):
        message = messages[count - 1]
        if isinstance(message, AssistantMessage) and (
            kept := _build_echo_fields(message, model).get("id")
        ):
            knows = all(
                _find_original_call(call, model).get("id") == call.id for call in message.tool_calls
            )
            return (count, kept) if knows else (0, None)
    return 0, None


@lru_cache(maxsize=TOOLS_KEPT)
def _declare_tool(tool: ToolSpec) -> Json:
    return {
        "type": "function",
        "name": encode_name(tool.name),
        "description": tool.description,
        "parameters": with_object_root(tool.schema),
    }


def _encode_generation(request: Request, model: Model) -> dict[str, Json]:
    """Return the generation settings.

    Set no output limit unless one is requested: it would end a long reply that may be continued.
    """
    made: dict[str, Json] = {}
    if request.output_limit_tokens is not None:
        made["max_output_tokens"] = request.output_limit_tokens
    if model.thinking:
        made["thinking_summaries"] = "auto"
        if level := choose_thinking_level(request.effort or model.effort):
            made["thinking_level"] = level
    if request.tools:
        made["tool_choice"] = _encode_choice(request, model)
    return made


def _encode_choice(request: Request, model: Model) -> Json:
    choice = request.tool_choice
    if choice == "auto" or (choice != "none" and not model.forced_tool_choice):
        return "validated" if is_validated(request.tools, model) else "auto"
    if choice in _CHOICES:
        return _CHOICES[choice]
    return {"allowed_tools": {"mode": "any", "tools": [encode_name(choice)]}}


def _encode_steps(message: Message, before: Message | None, model: Model) -> list[Json]:
    match message:
        case UserMessage():
            content: list[Json] = [_encode_content(block) for block in message.content]
            return [{"type": "user_input", "content": content}]
        case AssistantMessage():
            return _encode_reply(message, model)
        case ToolMessage():
            calls = before.tool_calls if isinstance(before, AssistantMessage) else ()
            on_wire = {call.id: _encode_call(call, model) for call in calls}
            return [_encode_answer(result, on_wire) for result in message.results]


def _encode_content(block: Text | Image | Document) -> Json:
    if isinstance(block, Text):
        return {"type": "text", "text": block.text}
    return {"type": block.type, "mime_type": block.media_type, "data": block.data}


def _encode_reply(message: AssistantMessage, model: Model) -> list[Json]:
    """Return the steps of a reply. Add the thought that the service wants before foreign calls."""
    steps: list[Json] = []
    is_foreign = any(not is_own(call.echo, model) for call in message.tool_calls)
    if is_foreign and is_signing(model):
        steps.append({"type": "thought", "signature": UNSIGNED})
    for block in message.content:
        if isinstance(block, ToolCall):
            steps.append(dict(_encode_call(block, model)))
        elif is_own(block.echo, model):
            steps.append(block.echo.data)
        elif isinstance(block, Text):
            steps.append({"type": "model_output", "content": [_encode_content(block)]})
    return steps


def _encode_call(call: ToolCall, model: Model) -> Mapping[str, Json]:
    """Return the call as it is sent. Its result must have the same id and name."""
    if written := _find_original_call(call, model):
        return {**write_call(call, written), "id": call.id}
    arguments = wrap_arguments(call.input)
    return {"type": "function_call", "id": call.id, "name": call.name, "arguments": arguments}


def _find_original_call(call: ToolCall, model: Model) -> Mapping[str, Json]:
    return as_mapping(call.echo.data) if is_own(call.echo, model) else {}


def _encode_answer(result: ToolResult, calls: Mapping[str, Mapping[str, Json]]) -> Json:
    call = calls.get(result.call_id, {"id": result.call_id, "name": result.name})
    has_media = not all(isinstance(block, Text) for block in result.content)
    content: list[Json] = [_encode_content(block) for block in result.content]
    if confirmed := provider_tools.confirm(as_mapping(call.get("arguments")), result):
        content.append({"type": "text", "text": json.dumps(confirmed)})
    texts = [block.text for block in result.content if isinstance(block, Text)]
    answer: dict[str, Json] = {
        "type": "function_result",
        "call_id": call.get("id"),
        "name": call.get("name"),
        "result": content if has_media else "\n".join(texts),
    }
    return answer if result.status == "ok" else {**answer, "is_error": True}
