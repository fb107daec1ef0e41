"""What is made of a conversation, message by message, kept while it grows.

A conversation is sent again with every step, and its older messages never change: a step then costs
what is new in it. Messages are compared by identity, and kept, so that no identity is used twice.
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
"""What becomes of a message, given the one before it."""

CONVERSATIONS = 8
"""So many are kept: a session's, and those of whoever works for it."""


class _EncodedHistory(Generic[T]):
    def __init__(self, model: Model) -> None:
        self.model = model
        self.messages: list[Message] = []
        self.made: list[T] = []
        self.ends = array("Q")
        """Where in `made` what became of each message ends."""

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
        """What becomes of the messages from `start` on, in order. The list is the caller's."""
        ...


def incremental(make: Make[T]) -> IncrementalEncoder[T]:
    """For a whole conversation what `make` is for one of its messages."""
    kept: list[_EncodedHistory[T]] = []

    @wraps(make)
    def encode_new(messages: Sequence[Message], model: Model, *, start: int = 0) -> list[T]:
        if not messages:
            return []
        first = messages[0]
        found = next((it for it in kept if it.model is model and it.messages[0] is first), None)
        if found is None:
            found = _EncodedHistory(model)
            kept[CONVERSATIONS - 1 :] = []
        else:
            kept.remove(found)
        kept.insert(0, found)
        found.grow(messages, make)
        return found.made[found.ends[start - 1] if start else 0 :]

    return encode_new


def count_common_start(before: Sequence[Any], now: Sequence[Any]) -> int:
    """How many of the first items are the same objects in both."""
    same = bytes(map(is_, before, now))  # a byte each, so that the search is not ours
    first_other = same.find(0)
    return len(same) if first_other < 0 else first_other


# What a pure function made of frozen values, remembered by their identity.


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
