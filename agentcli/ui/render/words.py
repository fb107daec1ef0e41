"""Which words of a changed line are new, and which line a removed one became."""

import re
from collections.abc import Sequence
from difflib import SequenceMatcher

from agentcli.ui.render.escape import Span

SIMILAR = 0.4
"""Below this two lines have nothing to do with each other."""
COMPARED_TOKENS = 400
LOOKAHEAD = 4
"""How many lines further down a removed line is looked for."""

_TOKEN = re.compile(r"\w+|\s+|.")


def paired(removed: Sequence[str], added: Sequence[str]) -> dict[int, int]:
    """Indices of removed lines and of the added ones they became, both in order."""
    pairs: dict[int, int] = {}
    start = 0
    for index, old in enumerate(removed):
        near = range(start, min(len(added), start + LOOKAHEAD))
        best = max(near, key=lambda at: similarity(old, added[at]), default=None)
        if best is not None and similarity(old, added[best]) >= SIMILAR:
            pairs[index] = best
            start = best + 1
    return pairs


def similarity(old: str, new: str) -> float:
    left, right = tokens(old.strip()), tokens(new.strip())
    if max(len(left), len(right)) > COMPARED_TOKENS:
        return 0.0
    return SequenceMatcher(None, left, right, autojunk=False).ratio()


def changed(old: str, new: str) -> tuple[list[Span], list[Span]]:
    """Where the words stand that are only in the old line, and those only in the new one."""
    left, right = tokens(old), tokens(new)
    matcher = SequenceMatcher(None, left, right, autojunk=False)
    gone: list[Span] = []
    came: list[Span] = []
    for kind, old_from, old_to, new_from, new_to in matcher.get_opcodes():
        if kind != "equal":
            gone.append(_span(left, old_from, old_to))
            came.append(_span(right, new_from, new_to))
    return [span for span in gone if span[0] < span[1]], [
        span for span in came if span[0] < span[1]
    ]


def tokens(line: str) -> list[str]:
    return _TOKEN.findall(line)


def _span(words: Sequence[str], first: int, last: int) -> Span:
    start = sum(map(len, words[:first]))
    return start, start + sum(map(len, words[first:last]))
