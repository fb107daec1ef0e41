"""Locating the hunks of a patch in a text, and the resulting splices.

The location must be certain: a hunk belongs where its old lines are, and they must be there only
once. Whitespace at line ends and typographic characters are ignored if nothing fits otherwise.
Headings tell locations apart. Kept lines stay the file's own.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cached_property
from itertools import takewhile

from agentcli.system.text import Splice, to_printable
from agentcli.tools.edit.near import show_closest
from agentcli.tools.edit.rebuild import rebuild_lines
from agentcli.tools.edit.typography import find_typography, to_plain_typography
from agentcli.tools.edit.view import LfView
from agentcli.tools.edit.whitespace import BLANK, get_indent, is_blank
from agentcli.tools.patch.parser import ADDED, KEPT, REMOVED, Hunk, PatchLine
from agentcli.types.errors import ToolError
from agentcli.types.fast_dataclass import dataclass

SHOWN_CHARS = 80
SHOWN_LINE_NUMBERS = 10


@dataclass(frozen=True, slots=True)
class _Span:
    """The lines from `start` up to but not including `end`, counted from 0."""

    start: int
    end: int


def locate_hunks(view: LfView, hunks: Sequence[Hunk], *, path: str) -> tuple[Splice, ...]:
    """Locate all hunks; raise ToolError with the reason if it is not certain what is meant."""
    splices: list[Splice] = []
    reached = 0
    for hunk in hunks:
        search = _HunkSearch(view, hunk, reached=reached, path=path)
        first = search.locate()
        splices += search.replace_at(first)
        # The next hunk may begin with the lines that this one keeps at its end.
        reached = first + len(hunk.old) - _count_kept(reversed(hunk.lines))
    return tuple(splices)


def _count_kept(lines: Iterable[PatchLine]) -> int:
    """Return how many lines at the start are kept."""
    return len(list(takewhile(lambda line: line.mark == KEPT, lines)))


class _HunkSearch:
    """The search for the one location of a hunk, from the end of the hunk before it."""

    def __init__(self, view: LfView, hunk: Hunk, *, reached: int, path: str) -> None:
        self._view = view
        self._lines = view.lines
        self._hunk = hunk
        self._reached = reached
        self._path = path

    @cached_property
    def _bare(self) -> list[str]:
        return [line.rstrip(BLANK) for line in self._lines]

    @cached_property
    def _plain(self) -> list[str]:
        return [to_plain_typography(line) for line in self._bare]

    def locate(self) -> int:
        if not self._hunk.old:
            return self._locate_addition()
        spans = self._find_headed(_Span(self._reached, len(self._lines)))
        inside = self._find_hits(spans)
        found = inside or self._find_hits([_Span(span.start, len(self._lines)) for span in spans])
        if len(found) == 1:
            return found[0]
        raise self._build_ambiguous_error(found) if found else self._build_missing_error()

    def replace_at(self, first: int) -> list[Splice]:
        """Return the splices at a location; raise ToolError if drift leaves unclear what to add."""
        old = self._hunk.old
        own = self._lines[first : first + len(old)]
        drifted = [
            line
            for line, there in zip(old, own, strict=True)
            if line.rstrip(BLANK) != there.rstrip(BLANK)
        ]
        if not drifted:
            return list(_iter_splices(self._view, self._hunk, first))
        lines = rebuild_lines(own, old, self._hunk.new, style=self._view.style)
        if lines is not None:
            return [self._replace_between(first, own, lines)]
        removed = {text for mark, text in self._hunk.lines if mark == REMOVED}
        added = "".join(text for mark, text in self._hunk.lines if mark == ADDED)
        is_plain = find_typography(added) <= find_typography("".join(own))
        if not is_plain or not removed.isdisjoint(drifted):
            raise self._build_refusal(
                f"differs from {self._path} in quotes, dashes or spaces. Copy its lines exactly",
                old,
            )
        return list(_iter_splices(self._view, self._hunk, first))

    def _replace_between(self, first: int, own: Sequence[str], lines: Sequence[str]) -> Splice:
        """Replace all but the lines kept at both ends: the next hunk may begin with them."""
        start, end = _count_kept(self._hunk.lines), _count_kept(reversed(self._hunk.lines))
        between = lines[start : len(lines) - end]
        return _splice(self._view, first + start, first + len(own) - end, between)

    def _locate_addition(self) -> int:
        """Locate a hunk with only added lines: in an empty file, or at the end if it says so."""
        if self._hunk.at_end or not self._lines:
            return len(self._lines)
        raise self._build_refusal(
            "has only lines to add, which does not say where. Give a line before or after them"
        )

    def _find_headed(self, span: _Span) -> list[_Span]:
        """Return the spans below the headings, or the whole span if there are none."""
        spans = [span]
        for heading in self._hunk.headings:
            spans = [
                self._find_block(index)
                for outer in spans
                for index in range(outer.start, outer.end)
                if to_plain_typography(self._lines[index].strip()) == to_plain_typography(heading)
            ]
            if not spans:
                raise self._build_refusal(
                    f'is headed "{_display_line(heading)}", which is no line of {self._path}'
                    f"{self._describe_start()}. Copy a whole line of the file, or leave it out",
                    [heading],
                )
        return spans

    def _find_block(self, index: int) -> _Span:
        """Return a line and everything indented below it."""
        indent = len(get_indent(self._lines[index]))
        end = index + 1
        while end < len(self._lines) and (
            is_blank(self._lines[end]) or len(get_indent(self._lines[end])) > indent
        ):
            end += 1
        return _Span(index, end)

    def _find_hits(self, spans: Sequence[_Span]) -> list[int]:
        """Return exact matches, or else those with the least that must be ignored."""
        old = self._hunk.old
        bare = [line.rstrip(BLANK) for line in old]
        return (
            self._find_line_hits(self._lines, old, spans)
            or self._find_line_hits(self._bare, bare, spans)
            or self._find_line_hits(self._plain, list(map(to_plain_typography, bare)), spans)
        )

    def _find_line_hits(
        self, lines: Sequence[str], wanted: Sequence[str], spans: Sequence[_Span]
    ) -> list[int]:
        hits = {hit for span in spans for hit in _iter_positions(lines, wanted, span)}
        if self._hunk.at_end:
            hits &= {len(lines) - len(wanted)}
        return sorted(hits)

    def _build_ambiguous_error(self, hits: Sequence[int]) -> ToolError:
        shown = ", ".join(str(hit + 1) for hit in hits[:SHOWN_LINE_NUMBERS])
        more = ", …" if len(hits) > SHOWN_LINE_NUMBERS else ""
        return self._build_refusal(
            f"fits {len(hits)} places in {self._path} (lines {shown}{more}). Add more lines around "
            'the change, or a heading: "@@ " and the line that begins the function or class'
        )

    def _build_missing_error(self) -> ToolError:
        before = self._find_hits([_Span(0, self._reached)])
        if before:
            return self._build_refusal(
                f"fits {self._path} at line {before[0] + 1}, before the hunk that precedes it. "
                "Give the hunks in the order of the file, each place once"
            )
        for line in self._hunk.old:
            if to_plain_typography(line.rstrip(BLANK)) not in self._plain:
                return self._build_refusal(
                    f'does not fit {self._path}: "{_display_line(line)}" is no line of '
                    "it. Copy its lines exactly",
                    self._hunk.old,
                )
        where = " at its end" if self._hunk.at_end else self._describe_start()
        return self._build_refusal(
            f"does not fit {self._path}{where}: its lines are there, but not one after another. "
            "Leave none out",
            self._hunk.old,
        )

    def _describe_start(self) -> str:
        return f" after line {self._reached}" if self._reached else ""

    def _build_refusal(self, reason: str, wanted: Sequence[str] = ()) -> ToolError:
        """Return the error, with the lines of the file that are closest to the wanted ones."""
        text = f"the hunk at line {self._hunk.number} {reason}."
        closest = show_closest(self._view, "\n".join(wanted), name="the patch")
        return ToolError(f"{text} {closest}" if closest else text)


def _iter_positions(lines: Sequence[str], wanted: Sequence[str], span: _Span) -> Iterator[int]:
    start = span.start
    with suppress(ValueError):  # `index` raises it if there are no more
        while True:
            start = lines.index(wanted[0], start, span.end)
            if start + len(wanted) <= span.end and lines[start : start + len(wanted)] == wanted:
                yield start
            start += 1


def _iter_splices(view: LfView, hunk: Hunk, first: int) -> Iterator[Splice]:
    """Yield one splice for each run of removed or added lines."""
    at = start = first
    added: list[str] = []
    for mark, text in (*hunk.lines, (KEPT, "")):
        if mark == KEPT:
            if added or at > start:
                yield _splice(view, start, at, added)
            at += 1
            start, added = at, []
        elif mark == ADDED:
            added.append(text)
        else:
            at += 1


def _splice(view: LfView, start: int, end: int, added: Sequence[str]) -> Splice:
    begin, past = view.find_line_start(start), view.find_line_start(end)
    text = "".join(f"{line}\n" for line in added)
    is_last = end == len(view.lines) and view.text[-1:] not in ("", "\n")
    if is_last and added:
        # The file has no final newline, and must not get one.
        text = text[:-1] if end > start else f"\n{text[:-1]}"
    return view.splice(begin, past, text)


def _display_line(line: str) -> str:
    shown = to_printable(line)
    return shown if len(shown) <= SHOWN_CHARS else f"{shown[:SHOWN_CHARS]}…"
