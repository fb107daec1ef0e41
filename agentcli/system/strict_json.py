"""JSON without NaN and infinite numbers. Python reads and writes them, but they are not JSON.

A provider refuses a request that holds one, and no other program can read it back.
"""

import json
import math
from typing import Any, NoReturn

from agentcli.types.messages import Json


def parse_json(text: str | bytes) -> Any:
    """Return the value. Raise ValueError if it is not JSON or has a number that is too large.

    Raise RecursionError if it is nested too deeply.
    """
    if isinstance(text, bytes):
        text = text.decode(json.detect_encoding(text), "surrogatepass")
    return _DECODER.decode(text)


def replace_half_characters(text: str) -> str:
    """Return the JSON with a replacement for each half of a surrogate pair.

    JavaScript writes half of one where it cuts a text inside a character, and pydantic refuses it.
    Raise ValueError if it is not JSON."""
    try:
        written = json.dumps(parse_json(text), ensure_ascii=False)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    return written.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def replace_nonfinite(value: Json) -> Json:
    """Replace NaN and infinite numbers by their names; all others stay as they are."""
    match value:
        case float():
            return name_nonfinite(value)
        case dict():
            return {key: replace_nonfinite(item) for key, item in value.items()}
        case list():
            return [replace_nonfinite(item) for item in value]
        case _:
            return value


def name_nonfinite(number: float) -> float | str:
    return number if math.isfinite(number) else json.dumps(number)


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON value")


def _parse_float(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"the number {text[:40]} is too large")
    return number


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant, parse_float=_parse_float)


# Numbers that a user typed, and lines of JSON: what is none of them is no error.


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
