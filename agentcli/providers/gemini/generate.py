"""Gemini's generateContent: encoding a neutral request, and where to send it.

A reply is sent back part by part as it came, with every signature on its own part. All results of
the calls of a turn are in the one user turn right after it, in the order of the calls.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from operator import eq
from typing import Any
from urllib.parse import quote

from agentcli.providers.arguments import wrap_arguments
from agentcli.providers.dialect import TOOLS_KEPT, Exchange, Model, encode_part, join_runs
from agentcli.providers.gemini import provider_tools
from agentcli.providers.gemini.errors import read_error
from agentcli.providers.gemini.generate_reply import PROTOCOL, TOKEN, GenerateDecoder
from agentcli.providers.gemini.provider_tools import declare_in_generate
from agentcli.providers.gemini.values import (
    UNSIGNED,
    as_mapping,
    as_string,
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

HISTORY_KEY = "contents"

Turn = dict[str, Any]

_MODES = {"required": "ANY", "none": "NONE"}


def _build_path(model: Model) -> str:
    name = model.name if "/" in model.name else f"models/{model.name}"
    return f"/v1beta/{quote(name)}:streamGenerateContent?alt=sse"


def build_headers(key: str | None) -> dict[str, str]:
    return {"x-goog-api-key": key} if key else {}


def open_exchange(model: Model, key: str | None) -> Exchange:
    return Exchange(
        path=_build_path(model),
        headers=build_headers(key),
        decoder=GenerateDecoder(model),
    )


def encode(
    request: Request, model: Model, *, start: int = 0, end: int | None = None
) -> dict[str, Json]:
    messages, token = _resume(request.messages, model)
    turns = encode_part(_encode_turn, messages, model=model, start=start, end=end)
    body: dict[str, Json] = {"contents": _join_neighbours(turns)}
    if request.system.strip():
        body["systemInstruction"] = {"parts": [{"text": request.system}]}
    body |= _encode_tools(request, model)
    if generation := _encode_generation(request, model):
        body["generationConfig"] = generation
    if token is not None:
        body["continuationToken"] = token
    return body


def _encode_tools(request: Request, model: Model) -> dict[str, Json]:
    declared = find_request_tools(request, model)
    hosted = declare_in_generate(declared.hosted)
    if declared.has_computer:
        hosted.append(provider_tools.IN_GENERATE)
    if not declared.own:
        return {"tools": hosted} if hosted else {}
    functions: Json = {"functionDeclarations": [_declare_tool(tool) for tool in declared.own]}
    calling = _encode_calling(request, model, has_hosted=bool(declared.hosted))
    config: dict[str, Json] = {"functionCallingConfig": calling}
    if declared.hosted:
        # The service's own calls must go back together with ours, so it must show them.
        config["includeServerSideToolInvocations"] = True
    return {"tools": [functions, *hosted], "toolConfig": config}


def _resume(messages: Sequence[Message], model: Model) -> tuple[Sequence[Message], Json]:
    """Return the messages without a paused reply at the end, and its continuation token.

    To continue a paused reply, the same request is sent again with the token.
    """
    token: Json = None
    while messages and isinstance(last := messages[-1], AssistantMessage) and last.stop == "paused":
        if is_own(last.echo, model) and isinstance(last.echo.data, dict):
            token = token or last.echo.data.get(TOKEN)
        messages = messages[:-1]
    return messages, token


@lru_cache(maxsize=TOOLS_KEPT)
def _declare_tool(tool: ToolSpec) -> Json:
    return {
        "name": encode_name(tool.name),
        "description": tool.description,
        # The older `parameters` knows only a part of OpenAPI and rejects `$ref`, `const`, `oneOf`.
        "parametersJsonSchema": with_object_root(tool.schema),
    }


def _encode_calling(request: Request, model: Model, *, has_hosted: bool) -> Json:
    choice = request.tool_choice
    if choice == "auto" or (choice != "none" and not model.forced_tool_choice):
        is_checked = is_validated(request.tools, model) or has_hosted
        return {"mode": "VALIDATED" if is_checked else "AUTO"}
    if choice in _MODES:
        return {"mode": _MODES[choice]}
    return {"mode": "ANY", "allowedFunctionNames": [encode_name(choice)]}


def _encode_generation(request: Request, model: Model) -> dict[str, Json]:
    """Return the generation settings.

    Set no output limit unless one is requested: it would end a long reply that may be continued.
    """
    made: dict[str, Json] = {}
    if request.output_limit_tokens is not None:
        made["maxOutputTokens"] = request.output_limit_tokens
    if model.thinking:
        thinking: dict[str, Json] = {"includeThoughts": True}
        level = choose_thinking_level(request.effort or model.effort)
        if level and is_signing(model):
            thinking["thinkingLevel"] = level.upper()
        made["thinkingConfig"] = thinking
    if schema := find_answer_schema(request, model):
        made |= {"responseMimeType": "application/json", "responseJsonSchema": schema}
    return made


def _join_neighbours(turns: list[Turn]) -> list[Json]:
    """Return turns that alternate between user and model; join neighbours of the same role."""
    roles = [turn["role"] for turn in turns]
    return [*join_runs(turns, bytes(map(eq, roles, roles[1:])) + b"\0", join=_join_turns)]


def _join_turns(*run: Turn) -> Turn:
    return {**run[0], "parts": [part for turn in run for part in turn["parts"]]}


def _encode_turn(message: Message, before: Message | None, model: Model) -> Sequence[Turn]:
    """Return at most one turn; none for a reply that is only the thinking of another model."""
    parts = _encode_parts(message, before, model=model)
    role = "model" if isinstance(message, AssistantMessage) else "user"
    return [{"role": role, "parts": parts}] if parts else []


def _encode_parts(message: Message, before: Message | None, *, model: Model) -> list[Json]:
    match message:
        case UserMessage():
            return [_make_part(block) for block in message.content]
        case AssistantMessage():
            return _encode_reply(message, model)
        case ToolMessage():
            calls = _encode_calls(before, model) if isinstance(before, AssistantMessage) else {}
            return _encode_answers(message.results, calls, model=model)


def _make_part(block: Text | Image | Document) -> Json:
    return {"text": block.text} if isinstance(block, Text) else _encode_media(block)


def _encode_media(media: Image | Document) -> Json:
    return {"inlineData": {"mimeType": media.media_type, "data": media.data}}


def _encode_reply(message: AssistantMessage, model: Model) -> list[Json]:
    """Return the parts of a reply. The first call of a turn must have a signature."""
    unsigned = {"thoughtSignature": UNSIGNED} if is_signing(model) else {}
    calls = _encode_calls(message, model)
    parts: list[Json] = []
    for block in message.content:
        if isinstance(block, ToolCall):
            signed = _find_own_part(block, model) or unsigned
            parts.append({**signed, "functionCall": dict(calls[block.id])})
            unsigned = {}
        elif is_own(block.echo, model):
            parts.append(block.echo.data)
        elif isinstance(block, Text):
            parts.append({"text": block.text})
    return parts


def _encode_calls(message: AssistantMessage, model: Model) -> Mapping[str, Mapping[str, Json]]:
    """Return the calls of a reply as they are sent, by our ids.

    A call goes back with the id that the model gave it, unless another has it: then with ours.
    """
    made: dict[str, Mapping[str, Json]] = {}
    taken: set[str] = set()
    for call in message.tool_calls:
        written = _encode_call(call, model)
        given = as_string(written.get("id"))
        made[call.id] = {**written, "id": call.id} if given in taken else written
        taken |= {given} - {""}
    return made


def _encode_call(call: ToolCall, model: Model) -> Mapping[str, Json]:
    """Return the call as it is sent. Its result must have the same id and name."""
    written = _find_own_part(call, model).get("functionCall")
    if isinstance(written, dict):
        return write_call(call, written)
    return {"id": call.id, "name": call.name, "args": wrap_arguments(call.input)}


def _find_own_part(call: ToolCall, model: Model) -> dict[str, Json]:
    return as_mapping(call.echo.data) if is_own(call.echo, model) else {}


def _encode_answers(
    results: Sequence[ToolResult], calls: Mapping[str, Mapping[str, Json]], *, model: Model
) -> list[Json]:
    """Return the results. Media go inside their result if the model accepts that, else last."""
    answers: list[Json] = []
    beside: list[Json] = []
    for result in results:
        call = calls.get(result.call_id, {"id": result.call_id, "name": result.name})
        answer: dict[str, Json] = {key: call[key] for key in ("id", "name") if call.get(key)}
        media = [_encode_media(block) for block in result.content if not isinstance(block, Text)]
        texts = [block.text for block in result.content if isinstance(block, Text)]
        outcome = "output" if result.status == "ok" else "error"
        answer["response"] = {
            outcome: "\n".join(texts) or "The image is attached.",
            **provider_tools.confirm(as_mapping(call.get("args")), result),
        }
        if media and is_signing(model):
            answer["parts"] = list(media)
        else:
            beside.extend(media)
        answers.append({"functionResponse": answer})
    return answers + beside
