"""A call's arguments between the text a model streams and the mapping a tool takes.

Text that is not one JSON object stays text, so that the tool can tell the model what was wrong with
it. What is echoed to a provider is always an object.
"""

import json
from typing import NoReturn

from agentcli.types.messages import Json

# Text that can be encoded: no half of a surrogate pair is left in it.


def replace_unpaired(text: str) -> str:
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def replace_unpaired_json(value: Json) -> Json:
    """The same object where nothing had to be replaced."""
    match value:
        case str():
            return replace_unpaired(value)
        case dict():
            made = {
                replace_unpaired(key): replace_unpaired_json(item) for key, item in value.items()
            }
            return value if made == value else made
        case list():
            items = [replace_unpaired_json(item) for item in value]
            return value if items == value else items
        case _:
            return value


LIMIT_DEPTH = 100
"""Deeper nesting is no argument of any tool, and costs a recursion wherever it is walked."""

MALFORMED_KEY = "malformed_arguments"


def parse_arguments(text: str) -> Json:
    """The mapping, {} for no text at all, or the text itself where it is no JSON object."""
    if not text.strip():
        return {}
    try:
        value: Json = json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        return replace_unpaired(text)
    if not isinstance(value, dict) or _is_too_deep(value):
        return replace_unpaired(text)
    return replace_unpaired_json(value)


def object_arguments(value: Json) -> dict[str, Json]:
    """For protocols that take arguments as an object: text stands in it under a telling key."""
    return value if isinstance(value, dict) else {MALFORMED_KEY: value}


def _no_constant(name: str) -> NoReturn:
    """Python reads NaN and Infinity, which are not JSON: sent back, they would be refused."""
    raise ValueError(name)


def _is_too_deep(value: Json) -> bool:
    level: list[Json] = [value]
    for _ in range(LIMIT_DEPTH):
        level = [item for outer in level for item in _items(outer)]
        if not level:
            return False
    return True


def _items(value: Json) -> list[Json]:
    match value:
        case dict():
            return [item for item in value.values() if isinstance(item, dict | list)]
        case list():
            return [item for item in value if isinstance(item, dict | list)]
        case _:
            return []
