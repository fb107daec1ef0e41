"""Unified diffs, made so that applying one to the old text gives the new text exactly.

Lines end at a newline and nowhere else; a carriage return is part of its line.
"""

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher

from agentcli.system.text import Splice, show_strays, splice, to_printable
from agentcli.types.fast_dataclass import dataclass

CONTEXT_LINES = 3
COMPARED_PAIRS = 4_000_000
"""Old lines times new lines. A larger middle is shown as replaced: comparing takes too long."""
LIMIT_CHARS = 400_000

_NO_NEWLINE = "\n\\ No newline at end of file\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    unified: str
    added: int
    removed: int
    complete: bool
    """False if the diff was too large and the last hunks were left out. The counts are complete."""
    first_line: int = 0
    last_line: int = 0
    """The position of the change in the new text, counted from 1; 0 if nothing changed."""

    @property
    def notes(self) -> tuple[str, ...]:
        return () if self.complete else ("the diff is too large to be shown in full",)


@dataclass(frozen=True, slots=True)
class LineChange:
    """Lines [old_start, old_end) became lines [new_start, new_end), counted from 0."""

    old_start: int
    old_end: int
    new_start: int
    new_end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Window:
    """A range of whole lines before and after, and how many lines precede it."""

    old_before: int
    new_before: int
    old: list[str]
    new: list[str]


def compare(
    old: str,
    new: str,
    *,
    path: str,
    created: bool = False,
    limit_chars: int | None = LIMIT_CHARS,
) -> Comparison:
    """Return the diff. Without `limit_chars` it is complete, however long."""
    window = _Window(old_before=0, new_before=0, old=split_lines(old), new=split_lines(new))
    return _build_comparison([window], path=path, created=created, limit_chars=limit_chars)


def compare_spliced(old: str, splices: Sequence[Splice], *, path: str) -> Comparison:
    """Return the diff of known replacements. The cost depends on them, not on the text's size."""
    return _build_comparison(list(_iter_windows(old, splices)), path=path, created=False)


def split_lines(text: str) -> list[str]:
    """Return the lines with their newlines; only the last may be without."""
    *whole, last = text.split("\n")
    lines = [line + "\n" for line in whole]
    return [*lines, last] if last else lines


def find_changes(old: Sequence[str], new: Sequence[str]) -> list[LineChange]:
    """Return what differs. Common first and last lines are skipped, the rest is compared."""
    first = count_common_start(old, new)
    last = count_common_start(old[first:][::-1], new[first:][::-1])
    old_end, new_end = len(old) - last, len(new) - last
    if first in (old_end, new_end) or (old_end - first) * (new_end - first) > COMPARED_PAIRS:
        whole = LineChange(first, old_end, first, new_end)
        return [whole] if first < old_end or first < new_end else []
    matcher = SequenceMatcher(None, old[first:old_end], new[first:new_end], autojunk=False)
    return [
        LineChange(first + old_from, first + old_to, first + new_from, first + new_to)
        for kind, old_from, old_to, new_from, new_to in matcher.get_opcodes()
        if kind != "equal"
    ]


def count_common_start(one: Sequence[str], other: Sequence[str]) -> int:
    """Return how many first lines are the same, or characters of two texts."""
    for index, (left, right) in enumerate(zip(one, other, strict=False)):
        if left != right:
            return index
    return min(len(one), len(other))


def _iter_windows(old: str, splices: Sequence[Splice]) -> Iterator[_Window]:
    counted_to = old_before = added_lines = 0
    for start, end, inside in _iter_neighbours(old, splices):
        old_before += old.count("\n", counted_to, start)
        counted_to = start
        before = old[start:end]
        after = splice(
            before,
            [Splice(start=s.start - start, end=s.end - start, text=s.text) for s in inside],
        )
        window = _Window(
            old_before=old_before,
            new_before=old_before + added_lines,
            old=split_lines(before),
            new=split_lines(after),
        )
        added_lines += after.count("\n") - before.count("\n")
        yield window


