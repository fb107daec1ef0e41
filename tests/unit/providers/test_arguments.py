import json

import pytest

from agentcli.providers.arguments import (
    LIMIT_DEPTH,
    make_sendable,
    parse_arguments,
    read_arguments,
    wrap_arguments,
)
from agentcli.types.messages import Json


def test_object_is_parsed() -> None:
    assert parse_arguments('{"a": [1, {"b": null}]}') == {"a": [1, {"b": None}]}


@pytest.mark.parametrize("text", ["", "  \n"])
def test_no_text_is_no_arguments(text: str) -> None:
    assert parse_arguments(text) == {}


@pytest.mark.parametrize(
    "text",
    [
        '{"a": ',
        "[1]",
        '"text"',
        "null",
        "3",
        '{"a": NaN}',
        '{"a": Infinity}',
        '{"a": [1e400]}',
        '{"a": ' + "9" * 5000 + "}",
        '{"a": 1} {"b": 2}',
        '{"a": ' + "[" * LIMIT_DEPTH + "]" * LIMIT_DEPTH + "}",
        "[" * 200_000,
    ],
)
def test_what_is_no_object_stays_text(text: str) -> None:
    assert parse_arguments(text) == text


def test_nesting_below_the_limit_is_parsed() -> None:
    text = '{"a": ' + "[" * (LIMIT_DEPTH - 1) + "]" * (LIMIT_DEPTH - 1) + "}"
    assert json.dumps(parse_arguments(text)) == text


def test_half_characters_are_replaced() -> None:
    assert parse_arguments(r'{"\ud800k": "\ud83d\ude00 \udc00"}') == {"\ufffdk": "😀 \ufffd"}
    assert parse_arguments('{"\ud800') == '{"\ufffd'


def test_numbers_that_json_does_not_have_are_not_sent() -> None:
    assert make_sendable({"a": [float("inf"), 1.5], "b": "c"}) == {"a": ["Infinity", 1.5], "b": "c"}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (None, {}),
        ({}, {}),
        ('{"a": 1}', {"a": 1}),
        ({"a": [1.5, "é"]}, {"a": [1.5, "é"]}),
        ({"a": float("inf")}, '{"a": Infinity}'),
        ([1], "[1]"),
    ],
)
def test_arguments_that_came_as_a_value_are_checked_like_text(given: Json, expected: Json) -> None:
    assert read_arguments(given) == expected


def test_large_arguments_are_parsed() -> None:
    text = json.dumps({"content": "é" * 1_000_000})
    assert parse_arguments(text) == {"content": "é" * 1_000_000}


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"a": 1}, {"a": 1}),
        ("{", {"malformed_arguments": "{"}),
        ([1], {"malformed_arguments": [1]}),
        (None, {"malformed_arguments": None}),
    ],
)
def test_echoed_arguments_are_an_object(value: Json, expected: Json) -> None:
    assert wrap_arguments(value) == expected
