"""One edit: find which characters of a text to replace, or refuse.

The edit must be certain. An exact match decides. Without one, drift is ignored only if one place
can be meant and one result follows from it. Everything else is refused.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from agentcli.system.text import Splice, to_lf
from agentcli.tools.edit.matching import (
    COUNTED_HITS,
    indentation_left_out,
    is_indented_like,
    joins_lines,
    match_by_lines,
    overlapping_hits,
    separate_hits,
)
from agentcli.tools.edit.near import explain_not_found
from agentcli.tools.edit.readings import Reading, other_readings
from agentcli.tools.edit.view import LfView, is_mixed
from agentcli.tools.edit.whitespace import BLANK
from agentcli.types.errors import ToolError

SHOWN_LINE_NUMBERS = 10


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
    exact = _edit_exact(view, given, request)
    if exact is not None:
        return exact
    if request.is_stale:
        raise make_refusal(f"{request.path} changed on disk since you read it; read it again.")
    return _edit_tolerant(view, given, request)


def make_refusal(reason: str) -> ToolError:
    return ToolError(f"Not edited: {reason}")


def _edit_endings(view: LfView, request: EditRequest) -> PlannedEdit:
    """Replace line endings; the arguments differ in nothing else, so they are exact."""
    hits = overlapping_hits(view.raw, request.old)
    if len(hits) != 1:
        raise make_refusal(
            "old_text and new_text differ only in line endings, and old_text is not in "
            f"{request.path} exactly once with its own."
        )
    (start,) = hits
    return PlannedEdit(
        splices=(Splice(start=start, end=start + len(request.old), text=request.new),)
    )


def _edit_exact(view: LfView, reading: Reading, request: EditRequest) -> PlannedEdit | None:
    """Plan an exact edit; None if nothing matches, or a match shows drifted indentation."""
    hits = _hits(view, reading, request)
    spans = [(hit, hit + len(reading.old)) for hit in hits]
    for span in spans:
        if joins_lines(view.text, *span, reading.new):
            raise make_refusal(
                "old_text begins or ends with a newline that new_text lacks, which would join "
                "two lines. Give whole lines in both, or the text of both lines in old_text."
            )
        lead = indentation_left_out(view.text, *span, reading.new)
        if lead and (reading.old[0] in BLANK or not reading.new):
            return None
        if lead and not is_indented_like(lead, reading.new):
            raise make_refusal(
                f"old_text leaves out the indentation of line {view.line_at(span[0])}, so that of "
                "new_text is unclear. Give whole lines, with their indentation."
            )
    if not spans:
        return None
    if _knows_endings(view, spans, request):
        return PlannedEdit(splices=tuple(view.verbatim(*span, request.new) for span in spans))
    return PlannedEdit(splices=tuple(view.splice(*span, reading.new) for span in spans))


def _hits(view: LfView, reading: Reading, request: EditRequest) -> list[int]:
    if request.replace_all:
        separate = separate_hits(view.text, reading.old)
        if separate is None:
            raise make_refusal("the places where old_text occurs overlap. Add surrounding lines.")
        return separate
    hits = overlapping_hits(view.text, reading.old)
    if len(hits) > 1:
        count = f"{len(hits)}" if len(hits) < COUNTED_HITS else f"at least {COUNTED_HITS}"
        lines = _list_lines([view.line_at(hit) for hit in hits[: SHOWN_LINE_NUMBERS + 1]])
        raise make_refusal(
            f"old_text occurs {count} times in {request.path} (lines {lines}). "
            "Add surrounding lines, or set replace_all."
        )
    return hits


def _knows_endings(view: LfView, spans: Sequence[tuple[int, int]], request: EditRequest) -> bool:
    """Return whether the line endings of new_text count.

    They do if the file has no newline, or if old_text matches mixed line endings exactly."""
    if "\n" not in view.raw:
        return True
    return is_mixed(request.old) and all(view.raw_part(*span) == request.old for span in spans)


def _edit_tolerant(view: LfView, given: Reading, request: EditRequest) -> PlannedEdit:
    for reading in (given, *other_readings(given)):
        found = match_by_lines(view, reading)
        if len(found.lines) > 1:
            raise make_refusal(
                f"no exact match, and {len(found.lines)} places match if whitespace is ignored "
                f"(lines {_list_lines(found.lines)}). Copy the exact text of the one you mean."
            )
        if found.splice is not None:
            return PlannedEdit(splices=(found.splice,), overlooked=found.overlooked)
    raise make_refusal(explain_not_found(view, given, path=request.path))


def _list_lines(line_numbers: Sequence[int]) -> str:
    shown = [str(number) for number in line_numbers[:SHOWN_LINE_NUMBERS]]
    return ", ".join(shown + ["…"] * (len(line_numbers) > SHOWN_LINE_NUMBERS))
