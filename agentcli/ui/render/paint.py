"""Styled text to a string of terminal codes: rich does the layout, nothing here owns a terminal.

Lines never end in blanks that we added, and nothing is aligned to the right. For a screen reader
the result has not a single escape code.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from io import StringIO
from typing import TypeAlias

from rich.cells import cell_len
from rich.color import ColorSystem
from rich.console import Console, RenderableType
from rich.segment import Segment
from rich.style import Style
from rich.text import Span, Text

from agentcli.system.lazy import compile_later
from agentcli.ui.render.theme import PLAIN, ColorDepth, Theme

PROSE_COLUMNS = 100
_SYSTEMS = {
    "truecolor": ColorSystem.TRUECOLOR,
    "256": ColorSystem.EIGHT_BIT,
    "16": ColorSystem.STANDARD,
    "none": None,
}
_StyledRun: TypeAlias = tuple[str, Style]
_BREAKS = frozenset("\n\t")
_ATTRIBUTES = (
    ("bold", "1"),
    ("dim", "2"),
    ("italic", "3"),
    ("underline", "4"),
    ("reverse", "7"),
    ("strike", "9"),
)

LAYOUT = Console(file=StringIO(), width=80, color_system="truecolor", legacy_windows=False)
"""A console that resolves styles. Its output is never used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Paint:
    """The abilities of a screen, and the methods to draw for it."""

    columns: int
    theme: Theme
    color: ColorDepth
    rows: int = 24
    ascii: bool = False
    """True if our own text must be ASCII only."""
    accessible: bool = False
    """True for a screen reader: words instead of marks, and no escape codes."""
    links: bool = True
    """True if addresses can be clicked; False in text that will be drawn again."""

    def __post_init__(self) -> None:
        if self.accessible:
            object.__setattr__(self, "ascii", True)

    @property
    def width(self) -> int:
        """The usable width.

        The last column stays empty, so a narrower terminal wraps none of our lines.
        """
        return max(2, self.columns - 1)

    @property
    def prose_width(self) -> int:
        return min(self.width, PROSE_COLUMNS)

    @property
    def dot(self) -> str:
        """The separator between two facts."""
        if self.accessible:
            return ", "
        return " - " if self.ascii else " · "

    @property
    def ellipsis(self) -> str:
        return "..." if self.ascii else "…"

    def build_console(self) -> Console:
        """Return a console for measuring and layout, whose output goes nowhere."""
        return Console(
            file=StringIO(),
            force_terminal=True,
            color_system="truecolor",
            width=self.width,
            height=max(1, self.rows),
            highlight=False,
            markup=False,
            emoji=False,
            legacy_windows=False,
        )

    def render(self, renderable: RenderableType) -> str:
        """Render any rich renderable, one row a line, each ended by a newline."""
        console = self.build_console()
        rows = Segment.split_lines(console.render(renderable))
        return "".join(self._render_row(map(_to_run, _strip_trailing(row))) + "\n" for row in rows)

    def render_lines(self, lines: Iterable[Text]) -> str:
        """Render lines that are laid out already; their tabs and trailing blanks stay."""
        return "".join(self._render_row(_split_runs(line)) + "\n" for line in lines)

    def apply_style(self, text: str, style: Style) -> str:
        """Style one run of text that is already safe to show."""
        if not text or self.accessible:
            return text
        codes = _build_style_codes(style, self.color)
        styled = f"\x1b[{codes}m{text}\x1b[0m" if codes else text
        if style.link is None or not self.links:
            return styled
        return f"\x1b]8;;{style.link}\x1b\\{styled}\x1b]8;;\x1b\\"

    def _render_row(self, runs: Iterable[_StyledRun]) -> str:
        """Render one row, joining neighbours of the same style."""
        shown: list[str] = []
        joined, joined_style = "", PLAIN
        for text, style in runs:
            if style is joined_style or style == joined_style:
                joined += text
                continue
            shown.append(self.apply_style(joined, joined_style))
            joined, joined_style = text, style
        return "".join((*shown, self.apply_style(joined, joined_style)))


def _to_run(segment: Segment) -> _StyledRun:
    return segment.text, segment.style or PLAIN


def _split_runs(line: Text) -> Iterable[_StyledRun]:
    """Return the runs as rich renders them, without rich if no styles overlap, which is usual."""
    plain, runs, at = line.plain, [], 0
    if line.style:
        return map(_to_run, line.render(LAYOUT))
    for start, end, style in line.spans:
        if start < at or not isinstance(style, Style):
            return map(_to_run, line.render(LAYOUT))
        if start > at:
            runs.append((plain[at:start], PLAIN))
        runs.append((plain[start:end], style))
        at = end
    return (*runs, (plain[at:], PLAIN))


