"""Values that are made when they are first needed."""

import re
from collections.abc import Callable
from threading import RLock
from typing import Any, AnyStr, Generic, TypeVar, cast

T = TypeVar("T")


class Lazy(Generic[T]):
    """A value that can be closed only if it was made. Several threads may need it."""

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._making = RLock()
        self._is_made = False
        self.made: T | None = None
        """The value, or None if nobody needed it yet."""

    def get(self, make: Callable[[], T] | None = None) -> T:
        """Return the value. Make it at the first call, or wait while another thread makes it.

        `make` is another way to make it, if it is not made yet."""
        if not self._is_made:
            with self._making:
                if not self._is_made:
                    self.made = (make or self._make)()
                    self._is_made = True
        return cast(T, self.made)


def compile_later(pattern: AnyStr, flags: int = 0) -> "re.Pattern[AnyStr]":
    """Return a regular expression that is compiled at its first use.

    Compiling takes longer than most uses, and few of those of a module are used in a run."""
    return cast("re.Pattern[AnyStr]", _LazyPattern(pattern, flags))


class _LazyPattern:
    def __init__(self, pattern: str | bytes, flags: int) -> None:
        self._source = pattern, flags

    def __getattr__(self, name: str) -> Any:
        """Return a method of the pattern, which is found without this function from then on."""
        pattern, flags = self._source
        found = getattr(re.compile(pattern, flags), name)  # the standard library keeps some
        setattr(self, name, found)
        return found
