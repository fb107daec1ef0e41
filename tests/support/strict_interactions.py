"""An Interactions server's strictness: what it would answer 400 to, in its own words.

It knows every step it gave out, so it can tell a thought that is missing, moved or altered, and a
conversation that was changed behind its back. Give it each reply with `reply` before it is played.
"""

import json
from collections.abc import Sequence
from typing import Any, TypeAlias

from tests.support.provider import Recorded, Reply, continues, sse, stream

Object: TypeAlias = dict[str, Any]

SKIP = "skip_thought_signature_validator"

_FIELDS = {
    "": {
        "model",
        "input",
        "stream",
        "store",
        "system_instruction",
        "tools",
        "generation_config",
        "previous_interaction_id",
        "continuation_token",
        "response_format",
    },
    "response_format": {"type", "mime_type", "schema"},
    "user_input": {"type", "content"},
    "model_output": {"type", "content"},
    "thought": {"type", "signature", "summary"},
    "function_call": {"type", "id", "name", "arguments", "signature"},
    "function_result": {"type", "call_id", "name", "result", "is_error"},
    "google_search_call": {"type", "id", "arguments", "search_type", "signature"},
    "google_search_result": {"type", "call_id", "result", "is_error", "signature"},
    "code_execution_call": {"type", "id", "arguments", "signature"},
    "code_execution_result": {"type", "call_id", "result", "is_error", "signature"},
    "text": {"type", "text", "annotations"},
    "image": {"type", "data", "mime_type"},
    "document": {"type", "data", "mime_type"},
    "tool": {"type", "name", "description", "parameters"},
    "generation_config": {
        "max_output_tokens",
        "thinking_level",
        "thinking_summaries",
        "tool_choice",
    },
}
_REQUIRED = {
    "user_input": {"content"},
    "model_output": {"content"},
    "thought": {"signature"},
    "function_call": {"id", "name", "arguments"},
    "function_result": {"call_id", "name", "result"},
    "text": {"text"},
    "image": {"data", "mime_type"},
    "document": {"data", "mime_type"},
    "tool": {"type", "name", "parameters"},
}
_HOSTED = ("google_search", "code_execution", "url_context")
_HOSTED_STEPS = (
    "google_search_call",
    "google_search_result",
    "code_execution_call",
    "code_execution_result",
)
_STEPS = (
    *("user_input", "model_output", "thought", "function_call", "function_result"),
    *_HOSTED_STEPS,
)


class Complaint(Exception):
    """The text of a 400."""


def error_of_interactions(message: str) -> Any:
    return {"error": {"code": "invalid_request", "message": message}}


def events_of(
    *steps: Object, status: str = "completed", interaction: str = "v1_1", **more: Any
) -> list[Object]:
    """A stream that gives whole steps, each in its own start, delta and stop."""
    events: list[Object] = [_lifecycle("interaction.created", interaction, "in_progress")]
    for index, step in enumerate(steps):
        started, deltas = _taken_apart(step)
        events.append({"event_type": "step.start", "index": index, "step": started})
        events += [{"event_type": "step.delta", "index": index, "delta": d} for d in deltas]
        events.append({"event_type": "step.stop", "index": index})
    return [*events, _lifecycle("interaction.completed", interaction, status, **more)]


def _lifecycle(kind: str, interaction: str, status: str, **more: Any) -> Object:
    return {"event_type": kind, "interaction": {"id": interaction, "status": status, **more}}


def _taken_apart(step: Object) -> tuple[Object, list[Object]]:
    """How a step starts, and the deltas that make it whole."""
    match step:
        case {"type": "thought"}:
            summary = [{"type": "thought_summary", "content": it} for it in step.get("summary", [])]
            signed = {"type": "thought_signature", "signature": step["signature"]}
            return {"type": "thought", "signature": ""}, [*summary, signed]
        case {"type": "model_output", "content": [{"type": "text", "text": text}]}:
            half = len(text) // 2
            pieces = [{"type": "text", "text": it} for it in (text[:half], text[half:])]
            notes = step["content"][0].get("annotations")
            cited = [{"type": "text_annotation_delta", "annotations": notes}] if notes else []
            return {"type": "model_output"}, [*pieces, *cited]
        case {"type": "function_call", "arguments": dict() as arguments}:
            text = json.dumps(arguments, ensure_ascii=False)
            cuts = (text[:3], text[3:])
            pieces = [{"type": "arguments_delta", "arguments": it} for it in cuts]
            return {**step, "arguments": {}}, pieces
        case _:
            return step, []


