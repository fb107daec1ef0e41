"""How somebody types: when the last key came, and how quickly letters follow each other."""

import time
from collections import deque
from collections.abc import Callable

ALONE_S = 0.25
"""A letter is no part of a word if no key follows within this time, at least."""
ALONE_MAX_S = 1.0
MARGIN = 1.2
"""Whoever typed a letter that late may be a little later the next time."""
REMEMBERED = 32


class Rhythm:
    """Times come from `clock`, in seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._last_key = float("-inf")
        self._last_letter = float("-inf")
        self._gaps: deque[float] = deque(maxlen=REMEMBERED)

    def touch(self) -> None:
        """Note a key that belongs to the input."""
        self._last_key = self._clock()

    def add_letter(self, *, in_word: bool) -> None:
        """Note a letter of the input. `in_word`: it stands behind another one."""
        now = self._clock()
        gap_s = now - self._last_letter
        if in_word and gap_s <= ALONE_MAX_S:
            self._gaps.append(gap_s)
        self._last_letter = now

    def quiet_s(self) -> float:
        return self._clock() - self._last_key

    def alone_s(self) -> float:
        """Return how long no key may follow a letter for it to stand alone.

        Slow typists get longer: a word of theirs must not fall apart into answers.
        """
        return min(ALONE_MAX_S, max(ALONE_S, MARGIN * max(self._gaps, default=0.0)))
