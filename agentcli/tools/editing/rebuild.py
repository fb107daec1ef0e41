"""The lines that a tolerant edit leaves behind: the file's own wherever nothing was to change.

Given the file's lines, the same lines as the model remembers them, and what it wants instead. What
comes back is certain, or nothing comes back.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

from agentcli.machine.diff import find_changes
from agentcli.tools.editing.drift import LineMap, LinePair, learn_line_map, normalize_line
from agentcli.tools.editing.evidence import judge_new_text
from agentcli.tools.editing.typography import find_typography, to_plain_typography
from agentcli.tools.editing.view import Style
from agentcli.tools.editing.whitespace import (
    BLANK,
    get_indent,
    get_trail,
    is_blank,
    is_kind_of_indent,
)

_LEVELS: tuple[tuple[str, Callable[[str], str]], ...] = (
    ("", str),
    ("trailing whitespace", lambda line: line.rstrip(BLANK)),
    ("typographic characters", lambda line: to_plain_typography(line).rstrip(BLANK)),
    ("indentation", normalize_line),
)

_OPENING = (":", "{", "(", "[")
_CLOSING = ("}", ")", "]")


def difference(own: Sequence[str], old: Sequence[str]) -> str:
    """What has to be overlooked for the old lines to be the file's; empty: nothing."""
    return _level(own, old)[0]


def _level(own: Sequence[str], old: Sequence[str]) -> tuple[str, Callable[[str], str]]:
    """Lines that are the same in canonical form are so at one of the levels."""
    return next(
        (name, form)
        for name, form in _LEVELS
        if all(form(one) == form(other) for one, other in zip(own, old, strict=True))
    )


def is_own_text(own: Sequence[str], old: Sequence[str], new: Sequence[str]) -> bool:
    """Whether old_text drifted, and new_text is written like the file all the same."""
    return bool(difference(own, old)) and judge_new_text(_pair_lines(own, old), new) == "own"


def rebuild_lines(
    own: Sequence[str], old: Sequence[str], new: Sequence[str], *, style: Style
) -> list[str] | None:
    """None: it is not certain what is meant."""
    _, form = _level(own, old)
    if [form(line) for line in old] == [form(line) for line in new]:
        return None  # the edit is of the very kind that was overlooked in finding the place
    known = _pair_lines(own, old)
    match judge_new_text(known, new) if new else "own":
        case "drifted" if _is_flat([*old, *new]) and not _is_flat(own) and _opens_block(new):
            return None  # all indentation was lost, also that of the block
        case "drifted":
            result = _merge_lines(known, new, learn_line_map(known, style))
        case "own":
            result = _merge_lines([LinePair(line, line) for line in own], new, _verbatim)
        case None:
            return None
    looks_drifted = _drift_detector(known, style)
    lines: list[str] = []
    for line, is_added in result:
        if line is None or (is_added and looks_drifted(line)):
            return None
        lines.append(line)
    return lines


def _pair_lines(own: Sequence[str], old: Sequence[str]) -> list[LinePair]:
    return [LinePair(drifted, line) for drifted, line in zip(old, own, strict=True)]


def _merge_lines(
    known: Sequence[LinePair], new: Sequence[str], meant: LineMap
) -> Iterator[tuple[str | None, bool]]:
    """The lines of the result, and whether each was added."""
    reached = 0
    for change in find_changes([line.drifted for line in known], new):
        yield from ((line.own, False) for line in known[reached : change.old_start])
        replaced: Sequence[LinePair | None] = known[change.old_start : change.old_end]
        added = new[change.new_start : change.new_end]
        if len(replaced) != len(added):
            replaced = [None] * len(added)
        for line, counterpart in zip(added, replaced, strict=True):
            yield meant(line, counterpart), True
        reached = change.old_end
    yield from ((line.own, False) for line in known[reached:])


def _is_flat(lines: Sequence[str]) -> bool:
    return not any(get_indent(to_plain_typography(line)) for line in lines)


def _opens_block(lines: Sequence[str]) -> bool:
    """Whether a line looks as if the next one should be deeper."""
    filled = [line.strip(BLANK) for line in lines if not is_blank(line)]
    return any(
        line.endswith(_OPENING) and not after.startswith(_CLOSING)
        for line, after in pairwise(filled)
    )


def _verbatim(line: str, replaced: LinePair | None) -> str:
    return line


def _drift_detector(known: Sequence[LinePair], style: Style) -> Callable[[str], bool]:
    """Whether an added line has what drift brings, and what the lines around it do not have.

    Drift that shows in old_text may show in new_text in other ways, too.
    """
    trails = {(get_trail(line.drifted), get_trail(line.own)) for line in known}
    may_trail = any(own for _, own in trails) and all(drifted == own for drifted, own in trails)
    typography = find_typography("".join(line.own for line in known))

    def looks_drifted(line: str) -> bool:
        return (
            (bool(get_trail(line)) and not may_trail)
            or not find_typography(line) <= typography
            or not is_kind_of_indent(get_indent(line), style.indents)
        )

    return looks_drifted
