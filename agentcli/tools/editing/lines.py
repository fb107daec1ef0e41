"""Finding old_text by whole lines, with drift overlooked, and the splice that follows from it."""

from collections.abc import Sequence
from dataclasses import dataclass

from agentcli.machine.text import Splice
from agentcli.tools.editing.matching import places
from agentcli.tools.editing.readings import Reading
from agentcli.tools.editing.rebuild import difference, is_own_text, rebuild_lines
from agentcli.tools.editing.view import LfView
from agentcli.tools.editing.whitespace import get_trail, is_blank


@dataclass(frozen=True, slots=True, kw_only=True)
class LineMatch:
    lines: tuple[int, ...] = ()
    """Where the places begin, counted from 1."""
    splice: Splice | None = None
    """None: there is no one place, or it is not certain what to make of it."""
    overlooked: str = ""


@dataclass(frozen=True, slots=True)
class _Lines:
    old: list[str]
    new: list[str]


def match_by_lines(view: LfView, reading: Reading) -> LineMatch:
    whole = _lines(reading)
    if whole is None or all(map(is_blank, whole.old)):
        return LineMatch()
    before, after = _blank_start(whole.old), _blank_start(whole.old[::-1])
    starts = places(view.lines, whole.old[before : len(whole.old) - after])
    if len(starts) != 1:
        return LineMatch(lines=tuple(start + 1 for start in starts))
    (start,) = starts
    first, past = start - before, start - before + len(whole.old)
    if first >= 0 and past <= len(view.lines) and places(view.lines[first:past], whole.old):
        if not _keeps_blank_ends(whole, before, after) and not reading.numbered:
            return LineMatch(lines=(start + 1,))
        return _make_match(view, whole, first, [reading.without])
    core = _without_blank_ends(view, whole, start, before=before, after=after)
    return _make_match(view, core, start, [reading.without, "blank lines"]) if core else LineMatch()


def _lines(reading: Reading) -> _Lines | None:
    """None: it is not clear where new lines begin and end."""
    old, new = reading.old, reading.new
    if "\n" not in old + new and "\\n" in new:
        return None  # does it mean that sequence, or a new line?
    # Whitespace behind the last newline is no line if both texts end in it.
    tail = get_trail(old)
    if old[: len(old) - len(tail)].endswith("\n"):
        old, new = old.removesuffix(tail), new.removesuffix(tail)
    if not old.endswith("\n"):
        return _Lines(old.split("\n"), new.split("\n"))
    if new and not new.endswith("\n"):
        return None  # what becomes of the last line's newline?
    return _Lines(old.split("\n")[:-1], new.split("\n")[:-1])


def _blank_start(lines: Sequence[str]) -> int:
    """How many lines are blank before the first that is not."""
    return next((index for index, line in enumerate(lines) if not is_blank(line)), len(lines))


def _keeps_blank_ends(lines: _Lines, before: int, after: int) -> bool:
    """Else it cannot be told whether blank lines are to go, or crept into old_text."""
    rest = lines.new[before:]
    return _blank_start(lines.new) >= before and _blank_start(rest[::-1]) >= after


def _without_blank_ends(
    view: LfView, lines: _Lines, start: int, *, before: int, after: int
) -> _Lines | None:
    """Where the file has no such lines. None: whether new_text means its own is not clear."""
    old, new = lines.old, lines.new
    if all(map(is_blank, new)):
        return None
    first, past = _blank_start(new), len(new) - _blank_start(new[::-1])
    core = _Lines(old[before : len(old) - after], new[first:past])
    own = view.lines[start : start + len(core.old)]
    beside = view.lines[start - 1 : start], view.lines[start + len(own) : start + len(own) + 1]
    at_start = _crept_in(old[:before], new[:first], beside[0])
    at_end = _crept_in(old[len(old) - after :], new[past:], beside[1])
    if not (at_start and at_end):
        return None
    # Written like the file, though old_text is not, new_text means all that it has.
    has_dropped = len(core.new) < len(new)
    return None if has_dropped and is_own_text(own, core.old, core.new) else core


def _crept_in(old: Sequence[str], new: Sequence[str], beside: Sequence[str]) -> bool:
    """Whether blank lines at an end did: into both arguments, or where the file has none at all."""
    return old == new or (not new and not any(map(is_blank, beside)))


def _make_match(view: LfView, lines: _Lines, first: int, overlooked: list[str]) -> LineMatch:
    past = first + len(lines.old)
    own = view.lines[first:past]
    overlooked.append(difference(own, lines.old))
    return LineMatch(
        lines=(first + 1,),
        splice=_splice(view, lines, first),
        overlooked=" and ".join(filter(None, overlooked)),
    )


def _splice(view: LfView, wanted: _Lines, first: int) -> Splice | None:
    past = first + len(wanted.old)
    own = view.lines[first:past]
    lines = rebuild_lines(own, wanted.old, wanted.new, style=view.style)
    if lines is None or lines == own:
        return None
    start = view.start_of_line(first)
    if not lines:
        return view.splice(start, view.start_of_line(past), "")
    return view.splice(start, start + len("\n".join(own)), "\n".join(lines))
