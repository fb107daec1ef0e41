"""The parts of the transcript: its paint, the text being written, and blocks that are no cards."""

import os
import re
import time
from collections.abc import Sequence
from typing import Protocol

from prompt_toolkit.data_structures import Size
from rich.cells import cell_len
from rich.text import Text

from agentcli.types.events import ContextNote, FileAttached, ServerAsked
from agentcli.types.settings import THEME_CHOICES, Settings
from agentcli.ui.render.markdown import MarkdownStream
from agentcli.ui.render.paint import LAYOUT, Paint, escape, wrap_whole_words
from agentcli.ui.render.theme import ColorDepth, ColorWhen, Theme, choose_theme, parse_colour
from agentcli.ui.render.theme_files import load_theme
from agentcli.ui.render.wording import describe_context_note, format_elapsed, is_ascii
from agentcli.ui.repl.status import shorten_end


class Display(Protocol):
    """Where text is committed: the live terminal, or a stream of lines."""

    @property
    def size(self) -> Size: ...

    def commit(self, ansi: str) -> None:
        """Add lines, permanently."""
        ...


class ScreenPainter:
    """The paint for the current size of the display and the chosen theme."""

    def __init__(
        self, settings: Settings, display: Display, *, background: str, color: ColorWhen
    ) -> None:
        self._display = display
        self._background = parse_colour(background)
        self._color: ColorWhen = color
        self._diff_colors = settings.diff_colors
        self._is_accessible = settings.accessible
        self.theme_name: str = settings.theme
        self.theme, self.depth = self._choose_theme()
        self._paint = self._build_paint()

    @property
    def paint(self) -> Paint:
        size, paint = self._display.size, self._paint
        if (size.columns, size.rows, self.theme) != (paint.columns, paint.rows, paint.theme):
            self._paint = self._build_paint()
        return self._paint

    def use_theme(self, name: str) -> None:
        self.theme_name = name
        self.theme, self.depth = self._choose_theme()

    def _choose_theme(self) -> tuple[Theme, ColorDepth]:
        is_ours = self.theme_name in THEME_CHOICES
        return choose_theme(
            self.theme_name,
            self._background,
            environ=os.environ,
            is_tty=True,
            color=self._color,
            diff=self._diff_colors,
            own=None if is_ours else load_theme(self.theme_name).theme,
        )

    def _build_paint(self) -> Paint:
        size = self._display.size
        return Paint(
            columns=size.columns,
            rows=size.rows,
            theme=self.theme,
            color=self.depth,
            ascii=is_ascii(),
            accessible=self._is_accessible,
        )


# The text that a model is writing: finished blocks are committed, the rest is a tail


RENDER_MIN_S, RENDER_MAX_S = 0.04, 0.5
PAUSE_FACTOR = 10
"""The pause between two layouts, as a multiple of the time a layout takes."""


class StreamingText:
    def __init__(self, paint: Paint) -> None:
        self._markdown = MarkdownStream(paint)
        self._is_first = True
        self._tail: list[str] = []
        self._next_render_at = 0.0
        self.is_open = False
        """True if more of a text may come."""

    def begin(self, paint: Paint) -> None:
        self._markdown = MarkdownStream(paint)
        self.is_open = self._is_first = True

    def add(self, text: str) -> str:
        """Add text. Return what is to be committed now: finished blocks, or nothing."""
        return self._separate(self._markdown.feed(text))

    def finish(self) -> str:
        """Return the rest of the text, to be committed."""
        if not self.is_open:
            return ""
        self.is_open, self._tail = False, []
        return self._separate(self._markdown.finish())

    def set_paint(self, paint: Paint) -> None:
        """Use this paint for the text that follows."""
        self._markdown.set_paint(paint)
        self._next_render_at = 0.0

    def render_tail(self, rows: int) -> list[str]:
        """Return the end of the text, at most `rows` rows."""
        if not self.is_open or rows <= 0:
            return []
        now = time.monotonic()
        if now >= self._next_render_at:
            self._tail = self._markdown.render_tail(rows).split("\n")
            if self._is_first and any(self._tail):
                self._tail.insert(0, "")
            spent_s = time.monotonic() - now
            self._next_render_at = now + min(
                RENDER_MAX_S, max(RENDER_MIN_S, PAUSE_FACTOR * spent_s)
            )
        return self._tail[-rows:] if any(self._tail) else []

    def _separate(self, ansi: str) -> str:
        """Return the block, after an empty row if it is the first."""
        if not ansi:
            return ""
        self._next_render_at = 0.0
        is_first, self._is_first = self._is_first, False
        return f"\n{ansi}" if is_first else ansi


# Blocks, each for a given paint


PROSE_CHARS = 4_000
CONTINUE_HINT = " in settings.toml, then agentcli --continue"
_OPTION = re.compile(
    r"--(?P<name>max-(?:cost|tokens|turns|wait)|timeout|tool-timeout|strict-cost)"
    r"(?: (?P<value>\d+))?"
)
_COMMAND = re.compile(r"--(model|mode|effort|add-dir)\b")
"""The options that are slash commands in the session, with the same argument."""
_ANSWER_LABELS = {"accept": "accepted", "decline": "declined", "cancel": "no answer"}


def apply_style(paint: Paint, text: str, *, style: str) -> str:
    """Apply the style to each row on its own: a style never crosses the end of a line."""
    return "\n".join(
        paint.apply_style(row, getattr(paint.theme, style)) for row in text.split("\n")
    )


