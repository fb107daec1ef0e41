"""How well a few typed letters fit a name: all of them, in order, the closer together the better.

Letters in the last part of a path count more than those in its folders.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

T = TypeVar("T")


def find_best(
    query: str, items: Iterable[T], *, text: Callable[[T], str] = str, limit: int = 50
) -> list[T]:
    """The items that fit, best first; among equals the shorter, then as they came."""
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
    """Lower is better, None is no fit. First counts where it fits, then how scattered it is."""
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
    """How many letters lie between those that were typed."""
    position, first = -1, None
    for letter in query:
        position = str(name).find(letter, position + 1)
        if position < 0:
            return None
        first = position if first is None else first
    return position - (first or 0)
