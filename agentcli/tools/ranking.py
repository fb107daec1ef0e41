"""Short texts ranked by how well they fit a query, offline and in any script.

BM25 over words. What has no spaces between its words is compared by pairs of characters, and a name
like `listPullRequests` or `list_pull_requests` by the words in it.
"""

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

K1 = 1.2
B = 0.6
WORTH = 0.3
"""Of the best score: what fits much worse has only small words in common with the query."""
_WORD = re.compile(r"[^\W_]+")
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_ENDING = re.compile(r"(?<=[a-z]{3})(?:ies|ing|es|ed|s|y|e)$")


class Ranking:
    def __init__(self, texts: Mapping[str, str]) -> None:
        self._counts = {key: Counter(terms(text)) for key, text in texts.items()}
        self._in_how_many = Counter(term for count in self._counts.values() for term in count)
        lengths = [count.total() for count in self._counts.values()]
        self._mean_length = sum(lengths) / len(lengths) if lengths else 1.0

    def best(self, query: str, most: int) -> Sequence[str]:
        """The keys that fit at all, the best first; equals stay in their order."""
        wanted = set(terms(query))
        scored = [(self._score(count, wanted), key) for key, count in self._counts.items()]
        least = WORTH * max((score for score, _ in scored), default=0.0)
        fitting = [one for one in scored if one[0] > 0 and one[0] >= least]
        return [key for _, key in sorted(fitting, key=lambda one: -one[0])[:most]]

    def _score(self, count: "Counter[str]", wanted: Iterable[str]) -> float:
        norm = K1 * (1 - B + B * count.total() / self._mean_length)
        return sum(
            self._rarity(term) * count[term] * (K1 + 1) / (count[term] + norm)
            for term in wanted
            if term in count
        )

    def _rarity(self, term: str) -> float:
        found = self._in_how_many[term]
        return math.log(1 + (len(self._counts) - found + 0.5) / (found + 0.5))


def terms(text: str) -> Iterator[str]:
    for word in _WORD.findall(unicodedata.normalize("NFKC", text)):
        for part in _HUMP.split(word):
            folded = part.casefold()
            if folded.isascii():
                yield _ENDING.sub("", folded)
            else:
                yield from _pieces(folded)


def _pieces(word: str) -> Iterator[str]:
    yield word
    if len(word) > 2:
        yield from (word[at : at + 2] for at in range(len(word) - 1))