def _iter_neighbours(
    old: str, splices: Sequence[Splice]
) -> Iterator[tuple[int, int, list[Splice]]]:
    """Yield ranges of whole lines around the splices; ranges that meet become one."""
    group: list[Splice] = []
    start = end = 0
    for each in splices:
        reach = _find_context_start(old, each.start)
        if group and reach >= end:
            yield start, end, group
            group = []
        if not group:
            start = reach
        group.append(each)
        end = _find_context_end(old, each.end)
    if group:
        yield start, end, group


def _find_context_start(text: str, position: int) -> int:
    for _ in range(CONTEXT_LINES + 1):
        position = text.rfind("\n", 0, position)
        if position < 0:
            return 0
    return position + 1


def _find_context_end(text: str, position: int) -> int:
    for _ in range(CONTEXT_LINES + 1):
        position = text.find("\n", position) + 1
        if position == 0:
            return len(text)
    return position


def _build_comparison(
    windows: Sequence[_Window],
    *,
    path: str,
    created: bool,
    limit_chars: int | None = LIMIT_CHARS,
) -> Comparison:
    shown = to_printable(path)
    before = "/dev/null" if created else f"a/{shown}"
    parts = [f"--- {before}\n+++ b/{shown}\n"]
    added = removed = size_chars = first_line = last_line = 0
    complete = True
    for window in windows:
        changes = find_changes(window.old, window.new)
        added += sum(change.new_end - change.new_start for change in changes)
        removed += sum(change.old_end - change.old_start for change in changes)
        if changes:
            first_line = first_line or window.new_before + changes[0].new_start + 1
            last_line = max(first_line, window.new_before + changes[-1].new_end)
        for hunk in _iter_hunks(window, changes):
            size_chars += len(hunk)
            complete = complete and (limit_chars is None or size_chars <= limit_chars)
            if complete:
                parts.append(hunk)
    return Comparison(
        unified=show_strays("".join(parts)) if len(parts) > 1 else "",
        added=added,
        removed=removed,
        complete=complete,
        first_line=first_line,
        last_line=last_line,
    )


def _iter_hunks(window: _Window, changes: Sequence[LineChange]) -> Iterator[str]:
    group: list[LineChange] = []
    for change in changes:
        if group and change.old_start - group[-1].old_end > 2 * CONTEXT_LINES:
            yield _render_hunk(window, group)
            group = []
        group.append(change)
    if group:
        yield _render_hunk(window, group)


def _render_hunk(window: _Window, changes: Sequence[LineChange]) -> str:
    first, last = changes[0], changes[-1]
    lead = min(CONTEXT_LINES, first.old_start)
    tail = min(CONTEXT_LINES, len(window.old) - last.old_end)
    body: list[str] = []
    reached = first.old_start - lead
    for change in changes:
        body += (_prefix_line(" ", line) for line in window.old[reached : change.old_start])
        body += (_prefix_line("-", line) for line in window.old[change.old_start : change.old_end])
        body += (_prefix_line("+", line) for line in window.new[change.new_start : change.new_end])
        reached = change.old_end
    body += (_prefix_line(" ", line) for line in window.old[reached : reached + tail])
    around = lead + tail
    old_lines = _format_range(
        window.old_before + first.old_start - lead, last.old_end - first.old_start + around
    )
    new_lines = _format_range(
        window.new_before + first.new_start - lead, last.new_end - first.new_start + around
    )
    return f"@@ -{old_lines} +{new_lines} @@\n{''.join(body)}"


def _format_range(before: int, count: int) -> str:
    """Return the range as a hunk header has it; an empty one is named by the line before it."""
    return f"{before + 1 if count else before},{count}"


def _prefix_line(prefix: str, line: str) -> str:
    return prefix + line if line.endswith("\n") else prefix + line + _NO_NEWLINE
