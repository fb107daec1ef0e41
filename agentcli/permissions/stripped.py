"""A text without its control characters and sequences, and the original position of each part.

A terminal shows a secret even with colour codes in the middle of it, so a search for secrets must
look at what is shown. C1 controls are left alone: as bytes they are parts of UTF-8.
"""

import re
from bisect import bisect_right
from typing import NamedTuple

_CONTROL = r"\x00-\x08\x0b-\x1f\x7f"
_NOISE = (
    r"\x1b\[[0-?]*+[ -/]*+[@-~]?"
    rf"|\x1b[\]PX^_][^{_CONTROL}\n]*+(?:\x07|\x1b\\)"
    r"|\x1b[ -/]*+[0-~]?"
    rf"|[{_CONTROL}]"
)
_ORDINARY = bytes(set(range(256)) - {*range(0x20), 0x7F} | {*b"\t\n"})
_BEGUN = rf"\x1b(?:\[[0-?]*+[ -/]*+|[\]PX^_][^{_CONTROL}\n]*+\x1b?|[ -/]*+)\Z"


class StrippedText(NamedTuple):
    text: str
    starts: list[int]
    """Positions in `text` where each uninterrupted part begins."""
    origins: list[int]
    """Positions of these parts in the original."""

    def origin(self, position: int) -> int:
        """Return the original position of the character at this position."""
        part = bisect_right(self.starts, position) - 1
        return self.origins[part] + position - self.starts[part]

    def span(self, begin: int, end: int) -> tuple[int, int]:
        return self.origin(begin), self.origin(end - 1) + 1

    def position(self, origin: int) -> int:
        """Return the position of the first character that was at `origin` or later."""
        part = bisect_right(self.origins, origin) - 1
        if part < 0:
            return 0
        following = self.starts[part + 1 : part + 2] or [len(self.text)]
        return min(self.starts[part] + origin - self.origins[part], following[0])

    def before(self, origin: int, count: int) -> int:
        """Return where the last `count` shown characters before `origin` begin in the original.

        The hidden characters before the first of them are included."""
        first = self.position(origin) - count
        return self.origin(first - 1) + 1 if first > 0 else 0


def strip_controls(text: str, start: int = 0) -> StrippedText | None:
    """Return what is shown of the text from `start` on; None if it has no control characters."""
    if not text.encode("utf-8", "surrogatepass").translate(None, _ORDINARY):
        return None  # ten times as fast as a pattern
    pieces: list[str] = []
    starts, origins = [0], [start]
    size, position = 0, start
    for noise in re.compile(_NOISE).finditer(text, start):
        if noise.start() > position:
            pieces.append(text[position : noise.start()])
            size += noise.start() - position
        position = noise.end()
        if starts[-1] == size:
            origins[-1] = position
        else:
            starts.append(size)
            origins.append(position)
    pieces.append(text[position:])
    return StrippedText("".join(pieces), starts, origins)


def find_open_sequence(text: str) -> int:
    """Return where an incomplete control sequence begins; the text's length if there is none."""
    last = text.rfind("\x1b")
    for at in (text.rfind("\x1b", 0, max(last, 0)), last):
        if at >= 0 and re.compile(_BEGUN).match(text, at):
            return at
    return len(text)
