"""What OpenAI's two protocols are strict about alike: the address, names, strict schemas."""

import re
from typing import Any

from tests.support.provider import Recorded

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_REFUSED_KEYWORDS = {"allOf", "not", "if", "oneOf", "patternProperties"}


class Complaint(Exception):
    """The text of a 400."""


def check_head(request: Recorded, path: str) -> None:
    if (request.method, request.path) != ("POST", path):
        raise Complaint(f"Invalid URL ({request.method} {request.path})")
    if not request.headers.get("authorization", "").startswith("Bearer "):
        raise Complaint("Missing bearer authentication in header")
    if not isinstance(request.json, dict):
        raise Complaint("We could not parse the JSON body of your request.")


def check_parameters(body: dict[str, Any], known: set[str], *, required: tuple[str, ...]) -> None:
    for name in ("temperature", "top_p"):
        if name in body:
            raise Complaint(f"Unsupported parameter: '{name}' is not supported with this model.")
    for name in body:
        if name not in known:
            raise Complaint(f"Unknown parameter: '{name}'.")
    for name in required:
        if not body.get(name):
            raise Complaint(f"Missing required parameter: '{name}'.")


def check_declared(body: dict[str, Any]) -> bool:
    """Whether there are tools at all; if not, nothing else may speak of them."""
    if "tools" not in body:
        for name in ("tool_choice", "parallel_tool_calls"):
            if name in body:
                raise Complaint(f"'{name}' is only allowed when 'tools' are specified.")
        return False
    if not body["tools"]:
        raise Complaint("Invalid 'tools': empty array. Expected an array with minimum length 1.")
    return True


def check_function(function: dict[str, Any], where: str) -> None:
    if not _NAME.fullmatch(function["name"]):
        raise Complaint(
            f"Invalid '{where}.name': string does not match pattern. "
            "Expected a string that matches the pattern '^[a-zA-Z0-9_-]+$'."
        )
    if function.get("strict"):
        _check_schema(function["parameters"], f"Invalid schema for function '{function['name']}': ")


def check_answer_format(given: dict[str, Any], where: str) -> None:
    if set(given) != {"name", "schema", "strict"} or not _NAME.fullmatch(given["name"]):
        raise Complaint(f"Invalid '{where}'.")
    if given["strict"]:
        _check_schema(given["schema"], f"Invalid schema for response_format '{given['name']}': ")


def _check_schema(schema: dict[str, Any], whose: str) -> None:
    if refused := _REFUSED_KEYWORDS & set(schema):
        raise Complaint(f"{whose}'{min(refused)}' is not permitted.")
    if "object" in _types(schema):
        _check_object(schema, whose)
    inner = [*schema.get("properties", {}).values(), *schema.get("anyOf", [])]
    for each in [*inner, *([schema["items"]] if "items" in schema else [])]:
        _check_schema(each, whose)


def _check_object(schema: dict[str, Any], whose: str) -> None:
    if schema.get("additionalProperties") is not False:
        raise Complaint(
            f"{whose}'additionalProperties' is required to be supplied and to be false."
        )
    if set(schema.get("required", [])) != set(schema["properties"]):
        raise Complaint(
            f"{whose}'required' is required to be supplied and to be an array including every key "
            "in properties."
        )


def _types(schema: dict[str, Any]) -> list[Any]:
    kind = schema.get("type")
    return kind if isinstance(kind, list) else [kind]
