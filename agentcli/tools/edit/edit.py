"""Edits: find which characters of a text to replace, or refuse.

The edit must be certain. An exact match decides. Without one, drift is ignored only if one place
can be meant and one result follows from it. Everything else is refused.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from agentcli.system.text import Splice, splice, to_lf
from agentcli.tools.edit.matching import (
    COUNTED_HITS,
    find_missing_indentation,
    is_indented_like,
    joins_lines,
    list_overlapping_hits,
    match_by_lines,
    separate_hits,
    take_own_blank_lines,
)
from agentcli.tools.edit.near import explain_not_found
from agentcli.tools.edit.readings import Reading, list_other_readings
from agentcli.tools.edit.view import LfView, is_mixed
from agentcli.tools.edit.whitespace import BLANK
from agentcli.types.errors import ToolError
from agentcli.types.fast_dataclass import dataclass

SHOWN_LINE_NUMBERS = 10
_REFUSED = "Not edited: "


@dataclass(frozen=True, slots=True, kw_only=True)
class EditRequest:
    """The requested edit, with the path as the model wrote it."""

    path: str
    old: str
    new: str
    replace_all: bool = False
    is_stale: bool = False
    """True if the file changed since the model saw it: only an exact match counts then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedEdit:
    splices: tuple[Splice, ...]
    overlooked: str = ""
    """The difference between old_text and the file, in words; empty if there is none."""


def plan_edit(raw: str, request: EditRequest) -> PlannedEdit:
    """Plan an edit; raise ToolError with the reason if it is not certain what is meant."""
    if not request.old:
        raise make_refusal("old_text is empty. To create or rewrite a file use write_file.")
    if request.old == request.new:
        raise make_refusal("old_text and new_text are the same.")
    view = LfView(raw)
    given = Reading(to_lf(request.old), to_lf(request.new))
    if given.old == given.new:
        return _edit_endings(view, request)
    exact = _edit_exact(view, given, request=request)
    if exact is not None:
        return exact
    if request.is_stale:
        raise make_refusal(f"{request.path} changed on disk since you read it; read it again.")
    return _edit_tolerant(view, given, request=request)


def plan_edits(raw: str, requests: Sequence[EditRequest]) -> PlannedEdit:
    """Plan edits, each of the text that those before it leave; raise ToolError if one is refused.

    The splices are those of all edits together."""
    text, kept = raw, [_Kept(0, len(raw), 0)]
    overlooked: list[str] = []
    for index, request in enumerate(requests):
        try:
            planned = plan_edit(text, request)
        except ToolError as error:
            reason = str(error).removeprefix(_REFUSED)
            old = to_lf(request.old)
            if index and old in to_lf(raw) and old not in to_lf(text):
                reason = "an edit before it changed its old_text. Join the two, or reorder them."
            where = f"edits[{index}], after those before it" if index else "edits[0]"
            raise make_refusal(f"{where}: {reason}") from None
        kept = list(_carry(kept, planned.splices, size=len(text)))
        text = splice(text, planned.splices)
        overlooked.append(planned.overlooked)
    if text == raw:
        raise make_refusal("the edits together change nothing.")
    return PlannedEdit(
        splices=tuple(_splice_between(kept, len(raw), text=text)),
        overlooked=" and ".join(dict.fromkeys(filter(None, overlooked))),
    )


def plan_lines(raw: str, first: int, *, last: int, new: str) -> PlannedEdit:
    """Plan the replacement of whole lines, counted from 1, which must be in the text."""
    view = LfView(raw)
    start, end = view.find_line_start(first - 1), view.find_line_start(last)
    text = to_lf(new)
    if text and not text.endswith("\n"):
        text += "\n"
    if not view.text.endswith("\n") and last == len(view.lines):
        text = text.removesuffix("\n")
    if text == view.text[start:end]:
        raise make_refusal("new_text is what these lines are already.")
    return PlannedEdit(splices=(view.splice((start, end), text),))


class _Kept(NamedTuple):
    """A stretch of the first text that is still there, and where it is now."""

    start: int
    end: int
    now: int


def _carry(kept: Sequence[_Kept], splices: Sequence[Splice], *, size: int) -> Iterator[_Kept]:
    """Yield what is left of the stretches after more splices; `size` is that of the text now."""
    ends = [*(each.start for each in splices), size]
    shift = reached = 0
    rest = deque(kept)
    for number, end in enumerate(ends):
        while rest and rest[0].now < end:
            start, past, now = rest[0]
            first, last = max(now, reached), min(now + past - start, end)
            if first < last:
                yield _Kept(start + first - now, start + last - now, first + shift)
            if now + past - start > end:
                break
            rest.popleft()
        if number < len(splices):
            reached = splices[number].end
            shift += len(splices[number].text) - (reached - end)


