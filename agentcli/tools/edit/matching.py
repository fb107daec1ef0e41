"""Matching old_text in a file: exact matches in the text, and matches by lines."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice, pairwise

from agentcli.system.diff import find_changes
from agentcli.system.text import Splice
from agentcli.tools.edit.drift import normalize_line
from agentcli.tools.edit.readings import Reading
from agentcli.tools.edit.rebuild import describe_difference, is_own_text, rebuild_lines
from agentcli.tools.edit.view import LfView
from agentcli.tools.edit.whitespace import BLANK, get_indent, get_trail, is_blank
from agentcli.types.fast_dataclass import dataclass

COUNTED_HITS = 1_000
COUNTED_PLACES = 100


def list_overlapping_hits(text: str, wanted: str) -> list[int]:
    """Return every position where the text occurs, overlapping ones included, up to a limit."""
    return list(islice(_iter_hits(text, wanted, step=1), COUNTED_HITS))


def separate_hits(text: str, wanted: str) -> list[int] | None:
    """Return every position, for replacing them all; None if two of them overlap."""
    hits: list[int] = []
    for hit in _iter_hits(text, wanted, step=len(wanted)):
        if text.find(wanted, hit + 1, hit + 2 * len(wanted) - 1) >= 0:
            return None
        hits.append(hit)
    return hits


def _iter_hits(text: str, wanted: str, *, step: int) -> Iterator[int]:
    hit = text.find(wanted)
    while hit >= 0:
        yield hit
        hit = text.find(wanted, hit + step)


def find_places(lines: Sequence[str], wanted: Sequence[str]) -> list[int]:
    """Return every index at which the wanted lines begin, compared without blanks at their ends.

    Quotes, dashes and other look-alikes count as the same (`normalize_line`).
    """
    # Most lines are plain ASCII, and there may be very many of them.
    forms = [line.strip(BLANK) if line.isascii() else normalize_line(line) for line in lines]
    return _find_sequences(forms, [normalize_line(line) for line in wanted])


def _find_sequences(lines: list[str], wanted: list[str]) -> list[int]:
    counts = Counter(lines)
    # Searching for the rarest line leaves few places to compare in full.
    offset = min(range(len(wanted)), key=lambda index: counts[wanted[index]])
    found: list[int] = []
    at = offset - 1
    while len(found) < COUNTED_PLACES:
        try:
            at = lines.index(wanted[offset], at + 1)
        except ValueError:
            break
        start = at - offset
        if lines[start : start + len(wanted)] == wanted:
            found.append(start)
    return found


def joins_lines(text: str, span: tuple[int, int], *, new: str) -> bool:
    """Return whether `new` would join two lines, because only the old text has a newline there."""
    start, end = span
    before, after = text[start - 1 : start] if start else "", text[end : end + 1]
    at_start = text[start] == "\n" and before not in ("", "\n")
    at_end = text[end - 1] == "\n" and after not in ("", "\n")
    return (at_start and (new + after)[:1] not in ("", "\n")) or (
        at_end and (before + new)[-1:] not in ("", "\n")
    )


def find_missing_indentation(text: str, span: tuple[int, int], *, new: str) -> str:
    """Return the indentation before a match that old_text, and maybe `new`, leave out.

    The match must be the rest of one line. Return an empty string if the indentation does not
    matter: `new` starts at the same depth as the old text and has only one line.
    """
    start, end = span
    lead = text[text.rfind("\n", 0, start) + 1 : start]
    if lead.strip(BLANK):
        return ""
    old = text[start:end]
    is_rest = old.endswith("\n") or text[end : end + 1] in ("", "\n")
    is_one_line = all(map(is_blank, old.split("\n")[1:]))
    same = get_indent(old) == get_indent(new) and not _list_later_lines(new)
    deletes_line = not new and old.endswith("\n")
    return lead if is_rest and is_one_line and (not same or deletes_line) else ""


def is_indented_like(lead: str, new: str) -> bool:
    """Return whether `new`, placed after an indentation, continues in lines that have it too."""
    return not get_indent(new) and all(line.startswith(lead) for line in _list_later_lines(new))


def _list_later_lines(text: str) -> list[str]:
    """Return the lines after the first that are not blank."""
    return [line for line in text.split("\n")[1:] if not is_blank(line)]


# Matching by whole lines, ignoring drift, and the resulting splice.


@dataclass(frozen=True, slots=True, kw_only=True)
class LineMatch:
    lines: tuple[int, ...] = ()
    """The line numbers at which the matches begin, counted from 1."""
    splice: Splice | None = None
    """None if there is not exactly one match, or if its replacement is not certain."""
    overlooked: str = ""


@dataclass(frozen=True, slots=True)
class _Lines:
    old: list[str]
    new: list[str]


def match_by_lines(view: LfView, reading: Reading) -> LineMatch:
    whole = _read_lines(reading)
    if whole is None or all(map(is_blank, whole.old)):
        return LineMatch()
    before, after = _count_blank_start(whole.old), _count_blank_start(whole.old[::-1])
    starts = find_places(view.lines, whole.old[before : len(whole.old) - after])
    if reading.first_line is not None:
        starts = _prefer_numbered(starts, reading.first_line - 1, needs_it=reading.needs_first_line)
    if len(starts) == 1 and reading.first_line is None:
        starts = _find_places_past_blanks(view, whole.old)
    if len(starts) != 1:
        return LineMatch(lines=tuple(start + 1 for start in starts))
    (start,) = starts
    first, past = start - before, start - before + len(whole.old)
    if first >= 0 and past <= len(view.lines) and find_places(view.lines[first:past], whole.old):
        if not _keeps_blank_ends(whole, before, after=after) and reading.first_line is None:
            return LineMatch(lines=(start + 1,))
        return _make_match(view, whole, first=first, overlooked=[reading.without])
    core = _without_blank_ends(view, whole, start=start, before=before, after=after)
    return (
        _make_match(view, core, first=start, overlooked=[reading.without, "blank lines"])
        if core
        else LineMatch()
    )


def _find_places_past_blanks(view: LfView, old: Sequence[str]) -> list[int]:
    """Return also the places that have other blank lines between the lines of old_text."""
    filled = [line for line in old if not is_blank(line)]
    return [view.filled[at] for at in find_places([view.lines[at] for at in view.filled], filled)]


def _prefer_numbered(starts: list[int], numbered: int, *, needs_it: bool) -> list[int]:
    """Return only the start that the line numbers name, if it is one of them."""
    if numbered in starts:
        return [numbered]
    return [] if needs_it else starts


def _read_lines(reading: Reading) -> _Lines | None:
    """Return whole lines, or None if it is not clear where new lines begin and end."""
    old, new = reading.old, reading.new
    if "\n" not in old + new and "\\n" in new:
        return None  # does it mean that sequence, or a newline?
    # Whitespace after the last newline is not a line if both texts end with it.
    tail = get_trail(old)
    if old[: len(old) - len(tail)].endswith("\n"):
        old, new = old.removesuffix(tail), new.removesuffix(tail)
    if not old.endswith("\n"):
        return _Lines(old.split("\n"), new.split("\n"))
    if new and not new.endswith("\n"):
        return None  # unclear what happens to the newline of the last line
    return _Lines(old.split("\n")[:-1], new.split("\n")[:-1])


def _count_blank_start(lines: Sequence[str]) -> int:
    """Return how many blank lines come before the first line that is not blank."""
    return next((index for index, line in enumerate(lines) if not is_blank(line)), len(lines))


def _keeps_blank_ends(lines: _Lines, before: int, *, after: int) -> bool:
    """Return whether new_text keeps the blank lines at both ends of old_text.

    Otherwise they may be meant to go, or have slipped into old_text by mistake."""
    rest = lines.new[before:]
    return _count_blank_start(lines.new) >= before and _count_blank_start(rest[::-1]) >= after


def _without_blank_ends(
    view: LfView, lines: _Lines, *, start: int, before: int, after: int
) -> _Lines | None:
    """Drop blank ends that the file does not have; None if new_text may mean its own."""
    old, new = lines.old, lines.new
    if all(map(is_blank, new)):
        return None
    first, past = _count_blank_start(new), len(new) - _count_blank_start(new[::-1])
    core = _Lines(old[before : len(old) - after], new[first:past])
    own = view.lines[start : start + len(core.old)]
    beside = view.lines[start - 1 : start], view.lines[start + len(own) : start + len(own) + 1]
    at_start = _is_accidental(old[:before], new[:first], beside=beside[0])
    at_end = _is_accidental(old[len(old) - after :], new[past:], beside=beside[1])
    if not (at_start and at_end):
        return None
    if (first and _keeps_gap(core.old, core.new)) or (
        past < len(new) and _keeps_gap(core.old[::-1], core.new[::-1])
    ):
        return None
    # If new_text is written like the file, though old_text is not, all of its lines are meant.
    has_dropped = len(core.new) < len(new)
    return None if has_dropped and is_own_text(own, core.old, new=core.new) else core


def _is_accidental(old: Sequence[str], new: Sequence[str], *, beside: Sequence[str]) -> bool:
    """Return whether blank lines at one end slipped in by mistake.

    They did if both arguments have them, or if only old_text does and the file has none there."""
    return old == new or (not new and not any(map(is_blank, beside)))


def _keeps_gap(old: Sequence[str], new: Sequence[str]) -> bool:
    """Return whether blank lines before `new` may be those that old_text has within.

    They may if `new` begins with a line that follows blank ones there."""
    return any(is_blank(before) and line == new[0] for before, line in pairwise(old))


def _make_match(view: LfView, lines: _Lines, *, first: int, overlooked: list[str]) -> LineMatch:
    past = first + len(lines.old)
    own = view.lines[first:past]
    overlooked.append(describe_difference(own, lines.old))
    return LineMatch(
        lines=(first + 1,),
        splice=_splice(view, lines, first=first),
        overlooked=" and ".join(filter(None, overlooked)),
    )


def _splice(view: LfView, wanted: _Lines, *, first: int) -> Splice | None:
    past = first + len(wanted.old)
    own = view.lines[first:past]
    lines = rebuild_lines(own, wanted.old, new=wanted.new, style=view.style)
    if lines is None or lines == own:
        return None
    start = view.find_line_start(first)
    if not lines:
        return view.splice((start, view.find_line_start(past)), "")
    return view.splice((start, start + len("\n".join(own))), "\n".join(lines))


# Blank lines between the lines of old_text, where the file has more or fewer of them.


def take_own_blank_lines(view: LfView, reading: Reading) -> Reading | None:
    """Return the reading with the file's blank lines between its lines.

    None if old_text differs in more than these, or if new_text changes something beside them."""
    old, new = reading.old.split("\n"), reading.new.split("\n")
    filled = [at for at, line in enumerate(old) if not is_blank(line)]
    starts = find_places([view.lines[at] for at in view.filled], [old[at] for at in filled] or [""])
    ends = (
        (_count_blank_start(old), _count_blank_start(old[::-1])),
        (_count_blank_start(new), _count_blank_start(new[::-1])),
    )
    if len(starts) != 1 or ends[0] != ends[1]:
        return None
    found = view.filled[starts[0] : starts[0] + len(filled)]
    gaps = zip(pairwise(filled), pairwise(found), strict=True)
    different = [(gap, own) for gap, own in gaps if gap[1] - gap[0] != own[1] - own[0]]
    kept = _map_kept_lines(old, new)
    for (start, end), (own_start, own_end) in reversed(different):
        first = kept.get(start, -1)
        if any(kept.get(at) != first + at - start for at in range(start, end + 1)):
            return None
        own_gap = view.lines[own_start + 1 : own_end]
        old[start + 1 : end] = own_gap
        new[first + 1 : first + end - start] = own_gap
    if not different or _grows_at_blank_line(view, reading, filled=filled, found=found):
        return None
    without = " and ".join(filter(None, [reading.without, "blank lines"]))
    return replace(reading, old="\n".join(old), new="\n".join(new), without=without)


def _grows_at_blank_line(
    view: LfView, reading: Reading, *, filled: Sequence[int], found: Sequence[int]
) -> bool:
    """Return whether lines are added at an end where the file has a blank line, too.

    It may have been dropped like the others: the lines may belong on either side of it."""
    old, new = reading.old.split("\n"), reading.new.split("\n")
    kept = _map_kept_lines(old, new)
    left = [at for at, line in enumerate(new) if not is_blank(line)]
    beside = (found[0] - 1, filled[0], left[:1]), (found[-1] + 1, filled[-1], left[-1:])
    return any(
        0 <= at < len(view.lines) and is_blank(view.lines[at]) and [kept.get(end)] != ends
        for at, end, ends in beside
    )


def _map_kept_lines(old: list[str], new: list[str]) -> dict[int, int]:
    """Return which line of new_text each line of old_text has become, where that is clear.

    Lines that are replaced by as many correspond, if none is blank and none is found elsewhere."""
    kept: dict[int, int] = {}
    reached = new_reached = 0
    for change in (*find_changes(old, new), None):
        end = change.old_start if change else len(old)
        kept |= {at: new_reached + at - reached for at in range(reached, end)}
        if change is None:
            break
        replaced = range(change.old_start, change.old_end)
        shift = change.new_start - change.old_start
        gone, added = old[change.old_start : change.old_end], new[change.new_start : change.new_end]
        is_found = not {*gone}.isdisjoint(new) or not {*added}.isdisjoint(old)
        if len(gone) == len(added) and not is_found and not any(map(is_blank, gone + added)):
            kept |= {at: at + shift for at in replaced}
        reached, new_reached = change.old_end, change.new_end
    return kept
