"""A screen as cells: what a terminal of so many columns makes of a text with codes."""

import re
from dataclasses import dataclass
from itertools import groupby

import pyte

from agentcli.ui.render.theme import Theme

_UNKNOWN = re.compile(r"\x1b\]8;[^\x1b\x07]*(?:\x1b\\|\x07)|\x1b\[[?>=<][0-9;]*[a-zA-Z]")
"""Links and private modes, which pyte would print."""
_INK = {"dark": "#d6d6d6", "light": "#1f1f1f"}
_PAPER = {"light": "#ffffff"}
_NAMED = {
    "black": "#3a3a3a",
    "red": "#e06c75",
    "green": "#6cc27f",
    "brown": "#d7ba5d",
    "blue": "#6aa6f0",
    "magenta": "#c792ea",
    "cyan": "#56c3d6",
    "white": "#d6d6d6",
    "brightblack": "#8a8a8a",
    "brightblue": "#8fc1ff",
}


@dataclass(frozen=True, slots=True)
class Look:
    ink: str
    paper: str | None
    bold: bool
    italic: bool
    underline: bool


@dataclass(frozen=True, slots=True)
class Run:
    """Cells of one look in one row."""

    row: int
    column: int
    cells: int
    text: str
    look: Look


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    columns: int
    rows: int
    ink: str
    paper: str
    runs: tuple[Run, ...]


def picture(ansi: str, *, columns: int, theme: Theme) -> Picture:
    """Of a text: as many rows as it has."""
    text = ansi.rstrip("\n")
    return _picture(text.replace("\n", "\r\n"), columns, text.count("\n") + 1, theme)


def screenshot(raw: bytes, *, columns: int, rows: int, theme: Theme) -> Picture:
    """Of a terminal, after all that was written to it."""
    return _picture(raw.decode("utf-8", "replace"), columns, rows, theme)


def _picture(written: str, columns: int, rows: int, theme: Theme) -> Picture:
    screen = pyte.Screen(columns, rows)
    pyte.Stream(screen).feed(_UNKNOWN.sub("", written))
    ink, paper = _INK.get(theme.name, "#d6d6d6"), _PAPER.get(theme.name, "#18181a")
    runs = []
    for row in range(rows):
        cells = [(column, screen.buffer[row][column]) for column in range(columns)]
        for look, group in groupby(cells, key=lambda cell: _look(cell[1], ink, paper)):
            found = list(group)
            shown = "".join(cell.data for _, cell in found)
            if shown.strip() or look.paper:
                runs.append(Run(row, found[0][0], len(found), shown, look))
    height = max((run.row for run in runs), default=0) + 1
    return Picture(columns=columns, rows=height, ink=ink, paper=paper, runs=tuple(runs))


def _look(cell: "pyte.screens.Char", ink: str, paper: str) -> Look:
    front, back = _color(cell.fg) or ink, _color(cell.bg)
    if cell.reverse:
        front, back = back or paper, front
    return Look(front, back, cell.bold, cell.italics, cell.underscore)


def _color(name: str) -> str | None:
    if name == "default":
        return None
    return _NAMED.get(name, f"#{name}")
