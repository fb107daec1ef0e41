"""Whitespace and typography of a line, and how a model's differ from a file's.

Indentation drifts by a constant prefix more or less, by another width, or by tabs for spaces. At
the end of a line, whitespace is added or lost. A map returns None if it cannot decide.
"""

import re
import unicodedata
from collections import ChainMap
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from itertools import product
from math import gcd
from unicodedata import combining

from agentcli.system.diff import find_changes
from agentcli.system.lazy import compile_later

BLANK = " \t"
TAB_WIDTHS = (4, 2, 8, 3)

IndentMap = Callable[[str], str | None]


def is_blank(line: str) -> bool:
    return not line.strip(BLANK)


def get_indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip(BLANK))]


def get_trail(line: str) -> str:
    return line[len(line.rstrip(BLANK)) :]


def iter_indent_maps(
    pairs: Sequence[tuple[str, str]], indents: Collection[str]
) -> Iterator[IndentMap]:
    """Yield every map that turns the first of each pair, a model's indent, into the file's.

    `indents` are all indents that occur in the file.
    """
    different = next((pair for pair in pairs if pair[0] != pair[1]), None)
    if different is None:
        yield str
        return
    seen = {drifted for drifted, _ in pairs}
    scaled = _build_scaling_test(pairs, different, indents=indents)
    maps = (*_iter_shifts(different, scaled), *_iter_scales(pairs), *_iter_tab_maps(seen, indents))
    for candidate in maps:
        if all(candidate(drifted) == own for drifted, own in pairs):
            yield (
                candidate if len(seen) > 1 else partial(_apply_plausible, candidate, {"", *indents})
            )


def _apply_plausible(candidate: IndentMap, indents: Collection[str], indent: str) -> str | None:
    """Apply a map that only one depth confirms to another depth.

    Return None if the file does not have the resulting indent, but does have the original one.
    """
    mapped = candidate(indent)
    is_mixed = "\t" in indent and " " in indent
    return None if mapped not in indents and (indent in indents or is_mixed) else mapped


def _iter_shifts(different: tuple[str, str], scaled: Callable[[str], bool]) -> Iterator[IndentMap]:
    drifted, own = different
    if own.endswith(drifted):
        missing = own[: len(own) - len(drifted)]
        yield lambda indent: None if scaled(indent) else missing + indent
    if drifted.endswith(own):
        surplus = drifted[: len(drifted) - len(own)]
        yield (
            lambda indent: (
                indent.removeprefix(surplus)
                if indent.startswith(surplus) and not scaled(indent)
                else None
            )
        )


def _build_scaling_test(
    pairs: Sequence[tuple[str, str]], different: tuple[str, str], *, indents: Collection[str]
) -> Callable[[str], bool]:
    """Return a test: an indent may be of another width, rather than shifted.

    At a single depth, a shift looks the same as a width of twice or half the file's. It was a shift
    if that gives a depth that the file can have, and the other width does not.
    """
    drifted, own = different
    may_be = is_twice_or_half(drifted, own) and _are_scaled(pairs, drifted, own=own)
    (kind, *others) = {*drifted, *own} or {""}
    unit = _find_unit(kind, indents)

    def is_another_depth(indent: str) -> bool:
        if not may_be or others or indent == drifted or indent.strip(kind):
            return False
        depth, rest = divmod(len(indent) * len(own), len(drifted))
        shifted = len(indent) + len(own) - len(drifted)
        is_possible = depth > 0 and not rest and shifted >= 0
        return is_possible and (depth % unit == 0 or shifted % unit != 0)

    return is_another_depth


def _iter_scales(pairs: Sequence[tuple[str, str]]) -> Iterator[IndentMap]:
    """Yield the map to another width, if two depths show it and no indent is of mixed kinds."""
    widths = sorted({(len(drifted), len(own)) for drifted, own in pairs if drifted or own})
    kinds = {char for pair in pairs for indent in pair for char in indent}
    if len(widths) < 2 or len(kinds) > 1 or not all(map(all, widths)):
        return
    (kind,), (drifted, own) = kinds, widths[-1]
    unit = gcd(*(width for _, width in widths))
    if not _are_scaled(pairs, kind * drifted, own=kind * own):
        return

    def scale(indent: str) -> str | None:
        depth, rest = divmod(len(indent) * own, drifted)
        return None if rest or depth % unit or indent.strip(kind) else kind * depth

    yield scale


def is_twice_or_half(one: str, other: str) -> bool:
    return len(other) in (2 * len(one), len(one) / 2)


def _are_scaled(pairs: Sequence[tuple[str, str]], drifted: str, *, own: str) -> bool:
    return all(len(one) * len(own) == len(other) * len(drifted) for one, other in pairs)


def _find_unit(kind: str, indents: Collection[str]) -> int:
    """Return the number of characters of which all indents of one kind are multiples."""
    return gcd(*(len(indent) for indent in indents if not indent.strip(kind))) or 1


def _iter_tab_maps(seen: Collection[str], indents: Collection[str]) -> Iterator[IndentMap]:
    """Yield maps only for a file with tabs or spaces alone; with both, each may be meant."""
    for width in TAB_WIDTHS:
        if not any("\t" in indent for indent in indents):
            yield partial(_expand_tabs, width)
        if not any(" " * width in indent for indent in indents):
            yield partial(_restore_tabs, width, seen)


def _expand_tabs(width: int, indent: str) -> str:
    return indent.replace("\t", " " * width)


def _restore_tabs(width: int, seen: Collection[str], indent: str) -> str | None:
    if indent and not indent.strip("\t"):
        return indent
    # Two or three spaces may also align a line: they are certainly tabs only where seen as such.
    if "\t" in indent or (width < 4 and indent not in seen):
        return None
    tabs, spaces = divmod(len(indent), width)
    return "\t" * tabs + " " * spaces


def is_kind_of_indent(indent: str, indents: Collection[str]) -> bool:
    """Return whether the file indents that way: spaces, tabs, or these spaces around tabs."""
    return not indent or _split_around_tabs(indent) in {
        _split_around_tabs(each) for each in indents if each
    }


def _split_around_tabs(indent: str) -> tuple[str, str] | None:
    before, tab, rest = indent.partition("\t")
    return (before, rest.rpartition("\t")[2]) if tab else None


def build_trail_map(pairs: Sequence[tuple[str, str]]) -> Callable[[str, str], str | None]:
    """Return a map from the trailing whitespace of a model's lines to that of the file's.

    The map takes the end of a line, and that of the file's line it replaces, if any.
    """
    different = {(drifted, own) for drifted, own in pairs if drifted != own}
    drifts = {drifted for drifted, _ in different}

    def find_meant(trail: str, replaced: str) -> str | None:
        if not different:
            return trail
        if all(own == "" for _, own in different):
            return "" if trail == "" or trail in drifts else None
        # The model dropped it. It may also have dropped it in a line that replaces one with some.
        return "" if drifts == {""} and trail == "" and replaced == "" else None

    return find_meant


# Typographic characters and their plain forms: curly quotes, long dashes, odd spaces, accents.
#
# A model may write the plain form of what a file has, or the other way round.


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
