"""What commands print as lists and tables.

On a terminal it has the styles of the session and fits its width. Elsewhere it is plain and whole.
"""

import os
import shutil
import sys
import textwrap
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from agentcli.system.plain_text import show_controls
from agentcli.ui.streams import out_is_terminal

if TYPE_CHECKING:
    from agentcli.ui.render.paint import Paint

ReportRun = tuple[str, str]
"""The name of a style of the theme, or an empty string, and a text."""
ReportLine = Sequence[ReportRun]

BLOCK, ASCII_BLOCK = "█", "#"


def write_report(lines: Iterable[ReportLine], *, is_cut: bool = True) -> None:
    """Write lines to stdout. With `is_cut`, they are cut to the width of a terminal."""
    paint = _open_paint() if out_is_terminal() else None
    for line in lines:
        sys.stdout.write(render_report_line(line, paint, is_cut=is_cut) + "\n")


def print_line(text: str) -> None:
    """Write a line to stdout, with control characters shown."""
    sys.stdout.write(show_controls(text) + "\n")


def render_report_line(line: ReportLine, paint: "Paint | None", *, is_cut: bool = True) -> str:
    """Return the line for a screen, or as plain text without one."""
    if paint is None:
        return "".join(text for _, text in line)
    runs = _cut_runs(line, paint) if is_cut else line
    return "".join(
        paint.apply_style(text, getattr(paint.theme, style)) if style else text
        for style, text in runs
    )


def render_bar(share: float, columns: int) -> str:
    """Return a bar for a share of 1. Any share but zero is at least one character."""
    cells = max(round(min(1.0, share) * columns), share > 0)
    return (BLOCK if takes_blocks() else ASCII_BLOCK) * cells


def takes_blocks() -> bool:
    """Return whether stdout can show block characters."""
    try:
        BLOCK.encode(sys.stdout.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def wrap_to_terminal(text: str) -> str:
    """Return the text, wrapped between words for a terminal; unchanged if stdout is none."""
    if not out_is_terminal():
        return text
    width = max(20, shutil.get_terminal_size().columns - 1)
    return textwrap.fill(
        text, width, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
    )


def _open_paint() -> "Paint":
    from agentcli.ui.oneshot.pretty_view import build_paint

    return build_paint(sys.stdout.fileno(), os.environ)


def _cut_runs(line: ReportLine, paint: "Paint") -> list[ReportRun]:
    from rich.cells import cell_len, set_cell_size

    room = paint.width
    if sum(cell_len(text) for _, text in line) <= room:
        return list(line)
    room -= len(paint.ellipsis)
    shown: list[ReportRun] = []
    for style, text in line:
        size = cell_len(text)
        shown.append((style, text if size <= room else set_cell_size(text, room).rstrip()))
        room -= size
        if room <= 0:
            break
    return [*shown, ("dim", paint.ellipsis)]
