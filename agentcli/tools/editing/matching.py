"""Where old_text is in a file: exact hits in the text, and places where its lines are."""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice

from agentcli.tools.editing.drift import normalize_line
from agentcli.tools.editing.whitespace import BLANK, get_indent, is_blank

COUNTED_HITS = 1_000
COUNTED_PLACES = 100


def overlapping_hits(text: str, wanted: str) -> list[int]:
    """Every position it occurs at, up to a limit."""
    return list(islice(_hits(text, wanted, 1), COUNTED_HITS))


def separate_hits(text: str, wanted: str) -> list[int] | None:
    """Every position, for replacing them all. None: two of them overlap."""
    hits: list[int] = []
    for hit in _hits(text, wanted, len(wanted)):
        if text.find(wanted, hit + 1, hit + 2 * len(wanted) - 1) >= 0:
            return None
        hits.append(hit)
    return hits


def _hits(text: str, wanted: str, step: int) -> Iterator[int]:
    hit = text.find(wanted)
    while hit >= 0:
        yield hit
        hit = text.find(wanted, hit + step)


def places(lines: Sequence[str], wanted: Sequence[str]) -> list[int]:
    """The indices at which those lines begin, drift overlooked.

    Every place that could be meant counts, however much less another one differs.
    """
    # Most lines are plain, and there may be very many of them.
    forms = [line.strip(BLANK) if line.isascii() else normalize_line(line) for line in lines]
    return _sequences(forms, [normalize_line(line) for line in wanted])


def _sequences(lines: list[str], wanted: list[str]) -> list[int]:
    counts = Counter(lines)
    # From its rarest line on, there are few places to compare in full.
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


def joins_lines(text: str, start: int, end: int, new: str) -> bool:
    """Whether putting `new` there would pull two lines together, by a newline only `old` has."""
    before, after = text[start - 1 : start] if start else "", text[end : end + 1]
    at_start = text[start] == "\n" and before not in ("", "\n")
    at_end = text[end - 1] == "\n" and after not in ("", "\n")
    return (at_start and (new + after)[:1] not in ("", "\n")) or (
        at_end and (before + new)[-1:] not in ("", "\n")
    )


def indentation_left_out(text: str, start: int, end: int, new: str) -> str:
    """The indentation before a hit that is the rest of one line, where `new` may be without, too.

    Empty where it does not matter: the new text goes on as deep as the old, and has but one line.
    """
    lead = text[text.rfind("\n", 0, start) + 1 : start]
    if lead.strip(BLANK):
        return ""
    old = text[start:end]
    is_rest = old.endswith("\n") or text[end : end + 1] in ("", "\n")
    is_one_line = all(map(is_blank, old.split("\n")[1:]))
    same = get_indent(old) == get_indent(new) and not _later_lines(new)
    deletes_line = not new and old.endswith("\n")
    return lead if is_rest and is_one_line and (not same or deletes_line) else ""


def is_indented_like(lead: str, new: str) -> bool:
    """Whether `new`, put behind an indentation, plainly goes on in lines that have it, too."""
    return not get_indent(new) and all(line.startswith(lead) for line in _later_lines(new))


def _later_lines(text: str) -> list[str]:
    """Those after the first that are not blank."""
    return [line for line in text.split("\n")[1:] if not is_blank(line)]
