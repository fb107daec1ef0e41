"""A Chat Completions server's strictness: what it would answer 400 to, in its own words.

It remembers every message it gave out, so it can tell one that was altered and a conversation that
was changed behind its back. Like the servers behind a template, it takes no arguments that do not
parse. Give it each reply with `reply` before it is played.
"""

import json
import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, TypeAlias

from tests.support.provider import Recorded, Reply, continues, sse, stream
from tests.support.strict_openai import (
    Complaint,
    check_answer_format,
    check_declared,
    check_function,
    check_head,
    check_parameters,
)

Object: TypeAlias = dict[str, Any]

_PARAMETERS = {
    "model",
    "messages",
    "stream",
    "stream_options",
    "tools",
    "tool_choice",
    "parallel_tool_calls",
    "reasoning_effort",
    "max_tokens",
    "max_completion_tokens",
    "response_format",
}
_FIELDS = {
    "system": {"role", "content"},
    "user": {"role", "content"},
    "assistant": {"role", "content", "tool_calls"},
    "tool": {"role", "content", "tool_call_id"},
}
_REASONING = ("reasoning_content", "reasoning", "reasoning_details")
_NO_EFFORT = re.compile(r"gpt-(5\.[6-9]|[6-9])")


class StrictChat:
    """Its `check` is a checker of the loopback provider."""

    def __init__(self) -> None:
        self._replies: list[Object] = []
        """The message of each, in the order they will be played."""
        self._played: list[Object] = []
        self._before: Object | None = None

    def reply(self, message: Object, *chunks: Object) -> Reply:
        """This message, streamed by the book or as the given chunks tell it."""
        self._replies.append(message)
        return stream(sse(chunks or by_the_book(message), named=False, done=True))

    def check(self, request: Recorded) -> str | None:
        try:
            check_head(request, "/v1/chat/completions")
            body = request.json
            _check_parameters(body)
            for position, message in enumerate(body["messages"]):
                _check_message(message, f"messages[{position}]")
            _check_pairs(body["messages"])
            _check_turns(body["messages"])
            self._check_replies(body["messages"], is_deepseek="deepseek" in body["model"])
            self._check_prefix(body)
        except Complaint as complaint:
            return str(complaint)
        self._before = body
        if len(self._played) < len(self._replies):
            self._played.append(self._replies[len(self._played)])
        return None

    def _check_replies(self, messages: Sequence[Object], *, is_deepseek: bool) -> None:
        """The last replies are ours, as we gave them; reasoning comes back with calls alone.

        DeepSeek wants it back with every reply, also with those that others gave.
        """
        found = [message for message in messages if message["role"] == "assistant"]
        if is_deepseek and not all("reasoning_content" in message for message in found):
            raise Complaint("The `reasoning_content` in the thinking mode must be passed back.")
        for position, (given, back) in enumerate(
            zip(self._played, found[len(found) - len(self._played) :], strict=True)
        ):
            for name in _REASONING:
                is_wanted = "tool_calls" in given or is_deepseek
                if is_wanted and (given.get(name) or "") != (back.get(name) or ""):
                    raise Complaint(
                        f"Missing `{name}` field in the assistant message at message index "
                        f"{position}."
                    )
                if not is_wanted and name in back:
                    raise Complaint(f"Unknown parameter: 'messages[{position}].{name}'.")
            if _core(given) != _core(back):
                raise Complaint(f"The reply was {_core(given)!r}, not {_core(back)!r}.")

    def _check_prefix(self, body: Object) -> None:
        if self._before is None:
            return
        for key in {*body, *self._before} - {"messages", "tool_choice"}:
            if not continues(key, self._before.get(key), body.get(key)):
                raise Complaint(f"'{key}' changed in the middle of the conversation.")
        before = self._before["messages"]
        if body["messages"][: len(before)] != before:
            raise Complaint("An earlier part of 'messages' changed.")


def _check_turns(messages: Sequence[Object]) -> None:
    roles = [message["role"] for message in messages]
    if ("user", "user") in pairwise(roles):
        raise Complaint("Conversation roles must alternate user/assistant/user/assistant/...")


def said(text: str, **extra: Any) -> Object:
    return {"role": "assistant", "content": text, **extra}


def called(*calls: tuple[str, str, str], text: str | None = None, **extra: Any) -> Object:
    """Calls as (id, name, arguments)."""
    made = [
        {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}
        for call_id, name, arguments in calls
    ]
    return {"role": "assistant", "content": text, "tool_calls": made, **extra}


