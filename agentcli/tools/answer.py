"""answer: the final answer as data, for models whose provider cannot enforce a form."""

from collections.abc import Awaitable, Callable

from agentcli.types.errors import ToolError
from agentcli.types.messages import Json
from agentcli.types.tools import Effect, ErrorKind, Output, ToolContext, ToolSpec

DESCRIPTION = (
    "Gives the final answer. Call it once, alone, when the work is done: it is the only answer "
    "that is read, and nothing can be done after it."
)


def build_answer_spec(name: str, schema: Json) -> ToolSpec:
    return ToolSpec(name=name, description=DESCRIPTION, schema=schema)


class AnswerTool:
    def __init__(self, name: str, schema: Json, *, take: Callable[[Json], Awaitable[str]]) -> None:
        """`take` returns what is wrong with an answer, or an empty string if it is accepted."""
        self._spec = build_answer_spec(name, schema)
        self._take = take

    @property
    def spec(self) -> ToolSpec:
        return self._spec

    def parse(self, raw: Json) -> Json:
        return raw

    def effect(self, args: Json) -> Effect:
        return Effect.READ

    async def preview(self, args: Json, context: ToolContext) -> None:
        return None

    async def run(self, args: Json, context: ToolContext) -> Output:
        problem = await self._take(args)
        if problem:
            raise ToolError(
                f"The answer does not have the form that was asked for: {problem}. Call "
                f"{self._spec.name} again with all of it.",
                kind=ErrorKind.INVALID_INPUT,
            )
        return Output.of("Taken.")
