"""Drift: how a model's copy of lines differs from the file, and what its added lines mean.

An added line is assumed to have drifted like the known lines, and only as far as all maps that
explain the known lines agree on it.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from agentcli.tools.edit.view import Style
from agentcli.tools.edit.whitespace import (
    BLANK,
    IndentMap,
    build_trail_map,
    get_indent,
    get_trail,
    is_blank,
    iter_indent_maps,
    iterate_plainings,
    retain_typography,
    to_plain_typography,
)

BLOCK_OPENERS = (":", "{", "(", "[")


class LinePair(NamedTuple):
    """A line as the model wrote it, and as it is in the file."""

    drifted: str
    own: str


LineMap = Callable[[str, LinePair | None], str | None]
"""Maps a line of the model, and the line it replaces if that is clear, to the line it means.

Returns None if the map cannot decide.
"""


def normalize_line(line: str) -> str:
    """Return a form that is equal for lines that differ only by drift."""
    return to_plain_typography(line).strip(BLANK)


def learn_line_map(known: Sequence[LinePair], style: Style) -> LineMap:
    """Return the map that all explanations of the known lines agree on."""
    maps = list(_iter_explanations(known, style)) or [_follow_replaced(known, style)]

    def agree(line: str, replaced: LinePair | None) -> str | None:
        outcomes = {each(line, replaced) for each in maps}
        return outcomes.pop() if len(outcomes) == 1 else None

    return agree


def _iter_explanations(known: Sequence[LinePair], style: Style) -> Iterator[LineMap]:
    for plain in iterate_plainings(known, style.typography):
        plained = [LinePair(plain(line.drifted), line.own) for line in known]
        trails, blanks = _build_trail_map(plained), _map_blanks(plained)
        for indent in _iter_indent_maps(plained, style):
            yield _build_line_map(plain, indent, trails=trails, blanks=blanks)


def _build_line_map(
    plain: Callable[[str], str],
    indent: IndentMap,
    *,
    trails: Callable[[str, str], str | None],
    blanks: dict[str, set[str]],
) -> LineMap:
    def find_meant(line: str, replaced: LinePair | None) -> str | None:
        line = plain(line)
        if is_blank(line):
            own = blanks.get(line, set())
            return next(iter(own)) if len(own) == 1 else None
        before = indent(get_indent(line))
        after = trails(get_trail(line), get_trail(replaced.own) if replaced else "")
        return None if before is None or after is None else before + line.strip(BLANK) + after

    return find_meant


def _follow_replaced(known: Sequence[LinePair], style: Style) -> LineMap:
    """Return a map for drift that no map explains: a line means what the replaced one was.

    So it is for plain characters where the file has typographic ones, and for lines that lost
    different indentation: the file's own are kept where a line did not change.
    """
    plained = [LinePair(to_plain_typography(line.drifted), line.own) for line in known]
    maps = list(_iter_indent_maps(plained, style))
    is_same_text = all(line.drifted.strip(BLANK) == line.own.strip(BLANK) for line in known)

    def find_meant(line: str, replaced: LinePair | None) -> str | None:
        if not line:
            return ""
        before = {indent(get_indent(line)) for indent in maps} or {
            _borrow_indent(line, replaced, known=known)
        }
        plain, own = (each.strip(BLANK) for each in replaced or ("", ""))
        body: str | None = line.strip(BLANK)
        if not is_same_text:
            body = retain_typography(line.strip(BLANK), plain=plain, own=own)
        if len(before) != 1 or body is None or get_trail(line):
            return None
        (mapped,) = before
        return None if mapped is None else mapped + body

    return find_meant


def _borrow_indent(
    line: str, replaced: LinePair | None, *, known: Sequence[LinePair]
) -> str | None:
    """Return the indent of a line as that of the file's line at its depth, if that is clear.

    It is if the line replaces one that the model wrote at the same depth. A line of its own must
    be as deep as lines that all have not drifted, and must not begin a block: which lines it
    would be of is not clear.
    """
    indent = get_indent(line)
    if replaced is not None:
        return get_indent(replaced.own) if indent == get_indent(replaced.drifted) else None
    as_deep = {
        get_indent(pair.own)
        for pair in known
        if get_indent(pair.drifted) == indent and not is_blank(pair.own)
    }
    return indent if as_deep == {indent} and not line.endswith(BLOCK_OPENERS) else None


def _iter_indent_maps(known: Sequence[LinePair], style: Style) -> Iterator[IndentMap]:
    filled = [line for line in known if not is_blank(line.own)]
    pairs = [(get_indent(line.drifted), get_indent(line.own)) for line in filled]
    return iter_indent_maps(pairs, style.indents)


def _build_trail_map(known: Sequence[LinePair]) -> Callable[[str, str], str | None]:
    filled = [line for line in known if not is_blank(line.own)]
    return build_trail_map([(get_trail(line.drifted), get_trail(line.own)) for line in filled])


def _map_blanks(known: Sequence[LinePair]) -> dict[str, set[str]]:
    """Map blank lines of the model to those of the file; an empty line stays empty unless known."""
    blanks: dict[str, set[str]] = {}
    for line in known:
        if is_blank(line.own):
            blanks.setdefault(line.drifted, set()).add(line.own)
    return {"": {""}, **blanks}
