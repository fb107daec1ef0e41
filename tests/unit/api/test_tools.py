import asyncio
from functools import partial
from pathlib import Path
from threading import Thread
from typing import Annotated, Any

import pytest
from pydantic import BaseModel

from agentcli import ToolContext, ToolError, tool
from agentcli.types.errors import UsageError
from agentcli.types.messages import Json
from agentcli.types.tools import Effect, Output


class Point(BaseModel):
    x: int
    y: int = 0


@tool(effect="read")
async def move(
    to: Point,
    name: Annotated[str, "Whom to move"],
    context: ToolContext,
    copy: bool = False,
    tags: tuple[str, ...] = (),
) -> dict[str, Any]:
    """Move somebody.

    Slowly."""
    context.progress("moving")
    return {"to": [to.x, to.y], "name": name, "copy": copy, "tags": tags, "at": context.workspace}


def context(shown: list[str] | None = None) -> ToolContext:
    seen = [] if shown is None else shown
    return ToolContext(call_id="c1", workspace=Path("/work"), progress=seen.append)


def run(function: Any, raw: Json) -> str:
    output = asyncio.run(function.run(function.parse(raw), context()))
    assert isinstance(output, Output)
    return "".join(getattr(block, "text", "") for block in output.content)


def test_signature_is_the_schema_and_docstring_the_description() -> None:
    spec = move.spec
    assert (spec.name, spec.source) == ("move", "the program")
    assert spec.description == "Move somebody.\n\nSlowly."
    assert isinstance(spec.schema, dict)
    properties: Any = spec.schema["properties"]
    assert list(properties) == ["to", "name", "copy", "tags"]
    assert properties["name"] == {"type": "string", "description": "Whom to move"}
    assert spec.schema["required"] == ["to", "name"]
    assert properties["to"] == {"$ref": "#/$defs/Point"}
    definitions: Any = spec.schema["$defs"]
    assert definitions["Point"]["required"] == ["x"]


def test_arguments_reach_the_function_in_their_types_and_the_context_with_them() -> None:
    shown: list[str] = []
    args = move.parse({"to": {"x": 1}, "name": "Ann", "tags": ["a"]})
    output = asyncio.run(move.run(args, context(shown)))
    (text,) = (getattr(block, "text", "") for block in output.content)
    assert text == '{"to": [1, 0], "name": "Ann", "copy": false, "tags": ["a"], "at": "/work"}'
    assert (shown, move.effect(args)) == (["moving"], Effect.READ)


def test_wrong_arguments_are_named() -> None:
    with pytest.raises(ToolError, match=r"to\.x must be a valid integer.*there is no field nam"):
        move.parse({"to": {"x": "far"}, "nam": "Ann"})


def test_plain_function_runs_beside_and_can_still_be_called() -> None:
    @tool
    def double(number: int) -> str:
        "Double it."
        return str(2 * number)

    assert (run(double, {"number": 4}), double(5)) == ("8", "10")
    assert double.effect(double.parse({"number": 1})) is Effect.EXECUTE


def test_what_a_function_returns_is_text_for_the_model() -> None:
    @tool
    def give(kind: str) -> Any:
        "Give it."
        return {"none": None, "list": [1, "ä"], "own": Output.of("mine")}[kind]

    assert [run(give, {"kind": kind}) for kind in ("none", "list", "own")] == [
        "",
        '[1, "ä"]',
        "mine",
    ]


def undescribed(a: int) -> None: ...


def variadic(*words: str) -> None:
    "Take words."


def underscored(_a: int) -> None:
    "Take it."


def add(a: int, b: int) -> int:
    "Add numbers."
    return a + b


class Counter:
    def count(self, to: int) -> list[int]:
        "Count."
        return [*range(to)]


def take_path(path: Path, thread: Thread) -> None:
    "Take what JSON does not have."


def take_unknown(it: "Nowhere") -> None:  # type: ignore[name-defined]  # noqa: F821
    "Take what is not defined."


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (undescribed, "the tool undescribed has no description"),
        (variadic, r"takes \*words: str, which cannot be declared"),
        (underscored, "cannot have an argument _a"),
        (Counter.count, "the tool count is a method without its object"),
        (partial(add, 1), "has no name"),
    ],
)
def test_function_that_cannot_be_declared_is_refused_at_once(function: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        tool(function)


@pytest.mark.parametrize(
    ("function", "message"),
    [(take_path, "schema for <class 'threading.Thread'>$"), (take_unknown, "'Nowhere' is not")],
)
def test_type_that_cannot_be_declared_is_named(function: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        _ = tool(function).spec


def test_effect_that_does_not_exist_is_named() -> None:
    with pytest.raises(UsageError, match="one of read, write, execute, network, not 'reads'"):
        tool(effect="reads")  # type: ignore[call-overload]


def test_bound_method_and_partial_are_functions_too() -> None:
    assert run(tool(Counter().count), {"to": 2}) == "[0, 1]"
    assert run(tool(name="more")(partial(add, 1)), {"b": 2}) == "3"


def test_function_that_returns_something_to_await_is_awaited() -> None:
    async def later(word: str) -> str:
        return f"later {word}"

    @tool
    def give(word: str) -> Any:
        "Give it later."
        return later(word)

    assert run(give, {"word": "on"}) == "later on"