def by_the_book(message: Object) -> list[Object]:
    """Chunks as OpenAI sends them: role, text, calls in pieces, finish reason, tally."""
    deltas: list[Object] = [{"role": "assistant", "content": ""}]
    deltas += [{name: message[name]} for name in _REASONING if name in message]
    deltas += [{"content": piece} for piece in _halves(message["content"] or "")]
    for index, call in enumerate(message.get("tool_calls", [])):
        opened = {**call, "index": index, "function": {**call["function"], "arguments": ""}}
        deltas.append({"tool_calls": [opened]})
        for piece in _halves(call["function"]["arguments"]):
            deltas.append({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
    finish = "tool_calls" if "tool_calls" in message else "stop"
    chunks = [*map(chunk, deltas), chunk({}, finish)]
    usage = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}
    return [*chunks, {**chunk({}), "choices": [], "usage": usage}]


def chunk(delta: Object, finish: str | None = None) -> Object:
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1790000000,
        "model": "test",
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish}],
    }


def _halves(text: str) -> list[str]:
    half = len(text) // 2
    return [piece for piece in (text[:half], text[half:]) if piece]


def _core(message: Object) -> Object:
    return {key: message.get(key) for key in ("role", "content", "tool_calls")}


def _check_parameters(body: Object) -> None:
    check_parameters(body, _PARAMETERS, required=("model", "messages"))
    if "max_tokens" in body and "max_completion_tokens" in body:
        raise Complaint("Setting 'max_tokens' and 'max_completion_tokens' at the same time.")
    if "response_format" in body:
        check_answer_format(body["response_format"]["json_schema"], "response_format.json_schema")
    if not check_declared(body):
        return
    for position, tool in enumerate(body["tools"]):
        check_function(tool["function"], f"tools[{position}].function")
    if _NO_EFFORT.match(body["model"]) and body.get("reasoning_effort") != "none":
        raise Complaint(
            f"Function tools with reasoning_effort are not supported for {body['model']} in "
            "/v1/chat/completions. Please use /v1/responses instead."
        )


def _check_message(message: Object, where: str) -> None:
    known = _FIELDS.get(message.get("role", ""))
    if known is None:
        raise Complaint(f"Invalid value: '{message.get('role')}' ('{where}.role').")
    for name in set(message) - known:
        if message["role"] != "assistant" or name not in _REASONING:
            raise Complaint(f"Unknown parameter: '{where}.{name}'.")
    _check_content(message, where)
    if message.get("tool_calls") == []:
        raise Complaint(
            f"Invalid '{where}.tool_calls': empty array. Expected an array with minimum length 1, "
            "but got an empty array instead."
        )
    for number, call in enumerate(message.get("tool_calls", [])):
        _check_call(call, f"{where}.tool_calls[{number}]")


def _check_content(message: Object, where: str) -> None:
    content = message.get("content")
    if content is None and "tool_calls" not in message:
        raise Complaint(f"Invalid value for '{where}.content': expected a string, got null.")
    if isinstance(content, list):
        if not content:
            raise Complaint(f"Invalid '{where}.content': empty array.")
        for part in content:
            if part["type"] == "image_url" and message["role"] != "user":
                raise Complaint(
                    f"Invalid '{where}'. Image URLs are only allowed for messages with role 'user'."
                )


def _check_call(call: Object, where: str) -> None:
    if set(call) - {"id", "type", "function", "extra_content"}:
        raise Complaint(f"Unknown parameter in '{where}'.")
    if len(call["id"]) > 40:
        raise Complaint(
            f"Invalid '{where}.id': string too long. Expected a string with maximum length 40."
        )
    try:
        arguments = json.loads(call["function"]["arguments"])
    except ValueError:
        arguments = None
    if not isinstance(arguments, dict):
        raise Complaint("Failed to parse tool call arguments as JSON")


def _check_pairs(messages: Sequence[Object]) -> None:
    waiting: list[str] = []
    seen: set[str] = set()
    for position, message in enumerate(messages):
        if message["role"] == "tool":
            if message["tool_call_id"] not in waiting:
                raise Complaint(
                    f"Invalid parameter: messages with role 'tool' must be a response to a "
                    f"preceeding message with 'tool_calls' (messages[{position}])."
                )
            waiting.remove(message["tool_call_id"])
        elif waiting:
            break
        ids = [call["id"] for call in message.get("tool_calls", [])]
        if len({*ids, *seen}) != len(ids) + len(seen):
            raise Complaint(f"Duplicate tool call id in messages[{position}].")
        seen |= {*ids}
        waiting += ids
    if waiting:
        raise Complaint(
            "An assistant message with 'tool_calls' must be followed by tool messages responding "
            "to each 'tool_call_id'. The following tool_call_ids did not have response messages: "
            + ", ".join(waiting)
        )
