"""What repeats between the requests of a conversation, and is not made again.

A conversation is sent again with every step, and its older messages never change. Dialects encode
any part of it; `http/body.py` keeps the text of the part that stays the same.
"""

from collections.abc import Callable, Hashable, Sequence
from functools import wraps
from typing import Any, TypeAlias, TypeVar, TypeVarTuple

from agentcli.providers.dialect import Model
from agentcli.types.provider import Message

T = TypeVar("T")

Make: TypeAlias = Callable[[Message, Message | None, Model], Sequence[T]]
"""A function that encodes a message, given the one before it."""


def encode_part(
    make: Make[T], messages: Sequence[Message], *, model: Model, start: int, end: int | None
) -> list[T]:
    """Return the items of the messages from `start` to `end`."""
    made: list[T] = []
    for at in range(start, len(messages) if end is None else min(end, len(messages))):
        made += make(messages[at], messages[at - 1] if at else None, model)
    return made


def join_runs(items: list[T], is_like_next: bytes, *, join: Callable[..., T]) -> list[T]:
    """Return the items, with each run of neighbours that belong together as one.

    `is_like_next` has a 1 for each item that belongs to the same run as the next one.
    """
    joined: list[T] = []
    start = 0
    while (first := is_like_next.find(1, start)) >= 0:  # the search runs in C
        last = is_like_next.find(0, first)
        joined += [*items[start:first], join(*items[first : last + 1])]
        start = last + 1
    return [*joined, *items[start:]]


# Memoizing a pure function by the identity of its frozen arguments


A = TypeVarTuple("A")
R = TypeVar("R")

LIMIT_ENTRIES = 65_536
"""Far more than one conversation needs. Beyond it all is forgotten, which costs one slow step."""


def memoize(make: Callable[[*A], R]) -> Callable[[*A], R]:
    """Call `make` once per arguments. Strings are compared by value, all else by identity."""
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
