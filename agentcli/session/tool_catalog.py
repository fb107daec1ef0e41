"""The tools beyond the built-in ones, and how many of them a request declares.

A few tools are simply declared. If they are many or long, the model gets one tool that finds them,
and each of them is declared only once it was found.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial

from agentcli.agent.toolset import Offer, Toolset
from agentcli.system.tokens import count_spec_tokens
from agentcli.tools.contracts import load_spec
from agentcli.types.events import CallFinished, Fact
from agentcli.types.tools import Tool, ToolSpec

DECLARED_MOST = 10
DECLARED_TOKENS = 8_000
"""The limit for all of them together, in every request."""
DECLARED_SHARE = 0.04
"""The same limit as a share of the model's window, for small windows."""


class ToolCatalog:
    def __init__(
        self,
        toolset: Toolset,
        *,
        window_tokens: int | None,
        past: Sequence[Fact] = (),
    ) -> None:
        """`past` holds the facts of a resumed session: tools found then are declared again."""
        self.toolset = toolset
        share = int(DECLARED_SHARE * window_tokens) if window_tokens else DECLARED_TOKENS
        self._budget_tokens = min(share, DECLARED_TOKENS)
        self._past = tuple(past)
        self._count = 0

    def admit(self, offers: Iterable[Offer]) -> None:
        """Add offers: either all are declared from now on, or all can be found by search."""
        new = [one for one in offers if one[0].name not in self.toolset.names]
        if self._count + len(new) > DECLARED_MOST or self._count_tokens(new) > self._budget_tokens:
            self.defer(new)
            return
        self._count += len(new)
        self._budget_tokens -= self._count_tokens(new)
        self.toolset.add(new)

    def defer(self, offers: Iterable[Offer]) -> None:
        """Add offers that are declared once a search finds them."""
        deferred = [
            (replace(spec, deferred=True), load)
            for spec, load in offers
            if spec.name not in self.toolset.names
        ]
        self.toolset.add((*deferred, self._build_search_offer(deferred)) if deferred else ())
        self.toolset.declare(tuple(_iter_found(self._past)))

    def declare_search(self, sources: Sequence[str]) -> None:
        """Declare the search now, for tools that these sources will offer later.

        A declaration in the middle of a session would cost the provider's cache."""
        self.toolset.add((self._build_search_offer((), coming=sources),))

    @staticmethod
    def _count_tokens(offers: Iterable[Offer]) -> int:
        return sum(count_spec_tokens(spec) for spec, _ in offers)

    def _build_search_offer(self, new: Sequence[Offer], *, coming: Sequence[str] = ()) -> Offer:
        """Build the search tool. Only the first counts: the declared description never changes."""
        deferred = (*self.toolset.deferred, *(spec for spec, _ in new))
        counted = Counter(spec.source for spec in deferred)
        sources = ", ".join(
            (
                *(f"{count} of {source}" for source, count in counted.items()),
                *(f"those of {source} once it has started" for source in coming),
            )
        )
        plain = load_spec("search_tools")
        spec = replace(plain, description=f"{plain.description} There are {sources}.")
        return spec, partial(self._build_search_tool, spec)

    def _build_search_tool(self, spec: ToolSpec) -> Tool:
        from agentcli.tools.search_tools import SearchTools

        toolset = self.toolset
        return SearchTools(deferred=lambda: toolset.deferred, declare=toolset.declare, spec=spec)


def _iter_found(past: Iterable[Fact]) -> Iterator[str]:
    """Yield the names of tools that searches found."""
    for fact in past:
        if isinstance(fact, CallFinished):
            yield from fact.result.found
