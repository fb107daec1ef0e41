"""Locating the hunks of a patch in a text, and the resulting splices.

The location must be certain: a hunk belongs where its old lines are, whitespace at line ends aside,
and they must be there only once. Headings tell locations apart. Kept lines stay the file's own.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import takewhile

from agentcli.system.text import Splice, printable
from agentcli.tools.edit.view import LfView
from agentcli.tools.edit.whitespace import BLANK, get_indent, is_blank
from agentcli.tools.patch.parser import ADDED, KEPT, Hunk
from agentcli.types.errors import ToolError

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
        search = _HunkSearch(view.lines, hunk, reached=reached, path=path)
        first = search.locate()
        splices += _splices(view, hunk, first)
        # The next hunk may begin with the lines that this one keeps at its end.
        reached = first + len(hunk.old) - _count_kept_end(hunk)
    return tuple(splices)


def _count_kept_end(hunk: Hunk) -> int:
    marks = [mark for mark, _ in hunk.lines]
    return len(list(takewhile(KEPT.__eq__, reversed(marks))))


class _HunkSearch:
    """The search for the one location of a hunk, from the end of the hunk before it."""

    def __init__(self, lines: Sequence[str], hunk: Hunk, *, reached: int, path: str) -> None:
        self._lines = lines
        self._hunk = hunk
        self._reached = reached
        self._path = path

    @cached_property
    def _bare(self) -> list[str]:
        return [line.rstrip(BLANK) for line in self._lines]

    def locate(self) -> int:
        if not self._hunk.old:
            return self._locate_addition()
        spans = self._find_headed(_Span(self._reached, len(self._lines)))
        inside = self._hits(spans)
        found = inside or self._hits([_Span(span.start, len(self._lines)) for span in spans])
        if len(found) == 1:
            return found[0]
        raise self._ambiguous(found) if found else self._missing()

    def _locate_addition(self) -> int:
        """Locate a hunk with only added lines: in an empty file, or at the end if it says so."""
        if self._hunk.at_end or not self._lines:
            return len(self._lines)
        raise self._refusal(
            "has only lines to add, which does not say where. Give a line before or after them"
        )

    def _find_headed(self, span: _Span) -> list[_Span]:
        """Return the spans below the headings, or the whole span if there are none."""
        spans = [span]
        for heading in self._hunk.headings:
            spans = [
                self._block(index)
                for outer in spans
                for index in range(outer.start, outer.end)
                if self._lines[index].strip() == heading
            ]
            if not spans:
                raise self._refusal(
                    f'is headed "{_display_line(heading)}", which is no line of {self._path}'
                    f"{self._from_here()}. Copy a whole line of the file, or leave it out"
                )
        return spans

    def _block(self, index: int) -> _Span:
        """Return a line and everything indented below it."""
        indent = len(get_indent(self._lines[index]))
        end = index + 1
        while end < len(self._lines) and (
            is_blank(self._lines[end]) or len(get_indent(self._lines[end])) > indent
        ):
            end += 1
        return _Span(index, end)

    def _hits(self, spans: Sequence[_Span]) -> list[int]:
        """Return exact matches, or else those that differ only in trailing whitespace."""
        exact = self._hits_among(self._lines, self._hunk.old, spans)
        if exact:
            return exact
        return self._hits_among(self._bare, [line.rstrip(BLANK) for line in self._hunk.old], spans)

    def _hits_among(
        self, lines: Sequence[str], wanted: Sequence[str], spans: Sequence[_Span]
    ) -> list[int]:
        hits = {hit for span in spans for hit in _positions(lines, wanted, span)}
        if self._hunk.at_end:
            hits &= {len(lines) - len(wanted)}
        return sorted(hits)

    def _ambiguous(self, hits: Sequence[int]) -> ToolError:
        shown = ", ".join(str(hit + 1) for hit in hits[:SHOWN_LINE_NUMBERS])
        more = ", …" if len(hits) > SHOWN_LINE_NUMBERS else ""
        return self._refusal(
            f"fits {len(hits)} places in {self._path} (lines {shown}{more}). Add more lines around "
            'the change, or a heading: "@@ " and the line that begins the function or class'
        )

    def _missing(self) -> ToolError:
        before = self._hits([_Span(0, self._reached)])
        if before:
            return self._refusal(
                f"fits {self._path} at line {before[0] + 1}, before the hunk that precedes it. "
                "Give the hunks in the order of the file, each place once"
            )
        for line in self._hunk.old:
            if line.rstrip(BLANK) not in self._bare:
                return self._refusal(
                    f'does not fit {self._path}: "{_display_line(line)}" is no line of '
                    "it. Read the file "
                    "and copy its lines exactly"
                )
        where = " at its end" if self._hunk.at_end else self._from_here()
        return self._refusal(
            f"does not fit {self._path}{where}: its lines are there, but not one after another. "
            "Leave none out"
        )

    def _from_here(self) -> str:
        return f" after line {self._reached}" if self._reached else ""

    def _refusal(self, reason: str) -> ToolError:
        return ToolError(f"the hunk at line {self._hunk.number} {reason}.")


def _positions(lines: Sequence[str], wanted: Sequence[str], span: _Span) -> Iterator[int]:
    start = span.start
    with suppress(ValueError):  # `index` raises it if there are no more
        while True:
            start = lines.index(wanted[0], start, span.end)
            if start + len(wanted) <= span.end and lines[start : start + len(wanted)] == wanted:
                yield start
            start += 1


def _splices(view: LfView, hunk: Hunk, first: int) -> Iterator[Splice]:
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
    begin, past = view.start_of_line(start), view.start_of_line(end)
    text = "".join(f"{line}\n" for line in added)
    is_last = end == len(view.lines) and view.text[-1:] not in ("", "\n")
    if is_last and added:
        # The file has no final newline, and must not get one.
        text = text[:-1] if end > start else f"\n{text[:-1]}"
    return view.splice(begin, past, text)


def _display_line(line: str) -> str:
    shown = printable(line)
    return shown if len(shown) <= SHOWN_CHARS else f"{shown[:SHOWN_CHARS]}…"
