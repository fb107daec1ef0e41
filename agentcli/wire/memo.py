"""What a pure function made of frozen values, remembered by their identity.

A conversation is sent again with every step, and its older messages never change: remembering what
became of each makes a step cost what is new in it. Values are compared by identity, because
arguments and echoes inside them cannot be hashed, and are kept alive, so that an identity is never
reused while it is a key.
"""

from collections.abc import Callable, Hashable
from functools import wraps
from typing import Any, TypeVar, TypeVarTuple

A = TypeVarTuple("A")
R = TypeVar("R")

LIMIT_ENTRIES = 65_536
"""Far beyond one conversation. Past it everything is forgotten, which costs one slow step."""


def memoize(make: Callable[[*A], R]) -> Callable[[*A], R]:
    """Calls `make` once per arguments: strings are the same by value, all else by identity."""
    made: dict[tuple[Hashable, ...], tuple[tuple[Any, ...], R]] = {}

    @wraps(make)
    def remember(*args: *A) -> R:
        key = tuple([arg if type(arg) is str else id(arg) for arg in args])
        entry = made.get(key)
        if entry is None:
            if len(made) >= LIMIT_ENTRIES:
                made.clear()
            entry = made[key] = (args, make(*args))
        return entry[1]

    return remember
