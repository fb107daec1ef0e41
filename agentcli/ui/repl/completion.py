"""Resources and prompts of servers in the menus of the input.

Before a colon the menu lists the servers' names, which cost nothing. After it, the menu lists what
the server itself lists.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from agentcli.session.features import PromptMenu
from agentcli.system.plain_text import show_controls

# Fuzzy matching: all typed letters, in order, the closer together the better


T = TypeVar("T")


def find_best(
    query: str, items: Iterable[T], *, text: Callable[[T], str] = str, limit: int = 50
) -> list[T]:
    """Return the items that match, best first. Among equals the shorter wins, then the earlier."""
    wanted = query.lower()
    scored = []
    for index, item in enumerate(items):
        name = text(item)
        fit = score_match(wanted, name)
        if fit is not None:
            scored.append((fit, len(name), index, item))
    scored.sort(key=lambda one: one[:3])
    return [item for *_, item in scored[:limit]]


def score_match(query: str, name: str) -> tuple[int, int] | None:
    """Return a score, lower is better, or None if the name does not match.

    The position of the match counts first, then how scattered it is.
    """
    lowered = name.lower()
    base = lowered.rstrip("/").rfind("/") + 1
    at = lowered.find(query, base)
    if at >= 0:
        return (0 if at == base else 1, at - base)
    if (scatter := _count_gaps(query, lowered[base:])) is not None:
        return (2, scatter)
    if (at := lowered.find(query)) >= 0:
        return (3, at)
    scatter = _count_gaps(query, lowered)
    return None if scatter is None else (4, scatter)


def _count_gaps(query: str, name: Sequence[str] | str) -> int | None:
    """Return how many letters lie between the typed ones, or None if they do not all occur."""
    position, first = -1, None
    for letter in query:
        position = str(name).find(letter, position + 1)
        if position < 0:
            return None
        first = position if first is None else first
    return position - (first or 0)


class ServerCompletions:
    def __init__(self, get_menu: Callable[[], PromptMenu | None]) -> None:
        """`get_menu` returns None if there are no servers, or if it is too early to know."""
        self._get_menu = get_menu

    async def complete_prompts(self, typed: str) -> list[tuple[str, str]]:
        """Return completions with descriptions for a line that is a slash and a word."""
        menu = self._get_menu()
        if menu is None or " " in typed:
            return []
        server, colon, name = typed[1:].partition(":")
        if not colon:
            found = find_best(server, menu.names)
            return [(f"/{one}:", f"prompts of the MCP server {one}") for one in found]
        prompts = find_best(name, await menu.list_prompts(server), text=lambda one: one[0])
        return [(f"/{server}:{show_controls(prompt)}", about) for prompt, about in prompts]

    async def complete_resources(self, typed: str) -> list[tuple[str, str]]:
        """Return completions with descriptions for what is typed after an @."""
        menu = self._get_menu()
        if menu is None or not typed:
            return []
        server, colon, uri = typed.partition(":")
        if not colon:
            found = find_best(server, menu.names)
            return [(f"{one}:", f"resources of the MCP server {one}") for one in found]
        resources = find_best(uri, await menu.list_resources(server), text=lambda one: one[0])
        return [(f"{server}:{show_controls(found_uri)}", about) for found_uri, about in resources]
