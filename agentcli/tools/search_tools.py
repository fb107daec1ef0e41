"""search_tools: find deferred tools by what they do, and declare them.

Finding a tool permits nothing: every call of it is judged like any other.
"""

import math
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import ClassVar, TypeAlias

from agentcli.system.lazy import compile_later
from agentcli.system.tokens import estimate_fast
from agentcli.tools.arguments import BuiltinArguments, TextCheck, declare_argument, parse_arguments
from agentcli.tools.contracts import load_spec
from agentcli.types.fast_dataclass import dataclass
from agentcli.types.messages import Json, Text
from agentcli.types.tools import Effect, Output, Raw, ToolContext, ToolSpec

# Ranking short texts by how well they match a query, offline and in any script.


K1 = 1.2
B = 0.6
WORTH = 0.3
"""The least share of the best score; below it only small words match the query."""
_SMALL_WORDS = (
    "a an and are as at be by can do for from how i in is it me my of on or that the this to use "
    "want with you"
)
"""Words of a query that say nothing about a tool."""
_WORD = compile_later(r"[^\W_]+")
_HUMP = compile_later(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_ENDING = compile_later(r"(?<=[a-z]{3})(?:ies|ing|es|ed|s|y|e)$")


class Ranking:
    def __init__(self, texts: Mapping[str, str]) -> None:
        self._counts = {key: Counter(iter_terms(text)) for key, text in texts.items()}
        self._in_how_many = Counter(term for count in self._counts.values() for term in count)
        lengths = [count.total() for count in self._counts.values()]
        self._mean_length = sum(lengths) / len(lengths) if lengths else 1.0

    def find_best(self, query: str, most: int) -> Sequence[str]:
        """Return the keys that match at all, the best first; equal ones stay in their order."""
        wanted = set(iter_terms(query)) - set(iter_terms(_SMALL_WORDS))
        scored = [(self._score(count, wanted), key) for key, count in self._counts.items()]
        least = WORTH * max((score for score, _ in scored), default=0.0)
        fitting = [one for one in scored if one[0] > 0 and one[0] >= least]
        return [key for _, key in sorted(fitting, key=lambda one: -one[0])[:most]]

    def _score(self, count: "Counter[str]", wanted: Iterable[str]) -> float:
        norm = K1 * (1 - B + B * count.total() / self._mean_length)
        return sum(
            self._compute_rarity(term) * count[term] * (K1 + 1) / (count[term] + norm)
            for term in wanted
            if term in count
        )

    def _compute_rarity(self, term: str) -> float:
        found = self._in_how_many[term]
        return math.log(1 + (len(self._counts) - found + 0.5) / (found + 0.5))


def iter_terms(text: str) -> Iterator[str]:
    for word in _WORD.findall(unicodedata.normalize("NFKC", text)):
        for part in _HUMP.split(word):
            folded = part.casefold()
            if folded.isascii():
                yield _ENDING.sub("", folded)
            else:
                yield from _iter_pieces(folded)


def _iter_pieces(word: str) -> Iterator[str]:
    yield word
    if len(word) > 2:
        yield from (word[at : at + 2] for at in range(len(word) - 1))


FOUND_MOST = 8
SHOWN_CHARS = 300
ROOM_TOKENS = 6_000
"""The token budget for the declarations that one search adds."""

Declare: TypeAlias = Callable[[Sequence[str]], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchToolsArgs(BuiltinArguments):
    query: str = field(
        metadata=declare_argument(TextCheck(is_filled=True), "e.g. create an issue on GitHub")
    )

    aliases: ClassVar[dict[str, str]] = {"q": "query", "search": "query", "task": "query"}


class SearchTools:
    def __init__(
        self,
        *,
        deferred: Callable[[], Sequence[ToolSpec]],
        declare: Declare,
        spec: ToolSpec | None = None,
    ) -> None:
        """`deferred` returns all tools that can be found. `declare` declares tools from now on.
        `spec` also says how many there are."""
        self._spec = spec or load_spec("search_tools")
        self._deferred = deferred
        self._declare = declare

    @property
    def spec(self) -> ToolSpec:
        return self._spec

    def parse(self, raw: Json) -> SearchToolsArgs:
        return parse_arguments(SearchToolsArgs, raw)

    def effect(self, args: SearchToolsArgs) -> Effect:
        return Effect.READ

    async def preview(self, args: SearchToolsArgs, context: ToolContext) -> None:
        return None

    async def run(self, args: SearchToolsArgs, context: ToolContext) -> Output:
        specs = {spec.name: spec for spec in self._deferred()}
        texts = {name: f"{name} {name} {spec.description}" for name, spec in specs.items()}
        found = _take_fitting(
            [specs[name] for name in Ranking(texts).find_best(args.query, FOUND_MOST)]
        )
        names = tuple(spec.name for spec in found)
        details = Raw(text="\n".join(names))
        if not specs:
            return Output.of(
                "No tools can be found yet: their servers are still starting. A note tells you "
                "when they are ready. Go on without them until then.",
                details=details,
            )
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
            origin=_describe_origin(found),
            found=names,
        )


def _take_fitting(found: Sequence[ToolSpec]) -> list[ToolSpec]:
    """Return the best tools that fit in the token budget, at least one."""
    taken: list[ToolSpec] = []
    left = ROOM_TOKENS
    for spec in found:
        left -= estimate_fast(f"{spec.description}{spec.schema}")
        if left < 0 and taken:
            break
        taken.append(spec)
    return taken


def _describe_origin(found: Sequence[ToolSpec]) -> str:
    servers = dict.fromkeys(
        spec.source.removeprefix("mcp ") for spec in found if spec.source.startswith("mcp ")
    )
    return f"the MCP server {', '.join(servers)}" if servers else ""
