"""Pydantic at the tools' door: argument models to schemas, bad arguments to sentences."""

import json
from difflib import get_close_matches
from typing import Any, ClassVar, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_core import ErrorDetails

from agentcli.types.errors import ToolError
from agentcli.types.messages import Json
from agentcli.types.tools import ErrorKind

SHOWN_VALUE_CHARS = 80


class Arguments(BaseModel):
    """Base of every tool's arguments: closed, and described field by field."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    aliases: ClassVar[dict[str, str]] = {}
    """Other names models use for a field, accepted silently."""


A = TypeVar("A", bound=Arguments)


UNDECLARED = ("title", "default", "minimum", "maximum", "minLength")
"""They cost tokens in every request, and providers' strict subsets do not know most of them: the
description says what a model has to know of them, and validation holds the rest."""


def schema_of(model: type[Arguments]) -> dict[str, Json]:
    """The JSON schema as declared: an object, closed to other properties."""
    schema = model.model_json_schema()
    properties: dict[str, Any] = {
        name: {key: value for key, value in _flat(field).items() if key not in UNDECLARED}
        for name, field in schema.get("properties", {}).items()
    }
    return {
        "type": "object",
        "properties": properties,
        "required": list(schema.get("required", [])),
        "additionalProperties": False,
    }


def _flat(field: dict[str, Any]) -> dict[str, Any]:
    """An optional field without its null branch: leaving it out is how a model says null."""
    branches = [branch for branch in field.get("anyOf", []) if branch.get("type") != "null"]
    if len(branches) != 1:
        return field
    rest = {key: value for key, value in field.items() if key not in ("anyOf", "default")}
    return {**branches[0], **rest}


def parse(model: type[A], raw: Json) -> A:
    """Validated arguments, or a ToolError that names each wrong field and what would be right."""
    if isinstance(raw, str):
        raise _invalid(f"the arguments are not valid JSON ({_json_fault(raw)}). Send one object.")
    if not isinstance(raw, dict):
        raise _invalid(f"the arguments must be one JSON object, not {_kind(raw)}.")
    try:
        return model.model_validate(_renamed(model, raw))
    except ValidationError as error:
        faults = "; ".join(_sentence(model, fault) for fault in error.errors(include_url=False))
        raise _invalid(f"{faults}.") from None


def _renamed(model: type[Arguments], raw: dict[str, Json]) -> dict[str, Json]:
    """Aliases resolved; null for an optional field, which strict providers send, left out."""
    fields: dict[str, Json] = {}
    for key, value in raw.items():
        name = model.aliases.get(key, key) if key not in model.model_fields else key
        if name != key and name in raw:
            name = key
        field = model.model_fields.get(name)
        if value is None and field is not None and not field.is_required():
            continue
        fields[name] = value
    return fields


def _sentence(model: type[Arguments], fault: ErrorDetails) -> str:
    name = ".".join(str(part) for part in fault["loc"]) or "the input"
    shown = _shown(fault["input"])
    match fault["type"]:
        case "missing":
            described = model.model_fields[name].description
            return f"{name} is missing ({described})" if described else f"{name} is missing"
        case "extra_forbidden":
            near = get_close_matches(name, model.model_fields, n=1)
            hint = f" Did you mean {near[0]}?" if near else ""
            return f"there is no field {name}.{hint} The fields are {', '.join(model.model_fields)}"
        case "literal_error":
            expected = fault.get("ctx", {}).get("expected", "")
            return f"{name} must be {expected}, not {shown}"
        case "string_too_short":
            return f"{name} must not be empty"
        case "string_unicode":
            return f"{name} has half of a surrogate pair in it, which is no character"
        case _:
            wanted = fault["msg"].removeprefix("Input should be ")
            return f"{name} must be {wanted}, not {shown}"


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    text = text.encode("utf-8", "backslashreplace").decode()  # half of a pair cannot be sent on
    return text if len(text) <= SHOWN_VALUE_CHARS else text[:SHOWN_VALUE_CHARS] + "…"


def _json_fault(text: str) -> str:
    try:
        json.loads(text)
    except ValueError as error:
        return str(error)
    except RecursionError:
        return "nested too deeply"
    return "a string, not an object"


def _kind(value: Json) -> str:
    match value:
        case None:
            return "null"
        case list():
            return "an array"
        case _:
            return _shown(value)


def _invalid(message: str) -> ToolError:
    return ToolError(f"Invalid input: {message}", kind=ErrorKind.INVALID_INPUT)
