"""Adapting a tool's schema to a provider: with an object at the root, or in its strict subset.

The provider enforces a strict schema while the model writes. Bounds that a subset does not support
become part of the description, since the tool checks them anyway. A schema with an unsupported
shape is not made strict. Nothing is silently loosened.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Literal, TypeGuard

from agentcli.providers.dialect import Model
from agentcli.types.fast_dataclass import dataclass
from agentcli.types.messages import Json
from agentcli.types.provider import Request
from agentcli.types.tools import ToolSpec

Schema = dict[str, Json]

_COMBINATORS = ("anyOf", "oneOf", "allOf")


@dataclass(frozen=True, slots=True, kw_only=True)
class StrictSubset:
    """The part of JSON Schema that a provider's strict mode supports."""

    keywords: frozenset[str]
    optional: Literal["taken", "nullable", "refused"]
    """The treatment of an optional property. If nullable, it becomes a union with null."""
    takes_recursion: bool = True
    """True if a definition may refer to itself."""


_SHARED = frozenset(
    {
        "type",
        "description",
        "title",
        "enum",
        "const",
        "properties",
        "required",
        "additionalProperties",
        "items",
        "anyOf",
        "$defs",
        "$ref",
    }
)

_BOUNDS = {
    "minimum": "at least {}",
    "maximum": "at most {}",
    "exclusiveMinimum": "more than {}",
    "exclusiveMaximum": "less than {}",
    "multipleOf": "a multiple of {}",
    "minLength": "at least {} characters",
    "maxLength": "at most {} characters",
    "minItems": "at least {} items",
    "maxItems": "at most {} items",
    "pattern": "matching {}",
    "format": "format {}",
    "default": "default {}",
}

