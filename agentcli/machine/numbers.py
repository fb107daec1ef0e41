"""A number that somebody typed.

`str.isdigit` alone takes `²` for one, which `int` refuses, and `int` alone takes any length.
"""

DIGITS_MAX = 18
"""A longer one is the number of nothing, and may cost more to read than it is worth."""


def parse_whole_number(text: str) -> int | None:
    """None: it is anything but a few of the digits 0 to 9."""
    if text.isascii() and text.isdecimal() and len(text) <= DIGITS_MAX:
        return int(text)
    return None
