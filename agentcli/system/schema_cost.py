"""What a check against a JSON schema may cost, known without the library that makes it."""

from typing import Any

_SLOW = frozenset(
    {
        *("pattern", "patternProperties", "$ref", "$dynamicRef", "$recursiveRef"),
        *("uniqueItems", "unevaluatedItems", "unevaluatedProperties"),
    }
)
"""Keywords of a schema whose check may take exponential or quadratic time."""


def is_quick(schema: Any) -> bool:
    """Return whether checking a value against the schema cannot take for ever."""
    waiting = [schema]
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict):
            if not _SLOW.isdisjoint(one):
                return False
            waiting += one.values()
        elif isinstance(one, list):
            waiting += one
    return True