ANTHROPIC = StrictSubset(keywords=_SHARED, optional="taken", takes_recursion=False)
OPENAI = StrictSubset(
    keywords=_SHARED
    | {"pattern", "format", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"}
    | {"multipleOf", "minItems", "maxItems"},
    optional="nullable",
)
GEMINI = StrictSubset(
    keywords=_SHARED | {"minimum", "maximum", "minItems", "maxItems", "format"}, optional="taken"
)
OPENAI_ANSWER = replace(OPENAI, optional="refused")
"""The subset for answers. Optional properties are refused: nothing removes nulls from an answer."""


def is_schema(value: Json) -> TypeGuard[Schema]:
    return isinstance(value, dict)


def build_strict_schema(spec: ToolSpec, subset: StrictSubset, *, model: Model) -> Schema | None:
    """Return a tool's strict schema; None if the model takes none or the tool is not built in.

    In some subsets a strict tool gets null for an omitted argument. Only built-in tools expect it.
    """
    if not model.strict_tools or spec.source != "built-in":
        return None
    return to_strict(spec.schema, subset)


def are_strict(specs: Sequence[ToolSpec], subset: StrictSubset, *, model: Model) -> bool:
    """Return whether the provider can hold the model to the schema of every tool."""
    return all(build_strict_schema(spec, subset, model=model) is not None for spec in specs)


def find_answer_schema(request: Request, model: Model) -> Schema | None:
    """Return the schema of the answer as written, or None if the provider cannot enforce it."""
    schema = request.answer_schema
    if not model.answer_schemas or not is_schema(schema):
        return None
    return {key: value for key, value in schema.items() if key != "$schema"}


def to_strict(schema: Json, subset: StrictSubset) -> Schema | None:
    """Return the schema in the subset, or None if the subset cannot express it."""
    if not is_schema(schema) or schema.get("type") != "object":
        return None
    if not subset.takes_recursion and _is_recursive(schema):
        return None
    try:
        return _make_strict(schema, subset)
    except _NotExpressible:
        return None


def _is_recursive(schema: Schema) -> bool:
    """Return whether a definition refers to itself, or anything to what is no definition."""
    definitions = schema.get("$defs")
    left = {
        f"#/$defs/{name}": {*_iter_references(definition)}
        for name, definition in (definitions.items() if is_schema(definitions) else ())
    }
    if not left.keys() >= {*_iter_references(schema)}:
        return True
    while ends := {name for name, references in left.items() if not references & left.keys()}:
        left = {name: references for name, references in left.items() if name not in ends}
    return bool(left)


def _iter_references(value: Json) -> Iterator[str]:
    match value:
        case dict():
            if isinstance(reference := value.get("$ref"), str):
                yield reference
            for inner in value.values():
                yield from _iter_references(inner)
        case list():
            for inner in value:
                yield from _iter_references(inner)


class _NotExpressible(Exception):
    pass


def _make_strict(schema: Schema, subset: StrictSubset) -> Schema:
    made: Schema = {key: value for key, value in schema.items() if key in subset.keywords}
    beyond = {key: value for key, value in schema.items() if key not in subset.keywords}
    if not _BOUNDS.keys() >= beyond.keys():
        raise _NotExpressible
    if beyond:
        made["description"] = _describe_bounds(schema.get("description"), beyond)
    for keyword in ("properties", "$defs"):
        if keyword in schema:
            made[keyword] = _make_each_strict(schema[keyword], subset)
    if "items" in schema:
        made["items"] = _make_inner_strict(schema["items"], subset)
    if isinstance(branches := schema.get("anyOf"), list):
        made["anyOf"] = [_make_inner_strict(branch, subset) for branch in branches]
    if "object" in _list_types(schema):
        _close_object(made, subset)
    return made


def _describe_bounds(description: Json, bounds: Schema) -> str:
    words = ", ".join(_BOUNDS[key].format(json.dumps(value)) for key, value in bounds.items())
    return f"{description} ({words})" if isinstance(description, str) else words


def _make_inner_strict(schema: Json, subset: StrictSubset) -> Json:
    if not is_schema(schema):
        raise _NotExpressible
    return _make_strict(schema, subset)


def _make_each_strict(schemas: Json, subset: StrictSubset) -> Json:
    if not is_schema(schemas):
        raise _NotExpressible
    return {name: _make_inner_strict(schema, subset) for name, schema in schemas.items()}


def _close_object(made: Schema, subset: StrictSubset) -> None:
    """Allow no other properties in the object.

    Raise _NotExpressible if the schema allows them: only what was closed, or did not say, may be
    closed.
    """
    if made.get("additionalProperties", False) is not False or "properties" not in made:
        raise _NotExpressible
    made["additionalProperties"] = False
    properties = made["properties"]
    required = made.get("required", [])
    if subset.optional == "taken" or not is_schema(properties) or not isinstance(required, list):
        return
    if subset.optional == "refused" and properties.keys() - set(map(str, required)):
        raise _NotExpressible
    made["properties"] = {
        name: field if name in required else _make_nullable(field)
        for name, field in properties.items()
    }
    made["required"] = list(properties)


def _make_nullable(schema: Json) -> Json:
    if not is_schema(schema):
        raise _NotExpressible
    if "null" in _list_types(schema):
        return schema
    plain = isinstance(schema.get("type"), str) and "enum" not in schema and "const" not in schema
    if plain:
        return {**schema, "type": [*_list_types(schema), "null"]}
    if isinstance(branches := schema.get("anyOf"), list):
        return {**schema, "anyOf": [*branches, {"type": "null"}]}
    described: Schema = {key: schema[key] for key in ("description",) if key in schema}
    bare: Schema = {key: value for key, value in schema.items() if key != "description"}
    return {**described, "anyOf": [bare, {"type": "null"}]}


def _list_types(schema: Schema) -> list[Json]:
    kind = schema.get("type")
    return kind if isinstance(kind, list) else [kind]


def with_object_root(schema: Json) -> Schema:
    """Return the schema with an object at the root and no union there.

    For tools that are not built in, whose schemas can have any shape. The result has the properties
    of all branches, and requires only the common ones. It is wider than the original, which the
    tool's own server still checks.
    """
    if not is_schema(schema):
        return {"type": "object", "properties": {}}
    made: Schema = {
        key: value for key, value in schema.items() if key not in (*_COMBINATORS, "$schema", "$id")
    }
    branches = [branch for word in _COMBINATORS for branch in _list_branches(schema, word)]
    made["type"] = "object"
    made["properties"] = _merge_schemas([schema, *branches])
    return made


def _list_branches(schema: Schema, word: str) -> list[Schema]:
    found = schema.get(word)
    if not isinstance(found, list):
        return []
    return [_resolve(branch, schema) for branch in found if is_schema(branch)]


def _resolve(branch: Schema, root: Schema) -> Schema:
    """Return the target of a branch that is a reference into the root; else the branch itself."""
    reference = branch.get("$ref")
    if not isinstance(reference, str) or not reference.startswith("#/"):
        return branch
    found: Json = root
    for part in reference.removeprefix("#/").split("/"):
        found = found.get(part, {}) if isinstance(found, Mapping) else {}
    return found if is_schema(found) else {}


def _merge_schemas(schemas: list[Schema]) -> Schema:
    merged: Schema = {}
    for schema in schemas:
        properties = schema.get("properties")
        if is_schema(properties):
            merged.update((key, value) for key, value in properties.items() if key not in merged)
    return merged