class StrictInteractions:
    """Its `check` is a checker of the loopback provider."""

    def __init__(self, model: str, *, stored: bool = False) -> None:
        self._model = model
        self._stored = stored
        self._replies: list[tuple[list[Object], Object]] = []
        """The steps of each and what its last event says, in the order they will be played."""
        self._accepted = 0
        self._before: Object | None = None
        self._said: list[Object] = []
        """All steps since the last request that brought something new."""

    def reply(self, *steps: Object, **ending: Any) -> Reply:
        """A stream of steps, and from now on part of what the server remembers."""
        events = events_of(*steps, **ending)
        self._replies.append((list(steps), events[-1]["interaction"]))
        return stream(_sse(events))

    def check(self, request: Recorded) -> str | None:
        try:
            _check_request(request)
            body = request.json
            self._check_body(body)
            _check_tools(body)
            self._check_conversation(body)
            self._check_continuity(body)
        except Complaint as complaint:
            return str(complaint)
        if "continuation_token" not in body:
            self._said = []
        self._before = body
        if self._accepted < len(self._replies):
            self._said = [*self._said, *self._replies[self._accepted][0]]
        self._accepted += 1
        return None

    def _last(self, key: str) -> Any:
        return self._replies[self._accepted - 1][1].get(key) if self._accepted else None

    def _check_body(self, body: Object) -> None:
        _known(body, "", "")
        if body.get("model") != self._model:
            raise Complaint(f"The model '{body.get('model')}' was not found.")
        _known(body.get("response_format", {}), "response_format", "response_format")
        if body.get("stream") is not True:
            raise Complaint("'stream' must be true for this request.")
        if body.get("store", True) is not self._stored:
            raise Complaint("'store' is not what this conversation began with.")

    def _check_conversation(self, body: Object) -> None:
        """A stored one goes on where the last reply stopped, so its calls are still open."""
        is_resumed = self._stored and "continuation_token" in body
        if is_resumed or not body.get("input"):
            if not is_resumed:
                raise Complaint("'input' is required.")
            return
        for place, step in enumerate(body["input"]):
            _check_step(step, f"input[{place}]")
        open_calls = self._said if "previous_interaction_id" in body else []
        steps = [*open_calls, *body["input"]]
        _check_ids(steps)
        _check_calls(steps)
        signatures = {SKIP} | {
            step["signature"] for said, _ in self._replies for step in said if "signature" in step
        }
        if any(step.get("signature", SKIP) not in signatures for step in steps):
            raise Complaint("Corrupted thought signature.")
        _check_thoughts(steps)

    def _check_continuity(self, body: Object) -> None:
        before = self._before
        if before is None:
            return
        if not all(
            continues(key, before.get(key), body.get(key))
            for key in ("system_instruction", "tools")
        ):
            raise Complaint("The conversation's instructions or tools were changed.")
        if body.get("continuation_token") != self._last("continuation_token"):
            raise Complaint("The continuation token does not belong to this interaction.")
        if self._stored:
            if body.get("previous_interaction_id", self._last("id")) != self._last("id"):
                raise Complaint("'previous_interaction_id' is not the last interaction.")
        else:
            self._check_prefix(body, before["input"])

    def _check_prefix(self, body: Object, known: Sequence[Object]) -> None:
        given = body["input"]
        if "continuation_token" in body and given != known:
            raise Complaint("The input is not the one that the token belongs to.")
        if given[: len(known)] != known:
            raise Complaint("The conversation's beginning was changed.")
        said = given[len(known) : len(known) + len(self._said)]
        if len(given) > len(known) and [*map(_as_said, said)] != [*map(_as_said, self._said)]:
            raise Complaint("The model's steps are not what it said.")


def _as_said(step: Object) -> Object:
    """An id that was taken already may go back as another one."""
    if step["type"] != "function_call":
        return step
    return {key: value for key, value in step.items() if key != "id"}


def _sse(events: Sequence[Object]) -> bytes:
    """As the service writes it: a name before each event, and a last one that says it is over."""
    named = b"".join(
        f"event: {event['event_type']}\n".encode() + sse([event], named=False) for event in events
    )
    return named + b"event: done\ndata: [DONE]\n\n"


