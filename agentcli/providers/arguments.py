"""Converting a call's arguments: from the text a model streams to the mapping a tool takes.

Text that is not one JSON object stays text, so that the tool can tell the model what is wrong.
Arguments that are sent back to a provider are always an object.
"""

import json

from agentcli.system.strict_json import name_nonfinite, parse_json
from agentcli.types.messages import Json

# Replacing what cannot be sent: unpaired surrogates, and numbers that JSON does not have


def replace_unpaired(text: str) -> str:
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def make_sendable(value: Json) -> Json:
    """Replace unpaired surrogates and numbers that are not finite; return the same object if there
    are none."""
    match value:
        case str():
            return replace_unpaired(value)
        case float():
            return name_nonfinite(value)
        case dict():
            made = {replace_unpaired(key): make_sendable(item) for key, item in value.items()}
            return value if made == value else made
        case list():
            items = [make_sendable(item) for item in value]
            return value if items == value else items
        case _:
            return value


LIMIT_DEPTH = 100
"""The deepest nesting of arguments. No tool needs more, and walking it costs recursion."""

MALFORMED_KEY = "malformed_arguments"


def parse_arguments(text: str) -> Json:
    """Return the mapping, {} for empty text, or the text itself if it is not a JSON object."""
    if not text.strip():
        return {}
    try:
        value: Json = parse_json(text)
    except (ValueError, RecursionError):
        return replace_unpaired(text)
    if not isinstance(value, dict) or _is_too_deep(value):
        return replace_unpaired(text)
    return make_sendable(value)


def read_arguments(given: Json) -> Json:
    """Return arguments that came as text or as a value: a mapping, or text if not an object."""
    try:
        text = given if isinstance(given, str) else json.dumps({} if given is None else given)
    except RecursionError:
        return "(nested too deeply)"
    return parse_arguments(text)


def wrap_arguments(value: Json) -> dict[str, Json]:
    """Return the arguments as an object. Text is put in one under `MALFORMED_KEY`."""
    return value if isinstance(value, dict) else {MALFORMED_KEY: value}


def _is_too_deep(value: Json) -> bool:
    level: list[Json] = [value]
    for _ in range(LIMIT_DEPTH):
        level = [item for outer in level for item in _list_items(outer)]
        if not level:
            return False
    return True


def _list_items(value: Json) -> list[Json]:
    match value:
        case dict():
            return [item for item in value.values() if isinstance(item, dict | list)]
        case list():
            return [item for item in value if isinstance(item, dict | list)]
        case _:
            return []
