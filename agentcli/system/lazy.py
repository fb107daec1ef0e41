"""A value that is made when it is first needed, and can be closed only if it was."""

from collections.abc import Callable
from typing import Generic, TypeVar, cast

T = TypeVar("T")


class Lazy(Generic[T]):
    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._is_made = False
        self.made: T | None = None
        """The value, or None if nobody needed it yet."""

    def get(self) -> T:
        """Return the value. Make it at the first call."""
        if not self._is_made:
            self.made = self._make()
            self._is_made = True
        return cast(T, self.made)
