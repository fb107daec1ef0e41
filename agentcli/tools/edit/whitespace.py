"""Whitespace at both ends of a line, and how a model's differs from a file's.

Indentation drifts by a constant prefix more or less, or by tabs for spaces. At the end of a line,
whitespace is added or lost. A map returns None if it cannot decide.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial

BLANK = " \t"
TAB_WIDTHS = (4, 2, 8, 3)

IndentMap = Callable[[str], str | None]


def is_blank(line: str) -> bool:
    return not line.strip(BLANK)


def get_indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip(BLANK))]


def get_trail(line: str) -> str:
    return line[len(line.rstrip(BLANK)) :]


def indent_maps(pairs: Sequence[tuple[str, str]], indents: Collection[str]) -> Iterator[IndentMap]:
    """Yield every map that turns the first of each pair, a model's indent, into the file's.

    `indents` are all indents that occur in the file.
    """
    different = next((pair for pair in pairs if pair[0] != pair[1]), None)
    if different is None:
        yield str
        return
    seen = {drifted for drifted, _ in pairs}
    for candidate in (*_shifts(*different, indents), *_tab_maps(seen, indents)):
        if all(candidate(drifted) == own for drifted, own in pairs):
            yield candidate if len(seen) > 1 else partial(_plausible, candidate, {"", *indents})


def _plausible(candidate: IndentMap, indents: Collection[str], indent: str) -> str | None:
    """Apply a map that only one depth confirms to another depth.

    Return None if the file does not have the resulting indent, but does have the original one.
    """
    mapped = candidate(indent)
    is_mixed = "\t" in indent and " " in indent
    return None if mapped not in indents and (indent in indents or is_mixed) else mapped


def _shifts(drifted: str, own: str, indents: Collection[str]) -> Iterator[IndentMap]:
    scaled = _scaling(drifted, own, indents)
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


def _scaling(drifted: str, own: str, indents: Collection[str]) -> Callable[[str], bool]:
    """Return a test: an indent may be of another width, rather than shifted.

    At a single depth, a shift looks the same as a width of twice or half the file's. It was a shift
    if the file has the indent that a shift gives, and not the one that another width would give.
    """
    may_be = own == 2 * drifted if "  " not in indents else drifted == 2 * own

    def is_another_depth(indent: str) -> bool:
        if not may_be or indent == drifted or "\t" in drifted + indent:
            return False
        depth, rest = divmod(len(indent) * len(own), len(drifted))
        shifted = len(indent) + len(own) - len(drifted)
        is_possible = depth > 0 and not rest and shifted >= 0
        return is_possible and (" " * depth in indents or " " * shifted not in indents)

    return is_another_depth


def _tab_maps(seen: Collection[str], indents: Collection[str]) -> Iterator[IndentMap]:
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
    return not indent or _kind(indent) in {_kind(each) for each in indents if each}


def _kind(indent: str) -> tuple[str, str] | None:
    before, tab, rest = indent.partition("\t")
    return (before, rest.rpartition("\t")[2]) if tab else None


def trail_map(pairs: Sequence[tuple[str, str]]) -> Callable[[str, str], str | None]:
    """Return a map from the trailing whitespace of a model's lines to that of the file's.

    The map takes the end of a line, and that of the file's line it replaces, if any.
    """
    different = {(drifted, own) for drifted, own in pairs if drifted != own}
    drifts = {drifted for drifted, _ in different}

    def meant(trail: str, replaced: str) -> str | None:
        if not different:
            return trail
        if all(own == "" for _, own in different):
            return "" if trail == "" or trail in drifts else None
        # The model dropped it. It may also have dropped it in a line that replaces one with some.
        return "" if drifts == {""} and trail == "" and replaced == "" else None

    return meant
