"""The lines that a tolerant edit leaves behind: the file's own wherever nothing was to change.

Given the file's lines, the same lines as the model remembers them, and what it wants instead. What
comes back is certain, or nothing comes back.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

from agentcli.machine.diff import changes_between
from agentcli.tools.editing.drift import Known, LineMap, canonical, learn
from agentcli.tools.editing.evidence import new_text_is
from agentcli.tools.editing.typography import plain_typography, typography_of
from agentcli.tools.editing.view import Style
from agentcli.tools.editing.whitespace import (
    BLANK,
    indent_of,
    is_blank,
    is_kind_of_indent,
    trail_of,
)

_LEVELS: tuple[tuple[str, Callable[[str], str]], ...] = (
    ("", str),
    ("trailing whitespace", lambda line: line.rstrip(BLANK)),
    ("typographic characters", lambda line: plain_typography(line).rstrip(BLANK)),
    ("indentation", canonical),
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
    return bool(difference(own, old)) and new_text_is(_known(own, old), new) == "own"


def rebuilt(
    own: Sequence[str], old: Sequence[str], new: Sequence[str], *, style: Style
) -> list[str] | None:
    """None: it is not certain what is meant."""
    _, form = _level(own, old)
    if [form(line) for line in old] == [form(line) for line in new]:
        return None  # the edit is of the very kind that was overlooked in finding the place
    known = _known(own, old)
    match new_text_is(known, new) if new else "own":
        case "drifted" if _is_flat([*old, *new]) and not _is_flat(own) and _opens_block(new):
            return None  # all indentation was lost, also that of the block
        case "drifted":
            result = _kept_and_added(known, new, learn(known, style))
        case "own":
            result = _kept_and_added([Known(line, line) for line in own], new, _verbatim)
        case None:
            return None
    looks_drifted = _drift_detector(known, style)
    lines: list[str] = []
    for line, is_added in result:
        if line is None or (is_added and looks_drifted(line)):
            return None
        lines.append(line)
    return lines


def _known(own: Sequence[str], old: Sequence[str]) -> list[Known]:
    return [Known(drifted, line) for drifted, line in zip(old, own, strict=True)]


def _kept_and_added(
    known: Sequence[Known], new: Sequence[str], meant: LineMap
) -> Iterator[tuple[str | None, bool]]:
    """The lines of the result, and whether each was added."""
    reached = 0
    for change in changes_between([line.drifted for line in known], new):
        yield from ((line.own, False) for line in known[reached : change.old_start])
        replaced: Sequence[Known | None] = known[change.old_start : change.old_end]
        added = new[change.new_start : change.new_end]
        if len(replaced) != len(added):
            replaced = [None] * len(added)
        for line, counterpart in zip(added, replaced, strict=True):
            yield meant(line, counterpart), True
        reached = change.old_end
    yield from ((line.own, False) for line in known[reached:])


def _is_flat(lines: Sequence[str]) -> bool:
    return not any(indent_of(plain_typography(line)) for line in lines)


def _opens_block(lines: Sequence[str]) -> bool:
    """Whether a line looks as if the next one should be deeper."""
    filled = [line.strip(BLANK) for line in lines if not is_blank(line)]
    return any(
        line.endswith(_OPENING) and not after.startswith(_CLOSING)
        for line, after in pairwise(filled)
    )


def _verbatim(line: str, replaced: Known | None) -> str:
    return line


def _drift_detector(known: Sequence[Known], style: Style) -> Callable[[str], bool]:
    """Whether an added line has what drift brings, and what the lines around it do not have.

    Drift that shows in old_text may show in new_text in other ways, too.
    """
    trails = {(trail_of(line.drifted), trail_of(line.own)) for line in known}
    may_trail = any(own for _, own in trails) and all(drifted == own for drifted, own in trails)
    typography = typography_of("".join(line.own for line in known))

    def looks_drifted(line: str) -> bool:
        return (
            (bool(trail_of(line)) and not may_trail)
            or not typography_of(line) <= typography
            or not is_kind_of_indent(indent_of(line), style.indents)
        )

    return looks_drifted
