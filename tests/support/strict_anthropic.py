"""What Anthropic's API refuses, as far as its documentation and its 400s are known, and a bit more.

One checker sees all requests of one conversation: between two of them nothing but cache markers may
change in what was sent before.
"""

import base64
import json
import re
from collections.abc import Iterable, Iterator
from typing import Any, get_args

from tests.support.provider import Recorded, continues
from tests.support.sdk_types import load_type
from tests.support.strict_loading import faults

Body = dict[str, Any]

_BODY_KEYS = {
    "model", "max_tokens", "messages", "system", "tools", "tool_choice", "thinking",
    "output_config", "metadata", "stop_sequences", "stream", "service_tier", "cache_control",
    "container",
}  # fmt: skip
_TOOL_KEYS = {
    "name", "description", "input_schema", "strict", "cache_control", "type", "defer_loading",
}  # fmt: skip
_UNSUPPORTED_WHEN_STRICT = {
    "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength",
    "maxLength", "maxItems", "uniqueItems", "oneOf", "not", "if", "then", "else", "allOf",
    "patternProperties",
}  # fmt: skip
_HOSTED = {
    "web_search": ("web_search_20250305", {"type", "name"}),
    "web_fetch": ("web_fetch_20250910", {"type", "name", "citations"}),
    "code_execution": ("code_execution_20250825", {"type", "name"}),
}
"""The tools that the server runs itself: their type, and the fields of a declaration."""
_TOOLSET = "browser_toolset_20260801"
_NO_FORCED_CHOICE = ("claude-opus-5-5", "claude-fable-5")
_USER_BLOCKS = {"text", "image", "document", "tool_result"}
_UNCACHED = {"thinking", "redacted_thinking"}


class Refused(Exception):
    pass


class StrictAnthropic:
    """A `Checker`: what is wrong with a request, in the API's words."""

    def __init__(self) -> None:
        self._before: Body | None = None
        self.thinking: dict[str, str] = {}
        """Texts by signature, of replies a test wants echoed unchanged."""

    def __call__(self, request: Recorded) -> str | None:
        try:
            _check_http(request)
            body = request.json
            _check_body(body)
            _check_tools(body)
            _check_messages(body["messages"])
            _check_cache(body)
            for fault in faults(body):
                raise Refused(fault)
            self._check_thinking(body["messages"])
            self._check_prefix(body)
        except Refused as refused:
            return str(refused)
        self._before = body
        return None

    def _check_thinking(self, messages: list[Body]) -> None:
        for block in _blocks(messages):
            if block["type"] == "thinking":
                known = self.thinking.get(block["signature"], block["thinking"])
                _require(
                    block["thinking"] == known,
                    "thinking or redacted_thinking blocks in the latest assistant message cannot"
                    " be modified",
                )

    def _check_prefix(self, body: Body) -> None:
        if self._before is None:
            return
        # A forced call excludes thinking, so it may come and go with one.
        is_forced = any(map(_forces_call, (self._before, body)))
        keys = ("model", "system", "tools", "max_tokens", "output_config")
        for key in (*keys, *(() if is_forced else ("thinking",))):
            same = continues(key, _unmarked(self._before.get(key)), _unmarked(body.get(key)))
            _require(same, f"{key} changed in the middle of a conversation")
        if any(tool.get("defer_loading") for tool in body.get("tools", [])):
            same = _unmarked(self._before["tools"]) == _unmarked(body["tools"])
            _require(same, "tools changed, though all that can be found is declared")
        sent, now = _unmarked(self._before["messages"]), _unmarked(body["messages"])
        _require(now[: len(sent)] == sent, "earlier messages changed: the prefix is not the same")


def _list_members() -> frozenset[str]:
    """Return the members of the browser toolset."""
    return frozenset(get_args(load_type("anthropic.types", "BrowserMemberName")))


def _forces_call(body: Body) -> bool:
    return body.get("tool_choice", {}).get("type") in ("any", "tool")


def _require(is_fine: bool, message: str) -> None:
    if not is_fine:
        raise Refused(message)


def _check_http(request: Recorded) -> None:
    headers = request.headers
    _require(request.method == "POST", "Method Not Allowed")
    _require(request.path == "/v1/messages", f"Not found: {request.path}")
    _require("anthropic-version" in headers, "anthropic-version: header is required")
    _require(bool(headers.get("x-api-key") or headers.get("authorization")), "no API key")
    _require(headers.get("content-type", "").startswith("application/json"), "content-type")
    _require(len(request.body) < 32_000_000, "request too large")
    try:
        json.dumps(json.loads(request.body.decode("utf-8")), ensure_ascii=False).encode("utf-8")
    except UnicodeError:
        raise Refused("the request body is not valid JSON: no low surrogate in string") from None


