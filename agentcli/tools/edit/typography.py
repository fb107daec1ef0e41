"""Typographic characters and their plain forms: curly quotes, long dashes, odd spaces, accents.

A model may write the plain form of what a file has, or the other way round.
"""

import re
import unicodedata
from collections import ChainMap
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from unicodedata import combining

from agentcli.system.diff import find_changes
from agentcli.system.lazy import compile_later
from agentcli.tools.edit.whitespace import BLANK

_QUOTES = dict.fromkeys(map(ord, "‘’‚‛ʼ′"), "'") | dict.fromkeys(map(ord, "“”„‟″"), '"')
_DASHES = dict.fromkeys(map(ord, "‐‑‒–—―−"), "-")
_SPACES = dict.fromkeys((0xA0, *range(0x2000, 0x200B), 0x202F, 0x205F, 0x3000), " ")
_DOTS = {ord("…"): "..."}
_INVISIBLE = dict.fromkeys((0xAD, 0x200B, 0x2060, 0xFE0E, 0xFE0F, 0xFEFF), "")
"""Characters without a width of their own; not the joiners, which change what a word means."""
_UNSEEN = _SPACES | _INVISIBLE
"""Characters that a model does not see, and so does not mean to remove."""
_TABLES = (_QUOTES, _DASHES, _SPACES, _DOTS, _INVISIBLE)
_ALL: dict[int, str] = dict(ChainMap(*_TABLES))
_AMBIGUOUS = frozenset("'\"-.")
"""Plain forms that also stand for themselves; a space rarely stands for another character."""
_TOKEN = compile_later(r"\w+|\s+|\.{3}|.", re.DOTALL)


def to_plain_typography(text: str) -> str:
    return text if text.isascii() else _compose(text.translate(_ALL))


def find_typography(text: str) -> frozenset[str]:
    """Return the typographic characters in a text, and accents separate from their letters."""
    if text.isascii():
        return frozenset()
    return frozenset(char for char in set(text) if ord(char) in _ALL or combining(char))


def iterate_plainings(
    pairs: Sequence[tuple[str, str]], typography: frozenset[str]
) -> Iterator[Callable[[str], str]]:
    """Yield every conversion that makes the first of each pair the second, ends aside.

    Whitespace at the ends is ignored. If nothing needs converting, that is the only result.
    Characters in `typography`, those that the file has, may stand for themselves anywhere.
    """

    def explains(plain: Callable[[str], str]) -> bool:
        return all(plain(one).strip(BLANK) == other.strip(BLANK) for one, other in pairs)

    if explains(str):
        yield str
        return
    forms: tuple[Callable[[str], str], ...] = (str, _compose, _decompose)
    own = set(map(ord, typography))
    tables: list[tuple[dict[int, str], dict[int, str]]] = [
        ({}, table) for table in _TABLES if own.isdisjoint(table)
    ]
    for chosen in product(*tables):
        for form in forms:
            plain = _build_plaining(dict(ChainMap(*chosen)), form)
            if explains(plain):
                yield plain


def retain_typography(new: str, *, plain: str, own: str) -> str | None:
    """Return `new` with the characters of `own`, whose plain form is `plain`, where unchanged.

    None if the changed part has a character that could be the plain form of another.
    """
    if plain.translate(_ALL) != own.translate(_ALL):
        plain = own = ""
    old, wanted = _TOKEN.findall(plain), _TOKEN.findall(new)
    starts = _find_starts(old, own)
    if starts is None:
        return None
    pieces: list[str] = []
    reached = 0
    for change in find_changes(old, wanted):
        added = "".join(wanted[change.new_start : change.new_end])
        replaced = own[starts[change.old_start] : starts[change.old_end]]
        may_remain = any(ord(char) in _UNSEEN or combining(char) for char in replaced)
        if may_remain or not added.isascii() or _AMBIGUOUS & set(added):
            return None
        pieces += (own[starts[reached] : starts[change.old_start]], added)
        reached = change.old_end
    return "".join((*pieces, own[starts[reached] :]))


def _find_starts(tokens: Sequence[str], own: str) -> list[int] | None:
    """Return where the tokens of a text begin in a text with the same plain form, and its end.

    None if a token begins inside of a character, as a dot may in an ellipsis."""
    starts, at, ahead = [], 0, 0
    for token in tokens:
        starts.append(at)
        ahead += len(token.translate(_ALL))
        while ahead > 0:
            ahead -= len(own[at].translate(_ALL))
            at += 1
        if ahead < 0:
            return None
    return [*starts, len(own)]


def _build_plaining(table: dict[int, str], form: Callable[[str], str]) -> Callable[[str], str]:
    return lambda text: text if text.isascii() else form(text.translate(table))


def _compose(text: str) -> str:
    return unicodedata.normalize("NFC", text)


def _decompose(text: str) -> str:
    return unicodedata.normalize("NFD", text)