def wrap_prose(paint: Paint, text: str) -> str:
    """Wrap lines to the screen, between words, with a hanging indent where they begin."""
    rows = []
    for line in text.split("\n"):
        begin = re.match(r" *(?:- )?", line)
        hang = " " * (begin.end() if begin else 0)
        first, *more = _wrap_line(line, width=paint.width - len(hang))
        rows += [first, *(hang + row for row in more)]
    return "\n".join(rows)


def render_prompt(paint: Paint, shown: str) -> str:
    rows = [
        row
        for line in escape(shown).split("\n")
        for row in _wrap_line(line, width=paint.prose_width - 2)
    ]
    lines = [f"{'> ' if index == 0 else '  '}{row}" for index, row in enumerate(rows)]
    return apply_style(paint, "\n".join(lines), style="strong")


def render_warning(paint: Paint, message: str) -> str:
    return apply_style(paint, _wrap_hanging(paint, f"warning: {escape(message)}"), style="warning")


def render_server_event(paint: Paint, event: FileAttached | ServerAsked) -> str:
    if isinstance(event, FileAttached):
        text = f"attached {event.name} ({event.size_bytes} bytes)"
    else:
        text = f"{event.server} asked: {event.message} ({_ANSWER_LABELS[event.answer]})"
    return apply_style(paint, _wrap_hanging(paint, f"  {escape(text)}"), style="dim")


def render_error(paint: Paint, message: str, *, hint: str) -> str:
    """Render an error. The fix is not wrapped, because it may be a command to copy."""
    text = _wrap_hanging(paint, f"error: {escape(message)}").removeprefix("error:")
    line = paint.apply_style("error:", paint.theme.failed) + text
    return f"{line}\n  fix: {escape(hint)}" if hint else line


def adapt_hint(hint: str) -> str:
    """Return the hint for a user inside the session. An option of `agentcli run` is a setting here.

    Neither a setting nor a variable set elsewhere reaches a program that is already running."""
    if hint.startswith("/"):
        return hint  # of the session itself, whose commands have options of their own
    if hint.startswith("agentcli login"):
        return hint.partition("   or: ")[0].replace("agentcli ", "/")
    if hint.startswith("export "):
        return f"quit, {hint}, then agentcli --continue"
    within = _OPTION.sub(_format_setting, hint)
    is_setting = within != hint
    return _COMMAND.sub(r"/\1", f"{within}{CONTINUE_HINT}" if is_setting else within)


def _format_setting(option: "re.Match[str]") -> str:
    name, value = option["name"].replace("-", "_"), option["value"]
    return f"{name} = {value}" if value else name


def render_broken_off(paint: Paint, why: str) -> str:
    """Render the note below a partial reply.

    The reply stays on the screen, and the model does not know of it.
    """
    text = f"{paint.ellipsis} {why}. Dropping the partial reply and retrying."
    return apply_style(paint, "  " + _wrap_hanging(paint, text), style="warning")


def render_interruption(paint: Paint, seconds: float, *, changed: int) -> str:
    text = f"{'STOP' if paint.ascii else '■'} interrupted after {format_elapsed(seconds)}"
    if changed:
        files = "1 file" if changed == 1 else f"{changed} files"
        text += f"{paint.dot}{files} changed, /rewind to undo"
    return apply_style(paint, _wrap_hanging(paint, text), style="warning")


def render_thinking(paint: Paint, text: str, *, seconds: float, is_shown: bool) -> str:
    line = f"Thought for {format_elapsed(seconds)}{paint.dot}{len(text) // 4} tok"
    return apply_style(paint, f"{line}\n{escape(text)}" if is_shown and text else line, style="dim")


def render_context_note(paint: Paint, note: ContextNote) -> str:
    """Render a context note of the runtime to the model as one line."""
    line = shorten_end(escape(describe_context_note(note)), paint.width)
    return apply_style(paint, line, style="dim")


def render_hosted(paint: Paint, line: str) -> str:
    """Render a call that the provider made itself, or a page that a reply cites."""
    return apply_style(paint, shorten_end(escape(line), paint.width), style="dim")


def render_table(paint: Paint, rows: Sequence[tuple[str, str]]) -> str:
    """Return a table with names in one column and wrapped descriptions in the other."""
    width = min(max((cell_len(name) for name, _ in rows), default=0), max(8, paint.width // 2))
    lines = []
    for name, what in rows:
        name, pad = escape(name), " " * max(0, width - cell_len(name))
        text = what.lstrip(" ")
        hang = " " * (len(what) - len(text))
        wrapped = Text(escape(text)).wrap(LAYOUT, max(8, paint.width - width - 4 - len(hang)))
        first, *more = [hang + row.plain.rstrip() for row in wrapped] or [""]
        lines.append(f"  {paint.apply_style(name, paint.theme.strong)}{pad}  {first}".rstrip())
        lines += [f"  {' ' * width}  {row}" for row in more]
    return "\n".join(lines)


def _wrap_hanging(paint: Paint, text: str) -> str:
    """Wrap the text, with all rows but the first indented by two columns."""
    width = paint.prose_width - 2
    rows = [row for line in text.split("\n") for row in _wrap_line(line, width=width)]
    return "\n  ".join(rows)


def _count_cells(line: str) -> int:
    """Return the width. For most lines it is the length; rich would cache thousands of them."""
    return len(line) if line.isascii() and line.isprintable() else cell_len(line)


def _wrap_line(line: str, *, width: int) -> list[str]:
    """Wrap a line between words. The terminal may wrap what is too long to be prose."""
    if len(line) > PROSE_CHARS or _count_cells(line) <= width:
        return [line]
    return [row.plain for row in wrap_whole_words(Text(line), max(8, width))]
