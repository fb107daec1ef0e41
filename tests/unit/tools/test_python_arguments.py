from typing import Annotated, ClassVar, Literal

import pytest
from pydantic import Field

from agentcli.tools.python_arguments import Arguments, FilePath, parse, schema_of
from agentcli.types.errors import ToolError
from agentcli.types.messages import Json
from agentcli.types.tools import ErrorKind


class Args(Arguments):
    name: Annotated[str, Field(min_length=1, description="e.g. x")]
    kind: Literal["one", "two"] = "one"
    limit: Annotated[int | None, Field(ge=1, description="Lines")] = None

    aliases: ClassVar[dict[str, str]] = {"title": "name"}


class Target(Arguments):
    path: FilePath


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("", "path must not be empty."),
        ("a\0b", 'path must be a path without NUL, not "a\\u0000b" (e.g. src/app.py).'),
    ],
)
def test_path_that_names_no_file_is_invalid(path: str, told: str) -> None:
    with pytest.raises(ToolError) as refused:
        parse(Target, {"path": path})
    assert str(refused.value) == f"Invalid input: {told}"


def test_schema_is_closed_and_says_only_what_costs_little() -> None:
    assert schema_of(Args) == {
        "type": "object",
        "properties": {
            "name": {"type": "string", "description": "e.g. x"},
            "kind": {"type": "string", "enum": ["one", "two"]},
            "limit": {"type": "integer", "description": "Lines"},
        },
        "required": ["name"],
        "additionalProperties": False,
    }


@pytest.mark.parametrize(
    ("raw", "parsed"),
    [
        ({"name": "a"}, Args(name="a")),
        ({"title": "a", "limit": None}, Args(name="a")),
        ({"name": "a", "limit": "7"}, Args(name="a", limit=7)),
    ],
)
def test_arguments_are_taken_as_models_write_them(raw: Json, parsed: Args) -> None:
    assert parse(Args, raw) == parsed


@pytest.mark.parametrize(
    ("raw", "told"),
    [
        ({}, "name is missing (e.g. x)."),
        ({"name": ""}, "name must not be empty."),
        ({"name": "\ud800"}, "name has half of a surrogate pair in it, which is not a character."),
        ({"name": 5}, "name must be a valid string, not 5 (e.g. x)."),
        ({"name": "a", "kind": "three"}, "kind must be 'one' or 'two', not \"three\"."),
        ({"name": "a", "limit": 0}, "limit must be greater than or equal to 1, not 0 (Lines)."),
        (
            {"name": "a", "limits": 1},
            "there is no field limits. Did you mean limit? The fields are name, kind, limit.",
        ),
        ({"title": "a", "name": "b"}, "there is no field title. The fields are name, kind, limit."),
        ([], "the arguments must be one JSON object, not an array."),
        (None, "the arguments must be one JSON object, not null."),
        (
            '{"name": ',
            "the arguments are not valid JSON (Expecting value: line 1 column 10 (char 9)). "
            "Send one object.",
        ),
        ('["a.txt"]', "the arguments must be one JSON object, not an array."),
        ("null", "the arguments must be one JSON object, not null."),
        ("3", "the arguments must be one JSON object, not 3."),
        ('"a.txt"', 'the arguments must be one JSON object, not "a.txt".'),
        (
            '{"name": NaN}',
            "the arguments are not valid JSON (NaN is not a JSON value). Send one object.",
        ),
        (
            '{"name": 1e400}',
            "the arguments are not valid JSON (the number 1e400 is too large). Send one object.",
        ),
        (
            '{"name": ' + "[" * 200 + "]" * 200 + "}",
            "the arguments are not valid JSON (nested too deeply). Send one object.",
        ),
    ],
)
def test_bad_arguments_become_a_sentence_for_the_model(raw: Json, told: str) -> None:
    with pytest.raises(ToolError) as refused:
        parse(Args, raw)
    assert (str(refused.value), refused.value.kind) == (
        f"Invalid input: {told}",
        ErrorKind.INVALID_INPUT,
    )
