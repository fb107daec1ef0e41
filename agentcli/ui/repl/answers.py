"""The answers to an open question as rows: the same letters in the same order for every tool.

An answer that cannot be given stays where it is, dimmed, and says why.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from rich.cells import cell_len
from rich.text import Text

from agentcli.settings import rules_file
from agentcli.ui.render.escape import escape
from agentcli.ui.render.paint import Paint
from agentcli.ui.repl.approval import LETTERS, Asked, Letter

Density = Literal["rows", "flowing", "short"]
"""A row for each; one behind the other; those that can be given now, in few words."""

_WORDS: dict[Letter, str] = {
    "y": "yes, once",
    "s": "yes, this session",
    "a": "always",
    "n": "no, and continue",
    "e": "no, tell the agent what to do instead",
    "v": "view all",
    "m": "modify before running",
}
_SHORT: dict[Letter, str] = {
    "y": "yes",
    "s": "yes, session",
    "a": "yes, always",
    "n": "no",
    "e": "no, instead",
    "v": "view",
    "m": "modify",
}
_TO_A_SERVER = {"form": "yes, fill it in", "url": "yes, open it", "tools": "yes, accept them"}
_OF_ONE_ROW: tuple[Letter, ...] = ("v", "m")
_CONFIRM = "press Enter, "
"""Before what a selected answer stores."""
_NOTE_INDENT = 6
_NOTE_ROWS = 3
"""Rules that take more are shown in full by `v`."""


@dataclass(frozen=True, slots=True)
class _Answer:
    """As rows of terminal codes, and how wide the last of them is."""

    rows: list[str]
    cells: int


def answer_rows(asked: Asked, paint: Paint, density: Density) -> list[str]:
    if density == "short":
        offered = (one for one in asked.letters if asked.offers(one))
        return _flowing((_answer(asked, one, paint, is_short=True) for one in offered), paint)
    answers = {one: _answer(asked, one, paint, is_short=False) for one in asked.letters}
    if density == "flowing":
        return _flowing(answers.values(), paint)
    above = [row for one in answers if one not in _OF_ONE_ROW for row in answers[one].rows]
    return ["", *above, *_flowing((answers[one] for one in _OF_ONE_ROW if one in answers), paint)]


def shows_rules(asked: Asked, paint: Paint, density: Density) -> bool:
    """Whether all of what the lasting answers would store is among the rows."""
    notes = (_wrapped(_CONFIRM + _stored(asked, letter), paint) for letter in LETTERS)
    return density != "short" and all(len(rows) <= _NOTE_ROWS for rows in notes)


def _flowing(answers: Iterable[_Answer], paint: Paint) -> list[str]:
    """As many in a row as fit."""
    rows: list[str] = []
    used = paint.width
    for answer in answers:
        if len(answer.rows) == 1 and used + 1 + answer.cells <= paint.width:
            rows[-1] += f" {answer.rows[0]}"
            used += 1 + answer.cells
        else:
            rows += answer.rows
            used = answer.cells if len(answer.rows) == 1 else paint.width
    return rows


def _answer(asked: Asked, letter: Letter, paint: Paint, *, is_short: bool) -> _Answer:
    is_wide = cell_len(f"  [{letter}] {_WORDS[letter]}") > paint.width
    words = (_SHORT if is_short or is_wide else _WORDS)[letter]
    if letter == "y" and asked.question.form is not None:
        words = _TO_A_SERVER[asked.question.form.kind]
    if is_short and letter == "v" and not asked.was_viewed:
        words += " for more answers"
    note = "" if is_short else _note(asked, letter)
    is_selected = asked.selected is not None and LETTERS[asked.selected] == letter
    if is_selected and asked.awaits_enter:
        words += ": press Enter" if is_short else ""
        note = f"{_CONFIRM}{note}" if note else ""
    cells = cell_len(f"  [{letter}] {words}")
    dim = paint.theme.dim
    if asked.offers(letter):
        key = paint.styled(f"[{letter}]", paint.theme.strong)
        first = f"{'>' if is_selected else ' '} {key} {words}"
    else:
        first = paint.styled(f"  [{letter}] {words}", dim)
    if not note:
        return _Answer([first], cells)
    if cells + 2 + cell_len(note) <= paint.width:
        return _Answer([f"{first}  {paint.styled(note, dim)}"], cells + 2 + cell_len(note))
    below = _wrapped(note, paint)
    if len(below) > _NOTE_ROWS:
        below = [*below[: _NOTE_ROWS - 1], f"{paint.ellipsis} all of it: v"]
    indent = " " * min(_NOTE_INDENT, max(0, paint.width - 8))
    return _Answer([first, *(indent + paint.styled(row, dim) for row in below)], cells)


def _wrapped(note: str, paint: Paint) -> list[str]:
    room = max(8, paint.width - _NOTE_INDENT)
    return [row.plain for row in Text(note).wrap(paint.console(), room)]


def _note(asked: Asked, letter: Letter) -> str:
    if why_not := asked.offer.why_not(letter):
        return f"not offered: {escape(why_not)}"
    if not asked.offers(letter):
        return "" if letter in _OF_ONE_ROW else "view it first"
    return _stored(asked, letter)


def _stored(asked: Asked, letter: Letter) -> str:
    """What a lasting answer would store."""
    if letter == "s":
        return escape(asked.offer.session)
    if letter != "a" or not asked.offer.rules:
        return ""
    return escape(f"saves: allow {', '.join(asked.offer.rules)} in {rules_file().name}")
