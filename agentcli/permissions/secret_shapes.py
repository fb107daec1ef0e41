"""Keys that are known by their shape: where they are in a text, and where one may have begun.

Every search is linear: a shape begins with a literal, and if one is not completed, its run of
characters is not searched again. Patterns are compiled when needed, which is rare: this module is
imported on the way to the first request.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

Span = tuple[int, int]


def is_example(value: str) -> bool:
    """Return whether it is an example key from the AWS documentation; these all end alike."""
    return value.endswith(("EXAMPLE", "EXAMPLEKEY"))


class SecretShape(NamedTuple):
    prefix: str
    """The literal that it begins with."""
    characters: str
    """The characters that may continue it, as a pattern."""
    rest: str
    """What must follow the prefix, as a pattern."""

    def iter_spans(self, text: str, start: int) -> Iterator[Span]:
        at = text.find(self.prefix, start)
        if at < 0:
            return
        run, rest = re.compile(f"{self.characters}*+"), re.compile(self.rest)
        while at >= 0:
            body = at + len(self.prefix)
            # In the middle of a word it is no key: "task-…" is not "sk-…".
            is_word = at > 0 and text[at - 1].isascii() and text[at - 1].isalnum()
            found = None if is_word else rest.match(text, body)
            if found and not is_example(found[0]):
                yield at, found.end()
            following = found or (None if is_word else run.match(text, body))
            at = text.find(self.prefix, following.end() if following else at + 1)


_KEY = "[A-Za-z0-9_-]"
_ALNUM = "[A-Za-z0-9]"

# A row must match SHORTEST_TOKEN characters or more in all, only TOKEN_CHARACTERS: no other text is
# searched. A test holds every row to it.
SHAPES: tuple[SecretShape, ...] = (
    *(SecretShape(prefix, _KEY, f"{_KEY}{{16,}}+") for prefix in ("sk-", "sk_live_", "rk_live_")),
    *(SecretShape(f"gh{kind}_", _ALNUM, f"{_ALNUM}{{20,}}+") for kind in "pousr"),
    SecretShape("github_pat_", "[A-Za-z0-9_]", "[A-Za-z0-9_]{20,}+"),
    SecretShape("glpat-", _KEY, f"{_KEY}{{16,}}+"),
    *(SecretShape(begin, "[A-Z0-9]", "[A-Z0-9]{16}(?![A-Z0-9])") for begin in ("AKIA", "ASIA")),
    SecretShape("AIza", _KEY, f"{_KEY}{{30,}}+"),
    *(SecretShape(f"xox{kind}-", "[A-Za-z0-9-]", "[A-Za-z0-9-]{10,}+") for kind in "abeoprs"),
    SecretShape("xapp-", "[A-Za-z0-9-]", "[A-Za-z0-9-]{10,}+"),
    SecretShape("npm_", _ALNUM, f"{_ALNUM}{{30,}}+"),
    SecretShape("pypi-", _KEY, f"{_KEY}{{50,}}+"),
    SecretShape("hf_", _ALNUM, f"{_ALNUM}{{30,}}+"),
    SecretShape("eyJ", _KEY, rf"{_KEY}{{8,}}+\.{_KEY}{{8,}}+(?:\.{_KEY}*+)+"),
)

TOKEN_CHARACTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-"
_BEGUN_PREFIXES = frozenset(
    shape.prefix[:size] for shape in SHAPES for size in range(1, len(shape.prefix))
)
_LONGEST_PREFIX = max(len(shape.prefix) for shape in SHAPES)

# Between the lines of a key block, also if it was quoted or has line numbers.
_BREAK = r"(?:\s|\\[nr]|\d{1,6}[\t:|])"
_KIND = r"[A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?"
_HEADERS = rf"(?:{_BREAK}+[A-Za-z-]{{1,40}}: [^\n\\]{{0,200}})*"
# Groups are not repeated possessively: the first releases of Python 3.11 get that wrong.
_BLOCK = (
    rf"-----BEGIN {_KIND}-----{_HEADERS}((?:{_BREAK}+[A-Za-z0-9+/=]{{16,}}+)*"
    rf"(?:{_BREAK}+[A-Za-z0-9+/=]++(?={_BREAK}*-----END {_KIND}-----))?)"
)
_BLOCK_LINE = rf"{_BREAK}+([A-Za-z0-9+/=]++)"
_BLOCK_BEGIN = "-----BEGIN "
_BLOCK_HEADER = rf"-----BEGIN {_KIND}-----"
_BLOCK_FOOTER = rf"-----END {_KIND}-----"
_BLOCK_HEADER_BEGUN = r"-----B[A-Z0-9 ]*-{0,5}\Z|-{1,5}\Z"
_LONGEST_HEADER = 80
_LONGEST_BLOCK = 16 * 1024


SHORTEST_TOKEN = 15
_RUN = b"k" * SHORTEST_TOKEN
_AS_RUNS = bytes(ord("k") if chr(code) in TOKEN_CHARACTERS else 0 for code in range(256))
_SIGNS = "-_AJ"
"""Every prefix has one of these. Looking for one character is by far the fastest search."""


def to_bytes(text: str) -> bytes:
    """Return one byte for each character, for fast searches of ASCII. Others may become `?`."""
    return text.encode("latin-1", "replace")


def find_long_runs(text: str) -> str:
    """Return the runs of characters that are as long as the shortest key, each on a line.

    They are a small part of most texts, and much faster to search."""
    marks = to_bytes(text).translate(_AS_RUNS)
    runs: list[str] = []
    at = marks.find(_RUN)
    while at >= 0:
        end = marks.find(0, at)
        end = len(marks) if end < 0 else end
        runs.append(text[at:end])
        at = marks.find(_RUN, end)
    return "\n".join(runs)


def find_spans(text: str, start: int) -> Iterator[Span]:
    if any(sign in text for sign in _SIGNS) and (runs := find_long_runs(text)):
        for shape in SHAPES:
            if shape.prefix in runs:
                yield from shape.iter_spans(text, start)
    at = text.find(_BLOCK_BEGIN, start) if "-" in text else -1
    while at >= 0:
        if block := re.compile(_BLOCK, re.ASCII).match(text, at):
            # Each line by itself, so that the masked text has as many lines as the original.
            lines = re.compile(_BLOCK_LINE, re.ASCII).finditer(text, *block.span(1))
            yield from (line.span(1) for line in lines)
        at = text.find(_BLOCK_BEGIN, block.end() if block else at + 1)


def find_open_secret(text: str) -> int:
    """Return where an incomplete key may begin; the text's length if there is none."""
    return min(_open_token(text), _open_block(text))


def _open_token(text: str) -> int:
    """Return where an incomplete key may begin. Keys have no blanks: only the last run counts."""
    start = len(text.rstrip(TOKEN_CHARACTERS))
    run = text[start:]
    if not run:
        return start
    found = [at for shape in SHAPES if (at := run.find(shape.prefix)) >= 0]
    begun = [
        len(run) - size
        for size in range(1, min(_LONGEST_PREFIX, len(run) + 1))
        if run[-size:] in _BEGUN_PREFIXES
    ]
    return start + min([*found, *begun, len(run)])


def _open_block(text: str) -> int:
    recent = max(0, len(text) - _LONGEST_BLOCK)
    if text.find(_BLOCK_BEGIN, recent) >= 0:
        for header in re.compile(_BLOCK_HEADER).finditer(text, recent):
            if not re.compile(_BLOCK_FOOTER).search(text, header.end()):
                return header.start()
    tail = text[-_LONGEST_HEADER:]
    begun = re.search(_BLOCK_HEADER_BEGUN, tail) if "-" in tail else None
    return len(text) - len(tail) + begun.start() if begun else len(text)
