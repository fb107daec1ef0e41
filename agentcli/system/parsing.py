"""Values that a user wrote in a file, a variable or a flag, converted to the type they must have.

Each function raises a ValueError that says what would be right: "a whole number above 0".
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from agentcli.system.lazy import compile_later

_DURATION = compile_later(r"(?=\d)(?:(\d+)h)?(?:(\d+)m)?(?:(\d+(?:\.\d+)?)s)?")
_UNITS = (3600, 60, 1)
_SIZE = compile_later(r"(\d{1,15}(?:\.\d+)?) ?(?:([KMGT])I?B?|B)?")
_SIZES = {"": 1, "K": 1024, "M": 1024**2, "G": 1024**3, "T": 1024**4}


def parse_text(value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError("a string")
    return value.strip()


def parse_path(value: Any) -> Path:
    return Path(parse_text(value)).expanduser()


def parse_choice(words: Sequence[str], value: Any) -> str:
    if value not in words:
        raise ValueError(f"one of {', '.join(words)}")
    return str(value)


def parse_whole(value: Any) -> int:
    wanted = "a whole number above 0"
    if isinstance(value, bool) or (isinstance(value, float) and not value.is_integer()):
        raise ValueError(wanted)
    try:
        number = int(value)
    except ValueError:
        raise ValueError(wanted) from None
    if number <= 0:
        raise ValueError(wanted)
    return number


def parse_amount(value: Any) -> float:
    wanted = "a number above 0"
    if isinstance(value, bool):
        raise ValueError(wanted)
    try:
        number = float(value)
    except ValueError:
        raise ValueError(wanted) from None
    if not 0 < number < float("inf"):
        raise ValueError(wanted)
    return number


def parse_seconds(value: Any) -> float:
    """Return the seconds of 90, 90s, 30m or 1h30m."""
    wanted = "a time above 0, like 90s, 30m or 1h30m"
    if isinstance(value, str) and (parts := _DURATION.fullmatch(value.strip())):
        return parse_seconds(
            sum(float(part or 0) * unit for part, unit in zip(parts.groups(), _UNITS, strict=True))
        )
    try:
        return parse_amount(value)
    except (ValueError, TypeError):
        raise ValueError(wanted) from None


def parse_size(value: Any) -> int:
    """Return the bytes of 4096, 512KB, 200MB or 1.5GB."""
    wanted = "a size above 0, like 512KB, 200MB or 1.5GB"
    parts = _SIZE.fullmatch(value.strip().upper()) if isinstance(value, str) else None
    try:
        bytes_ = parse_amount(parts[1]) * _SIZES[parts[2] or ""] if parts else parse_whole(value)
    except (ValueError, TypeError):
        raise ValueError(wanted) from None
    return int(bytes_) or 1


def parse_switch(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    words = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
    if not isinstance(value, str) or value.lower() not in words:
        raise ValueError("true or false")
    return words[value.lower()]


# Typed numbers


DIGITS_MAX = 18
"""A longer number means nothing here, and may be expensive to parse."""


def parse_whole_number(text: str) -> int | None:
    """Return the number; None if the text is anything but a few of the digits 0 to 9."""
    if text.isascii() and text.isdecimal() and len(text) <= DIGITS_MAX:
        return int(text)
    return None
