"""Numbers that a user typed, and lines of JSON: what is none of them is no error."""

import json
from typing import Any

DIGITS_MAX = 18
"""A longer number means nothing here, and may be expensive to parse."""


def parse_whole_number(text: str) -> int | None:
    """Return the number; None if the text is anything but a few of the digits 0 to 9."""
    if text.isascii() and text.isdecimal() and len(text) <= DIGITS_MAX:
        return int(text)
    return None


def parse_object(line: bytes) -> dict[str, Any]:
    """Return the JSON object of a line; empty if it is none."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
