import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from agentcli.tools.answer import AnswerTool
from agentcli.types.errors import ToolError
from agentcli.types.messages import Json
from agentcli.types.tools import Effect, ErrorKind, Output, ToolContext


def says(problem: str) -> Callable[[Json], Awaitable[str]]:
    async def take(value: Json) -> str:
        return problem

    return take


CONTEXT = ToolContext(call_id="c", workspace=Path(), progress=lambda text: None)


def test_answer_is_declared_with_its_schema_and_only_reads() -> None:
    tool = AnswerTool("answer", {"type": "object"}, take=says(""))
    assert (tool.spec.name, tool.spec.schema) == ("answer", {"type": "object"})
    assert tool.effect(tool.parse({})) is Effect.READ


def test_answer_is_taken_once_when_it_runs() -> None:
    taken: list[Json] = []

    async def take(value: Json) -> str:
        taken.append(value)
        return ""

    tool = AnswerTool("answer", {}, take=take)
    tool.parse({"n": 1})
    assert asyncio.run(tool.run({"n": 1}, CONTEXT)) == Output.of("Taken.")
    assert taken == [{"n": 1}]


def test_answer_of_another_form_is_an_error_that_says_why() -> None:
    tool = AnswerTool("answer", {}, take=says("$.n: missing"))
    with pytest.raises(ToolError, match=r"\$\.n: missing\. Call answer again") as caught:
        asyncio.run(tool.run({}, CONTEXT))
    assert caught.value.kind is ErrorKind.INVALID_INPUT