def _check_request(request: Recorded) -> None:
    if (request.method, request.path) != ("POST", "/v1beta/interactions"):
        raise Complaint(f"The requested URL {request.path} was not found on this server.")
    if not request.headers.get("x-goog-api-key"):
        raise Complaint("Method doesn't allow unregistered callers.")
    if request.headers.get("api-revision") != "2026-05-20":
        raise Complaint("This revision of the API has no steps.")


def _known(value: Any, kind: str, where: str) -> None:
    """None but the fields of its kind, and all that it needs."""
    if not isinstance(value, dict):
        raise Complaint(f"The value at '{where}' is not an object.")
    for name in value:
        if name not in _FIELDS[kind]:
            raise Complaint(f"Unknown parameter '{name}' at '{where}'.")
    for name in _REQUIRED.get(kind, ()):
        if value.get(name) in (None, "", []):
            raise Complaint(f"The parameter '{name}' is required at '{where}'.")


def _check_step(step: Object, where: str) -> None:
    kind = step.get("type")
    if kind not in _STEPS:
        raise Complaint(f"The value '{kind}' is not supported for 'type' at '{where}'.")
    _known(step, kind, where)
    if not isinstance(step.get("arguments", {}), dict):
        raise Complaint(f"The value at '{where}.arguments' is not an object.")
    result = step.get("result")
    if kind in _HOSTED_STEPS:
        return
    inner = [step.get("content"), step.get("summary"), result if isinstance(result, list) else []]
    for item in (item for items in inner for item in items or []):
        if item.get("type") not in ("text", "image", "document"):
            raise Complaint(f"The value '{item.get('type')}' is not supported at '{where}'.")
        _known(item, item["type"], f"{where}.content")


def _check_tools(body: Object) -> None:
    tools = body.get("tools", [])
    tools = [tool for tool in tools if tool not in [{"type": kind} for kind in _HOSTED]]
    for computer in [tool for tool in tools if tool["type"] == "computer_use"]:
        if computer.keys() - {"type", "environment", "excluded_predefined_functions"}:
            raise Complaint("Unknown name in 'tools'.")
        tools.remove(computer)
    for place, tool in enumerate(tools):
        _known(tool, "tool", f"tools[{place}]")
    config = body.get("generation_config", {})
    _known(config, "generation_config", "generation_config")
    if config.get("thinking_level", "low") not in ("minimal", "low", "medium", "high"):
        raise Complaint("The value is not supported for 'thinking_level'.")
    choice = config.get("tool_choice", "auto")
    allowed = [] if isinstance(choice, str) else choice["allowed_tools"]["tools"]
    if isinstance(choice, str) and choice not in ("auto", "any", "none", "validated"):
        raise Complaint("The value is not supported for 'tool_choice'.")
    if "tool_choice" in config and not tools:
        raise Complaint("'tool_choice' needs 'tools'.")
    if not {tool["name"] for tool in tools}.issuperset(allowed):
        raise Complaint("'allowed_tools' names a tool that is not declared.")


def _check_ids(steps: Sequence[Object]) -> None:
    ids = [step["id"] for step in steps if step["type"] == "function_call"]
    for call_id in ids:
        if ids.count(call_id) > 1:
            raise Complaint(f"Duplicate function call id '{call_id}'.")


def _check_calls(steps: Sequence[Object]) -> None:
    """The results of a run of calls follow it, in order, and none is left open."""
    waiting: list[Object] = []
    for step in steps:
        match step:
            case {"type": "function_call"}:
                waiting.append(step)
            case {"type": "function_result"}:
                call = waiting.pop(0) if waiting else {}
                if (call.get("id"), call.get("name")) != (step["call_id"], step["name"]):
                    raise Complaint(
                        f"The function result '{step['call_id']}' does not match a function call."
                    )
            case {"type": kind} if waiting and kind in ("user_input", "model_output"):
                raise Complaint(f"The function call '{waiting[0]['id']}' has no function result.")
    if waiting:
        raise Complaint(f"The function call '{waiting[0]['id']}' has no function result.")
    if steps[-1]["type"] not in ("user_input", "function_result"):
        raise Complaint("The last step must be user_input or function_result.")


def _check_thoughts(steps: Sequence[Object]) -> None:
    """Every run of the model's steps that calls a function holds a thought before the call."""
    has_thought = False
    for step in steps:
        if step["type"] in ("user_input", "function_result"):
            has_thought = False
        elif step["type"] == "thought":
            has_thought = True
        elif step["type"] == "function_call" and not has_thought:
            raise Complaint("Function call is missing a thought signature.")
