"""A generateContent server's strictness: what it would answer 400 to, in its own words.

It knows every part it gave out, so it can tell a signature that is missing, moved or altered, and a
conversation that was changed behind its back. Give it each reply with `reply` before it is played.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, TypeAlias

from tests.support.provider import Recorded, Reply, continues, sse, stream

Object: TypeAlias = dict[str, Any]

SKIP = "skip_thought_signature_validator"

_FIELDS = {
    "": {
        "contents",
        "systemInstruction",
        "tools",
        "toolConfig",
        "generationConfig",
        "continuationToken",
    },
    "content": {"role", "parts"},
    "part": {
        "text",
        "thought",
        "thoughtSignature",
        "inlineData",
        "functionCall",
        "functionResponse",
        "executableCode",
        "codeExecutionResult",
        "toolCall",
        "toolResponse",
    },
    "inlineData": {"mimeType", "data"},
    "functionCall": {"id", "name", "args"},
    "functionResponse": {"id", "name", "response", "parts"},
    "tool": {"functionDeclarations", "googleSearch", "codeExecution", "urlContext", "computerUse"},
    "declaration": {"name", "description", "parametersJsonSchema"},
    "toolConfig": {"functionCallingConfig", "includeServerSideToolInvocations"},
    "functionCallingConfig": {"mode", "allowedFunctionNames"},
    "generationConfig": {
        "maxOutputTokens",
        "thinkingConfig",
        "responseMimeType",
        "responseJsonSchema",
    },
    "thinkingConfig": {"includeThoughts", "thinkingLevel"},
}
_DATA = (
    "text",
    "inlineData",
    "functionCall",
    "functionResponse",
    "executableCode",
    "codeExecutionResult",
    "toolCall",
    "toolResponse",
)
_NAME = re.compile(r"[A-Za-z_][\w.:-]{0,127}", re.ASCII)


class Complaint(Exception):
    """The text of a 400."""


class StrictGemini:
    """Its `check` is a checker of the loopback provider."""

    def __init__(self, model: str, *, signs: bool = True) -> None:
        self._path = f"/v1beta/models/{model}:streamGenerateContent?alt=sse"
        self._signs = signs
        self._replies: list[list[Object]] = []
        """The chunks of each, in the order they will be played."""
        self._accepted = 0
        self._before: Object | None = None
        self._said: list[Object] = []
        """All parts since the last request that brought something new."""

    def reply(self, *chunks: Object) -> Reply:
        """A stream of chunks, and from now on part of what the server remembers."""
        self._replies.append(list(chunks))
        return stream(sse(chunks, named=False))

    def check(self, request: Recorded) -> str | None:
        try:
            self._check_request(request)
            body = request.json
            _check_fields(body)
            _check_tools(body)
            _check_turns(body["contents"])
            self._check_signatures(body["contents"])
            self._check_continuity(body)
        except Complaint as complaint:
            return str(complaint)
        if self._before is None or "continuationToken" not in body:
            self._said = []
        self._before = body
        if self._accepted < len(self._replies):
            self._said += _parts_in(self._replies[self._accepted])
        self._accepted += 1
        return None

    def _check_request(self, request: Recorded) -> None:
        if (request.method, request.path) != ("POST", self._path):
            raise Complaint(f"The requested URL {request.path} was not found on this server.")
        if not request.headers.get("x-goog-api-key"):
            raise Complaint("Method doesn't allow unregistered callers.")
        if not request.headers.get("content-type", "").startswith("application/json"):
            raise Complaint("Invalid JSON payload received. Unexpected content type.")

    def _check_signatures(self, contents: Sequence[Object]) -> None:
        parts = (part for chunks in self._replies for part in _parts_in(chunks))
        valid = {SKIP, *(part["thoughtSignature"] for part in parts if "thoughtSignature" in part)}
        for place, turn in enumerate(contents):
            if any(part.get("thoughtSignature", SKIP) not in valid for part in turn["parts"]):
                raise Complaint("Corrupted thought signature.")
            first = next((part for part in turn["parts"] if "functionCall" in part), None)
            if self._signs and first is not None and "thoughtSignature" not in first:
                raise Complaint(
                    "Function call is missing a thought_signature in functionCall parts. This is"
                    " required for tools to work correctly, and missing thought_signature may"
                    " lead to degraded model performance. Additional data, function call"
                    f" `default_api:{first['functionCall']['name']}` , position {place + 1}."
                )

    def _check_continuity(self, body: Object) -> None:
        """What was asked before is still there, and after it the reply, as it was given."""
        before = self._before
        if before is None:
            return
        if not all(
            continues(key, before.get(key), body.get(key)) for key in ("systemInstruction", "tools")
        ):
            raise Complaint("The conversation's instructions or tools were changed.")
        known, contents = before["contents"], body["contents"]
        if "continuationToken" in body:
            if contents != known or body["continuationToken"] != self._last_token():
                raise Complaint("Invalid continuation token.")
            return
        is_same = contents[: len(known)] == known if self._said else _goes_on(contents, known)
        if not is_same:
            raise Complaint("The conversation's beginning was changed.")
        replied = contents[len(known)]["parts"] if len(contents) > len(known) else None
        if self._said and replied is not None and not _is_same_turn(replied, self._said):
            raise Complaint("The model's turn is not what it said.")

    def _last_token(self) -> str | None:
        last = self._replies[self._accepted - 1][-1]
        token: str | None = last["candidates"][0].get("continuationToken")
        return token


def _parts_in(chunks: Iterable[Object]) -> list[Object]:
    """All that can be sent back: a text of nothing cannot, unless it is signed."""
    parts = [
        part
        for chunk in chunks
        for candidate in chunk.get("candidates", [])
        for part in candidate.get("content", {}).get("parts", [])
    ]
    return [part for part in parts if part.get("text") != "" or "thoughtSignature" in part]


def _is_same_turn(replied: Sequence[Object], said: Sequence[Object]) -> bool:
    """Whether a turn is what was said. Calls that shared an id may have got their own."""
    ids = [part.get("functionCall", {}).get("id") for part in said]
    shared = {given for given in ids if ids.count(given) > 1}
    ours, theirs = _joined(replied), _joined(said)
    if len(ours) != len(theirs):
        return False
    for part, other in zip(ours, theirs, strict=True):
        if shared and other.get("functionCall", {}).get("id") in shared:
            part, other = (
                {**it, "functionCall": {**it.get("functionCall", {}), "id": None}}
                for it in (part, other)
            )
        if part != other:
            return False
    return True


def _joined(parts: Iterable[Object]) -> list[Object]:
    """Plain texts of one kind in a row are one: where a stream cuts them means nothing."""
    made: list[Object] = []
    for part in parts:
        last = made[-1] if made else {}
        plain = last.keys() <= {"text", "thought"} >= part.keys()
        if made and plain and last.get("thought") == part.get("thought"):
            made[-1] = {**last, "text": last["text"] + part["text"]}
        else:
            made.append(part)
    return made


def _goes_on(contents: Sequence[Object], known: Sequence[Object]) -> bool:
    """Nothing was said since, so the user may have gone on in the same turn."""
    *earlier, last = known
    size = len(last["parts"])
    grown = contents[len(earlier)]["parts"] if len(contents) > len(earlier) else []
    return list(contents[: len(earlier)]) == earlier and grown[:size] == last["parts"]


def _known(value: Any, kind: str, where: str) -> Object:
    """The object, when it has none but the fields of its kind."""
    if not isinstance(value, dict):
        raise Complaint(f"Invalid value at '{where}' (type.googleapis.com/google.protobuf.Struct)")
    for name in value:
        if name not in _FIELDS[kind]:
            raise Complaint(
                f"Invalid JSON payload received. Unknown name \"{name}\" at '{where}':"
                " Cannot find field."
            )
    return value


def _check_fields(body: Object) -> None:
    _known(body, "", "")
    if not body.get("contents"):
        raise Complaint("* GenerateContentRequest.contents: contents is not specified")
    for at, turn in enumerate(body["contents"]):
        where = f"contents[{at}]"
        _known(turn, "content", where)
        if not turn.get("parts"):
            raise Complaint(
                f"* GenerateContentRequest.{where}.parts: contents.parts must not be empty."
            )
        for place, part in enumerate(turn["parts"]):
            _check_part(part, f"{where}.parts[{place}]")
    if "systemInstruction" in body:
        system = _known(body["systemInstruction"], "content", "system_instruction")
        if not all(part.get("text") for part in system["parts"]):
            raise Complaint("* GenerateContentRequest.system_instruction.parts must not be empty.")
    generation = _known(body.get("generationConfig", {}), "generationConfig", "generation_config")
    _check_thinking(generation.get("thinkingConfig", {}))
    if ("responseJsonSchema" in generation) != ("responseMimeType" in generation):
        raise Complaint("A response schema needs the response mime type application/json.")


def _check_thinking(given: Object) -> None:
    thinking = _known(given, "thinkingConfig", "generation_config.thinking_config")
    level = thinking.get("thinkingLevel", "LOW")
    if level not in ("MINIMAL", "LOW", "MEDIUM", "HIGH"):
        raise Complaint(f"Invalid value at 'thinking_level', \"{level}\"")


def _check_part(part: Object, where: str) -> None:
    _known(part, "part", where)
    if sum(name in part for name in _DATA) != 1:
        raise Complaint(
            f"* GenerateContentRequest.{where}.data: required oneof field 'data' must have one"
            " initialized field"
        )
    for name in ("inlineData", "functionCall", "functionResponse"):
        if name in part:
            _known(part[name], name, f"{where}.{name}")
    if not isinstance(part.get("functionCall", {}).get("args", {}), dict):
        raise Complaint(f"Invalid value at '{where}.function_call.args' (Struct)")
    if "functionResponse" in part:
        _check_response(part["functionResponse"], f"{where}.function_response")


def _check_response(answer: Object, where: str) -> None:
    if not answer.get("name"):
        raise Complaint(f"* GenerateContentRequest.{where}.name: Name cannot be empty.")
    said = answer.get("response")
    if not isinstance(said, dict) or len(said.keys() - {"safety_acknowledgement"}) != 1:
        raise Complaint(f"Invalid value at '{where}.response' (Struct)")
    for place, part in enumerate(answer.get("parts", [])):
        _known(part["inlineData"], "inlineData", f"{where}.parts[{place}]")


def _check_tools(body: Object) -> None:
    tools = [_known(tool, "tool", "tools[0]") for tool in body.get("tools", [])]
    declared = [it for tool in tools for it in tool.get("functionDeclarations", [])]
    own = {"functionDeclarations", "computerUse"}  # what the service does not run itself
    has_hosted = any(not own & tool.keys() for tool in tools)
    is_shown = body.get("toolConfig", {}).get("includeServerSideToolInvocations", False)
    if has_hosted and declared and not is_shown:
        raise Complaint(
            "Please enable tool_config.include_server_side_tool_invocations to use Built-in tools"
            " with Function calling."
        )
    for place, tool in enumerate(declared):
        where = f"tools[0].function_declarations[{place}]"
        _known(tool, "declaration", where)
        if not _NAME.fullmatch(tool.get("name", "")):
            raise Complaint(f"* GenerateContentRequest.{where}.name: Invalid function name.")
        if tool["parametersJsonSchema"].get("type") != "object":
            raise Complaint(f"* GenerateContentRequest.{where}.parameters should be OBJECT type")
    config = _known(body.get("toolConfig", {}), "toolConfig", "tool_config")
    calling = config.get("functionCallingConfig", {})
    _known(calling, "functionCallingConfig", "tool_config.function_calling_config")
    if config and not declared:
        raise Complaint("Function calling config is set without function_declarations.")
    allowed = calling.get("allowedFunctionNames", [])
    if allowed and calling["mode"] != "ANY":
        raise Complaint("allowed_function_names should only be set when the mode is ANY.")
    if not {tool["name"] for tool in declared}.issuperset(allowed):
        raise Complaint("allowed_function_names should be a subset of function_declarations.")


def _check_turns(contents: Sequence[Object]) -> None:
    if any(turn.get("role") not in ("user", "model") for turn in contents):
        raise Complaint("Please use a valid role: user, model.")
    roles = [turn["role"] for turn in contents]
    if any(first == second for first, second in pairwise(roles)):
        raise Complaint("Please ensure that multiturn requests alternate between user and model.")
    if roles[0] != "user" or roles[-1] != "user":
        raise Complaint("Please ensure that multiturn requests start and end with a user turn.")
    calls: list[Object] = []
    for turn in contents:
        answers = [part["functionResponse"] for part in turn["parts"] if "functionResponse" in part]
        _check_answers(calls, answers, turn)
        calls = [part["functionCall"] for part in turn["parts"] if "functionCall" in part]
        ids = [call["id"] for call in calls if "id" in call]
        if len(set(ids)) < len(ids):
            raise Complaint("Please ensure that function call ids are unique in a turn.")


def _check_answers(
    calls: Sequence[Object], answers: Sequence[Object], turn: Mapping[str, Any]
) -> None:
    if answers and not calls:
        raise Complaint(
            "Please ensure that function response turn comes immediately after a function call"
            " turn."
        )
    if len(answers) != len(calls):
        raise Complaint(
            "Please ensure that the number of function response parts is equal to the number of"
            " function call parts of the function call turn."
        )
    if any("functionResponse" not in part for part in turn["parts"][: len(answers)]):
        raise Complaint("Please ensure that function responses come before any other part.")
    for call, answer in zip(calls, answers, strict=True):
        if answer.get("id") != call.get("id") or answer["name"] != call["name"]:
            raise Complaint(
                f"Function response {json.dumps(answer['name'])} does not match the function call"
                f" {json.dumps(call['name'])}."
            )
