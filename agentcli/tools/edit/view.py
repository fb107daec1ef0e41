"""A text with all line endings as newlines, and the mapping back to the original characters.

Matching uses the view, splicing the raw text: what is not spliced keeps its line endings.
"""

from bisect import bisect_left
from collections.abc import Iterator
from functools import cached_property

from agentcli.system.diff import find_changes, split_lines
from agentcli.system.lazy import compile_later
from agentcli.system.text import Ending, Splice, choose_majority_ending, to_lf
from agentcli.tools.edit.whitespace import BLANK, find_typography, is_blank
from agentcli.types.fast_dataclass import dataclass

_INDENT = compile_later(rf"\n([{BLANK}]+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Style:
    """The indents and characters of a file, which a model may mean where it writes them."""

    indents: frozenset[str]
    """The indents of all indented lines, blank ones included."""
    typography: frozenset[str]


class LfView:
    def __init__(self, raw: str) -> None:
        self.raw = raw
        self.text = to_lf(raw)

    @cached_property
    def lines(self) -> list[str]:
        """The lines without their newlines. The text after a final newline is not a line."""
        lines = self.text.split("\n")
        return lines[:-1] if lines[-1] == "" else lines

    @cached_property
    def filled(self) -> list[int]:
        """The indices of the lines that are not blank."""
        return [at for at, line in enumerate(self.lines) if not is_blank(line)]

    @cached_property
    def style(self) -> Style:
        return Style(
            indents=frozenset(_INDENT.findall(f"\n{self.text}")),
            typography=find_typography(self.text),
        )

    def find_line_number(self, position: int) -> int:
        """Return the number of the line at a position, counted from 1."""
        return self.text.count("\n", 0, position) + 1

    def find_line_start(self, index: int) -> int:
        """Return where the line at this index, counted from 0, begins; the end if past the last."""
        return min(sum(map(len, self.lines[:index])) + index, len(self.text))

    def read_raw_part(self, start: int, end: int) -> str:
        return self.raw[self._to_raw(start) : self._to_raw(end)]

    def splice(self, span: tuple[int, int], text: str) -> Splice:
        """Turn positions and text of the view into a splice of the raw text.

        New lines take the ending of what they replace, or else the most common ending of the file.
        """
        start, end = span
        ended = "".join(self._apply_endings(self.read_raw_part(start, end), text))
        return Splice(start=self._to_raw(start), end=self._to_raw(end), text=ended)

    def splice_verbatim(self, span: tuple[int, int], raw_text: str) -> Splice:
        start, end = span
        return Splice(start=self._to_raw(start), end=self._to_raw(end), text=raw_text)

    def _apply_endings(self, replaced: str, text: str) -> Iterator[str]:
        if "\n" not in text or not self._crlf:
            yield text
        elif is_mixed(replaced):
            yield from _apply_mixed_endings(replaced, text)
        else:
            ending = choose_majority_ending(replaced) if "\n" in replaced else self._majority
            yield text.replace("\n", ending)

    @cached_property
    def _majority(self) -> Ending:
        return choose_majority_ending(self.raw)

    @cached_property
    def _crlf(self) -> list[int]:
        """The positions in the view of newlines that are two characters in the raw text."""
        positions: list[int] = []
        position = self.raw.find("\r\n")
        while position >= 0:
            positions.append(position - len(positions))
            position = self.raw.find("\r\n", position + 2)
        return positions

    def _to_raw(self, position: int) -> int:
        return position + bisect_left(self._crlf, position)


def is_mixed(text: str) -> bool:
    return 0 < text.count("\r\n") < text.count("\n")


def _apply_mixed_endings(replaced: str, text: str) -> Iterator[str]:
    """Apply mixed endings: a line keeps its own, and one that replaces another takes that one's."""
    raw_lines, new_lines = split_lines(replaced), split_lines(text)
    fallback = choose_majority_ending(replaced)
    reached = 0
    for change in find_changes([to_lf(line) for line in raw_lines], new_lines):
        yield from raw_lines[reached : change.old_start]
        replaced_lines = raw_lines[change.old_start : change.old_end]
        inserted = new_lines[change.new_start : change.new_end]
        endings: list[Ending] = [fallback] * len(inserted)
        if len(replaced_lines) == len(inserted):
            endings = [
                "\r\n" if line.endswith("\r\n") else "\n" if line.endswith("\n") else fallback
                for line in replaced_lines
            ]
        for line, ending in zip(inserted, endings, strict=True):
            yield line.replace("\n", ending)
        reached = change.old_end
    yield from raw_lines[reached:]
