"""Arguments of the user's own tools and functions: pydantic models to schemas, and sentences.

The built-in tools declare theirs without pydantic (`tools/arguments.py`), and say the same of bad
arguments.
"""

from typing import Annotated, Any, ClassVar, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import ErrorDetails, PydanticCustomError

from agentcli.tools.arguments import ArgumentFault, apply_aliases, explain_faults
from agentcli.types.messages import Json


class Arguments(BaseModel):
    """Base of their arguments: closed, and described field by field."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    aliases: ClassVar[dict[str, str]] = {}
    """Other names models use for a field, accepted silently."""
    ignored: ClassVar[frozenset[str]] = frozenset()
    """Fields of the same tool elsewhere that mean nothing here."""
    advice: ClassVar[dict[str, str]] = {}
    """For fields of the same tool elsewhere, what to do here instead."""


A = TypeVar("A", bound=Arguments)


def _check_nameable(path: str) -> str:
    if "\0" in path:
        raise PydanticCustomError("path_nul", "a path without NUL")
    return path


FilePath = Annotated[
    str, Field(min_length=1, description="e.g. src/app.py"), AfterValidator(_check_nameable)
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
        name: {key: value for key, value in _flatten_field(field).items() if key not in UNDECLARED}
        for name, field in schema.get("properties", {}).items()
    }
    return {
        "type": "object",
        "properties": properties,
        "required": list(schema.get("required", [])),
        "additionalProperties": False,
    }


def _flatten_field(field: dict[str, Any]) -> dict[str, Any]:
    """Remove the null branch of an optional field: a model omits the field instead."""
    branches = [branch for branch in field.get("anyOf", []) if branch.get("type") != "null"]
    if len(branches) != 1:
        return field
    rest = {key: value for key, value in field.items() if key not in ("anyOf", "default")}
    return {**branches[0], **rest}


def parse(model: type[A], raw: Json) -> A:
    """Return validated arguments; raise ToolError that names each wrong field and its remedy."""
    known = model.model_fields
    values = apply_aliases(
        model, raw, required={name: one.is_required() for name, one in known.items()}
    )
    try:
        return model.model_validate(values)
    except ValidationError as error:
        faults = map(_read_fault, error.errors(include_url=False))
        described = {name: one.description or "" for name, one in known.items()}
        raise explain_faults(faults, described, advice=model.advice) from None


def _read_fault(found: ErrorDetails) -> ArgumentFault:
    """Return an error of pydantic as the fault that it is in the arguments of any tool."""
    wanted = found["msg"].removeprefix("Input should be ").replace("a valid tuple", "an array")
    return ArgumentFault(
        kind=found["type"],
        wanted=found.get("ctx", {}).get("expected", wanted),
        given=found["input"],
        at=found["loc"],
    )
