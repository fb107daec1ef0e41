"""search_tools: find deferred tools by what they do, and have them declared.

Finding a tool permits nothing: every call of it is judged like any other.
"""

from collections.abc import Callable, Sequence
from typing import Annotated, ClassVar, TypeAlias

from pydantic import Field

from agentcli.machine.tokens import estimate_fast
from agentcli.tools.contracts import load_spec
from agentcli.tools.ranking import Ranking
from agentcli.tools.schema import Arguments, parse
from agentcli.types.messages import Json, Text
from agentcli.types.tools import Effect, Output, Raw, ToolContext, ToolSpec

FOUND_MOST = 8
SHOWN_CHARS = 300
ROOM_TOKENS = 6_000
"""For the declarations of what one search finds."""

Declare: TypeAlias = Callable[[Sequence[str]], None]


class SearchToolsArgs(Arguments):
    query: Annotated[str, Field(min_length=1, description="e.g. create an issue on GitHub")]

    aliases: ClassVar[dict[str, str]] = {"q": "query", "search": "query", "task": "query"}


class SearchTools:
    def __init__(
        self,
        *,
        deferred: Callable[[], Sequence[ToolSpec]],
        declare: Declare,
        spec: ToolSpec | None = None,
    ) -> None:
        """`deferred`: all that can be found. `declare`: tells the model of these from now on.
        `spec`: says how many there are, besides."""
        self._spec = spec or load_spec("search_tools")
        self._deferred = deferred
        self._declare = declare

    @property
    def spec(self) -> ToolSpec:
        return self._spec

    def parse(self, raw: Json) -> SearchToolsArgs:
        return parse(SearchToolsArgs, raw)

    def effect(self, args: SearchToolsArgs) -> Effect:
        return Effect.READ

    async def preview(self, args: SearchToolsArgs, context: ToolContext) -> None:
        return None

    async def run(self, args: SearchToolsArgs, context: ToolContext) -> Output:
        specs = {spec.name: spec for spec in self._deferred()}
        texts = {name: f"{name} {name} {spec.description}" for name, spec in specs.items()}
        found = _take_fitting([specs[name] for name in Ranking(texts).best(args.query, FOUND_MOST)])
        names = tuple(spec.name for spec in found)
        details = Raw(text="\n".join(names))
        if not found:
            sources = ", ".join(dict.fromkeys(spec.source for spec in specs.values()))
            return Output.of(
                f"None of the {len(specs)} tools fits. They come from: {sources}. Try other words.",
                details=details,
            )
        self._declare(names)
        lines = [f"{spec.name}: {spec.description[:SHOWN_CHARS]}" for spec in found]
        return Output(
            content=(Text(text="Declared, and can be called now:\n" + "\n".join(lines)),),
            details=details,
            origin=_origin(found),
            found=names,
        )


def _take_fitting(found: Sequence[ToolSpec]) -> list[ToolSpec]:
    """From the best on, as many as there is room for, and at least one."""
    taken: list[ToolSpec] = []
    left = ROOM_TOKENS
    for spec in found:
        left -= estimate_fast(f"{spec.description}{spec.schema}")
        if left < 0 and taken:
            break
        taken.append(spec)
    return taken


def _origin(found: Sequence[ToolSpec]) -> str:
    servers = dict.fromkeys(
        spec.source.removeprefix("mcp ") for spec in found if spec.source.startswith("mcp ")
    )
    return f"the MCP server {', '.join(servers)}" if servers else ""
