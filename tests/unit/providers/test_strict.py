import pytest

from agentcli.providers.strict import ANTHROPIC, OPENAI, StrictSubset, to_strict, with_object_root
from agentcli.types.messages import Json

FIELDS: dict[str, Json] = {
    "path": {"type": "string", "description": "Which file."},
    "limit": {"type": "integer"},
    "mode": {"enum": ["a", "b"], "description": "How."},
}
TOOL: dict[str, Json] = {
    "type": "object",
    "properties": FIELDS,
    "required": ["path"],
    "additionalProperties": False,
}


def test_anthropic_takes_a_closed_object_as_it_is() -> None:
    assert to_strict(TOOL, ANTHROPIC) == TOOL


def test_openai_makes_optional_fields_nullable_and_required() -> None:
    assert to_strict(TOOL, OPENAI) == {
        "type": "object",
        "properties": {
            "path": {"type": "string", "description": "Which file."},
            "limit": {"type": ["integer", "null"]},
            "mode": {"description": "How.", "anyOf": [{"enum": ["a", "b"]}, {"type": "null"}]},
        },
        "required": ["path", "limit", "mode"],
        "additionalProperties": False,
    }


def test_open_object_is_closed_when_it_said_nothing() -> None:
    schema: Json = {"type": "object", "properties": {"a": {"type": "object", "properties": {}}}}
    assert to_strict(schema, ANTHROPIC) == {
        "type": "object",
        "properties": {"a": {"type": "object", "properties": {}, "additionalProperties": False}},
        "additionalProperties": False,
    }


@pytest.mark.parametrize(
    "field",
    [
        {"oneOf": [{"type": "string"}]},
        {"type": "object"},
        {"type": "object", "additionalProperties": True, "properties": {}},
        {"type": "array", "items": {"type": "integer", "not": {"const": 1}}},
        {"anyOf": [{"type": "string", "contentEncoding": "base64"}]},
        True,
    ],
)
@pytest.mark.parametrize("subset", [ANTHROPIC, OPENAI])
def test_schema_that_would_be_loosened_is_not_strict(field: Json, subset: StrictSubset) -> None:
    assert (
        to_strict({"type": "object", "properties": {"a": field}, "required": ["a"]}, subset) is None
    )


def refer(**definitions: Json) -> Json:
    """Return a schema with these definitions, which refers to the first of them."""
    first = next(iter(definitions), "none")
    return {
        "type": "object",
        "properties": {"a": {"$ref": f"#/$defs/{first}"}},
        "required": ["a"],
        "$defs": definitions,
    }


def closed(**properties: Json) -> Json:
    names: list[Json] = [*properties]
    return {"type": "object", "properties": properties, "required": names}


@pytest.mark.parametrize(
    "schema",
    [
        refer(node=closed(child={"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]})),
        refer(one=closed(b={"$ref": "#/$defs/two"}), two=closed(c={"$ref": "#/$defs/one"})),
        closed(a={"type": "array", "items": {"$ref": "#"}}),
        closed(a={"type": "string"}, b={"$ref": "#/properties/a"}),
    ],
)
def test_schema_that_refers_to_itself_is_for_those_that_take_it(schema: Json) -> None:
    assert to_strict(schema, ANTHROPIC) is None
    assert to_strict(schema, OPENAI) is not None


def test_schema_may_refer_to_one_definition_many_times() -> None:
    leaf: Json = {"$ref": "#/$defs/leaf"}
    schema = refer(branch=closed(left=leaf, right=leaf), leaf={"type": "string"})
    assert to_strict(schema, ANTHROPIC) is not None


def test_bounds_beyond_a_subset_become_words() -> None:
    schema: Json = {
        "type": "object",
        "properties": {
            "n": {"type": "integer", "description": "How many", "minimum": 1, "default": 5},
            "s": {"type": "string", "minLength": 1},
        },
        "required": ["n", "s"],
    }
    assert to_strict(schema, ANTHROPIC) == {
        "type": "object",
        "properties": {
            "n": {"type": "integer", "description": "How many (at least 1, default 5)"},
            "s": {"type": "string", "description": "at least 1 characters"},
        },
        "required": ["n", "s"],
        "additionalProperties": False,
    }
    assert to_strict(schema, OPENAI) == {
        "type": "object",
        "properties": {
            "n": {"type": "integer", "description": "How many (default 5)", "minimum": 1},
            "s": {"type": "string", "description": "at least 1 characters"},
        },
        "required": ["n", "s"],
        "additionalProperties": False,
    }


@pytest.mark.parametrize("schema", [None, [], "x", {}, {"type": "string"}, {"anyOf": []}])
def test_what_is_not_an_object_is_not_strict(schema: Json) -> None:
    assert to_strict(schema, ANTHROPIC) is None


def test_strict_leaves_its_input_alone() -> None:
    schema: dict[str, Json] = {"type": "object", "properties": {"a": {"type": "string"}}}
    to_strict(schema, OPENAI)
    assert schema == {"type": "object", "properties": {"a": {"type": "string"}}}


def test_rooted_takes_unions_from_the_root() -> None:
    schema: Json = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "oneOf": [
            {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]},
            {"$ref": "#/$defs/Other"},
        ],
        "$defs": {"Other": {"type": "object", "properties": {"b": {"type": "integer"}}}},
        "description": "Either.",
    }
    assert with_object_root(schema) == {
        "$defs": {"Other": {"type": "object", "properties": {"b": {"type": "integer"}}}},
        "description": "Either.",
        "type": "object",
        "properties": {"a": {"type": "string"}, "b": {"type": "integer"}},
    }


@pytest.mark.parametrize("schema", [None, [], "x", {}, {"type": "null"}, {"properties": []}])
def test_rooted_makes_an_object_of_anything(schema: Json) -> None:
    assert with_object_root(schema) == {"type": "object", "properties": {}}


def test_rooted_keeps_an_ordinary_schema() -> None:
    assert with_object_root(TOOL) == TOOL
