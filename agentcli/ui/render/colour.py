"""Colours as terminals report them, and their luminance."""

import re

from agentcli.types.fast_dataclass import dataclass

_CHANNELS = re.compile(r"rgba?:([0-9a-f]{1,4})/([0-9a-f]{1,4})/([0-9a-f]{1,4})(/[0-9a-f]{1,4})?")
_HASH = re.compile(r"#((?:[0-9a-f]{3}){1,4})")


@dataclass(frozen=True, slots=True, kw_only=True)
class Colour:
    """Red, green and blue, each from 0 to 1."""

    red: float
    green: float
    blue: float

    @property
    def luminance(self) -> float:
        """The relative luminance as WCAG 2 defines it, from 0 (black) to 1 (white)."""
        red, green, blue = map(_linear, (self.red, self.green, self.blue))
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def parse_colour(text: str) -> Colour | None:
    """Read `rgb:1e/1e/1e`, `rgba:1e1e/1e1e/1e1e/ffff` or `#1e1e1e`, with 1 to 4 digits each."""
    text = text.strip().lower()
    if found := _CHANNELS.fullmatch(text):
        digits = [found[1], found[2], found[3]]
    elif found := _HASH.fullmatch(text):
        size = len(found[1]) // 3
        digits = [found[1][at : at + size] for at in range(0, 3 * size, size)]
    else:
        return None
    red, green, blue = (int(one, 16) / (16 ** len(one) - 1) for one in digits)
    return Colour(red=red, green=green, blue=blue)


def _linear(part: float) -> float:
    return part / 12.92 if part <= 0.04045 else float(((part + 0.055) / 1.055) ** 2.4)
