"""Whitespace at both ends of a line, and how a model's differs from a file's.

Indentation drifts by a constant prefix more or less, by another width, or by tabs for spaces. At
the end of a line, whitespace is added or lost. A map returns None if it cannot decide.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from math import gcd

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
    scaled = _build_scaling_test(pairs, *different, indents)
    maps = (*_iter_shifts(*different, scaled), *_iter_scales(pairs), *_iter_tab_maps(seen, indents))
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


def _iter_shifts(drifted: str, own: str, scaled: Callable[[str], bool]) -> Iterator[IndentMap]:
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
    pairs: Sequence[tuple[str, str]], drifted: str, own: str, indents: Collection[str]
) -> Callable[[str], bool]:
    """Return a test: an indent may be of another width, rather than shifted.

    At a single depth, a shift looks the same as a width of twice or half the file's. It was a shift
    if that gives a depth that the file can have, and the other width does not.
    """
    may_be = is_twice_or_half(drifted, own) and _are_scaled(pairs, drifted, own)
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
    if not _are_scaled(pairs, kind * drifted, kind * own):
        return

    def scale(indent: str) -> str | None:
        depth, rest = divmod(len(indent) * own, drifted)
        return None if rest or depth % unit or indent.strip(kind) else kind * depth

    yield scale


def is_twice_or_half(one: str, other: str) -> bool:
    return len(other) in (2 * len(one), len(one) / 2)


def _are_scaled(pairs: Sequence[tuple[str, str]], drifted: str, own: str) -> bool:
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