@lru_cache(maxsize=512)
def _build_style_codes(style: Style, depth: ColorDepth) -> str:
    # Not Style.render: it caches the codes of the first colour depth it was called with.
    codes = [code for name, code in _ATTRIBUTES if getattr(style, name)]
    system = _SYSTEMS[depth]
    if system is not None:
        for color, is_foreground in ((style.color, True), (style.bgcolor, False)):
            if color is not None and not color.is_default:
                codes += color.downgrade(system).get_ansi_codes(foreground=is_foreground)
    return ";".join(codes)


def _strip_trailing(segments: list[Segment]) -> list[Segment]:
    """Remove the blanks that the layout put at the end."""
    for index in range(len(segments) - 1, -1, -1):
        if text := segments[index].text.rstrip(" \n"):
            return [*segments[:index], Segment(text, segments[index].style)]
    return []


def make_run(text: str, style: Style = PLAIN) -> Text:
    """Return a text whose style ends with it, whatever is appended."""
    shown = Text(text)
    if style and shown:
        shown.spans = [Span(0, len(shown), style)]
    return shown


def wrap(text: Text, width: int, *, indent: str = "") -> list[Text]:
    """Wrap between words, if there is space for them, with an indent before each line."""
    room = max(2, width - len(indent))
    is_short = cell_len(text.plain) <= room and not _BREAKS & set(text.plain)
    lines = [text] if is_short else text.wrap(LAYOUT, room, overflow="fold", tab_size=4)
    for line in lines:
        line.rstrip()
    return [make_run(indent) + line for line in lines] if indent else list(lines)


def wrap_whole_words(text: Text, width: int) -> list[Text]:
    """Wrap between words. An address or a path that is too long for a row stays whole.

    The terminal wraps it, so that it can be copied. Only for text that is never drawn again."""
    room = max(2, width)
    if not any(len(word) > room and word.isascii() for word in text.plain.split()):
        return wrap(text, width)
    lines: list[Text] = []
    for line in text.split("\n", allow_blank=True):
        cuts, used = [], 0
        for word in re.finditer(r"\S+\s*|\s+", line.plain):
            size = cell_len(word.group().rstrip())
            if used and used + size > room:
                cuts.append(word.start())
                used = 0
            used += cell_len(word.group())
        lines += line.divide(cuts)
    for line in lines:
        line.rstrip()
    return lines


def fold(line: Text, width: int) -> list[Text]:
    """Cut after `width` cells, wherever that is: for code, whose blanks must stay."""
    if cell_len(line.plain) <= width:
        return [line]
    cuts, used = [], 0
    for index, char in enumerate(line.plain):
        size = cell_len(char)
        if used + size > width and used:
            cuts.append(index)
            used = 0
        used += size
    return list(line.divide(cuts))


# Characters that would act on a terminal or be invisible on it, shown as escapes instead.


_JOINABLE = "\u0600-\u0dff\u200d\u2600-\u27bf\ufe0f\U0001f000-\U0001faff"
_HIDDEN = compile_later(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # control
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # direction
    "\u00ad\u115f\u1160\u180e\u200b\u2028\u2029\u2060-\u2065\u206a-\u206f\u3164\ufeff\uffa0"
    "\ufe00-\ufe0d\ufff9-\ufffb\U000e0000-\U000e0fff"
    "\ud800-\udfff]"
    f"|[\u200c\u200d](?![{_JOINABLE}])|(?<![{_JOINABLE}])[\u200c\u200d]"
)


TextRange = tuple[int, int]


def escape(text: str) -> str:
    return _HIDDEN.sub(_format_code_point, text)


def escape_with_ranges(text: str) -> tuple[str, list[TextRange]]:
    """Return the escaped text, and the ranges of the escapes in it."""
    if _HIDDEN.search(text) is None:
        return text, []
    pieces: list[str] = []
    marks: list[TextRange] = []
    end = size = 0
    for found in _HIDDEN.finditer(text):
        code = _format_code_point(found)
        pieces += (text[end : found.start()], code)
        size += found.start() - end + len(code)
        marks.append((size - len(code), size))
        end = found.end()
    return "".join((*pieces, text[end:])), marks


def style_escaped(text: str, style: Style, *, escape_style: Style) -> Text:
    """Return the text in a style, with its escapes highlighted."""
    if _HIDDEN.search(text) is None:
        return make_run(text, style)
    return append_escaped(Text(), text, style=style, escape_style=escape_style)


def append_escaped(shown: Text, text: str, *, style: Style, escape_style: Style) -> Text:
    safe, marks = escape_with_ranges(text)
    before = len(shown)
    shown.append(safe, style)
    for start, end in marks:
        shown.stylize(escape_style, before + start, before + end)
    return shown


def _format_code_point(found: re.Match[str]) -> str:
    number = ord(found.group())
    if number < 0x100:
        return f"\\x{number:02x}"
    return f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"
