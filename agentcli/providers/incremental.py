"""Encoding a conversation message by message, and keeping the result while it grows.

A conversation is sent again with every step, and its older messages never change. So a step costs
only what is new in it. Messages are compared by identity, and kept, so that no id is used twice.
"""

from array import array
from collections.abc import Callable, Hashable, Sequence
from functools import wraps
from operator import is_
from typing import Any, Generic, Protocol, TypeAlias, TypeVar, TypeVarTuple

from agentcli.providers.dialect import Model
from agentcli.types.provider import Message

T = TypeVar("T")

Make: TypeAlias = Callable[[Message, Message | None, Model], Sequence[T]]
"""A function that encodes a message, given the one before it."""

CONVERSATIONS = 8
"""The number of conversations kept: that of the session and those of its child agents."""


class _EncodedHistory(Generic[T]):
    def __init__(self, model: Model) -> None:
        self.model = model
        self.messages: list[Message] = []
        self.made: list[T] = []
        self.ends = array("Q")
        """The end of each message's items in `made`."""

    def grow(self, messages: Sequence[Message], make: Make[T]) -> None:
        start = count_common_start(self.messages, messages)
        del self.messages[start:], self.ends[start:]
        del self.made[self.ends[-1] if self.ends else 0 :]
        before = self.messages[-1] if self.messages else None
        for message in messages[start:]:
            self.made += make(message, before, self.model)
            self.messages.append(message)
            self.ends.append(len(self.made))
            before = message


class IncrementalEncoder(Protocol[T]):
    def __call__(self, messages: Sequence[Message], model: Model, *, start: int = 0) -> list[T]:
        """Return the items of the messages from `start` on. The caller owns the list."""
        ...


def make_incremental(make: Make[T]) -> IncrementalEncoder[T]:
    """Return an encoder for a whole conversation that calls `make` once for each message."""
    histories: list[_EncodedHistory[T]] = []

    @wraps(make)
    def encode_new(messages: Sequence[Message], model: Model, *, start: int = 0) -> list[T]:
        if not messages:
            return []
        first = messages[0]
        found = next(
            (it for it in histories if it.model is model and it.messages[0] is first), None
        )
        if found is None:
            found = _EncodedHistory(model)
            histories[CONVERSATIONS - 1 :] = []
        else:
            histories.remove(found)
        histories.insert(0, found)
        found.grow(messages, make)
        return found.made[found.ends[start - 1] if start else 0 :]

    return encode_new


def count_common_start(before: Sequence[Any], now: Sequence[Any]) -> int:
    """Return how many items at the start are the same objects in both."""
    same = bytes(map(is_, before, now))  # a byte each, so that the search runs in C
    first_other = same.find(0)
    return len(same) if first_other < 0 else first_other


def join_runs(items: list[T], is_like_next: bytes, join: Callable[..., T]) -> list[T]:
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