def _check_body(body: Body) -> None:
    for key in body:
        _require(key in _BODY_KEYS, f"{key}: Extra inputs are not permitted")
    _require(isinstance(body.get("max_tokens"), int) and body["max_tokens"] > 0, "max_tokens")
    _require(body.get("stream") is True, "stream")
    for block in body.get("system", []):
        _require(set(block) <= {"type", "text", "cache_control"}, "system: Extra inputs")
        _require(block["text"].strip() != "", "system: text content blocks must be non-empty")
    thinking = body.get("thinking", {"type": "adaptive"})
    _require(thinking["type"] == "adaptive", "thinking.type")
    _require(set(thinking) <= {"type", "display"}, "thinking: Extra inputs")
    output = body.get("output_config", {})
    _require(set(output) <= {"effort", "format"}, "output_config: Extra inputs")
    effort = output.get("effort", "low")
    _require(effort in ("low", "medium", "high", "xhigh", "max"), "output_config.effort")
    if "format" in output:
        _require(output["format"]["type"] == "json_schema", "output_config.format.type")
        _check_strict_schema(output["format"]["schema"])


def _check_tools(body: Body) -> None:
    tools = body.get("tools")
    choice = body.get("tool_choice")
    _require(tools is None or tools != [], "tools: must not be empty")
    _require(choice is None or tools is not None, "tool_choice may only be given with tools")
    if choice is not None:
        forced = choice["type"] in ("any", "tool")
        _require(choice["type"] in ("auto", "any", "tool", "none"), "tool_choice.type")
        _require(not (forced and "thinking" in body), "Thinking may not be enabled when forced")
        _require(not (forced and body["model"].startswith(_NO_FORCED_CHOICE)), "tool_choice forced")
    for toolset in [tool for tool in tools or [] if "name" not in tool]:
        _require(toolset["type"] == _TOOLSET, f"tools: {toolset['type']}")
        _require(set(toolset) <= {"type", "configs", "cache_control"}, "toolset: Extra inputs")
        known = set(toolset.get("configs", {})) <= _list_members()
        _require(known, "toolset: configs: Extra inputs are not permitted")
    named = [tool for tool in tools or [] if "name" in tool]
    names = [tool["name"] for tool in named]
    _require(len(names) == len(set(names)), "tools: Tool names must be unique.")
    for tool in named:
        if "type" in tool:
            kind, keys = _HOSTED.get(tool["name"], ("", set[str]()))
            _require((tool["type"], set(tool)) == (kind, keys), f"tools.{tool['name']}: type")
            continue
        _require(set(tool) <= _TOOL_KEYS, f"tools.{tool['name']}: Extra inputs are not permitted")
        _require(bool(re.fullmatch(r"[a-zA-Z0-9_-]{1,128}", tool["name"])), "tools.name: pattern")
        schema = tool["input_schema"]
        _require(schema.get("type") == "object", "input_schema.type: must be object")
        unions = {"oneOf", "anyOf", "allOf"} & set(schema)
        _require(
            not unions, "input_schema does not support oneOf, allOf, or anyOf at the top level"
        )
        if tool.get("strict"):
            _check_strict_schema(schema)


def _check_strict_schema(schema: Body) -> None:
    for inner in _schemas(schema):
        _require(not _UNSUPPORTED_WHEN_STRICT & set(inner), "strict: unsupported keyword")
        if inner.get("type") == "object":
            _require(inner.get("additionalProperties") is False, "additionalProperties")


def _schemas(schema: Any) -> Iterator[Body]:
    if isinstance(schema, list):
        for item in schema:
            yield from _schemas(item)
    elif isinstance(schema, dict):
        yield schema
        for keyword, value in schema.items():
            inner = value.values() if keyword in ("properties", "$defs") else [value]
            for item in inner:
                yield from _schemas(item)


