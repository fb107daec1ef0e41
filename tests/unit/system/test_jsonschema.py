import asyncio
import socket
import time

import pytest

from agentcli.system.jsonschema import build_validator, find_problem, find_schema_fault
from agentcli.types.messages import Json

POINT: Json = {
    "type": "object",
    "properties": {
        "x": {"type": "integer"},
        "tags": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["x"],
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    "schema",
    [
        POINT,
        {},
        {"properties": {"a": {}}},
        {"$schema": "http://json-schema.org/draft-07/schema#", "type": "object"},
        {"$defs": {"n": {"type": "integer"}}, "properties": {"a": {"$ref": "#/$defs/n"}}},
    ],
)
def test_schema_of_an_object_can_be_the_form_of_an_answer(schema: Json) -> None:
    assert find_schema_fault(schema) == ""


@pytest.mark.parametrize(
    ("schema", "fault"),
    [
        ([], "it is not an object"),
        (True, "it is not an object"),
        ({"type": "array"}, "its \"type\" is 'array', and an answer is always an object"),
        ({"type": "objekt"}, "its \"type\" is 'objekt', and an answer is always an object"),
        ({"properties": 3}, "$.properties: 3 is not of type 'object'"),
        ({"$ref": "#/nowhere"}, "the reference '#/nowhere' is not defined"),
        ({"$ref": "http://example.com/x"}, "the reference 'http://example.com/x' is not defined"),
        ({"properties": {"a": {"$ref": "#/no"}}}, "the reference '#/no' is not defined"),
    ],
)
def test_what_cannot_be_is_named(schema: Json, fault: str) -> None:
    assert find_schema_fault(schema) == fault


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ({"x": 1}, ""),
        ({"x": 1, "tags": ["a"]}, ""),
        ({"x": "1"}, "$.x: '1' is not of type 'integer'"),
        ({"x": 1, "tags": ["a", 2]}, "$.tags[1]: 2 is not of type 'string'"),
        ({}, "$: 'x' is a required property"),
        ({"x": 1, "y": 2}, "$: Additional properties are not allowed ('y' was unexpected)"),
        (None, "$: None is not of type 'object'"),
    ],
)
def test_value_is_held_against_the_schema(value: Json, problem: str) -> None:
    assert find_problem(POINT, value) == problem


def test_long_value_is_not_repeated_in_full() -> None:
    assert len(find_problem(POINT, {"x": "a" * 10_000})) < 200


def validate(schema: Json, value: Json, **options: float) -> str:
    async def run() -> str:
        return await build_validator(schema, **options)(value)

    return asyncio.run(run())


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ({"x": 1, "tags": ["é\ud800"]}, ""),
        ({"x": "é"}, "$.x: 'é' is not of type 'integer'"),
    ],
)
def test_value_is_checked_in_a_process_of_its_own(value: Json, problem: str) -> None:
    assert validate(POINT, value) == problem


SLOW: Json = {"properties": {"a": {"type": "string", "pattern": "^(a+)+$"}}}
ENDLESS: Json = {"a": "a" * 45 + "!"}


def test_check_without_end_is_ended() -> None:
    assert validate(SLOW, ENDLESS, limit_s=0.5) == (
        "it could not be checked within 0.5 s; a pattern may be too slow for it"
    )


def test_check_without_end_can_be_cancelled() -> None:
    async def cancel() -> None:
        async with asyncio.timeout(0.5):
            await build_validator(SLOW, limit_s=600)(ENDLESS)

    began = time.monotonic()
    with pytest.raises(TimeoutError):
        asyncio.run(cancel())
    assert time.monotonic() - began < 60


def test_value_that_is_nested_too_deeply_has_a_problem() -> None:
    deep: Json = {}
    for _ in range(100_000):
        deep = [deep]
    assert "cannot be applied" in validate({}, {"a": deep})


def test_reference_is_never_fetched() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.2)
        port = server.getsockname()[1]
        schema: Json = {"properties": {"a": {"$ref": f"http://127.0.0.1:{port}/x.json"}}}
        assert "is not defined" in find_schema_fault(schema)
        assert "cannot be applied" in find_problem(schema, {"a": 1})
        with pytest.raises(TimeoutError):
            server.accept()
