"""Which words of a changed line are new, and which line a removed one became."""

import re
from collections.abc import Sequence
from difflib import SequenceMatcher

from agentcli.ui.render.escape import TextRange

SIMILAR = 0.4
"""Below this two lines have nothing to do with each other."""
COMPARED_TOKENS = 400
LOOKAHEAD = 4
"""How many lines further down a removed line is looked for."""

_TOKEN = re.compile(r"\w+|\s+|.")


def pair_lines(removed: Sequence[str], added: Sequence[str]) -> dict[int, int]:
    """Indices of removed lines and of the added ones they became, both in order."""
    pairs: dict[int, int] = {}
    start = 0
    for index, old in enumerate(removed):
        near = range(start, min(len(added), start + LOOKAHEAD))
        best = max(near, key=lambda at: measure_similarity(old, added[at]), default=None)
        if best is not None and measure_similarity(old, added[best]) >= SIMILAR:
            pairs[index] = best
            start = best + 1
    return pairs


def measure_similarity(old: str, new: str) -> float:
    left, right = split_tokens(old.strip()), split_tokens(new.strip())
    if max(len(left), len(right)) > COMPARED_TOKENS:
        return 0.0
    return SequenceMatcher(None, left, right, autojunk=False).ratio()


def find_changed_words(old: str, new: str) -> tuple[list[TextRange], list[TextRange]]:
    """Where the words stand that are only in the old line, and those only in the new one."""
    left, right = split_tokens(old), split_tokens(new)
    matcher = SequenceMatcher(None, left, right, autojunk=False)
    gone: list[TextRange] = []
    came: list[TextRange] = []
    for kind, old_from, old_to, new_from, new_to in matcher.get_opcodes():
        if kind != "equal":
            gone.append(_measure_range(left, old_from, old_to))
            came.append(_measure_range(right, new_from, new_to))
    return [span for span in gone if span[0] < span[1]], [
        span for span in came if span[0] < span[1]
    ]


def split_tokens(line: str) -> list[str]:
    return _TOKEN.findall(line)


def _measure_range(words: Sequence[str], first: int, last: int) -> TextRange:
    start = sum(map(len, words[:first]))
    return start, start + sum(map(len, words[first:last]))
