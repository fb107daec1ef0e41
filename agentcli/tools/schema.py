"""Pydantic at the edge of the tools: argument models to schemas, bad arguments to sentences."""

import json
from difflib import get_close_matches
from typing import Annotated, Any, ClassVar, NoReturn, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import ErrorDetails, PydanticCustomError

from agentcli.types.errors import ToolError
from agentcli.types.messages import Json
from agentcli.types.tools import ErrorKind

SHOWN_VALUE_CHARS = 80


class Arguments(BaseModel):
    """Base of every tool's arguments: closed, and described field by field."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    aliases: ClassVar[dict[str, str]] = {}
    """Other names models use for a field, accepted silently."""
    ignored: ClassVar[frozenset[str]] = frozenset()
    """Fields of the same tool elsewhere that mean nothing here."""
    advice: ClassVar[dict[str, str]] = {}
    """For fields of the same tool elsewhere, what to do here instead."""


A = TypeVar("A", bound=Arguments)


def _nameable(path: str) -> str:
    if "\0" in path:
        raise PydanticCustomError("path_nul", "a path without NUL")
    return path


FilePath = Annotated[
    str, Field(min_length=1, description="e.g. src/app.py"), AfterValidator(_nameable)
]
"""The path of a file that a call is about; an invalid one is refused before the call is judged."""

UNDECLARED = ("title", "default", "minimum", "maximum", "minLength")
"""Schema keys that are not declared: they cost tokens in every request, and the strict subsets of
providers do not know most of them. The description says what a model must know, and validation
checks the rest."""


def schema_of(model: type[Arguments]) -> dict[str, Json]:
    """Return the JSON schema as declared: an object, closed to other properties."""
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
    """Remove the null branch of an optional field: a model omits the field instead."""
    branches = [branch for branch in field.get("anyOf", []) if branch.get("type") != "null"]
    if len(branches) != 1:
        return field
    rest = {key: value for key, value in field.items() if key not in ("anyOf", "default")}
    return {**branches[0], **rest}


def parse(model: type[A], raw: Json) -> A:
    """Return validated arguments; raise ToolError that names each wrong field and its remedy."""
    if isinstance(raw, str):
        raw = _read(raw)
    if not isinstance(raw, dict):
        raise _invalid(f"the arguments must be one JSON object, not {_kind(raw)}.")
    try:
        return model.model_validate(_apply_aliases(model, raw))
    except ValidationError as error:
        found = error.errors(include_url=False)
        faults = "; ".join(_sentence(model, fault) for fault in found)
        is_unknown = any(_is_unknown_field(fault) for fault in found)
        fields = f" The fields are {', '.join(model.model_fields)}." if is_unknown else ""
        raise _invalid(f"{faults}{'' if faults.endswith('?') else '.'}{fields}") from None


def _apply_aliases(model: type[Arguments], raw: dict[str, Json]) -> dict[str, Json]:
    """Resolve aliases, and drop null for optional fields, which strict providers send."""
    fields: dict[str, Json] = {}
    for key, value in raw.items():
        name = model.aliases.get(key, key) if key not in model.model_fields else key
        if name in model.ignored:
            continue
        if name != key and name in raw:
            name = key
        field = model.model_fields.get(name)
        if value is None and field is not None and not field.is_required():
            continue
        fields[name] = value
    return fields


def _sentence(model: type[Arguments], fault: ErrorDetails) -> str:
    name = ".".join(str(part) for part in fault["loc"]) or "the input"
    shown = _display(fault["input"])
    match fault["type"]:
        case "missing":
            field = model.model_fields.get(name)
            described = field.description if field else None
            return f"{name} is missing ({described})" if described else f"{name} is missing"
        case "extra_forbidden":
            if advice := model.advice.get(name):
                return f"there is no field {name}: {advice}"
            near = get_close_matches(name, model.model_fields, n=1) if "." not in name else []
            return f"there is no field {name}" + (f". Did you mean {near[0]}?" if near else "")
        case "literal_error":
            expected = fault.get("ctx", {}).get("expected", "")
            return f"{name} must be {expected}, not {shown}"
        case "string_too_short":
            return f"{name} must not be empty"
        case "needs":
            return f"{name}: {fault['msg']}"
        case "string_unicode":
            return f"{name} has half of a surrogate pair in it, which is not a character"
        case _:
            wanted = (
                fault["msg"].removeprefix("Input should be ").replace("a valid tuple", "an array")
            )
            field = model.model_fields.get(name)
            meant = f" ({field.description})" if field and field.description else ""
            return f"{name} must be {wanted}, not {shown}{meant}"


def _is_unknown_field(fault: ErrorDetails) -> bool:
    return fault["type"] == "extra_forbidden" and len(fault["loc"]) == 1


def _display(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    text = text.encode("utf-8", "backslashreplace").decode()  # a lone surrogate cannot be sent
    return text if len(text) <= SHOWN_VALUE_CHARS else text[:SHOWN_VALUE_CHARS] + "…"


def _read(text: str) -> Json:
    """Parse arguments that arrived as text: they are either not JSON, or not an object."""
    try:
        value: Json = json.loads(text, parse_constant=_no_constant)
        fault = "nested too deeply"
    except ValueError as error:
        value, fault = {}, str(error)
    except RecursionError:
        value, fault = {}, "nested too deeply"
    if not isinstance(value, dict):
        return value
    raise _invalid(f"the arguments are not valid JSON ({fault}). Send one object.")


def _no_constant(name: str) -> NoReturn:
    """Raise ValueError for a constant that Python accepts, but JSON does not have."""
    raise ValueError(f"{name} is not a JSON value")


def _kind(value: Json) -> str:
    match value:
        case None:
            return "null"
        case list():
            return "an array"
        case _:
            return _display(value)


def _invalid(message: str) -> ToolError:
    return ToolError(f"Invalid input: {message}", kind=ErrorKind.INVALID_INPUT)
