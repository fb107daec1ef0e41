"""An estimate of how many tokens a text has, without a vocabulary and without a network.

Measured against o200k on English, Python, C, JSON and Markdown it is within 15 %, mostly above.
"""

import re

from agentcli.system.lazy import compile_later

_PIECES = compile_later(
    r"(?P<word>[A-Za-z]+)|(?P<number>[0-9]+)|(?P<line>\s*\n\s*)|(?P<blank>\s+)"
    r"|(?P<marks>[!-/:-@\[-`{-~]+)|(?P<other>[^\x00-\x7f]+)|(?P<control>.)",
    re.DOTALL,
)

WORD_CHARS = 10
DIGITS = 3
MARKS = 2.4
OTHER_BYTES = 2.6


ROUGH_BYTES = 3


def estimate_fast(text: str) -> int:
    """Return a high estimate in almost no time, to check on every turn whether the window fits."""
    return -(-len(text.encode("utf-8", "replace")) // ROUGH_BYTES)


def estimate(text: str) -> int:
    total = 0.0
    for piece in _PIECES.finditer(text):
        match piece.lastgroup:
            case "word":
                total += 1 + (len(piece[0]) - 1) // WORD_CHARS
            case "number":
                total += -(-len(piece[0]) // DIGITS)
            case "blank":
                total += len(piece[0]) > 1
            case "marks":
                total += max(1.0, len(piece[0]) / MARKS)
            case "other":
                total += len(piece[0].encode("utf-8", "replace")) / OTHER_BYTES
            case _:
                total += 1
    return round(total)
