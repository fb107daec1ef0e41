"""The answers to an open question as rows: the same letters in the same order for every tool.

An answer that cannot be given stays where it is, dimmed, and says why.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from rich.cells import cell_len
from rich.text import Text

from agentcli.settings import get_rules_file
from agentcli.ui.render.escape import escape
from agentcli.ui.render.paint import Paint
from agentcli.ui.repl.approval import LETTERS, Letter, PendingApproval

Density = Literal["rows", "flowing", "short"]
"""A row for each; one behind the other; those that can be given now, in few words."""

_ANSWER_LABELS: dict[Letter, str] = {
    "y": "yes, once",
    "s": "yes, this session",
    "a": "always",
    "n": "no, and continue",
    "e": "no, tell the agent what to do instead",
    "v": "view all",
    "m": "modify before running",
}
_SHORT_LABELS: dict[Letter, str] = {
    "y": "yes",
    "s": "yes, session",
    "a": "yes, always",
    "n": "no",
    "e": "no, instead",
    "v": "view",
    "m": "modify",
}
_SERVER_LABELS = {"form": "yes, fill it in", "url": "yes, open it", "tools": "yes, accept them"}
_SINGLE_ROW_LETTERS: tuple[Letter, ...] = ("v", "m")
_CONFIRM = "press Enter, "
"""Before what a selected answer stores."""
_NOTE_INDENT = 6
_NOTE_ROWS = 3
"""Rules that take more are shown in full by `v`."""


@dataclass(frozen=True, slots=True)
class _AnswerRows:
    """As rows of terminal codes, and how wide the last of them is."""

    rows: list[str]
    cells: int


def render_answers(pending: PendingApproval, paint: Paint, density: Density) -> list[str]:
    if density == "short":
        offered = (one for one in pending.letters if pending.offers(one))
        return _flow_answers(
            (_render_answer(pending, one, paint, is_short=True) for one in offered), paint
        )
    answers = {one: _render_answer(pending, one, paint, is_short=False) for one in pending.letters}
    if density == "flowing":
        return _flow_answers(answers.values(), paint)
    above = [row for one in answers if one not in _SINGLE_ROW_LETTERS for row in answers[one].rows]
    return [
        "",
        *above,
        *_flow_answers((answers[one] for one in _SINGLE_ROW_LETTERS if one in answers), paint),
    ]


def shows_rules(pending: PendingApproval, paint: Paint, density: Density) -> bool:
    """Whether all of what the lasting answers would store is among the rows."""
    notes = (
        _wrap_note(_CONFIRM + _render_stored_rule(pending, letter), paint) for letter in LETTERS
    )
    return density != "short" and all(len(rows) <= _NOTE_ROWS for rows in notes)


def _flow_answers(answers: Iterable[_AnswerRows], paint: Paint) -> list[str]:
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


def _render_answer(
    pending: PendingApproval, letter: Letter, paint: Paint, *, is_short: bool
) -> _AnswerRows:
    is_wide = cell_len(f"  [{letter}] {_ANSWER_LABELS[letter]}") > paint.width
    words = (_SHORT_LABELS if is_short or is_wide else _ANSWER_LABELS)[letter]
    if letter == "y" and pending.question.form is not None:
        words = _SERVER_LABELS[pending.question.form.kind]
    if is_short and letter == "v" and not pending.was_viewed:
        words += " for more answers"
    note = "" if is_short else _render_note(pending, letter)
    is_selected = pending.selected is not None and LETTERS[pending.selected] == letter
    if is_selected and pending.awaits_enter:
        words += ": press Enter" if is_short else ""
        note = f"{_CONFIRM}{note}" if note else ""
    cells = cell_len(f"  [{letter}] {words}")
    dim = paint.theme.dim
    if pending.offers(letter):
        key = paint.apply_style(f"[{letter}]", paint.theme.strong)
        first = f"{'>' if is_selected else ' '} {key} {words}"
    else:
        first = paint.apply_style(f"  [{letter}] {words}", dim)
    if not note:
        return _AnswerRows([first], cells)
    if cells + 2 + cell_len(note) <= paint.width:
        return _AnswerRows([f"{first}  {paint.apply_style(note, dim)}"], cells + 2 + cell_len(note))
    below = _wrap_note(note, paint)
    if len(below) > _NOTE_ROWS:
        below = [*below[: _NOTE_ROWS - 1], f"{paint.ellipsis} all of it: v"]
    indent = " " * min(_NOTE_INDENT, max(0, paint.width - 8))
    return _AnswerRows([first, *(indent + paint.apply_style(row, dim) for row in below)], cells)


def _wrap_note(note: str, paint: Paint) -> list[str]:
    room = max(8, paint.width - _NOTE_INDENT)
    return [row.plain for row in Text(note).wrap(paint.build_console(), room)]


def _render_note(pending: PendingApproval, letter: Letter) -> str:
    if why_not := pending.offer.find_obstacle(letter):
        return f"not offered: {escape(why_not)}"
    if not pending.offers(letter):
        return "" if letter in _SINGLE_ROW_LETTERS else "view it first"
    return _render_stored_rule(pending, letter)


def _render_stored_rule(pending: PendingApproval, letter: Letter) -> str:
    """What a lasting answer would store."""
    if letter == "s":
        return escape(pending.offer.session)
    if letter != "a" or not pending.offer.rules:
        return ""
    return escape(f"saves: allow {', '.join(pending.offer.rules)} in {get_rules_file().name}")
