"""Numbers that a user typed."""

DIGITS_MAX = 18
"""A longer number means nothing here, and may be expensive to parse."""


def parse_whole_number(text: str) -> int | None:
    """Return the number; None if the text is anything but a few of the digits 0 to 9."""
    if text.isascii() and text.isdecimal() and len(text) <= DIGITS_MAX:
        return int(text)
    return None
