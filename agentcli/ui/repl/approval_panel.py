"""An open question as rows of the live region: the call, why it is asked, the answers.

The whole command and the whole diff are wrapped and never clipped. If they do not fit, only the
beginning and the end are shown, and the question records that something is not shown.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

from rich.cells import cell_len
from rich.text import Text

from agentcli.settings import RULES_FILE, get_user_directory
from agentcli.system.files import shorten_home
from agentcli.types.grants import NO_GRANTS
from agentcli.types.messages import Json
from agentcli.types.tools import Browsed, Command, Diff
from agentcli.types.verdicts import Question
from agentcli.ui.render.card_header import build_shell_highlighter
from agentcli.ui.render.diff import render_diff
from agentcli.ui.render.paint import Paint, escape, fold, style_escaped, wrap
from agentcli.ui.render.wording import (
    format_child_name,
    format_child_task,
    format_target,
)
from agentcli.ui.repl.answer_table import AnswerChoice
from agentcli.ui.repl.approval import PendingApproval, PendingPlan

# The answers of the table, with what each would store or why it is not available


Density = Literal["rows", "flowing", "short"]
"""One answer per row; several in a row; or only the available ones, in few words."""

_NOTE_INDENT = 6
_NOTE_ROWS = 4
"""The most rows for rules. `v` shows longer ones in full."""


@dataclass(frozen=True, slots=True)
class _AnswerRows:
    """One answer as rows of terminal codes, and the width of the last row."""

    rows: list[str]
    cells: int


def render_answers(pending: PendingApproval, paint: Paint, *, density: Density) -> list[str]:
    shown = [choice for choice in pending.choices if density != "short" or pending.offers(choice)]
    answers = [
        (choice, _render_answer(pending, choice, paint=paint, density=density)) for choice in shown
    ]
    if density != "rows":
        return _flow_answers((answer for _, answer in answers), paint)
    above = [row for choice, answer in answers if not choice.opens for row in answer.rows]
    last = (answer for choice, answer in answers if choice.opens)
    return ["", *above, *_flow_answers(last, paint)]


def shows_rules(pending: PendingApproval, paint: Paint, *, density: Density) -> bool:
    """Return whether the rows show everything that the lasting answers would store."""
    notes = (
        _wrap_note(_describe_stored(pending, choice, density=density, confirms=True), paint)
        for choice in pending.choices
    )
    return density != "short" and all(len(rows) <= _NOTE_ROWS for rows in notes)


def describe_saved_rules(pending: PendingApproval, choice: AnswerChoice) -> list[str]:
    """Return a line for each rule that an answer for always has stored."""
    where = f"Saved to {shorten_home(get_user_directory() / RULES_FILE)}"
    rules = pending.list_rules(choice)
    return [f"{where}: {choice.rule_decision} {escape(rule)}" for rule in rules]


def _flow_answers(answers: Iterable[_AnswerRows], paint: Paint) -> list[str]:
    """Return the answers, as many in a row as fit."""
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
    pending: PendingApproval, choice: AnswerChoice, *, paint: Paint, density: Density
) -> _AnswerRows:
    is_selected = pending.selected == choice.key
    awaits_enter = is_selected and pending.awaits_enter
    words = _choose_words(pending, choice, paint=paint, density=density)
    note = ""
    if density != "short":
        note = _render_note(pending, choice, density=density, confirms=awaits_enter)
    elif awaits_enter:
        words += ": press Enter"
    cells = cell_len(f"  [{choice.key}] {words}")
    dim = paint.theme.dim
    if pending.offers(choice):
        key = paint.apply_style(f"[{choice.key}]", paint.theme.strong)
        first = f"{'>' if is_selected else ' '} {key} {words}"
    else:
        first = paint.apply_style(f"  [{choice.key}] {words}", dim)
    if not note:
        return _AnswerRows([first], cells)
    if cells + 1 + cell_len(note) <= paint.width:
        return _AnswerRows([f"{first} {paint.apply_style(note, dim)}"], cells + 1 + cell_len(note))
    below = _wrap_note(note, paint)
    if len(below) > _NOTE_ROWS:
        below = [*below[: _NOTE_ROWS - 1], f"{paint.ellipsis} (press v to view all)"]
    indent = " " * min(_NOTE_INDENT, max(0, paint.width - 8))
    return _AnswerRows([first, *(indent + paint.apply_style(row, dim) for row in below)], cells)


def _choose_words(
    pending: PendingApproval, choice: AnswerChoice, *, paint: Paint, density: Density
) -> str:
    if density == "short" and choice.opens == "view" and not pending.was_viewed:
        return f"view all to unlock {'yes' if pending.is_cut else 'more'}"
    is_wide = cell_len(f"  [{choice.key}] {choice.label}") > paint.width
    is_short = density == "short" or (density == "flowing" and choice.is_lasting)
    return choice.short if is_short or is_wide else choice.label


def _wrap_note(note: str, paint: Paint) -> list[str]:
    room = max(8, paint.width - _NOTE_INDENT)
    return [row.plain for row in Text(note).wrap(paint.build_console(), room)]


def _render_note(
    pending: PendingApproval, choice: AnswerChoice, *, density: Density, confirms: bool
) -> str:
    if why_not := pending.find_obstacle(choice):
        return f"(not available: {escape(why_not)})"
    if not pending.offers(choice):
        return "" if choice.opens else "(press v first)"
    return _describe_stored(pending, choice, density=density, confirms=confirms)


def _describe_stored(
    pending: PendingApproval, choice: AnswerChoice, *, density: Density, confirms: bool
) -> str:
    """Return what a lasting answer would store. `confirms` adds that Enter gives the answer."""
    scope = pending.describe_scope(choice)
    if not choice.is_lasting or not scope:
        return ""
    if choice.lasts != "always":
        return escape(f"for {scope}")
    enter, path = "press Enter: " if confirms else "", get_user_directory() / RULES_FILE
    file = shorten_home(path) if density == "rows" else path.name
    return escape(f"({enter}adds {choice.rule_decision} {scope} to {file})")


BODY_SHARE = 0.6
WHY_ROWS = 3
ENDS_ROWS = 3
"""The rows of a call that does not fit: its beginning, how much is hidden, its end."""
DENSITIES: tuple[Density, ...] = ("rows", "flowing", "short")
ROOMY_COLUMNS = 60
"""The columns needed to say more than that a question waits."""
BAR_COLUMNS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandContext:
    """The workspace of a command, for the line that shows where it would run."""

    workspace: str
    answer_key: str
    """The key that opens a waiting question."""

    @property
    def waiting_note(self) -> str:
        return f"keys go to your message; {self.answer_key} to answer"


def render_panel(
    pending: PendingApproval, paint: Paint, *, context: CommandContext, rows: int, takes_keys: bool
) -> list[str]:
    """Return at most `rows` rows, with a bar beside them that marks a question.

    Record in `pending` what part of the question they do not show."""
    inner, bar = _set_bar_apart(paint)
    shown = _render_panel_rows(pending, inner, context=context, rows=rows, takes_keys=takes_keys)
    return [f"{bar}{row}".rstrip() for row in shown]


def _set_bar_apart(paint: Paint) -> tuple[Paint, str]:
    """Return the paint for what is beside the bar, and the bar; empty on a narrow terminal."""
    if paint.columns < ROOMY_COLUMNS or paint.accessible:
        return paint, ""
    bar = paint.apply_style("|" if paint.ascii else "▌", paint.theme.warning) + " "
    return replace(paint, columns=paint.columns - BAR_COLUMNS), bar


def _render_panel_rows(
    pending: PendingApproval, paint: Paint, *, context: CommandContext, rows: int, takes_keys: bool
) -> list[str]:
    """Return at most `rows` rows. Record in `pending` what part of the question they do not show.

    The answers make room for the call: they move closer together rather than hide a line of it.
    """
    head, body = (
        _render_panel_header(pending, paint, waiting="" if takes_keys else context.waiting_note),
        render_call(pending, paint),
    )
    pending.is_cut = False
    why = _render_why(pending.question, paint, context=context)
    for density in DENSITIES:
        pending.hides_rules = not shows_rules(pending, paint, density=density)
        foot = _render_footer(pending, paint, why=why, density=density)
        if len(body) <= _limit_rows(paint, rows - len(head) - len(foot)):
            return [*head, *body, *foot]
    pending.is_cut = True
    for density in DENSITIES:
        pending.hides_rules = not shows_rules(pending, paint, density=density)
        foot = _render_footer(pending, paint, why=why, density=density)
        room = _limit_rows(paint, rows - len(head) - len(foot))
        if room >= ENDS_ROWS:
            break
    else:
        foot = [
            *_render_grants(pending.question, paint),
            *render_answers(pending, paint, density=density),
        ]
        room = _limit_rows(paint, rows - len(head) - len(foot))
    telling = _drop_context(body) if isinstance(pending.question.preview, Diff) else body
    body = _render_ends(
        telling, max(1, room), paint=paint, total=len(body), was_viewed=pending.was_viewed
    )
    return [*head, *body, *foot][:rows]


def _limit_rows(paint: Paint, rows: int) -> int:
    return min(int(BODY_SHARE * paint.rows), rows)


def _render_footer(
    pending: PendingApproval, paint: Paint, *, why: list[str], density: Density
) -> list[str]:
    grants = _render_grants(pending.question, paint)
    if density == "short" and len(why) > 1:
        why = [why[0] + _apply_dim(paint, paint.ellipsis)]
    return [*why, *grants, *render_answers(pending, paint, density=density)]


def render_call(pending: PendingApproval, paint: Paint) -> list[str]:
    """Return all of the call, wrapped."""
    match pending.question.preview:
        case Diff() as diff:
            return render_diff(diff, paint, whole=True).rstrip("\n").split("\n")
        case Command(command=command):
            return _render_command(command, pending, paint=paint)
        case _:
            form, given = pending.question.form, [*_list_arguments(pending.question)]
            if isinstance(pending.question.preview, Browsed):
                given.insert(0, ("page", pending.question.preview.url))
            is_question = form is not None and form.kind == "question"
            shown = "\n".join(str(text) if is_question else f"{key}={text}" for key, text in given)
            return _wrap_rows(
                style_escaped(shown, paint.theme.strong, escape_style=paint.theme.escaped), paint
            )


def render_question(pending: PendingApproval, paint: Paint) -> str:
    head = _render_panel_header(pending, paint)
    return (
        "\n".join([*head, *_render_task(pending.question, paint), *render_call(pending, paint)])
        + "\n"
    )


def render_viewed_question(pending: PendingApproval, paint: Paint) -> str:
    """Return the question for a pager, with what the lasting answers would store."""
    lasting = [
        _apply_dim(paint, f"  [{choice.key}] {scope}")
        for choice in pending.choices
        if choice.is_lasting and (scope := pending.describe_scope(choice))
    ]
    return render_question(pending, paint) + "".join(f"\n{row}\n" for row in lasting)


def _render_panel_header(pending: PendingApproval, paint: Paint, *, waiting: str = "") -> list[str]:
    """Return the header. What does not fit in the first row goes into a second."""
    call = pending.question.call
    index, count = pending.position
    needed = "needs an answer" if pending.question.form else "needs approval"
    note = (waiting if paint.width >= ROOMY_COLUMNS else "not yet") if waiting else needed
    note += f"  {index} of {count}" if count > 1 else ""
    shown = Text.assemble(("?", paint.theme.warning), " ", (call.name, paint.theme.strong))
    if pending.question.form is not None:
        shown.append(" asks you")
    elif not isinstance(pending.question.preview, Command):
        shown.append(f" {escape(format_target(call))}")
    if pending.question.child is not None:
        shown.append(f"  {format_child_name(pending.question.child)}", paint.theme.strong)
    shown.append(f"  {note}", paint.theme.dim)
    return [paint.render_lines([row]).rstrip("\n") for row in wrap(shown, paint.width)]


def _render_command(command: str, pending: PendingApproval, *, paint: Paint) -> list[str]:
    shell, strong = build_shell_highlighter(paint.theme), paint.theme.strong
    shown = Text("$ ") + Text("\n").join(
        shell.style_line(line, strong) for line in command.split("\n")
    )
    for part in pending.suggestion.uncovered:
        at = shown.plain.find(part)
        if at >= 0 and part != command.strip():
            shown.stylize("underline", at, at + len(part))
    return _wrap_rows(shown, paint)


def _wrap_rows(text: Text, paint: Paint) -> list[str]:
    rows = []
    for index, line in enumerate(text.split("\n", allow_blank=True)):
        for number, piece in enumerate(fold(line, max(4, paint.width - 6))):
            indent = "  " if index == 0 and number == 0 else "    "
            rows.append(indent + paint.render_lines([piece]).rstrip("\n"))
    return rows


_CONTEXT_ROW = re.compile(r" *\d+(?:$|   )")
"""A row of a diff whose line is unchanged: its number, and a blank where a sign would be."""


def _drop_context(body: list[str]) -> list[str]:
    """Return the rows of a diff with its changes, if it has any."""
    changed = [row for row in body if not _CONTEXT_ROW.match(re.sub(r"\x1b\[[0-9;]*m", "", row))]
    return changed or body


def _render_ends(
    body: list[str], rows: int, *, paint: Paint, total: int, was_viewed: bool
) -> list[str]:
    """Return the first and the last rows of the body, which has `total` of them if it is whole."""
    if total <= rows:
        return body
    last = min((rows - 1) // 2, len(body) // 2)
    first = max(0, min(rows - 1, len(body)) - last)
    hidden = total - first - last
    note = f"  {paint.ellipsis} {hidden} of {total} lines not shown"
    note += " (viewed)" if was_viewed else ": press v to view them, then you can approve"
    if cell_len(note) > paint.width:
        note = f"  {paint.ellipsis} {hidden} more lines ({'viewed' if was_viewed else 'v'})"
    end = body[len(body) - last :]
    return [*body[:first], paint.apply_style(note, paint.theme.warning), *end]


def _render_why(question: Question, paint: Paint, *, context: CommandContext) -> list[str]:
    rows = _wrap_prose(f"why: {escape(question.verdict.reason)}", paint)
    if len(rows) > WHY_ROWS:
        rows = [*rows[: WHY_ROWS - 1], f"       {paint.ellipsis}"]
    if isinstance(question.preview, Command):
        given = question.call.input
        timeout = given.get("timeout", 120) if isinstance(given, dict) else 120
        grants = question.verdict.grants
        sandbox = [grants.describe()] if grants == NO_GRANTS else []
        where = paint.dot.join((escape(context.workspace), *sandbox, f"timeout {timeout}s"))
        rows += _wrap_prose(f"in:  {where}", paint)
    return [
        *(_apply_dim(paint, row) for row in rows),
        *_render_task(question, paint)[:WHY_ROWS],
    ]


def _render_grants(question: Question, paint: Paint) -> list[str]:
    """Return what a command would get besides, from the value that its sandbox is made from.

    It is never cut, and stands out: no sandbox most of all."""
    grants, theme = question.verdict.grants, paint.theme
    if grants == NO_GRANTS or not isinstance(question.preview, Command):
        return []
    style = theme.failed if grants.outside else theme.warning
    rows = _wrap_prose(f"with: {escape(grants.describe())}", paint)
    shown = [paint.apply_style(row, style) for row in rows]
    if question.wanted_for:
        reason_rows = _wrap_prose(f"for: {escape(question.wanted_for)} (says the model)", paint)
        shown += [_apply_dim(paint, row) for row in reason_rows[:WHY_ROWS]]
    return shown


def _render_task(question: Question, paint: Paint) -> list[str]:
    """Return the task of the child agent that asks, or nothing if no child asks."""
    if question.child is None:
        return []
    return [
        _apply_dim(paint, row)
        for row in _wrap_prose(f"task: {format_child_task(question.child)}", paint)
    ]


def _wrap_prose(text: str, paint: Paint) -> list[str]:
    wrapped = Text(text).wrap(paint.build_console(), max(8, paint.width - 7))
    return [f"  {'' if index == 0 else '     '}{row.plain}" for index, row in enumerate(wrapped)]


def _list_arguments(question: Question) -> list[tuple[str, Json]]:
    given = question.call.input
    return list(given.items()) if isinstance(given, dict) else [("input", given)]


def _apply_dim(paint: Paint, text: str) -> str:
    return paint.apply_style(text, paint.theme.dim)


# The question about a plan, below the plan itself


def render_plan_panel(
    pending: PendingPlan, paint: Paint, *, context: CommandContext, rows: int, takes_keys: bool
) -> list[str]:
    paint, bar = _set_bar_apart(paint)
    note = "follow it?" if takes_keys else context.waiting_note
    head = (
        f"{paint.apply_style('?', paint.theme.warning)} "
        f"{paint.apply_style('plan', paint.theme.strong)}"
    )
    head += f"  {paint.apply_style(note, paint.theme.dim)}"
    answers = [_render_plan_answer(pending, choice, paint=paint) for choice in pending.choices]
    is_narrow = any(
        len(f"  [{choice.key}] {choice.label}") > paint.width for choice in pending.choices
    )
    if is_narrow or len(answers) >= rows:
        short = " ".join(f"[{choice.key}]{choice.short}" for choice in pending.choices)
        answers = [
            row.plain for row in Text(short).wrap(paint.build_console(), max(8, paint.width - 2))
        ]
    shown = [head, *answers]
    return [f"{bar}{row}" for row in (shown if len(shown) <= rows else answers[:rows])]


def _render_plan_answer(pending: PendingPlan, choice: AnswerChoice, *, paint: Paint) -> str:
    is_selected = pending.selected == choice.key
    key = paint.apply_style(f"[{choice.key}]", paint.theme.strong)
    enter = (
        paint.apply_style("  press Enter", paint.theme.dim)
        if is_selected and pending.awaits_enter
        else ""
    )
    return f"{'>' if is_selected else ' '} {key} {choice.label}{enter}"