def _check_messages(messages: list[Body]) -> None:
    _require(bool(messages), "messages: at least one message is required")
    _require(messages[0]["role"] == "user", "messages: first message must use the user role")
    seen: set[str] = set()
    hosted: set[str] = set()
    waiting: list[str] = []
    for number, message in enumerate(messages):
        where = f"messages.{number}"
        _require(set(message) == {"role", "content"}, f"{where}: Extra inputs are not permitted")
        content = message["content"]
        _require(
            isinstance(content, list) and content != [], f"{where}: must have non-empty content"
        )
        if message["role"] == "user":
            _check_user(content, waiting, where=where)
            waiting = []
            hosted.clear()
        else:
            _require(not waiting, f"{where}: tool_use ids were found without tool_result blocks")
            waiting = _check_assistant(content, seen, hosted, where=where)
    _require(not waiting, "tool_use ids were found without tool_result blocks immediately after")
    is_paused = any(block["type"] == "server_tool_use" for block in messages[-1]["content"])
    is_prefill = messages[-1]["role"] == "assistant" and not is_paused
    _require(not is_prefill, "This model does not support assistant message prefill.")


def _check_user(content: list[Body], waiting: list[str], *, where: str) -> None:
    answered = [block["tool_use_id"] for block in content if block["type"] == "tool_result"]
    first = [block["type"] for block in content[: len(answered)]]
    _require(answered == waiting, f"{where}: unexpected tool_use_id, {answered} for {waiting}")
    _require(set(first) <= {"tool_result"}, f"{where}: tool_result blocks must come first")
    for block in content:
        _require(block["type"] in _USER_BLOCKS, f"{where}: {block['type']} is not for users")
        _check_part(block, where=where)
        if block["type"] == "tool_result":
            keys = {"type", "tool_use_id", "content", "is_error", "cache_control"}
            _require(set(block) <= keys, f"{where}: Extra inputs are not permitted")
            _require(
                bool(block["content"]), f"{where}: content cannot be empty if is_error is true"
            )
            for part in block["content"]:
                _check_part(part, where=where)


def _check_assistant(
    content: list[Body], seen: set[str], hosted: set[str], *, where: str
) -> list[str]:
    ids = []
    for block in content:
        _check_part(block, where=where)
        if block["type"] == "tool_use":
            _require(isinstance(block["input"], dict), f"{where}: input should be an object")
            _require(block["id"] not in seen, f"{where}: `tool_use` ids must be unique")
            _require(bool(re.fullmatch(r"[a-zA-Z0-9_-]+", block["id"])), f"{where}: id pattern")
            _require(bool(re.fullmatch(r"[a-zA-Z0-9_-]{1,128}", block["name"])), f"{where}: name")
            if block.get("toolset_name"):
                _require(block["name"] in _list_members(), f"{where}: no such member")
            seen.add(block["id"])
            ids.append(block["id"])
        if block["type"] == "thinking":
            _require(set(block) == {"type", "thinking", "signature"}, f"{where}: thinking fields")
            _require(bool(block["signature"]), f"{where}: Invalid signature in thinking block")
    _check_hosted(content, hosted, where=where)
    is_open = content[-1]["type"] in _UNCACHED
    _require(not is_open, f"{where}: The final block in an assistant message cannot be `thinking`")
    return ids


def _check_hosted(content: list[Body], called: set[str], *, where: str) -> None:
    """Every result follows its call, which may be in the paused reply that this one continues."""
    called |= {block["id"] for block in content if block["type"] == "server_tool_use"}
    for block in content:
        if block["type"] != "tool_result" and "tool_use_id" in block:
            _require(block["tool_use_id"] in called, f"{where}: unexpected `tool_use_id`")
        found = block["content"] if block["type"] == "web_search_tool_result" else []
        for result in found if isinstance(found, list) else []:
            _require("encrypted_content" in result, f"{where}: encrypted_content: Field required")


def _check_part(part: Body, *, where: str) -> None:
    if part["type"] == "text":
        _require(part["text"].strip() != "", f"{where}: text content blocks must be non-empty")
    if part["type"] == "image":
        source = part["source"]
        _require(source["media_type"].startswith("image/"), f"{where}: media_type")
        base64.b64decode(source["data"], validate=True)
    if part["type"] == "document":
        _require(part["source"]["media_type"] == "application/pdf", f"{where}: media_type")
        base64.b64decode(part["source"]["data"], validate=True)


def _check_cache(body: Body) -> None:
    holders = [*body.get("system", []), *body.get("tools", []), *_blocks(body["messages"])]
    marked = [it for it in holders if "cache_control" in it]
    _require(len(marked) <= 4, "A maximum of 4 blocks with cache_control may be provided.")
    for holder in marked:
        _require(holder.get("type") not in _UNCACHED, "cache_control: not on thinking blocks")


def _blocks(messages: Iterable[Body]) -> Iterator[Body]:
    for message in messages:
        yield from message["content"]


def _unmarked(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _unmarked(item) for key, item in value.items() if key != "cache_control"}
    return [_unmarked(item) for item in value] if isinstance(value, list) else value
