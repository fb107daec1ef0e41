"""count_words: a tool of one file. Copy it, rename it, and change what it does."""

from pydantic import Field

from agentcli.tools.python_arguments import Arguments, parse, schema_of
from agentcli.types.errors import ToolError
from agentcli.types.messages import Json
from agentcli.types.tools import Effect, Output, ToolContext, ToolSpec


class Args(Arguments):
    path: str = Field(description="A text file, e.g. docs/guide.md")


class CountWords:
    @property
    def spec(self) -> ToolSpec:
        return ToolSpec(
            name="count_words",
            description="Count the words of a text file in the workspace.",
            schema=schema_of(Args),
        )

    def parse(self, raw: Json) -> Args:
        return parse(Args, raw)

    def effect(self, args: Args) -> Effect:
        return Effect.READ

    async def preview(self, args: Args, context: ToolContext) -> None:
        return None

    async def run(self, args: Args, context: ToolContext) -> Output:
        path = (context.workspace / args.path).resolve()
        if not path.is_relative_to(context.workspace):
            raise ToolError(f"{args.path} is outside the workspace.")
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ToolError(f"{args.path} cannot be read: {error}.") from error
        return Output.of(f"{len(text.split())} words")


TOOLS = [CountWords]