def _splice_between(kept: Sequence[_Kept], size: int, *, text: str) -> Iterator[Splice]:
    """Yield the splices that lead to a text from the stretches of the first that it keeps."""
    at = now_at = 0
    for start, end, now in (*kept, _Kept(size, size, len(text))):
        if start > at or now > now_at:
            yield Splice(start=at, end=start, text=text[now_at:now])
        at, now_at = end, now + end - start


def make_refusal(reason: str) -> ToolError:
    return ToolError(f"{_REFUSED}{reason}")


def _edit_endings(view: LfView, request: EditRequest) -> PlannedEdit:
    """Replace line endings; the arguments differ in nothing else, so they are exact."""
    hits = list_overlapping_hits(view.raw, request.old)
    if len(hits) != 1:
        raise make_refusal(
            "old_text and new_text differ only in line endings, and old_text is not in "
            f"{request.path} exactly once with its own."
        )
    (start,) = hits
    return PlannedEdit(
        splices=(Splice(start=start, end=start + len(request.old), text=request.new),)
    )


def _edit_exact(view: LfView, reading: Reading, *, request: EditRequest) -> PlannedEdit | None:
    """Plan an exact edit; None if nothing matches, or a match shows drifted indentation."""
    hits = _choose_hits(view, reading, request=request)
    spans = [(hit, hit + len(reading.old)) for hit in hits]
    for span in spans:
        if joins_lines(view.text, span, new=reading.new):
            raise make_refusal(
                "old_text begins or ends with a newline that new_text lacks, which would join "
                "two lines. Give whole lines in both, or the text of both lines in old_text."
            )
        lead = find_missing_indentation(view.text, span, new=reading.new)
        if lead and (reading.old[0] in BLANK or not reading.new):
            return None
        if lead and not is_indented_like(lead, reading.new):
            raise make_refusal(
                f"old_text leaves out the indentation of line {view.find_line_number(span[0])}, "
                "so that of new_text is unclear. Give whole lines, with their indentation."
            )
    if not spans:
        return None
    if _knows_endings(view, spans, request=request):
        return PlannedEdit(splices=tuple(view.splice_verbatim(span, request.new) for span in spans))
    return PlannedEdit(splices=tuple(view.splice(span, reading.new) for span in spans))


def _choose_hits(view: LfView, reading: Reading, *, request: EditRequest) -> list[int]:
    if request.replace_all:
        separate = separate_hits(view.text, reading.old)
        if separate is None:
            raise make_refusal("the places where old_text occurs overlap. Add surrounding lines.")
        return separate
    hits = list_overlapping_hits(view.text, reading.old)
    if len(hits) > 1:
        count = f"{len(hits)}" if len(hits) < COUNTED_HITS else f"at least {COUNTED_HITS}"
        lines = list(dict.fromkeys(map(view.find_line_number, hits[: SHOWN_LINE_NUMBERS + 1])))
        where, more = f"lines {_list_lines(lines)}", "surrounding lines"
        if len(lines) == 1:
            where, more = f"line {lines[0]}", "more of the line"
        raise make_refusal(
            f"old_text occurs {count} times in {request.path} ({where}). "
            f"Add {more}, or set replace_all."
        )
    return hits


def _knows_endings(view: LfView, spans: Sequence[tuple[int, int]], *, request: EditRequest) -> bool:
    """Return whether the line endings of new_text count.

    They do if the file has no newline, or if old_text matches mixed line endings exactly."""
    if "\n" not in view.raw:
        return True
    return is_mixed(request.old) and all(view.read_raw_part(*span) == request.old for span in spans)


def _edit_tolerant(view: LfView, given: Reading, *, request: EditRequest) -> PlannedEdit:
    for reading in _list_readings(view, given):
        found = match_by_lines(view, reading)
        if len(found.lines) > 1:
            raise make_refusal(
                f"no exact match, and {len(found.lines)} places match if whitespace is ignored "
                f"(lines {_list_lines(found.lines)}). Copy the exact text of the one you mean."
            )
        if found.splice is not None:
            return PlannedEdit(splices=(found.splice,), overlooked=found.overlooked)
    raise make_refusal(explain_not_found(view, given, path=request.path))


def _list_readings(view: LfView, given: Reading) -> Iterator[Reading]:
    """Yield the readings, first those whose text is in the file: that is the best evidence."""
    readings = [given, *list_other_readings(given)]
    yield from sorted(readings, key=lambda one: one.old not in view.text)
    for reading in readings:
        if (own := take_own_blank_lines(view, reading)) is not None:
            yield own


def _list_lines(line_numbers: Sequence[int]) -> str:
    shown = [str(number) for number in line_numbers[:SHOWN_LINE_NUMBERS]]
    return ", ".join(shown + ["…"] * (len(line_numbers) > SHOWN_LINE_NUMBERS))
