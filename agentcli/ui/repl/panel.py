"""An open question as rows of the live region: what would happen, why it is asked, the answers.

All of the command and all of the diff, wrapped and never clipped; where that does not fit, its
beginning and its end, and the question knows that something is not shown.
"""

from dataclasses import dataclass

from rich.cells import cell_len
from rich.text import Text

from agentcli.types.messages import Json
from agentcli.types.tools import Command, Diff
from agentcli.types.verdicts import Question
from agentcli.ui.lines import format_child_name, format_child_task, format_target
from agentcli.ui.render.diff import render_diff
from agentcli.ui.render.escape import escape, style_escaped
from agentcli.ui.render.paint import Paint, fold, wrap
from agentcli.ui.repl.answers import Density, render_answers, shows_rules
from agentcli.ui.repl.approval import PendingApproval

BODY_SHARE = 0.6
WHY_ROWS = 3
ENDS_ROWS = 3
"""Of a call that does not fit: its beginning, how much is not shown, its end."""
DENSITIES: tuple[Density, ...] = ("rows", "flowing", "short")
ROOMY_COLUMNS = 60
"""Columns that are enough to say more than that a question waits."""
WAITING_NOTE = "keys go to your message; tab to answer"


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandContext:
    """Where a command would run, for the line that says so."""

    workspace: str
    sandbox: str


def render_panel(
    pending: PendingApproval, paint: Paint, *, context: CommandContext, rows: int, takes_keys: bool
) -> list[str]:
    """At most `rows` rows. Notes in `asked` what of the question is not among them.

    The answers make room for the call: they stand closer together rather than hide a line of it.
    """
    head, body = (
        _render_panel_header(pending, paint, takes_keys=takes_keys),
        render_call(pending, paint),
    )
    pending.is_cut = False
    why = _render_why(pending.question, paint, context)
    for density in DENSITIES:
        pending.hides_rules = not shows_rules(pending, paint, density)
        foot = _render_footer(pending, paint, why, density)
        if len(body) <= _limit_rows(paint, rows - len(head) - len(foot)):
            return [*head, *body, *foot]
    pending.is_cut = True
    for density in DENSITIES:
        pending.hides_rules = not shows_rules(pending, paint, density)
        foot = _render_footer(pending, paint, why, density)
        room = _limit_rows(paint, rows - len(head) - len(foot))
        if room >= ENDS_ROWS:
            break
    else:
        foot = render_answers(pending, paint, density)
        room = _limit_rows(paint, rows - len(head) - len(foot))
    body = _render_ends(body, max(1, room), paint, was_viewed=pending.was_viewed)
    return [*head, *body, *foot][:rows]


def _limit_rows(paint: Paint, rows: int) -> int:
    return min(int(BODY_SHARE * paint.rows), rows)


def _render_footer(
    pending: PendingApproval, paint: Paint, why: list[str], density: Density
) -> list[str]:
    if density == "short" and len(why) > 1:
        why = [why[0] + _apply_dim(paint, paint.ellipsis)]
    return [*why, *render_answers(pending, paint, density)]


def render_call(pending: PendingApproval, paint: Paint) -> list[str]:
    """All of what would be done, wrapped."""
    match pending.question.preview:
        case Diff() as diff:
            return render_diff(diff, paint, whole=True).rstrip("\n").split("\n")
        case Command(command=command):
            return _render_command(command, pending, paint)
        case _:
            shown = "\n".join(f"{key}={value}" for key, value in _list_arguments(pending.question))
            return _wrap_rows(
                style_escaped(shown, paint.theme.strong, escape_style=paint.theme.escaped), paint
            )


def render_question(pending: PendingApproval, paint: Paint) -> str:
    head = _render_panel_header(pending, paint, takes_keys=True)
    return (
        "\n".join([*head, *_render_task(pending.question, paint), *render_call(pending, paint)])
        + "\n"
    )


def render_viewed_question(pending: PendingApproval, paint: Paint) -> str:
    """For a pager: with what the lasting answers would store."""
    lasting = [
        _apply_dim(paint, f"  [{letter}] {what}")
        for letter, what in (("s", pending.offer.session), ("a", ", ".join(pending.offer.rules)))
        if what
    ]
    return render_question(pending, paint) + "".join(f"\n{row}\n" for row in lasting)


def _render_panel_header(pending: PendingApproval, paint: Paint, *, takes_keys: bool) -> list[str]:
    """On a second row what does not fit in the first."""
    call = pending.question.call
    index, count = pending.position
    needed = "needs an answer" if pending.question.form else "needs approval"
    note = needed if takes_keys else WAITING_NOTE if paint.width >= ROOMY_COLUMNS else "not yet"
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


def _render_command(command: str, pending: PendingApproval, paint: Paint) -> list[str]:
    shown = Text("$ ") + style_escaped(
        command, paint.theme.strong, escape_style=paint.theme.escaped
    )
    for part in pending.offer.uncovered:
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


def _render_ends(body: list[str], rows: int, paint: Paint, *, was_viewed: bool) -> list[str]:
    if len(body) <= rows:
        return body
    last = (rows - 1) // 2
    first = max(0, rows - 1 - last)
    hidden = len(body) - first - last
    count = f"  {paint.ellipsis} {hidden} of {len(body)} lines not shown: "
    says = "viewed" if was_viewed else "press v to view, then y/s/a become active"
    if cell_len(count + says) > paint.width:
        count, says = f"  {paint.ellipsis} {hidden} more: ", "viewed" if was_viewed else "v"
    note = count + says
    return [*body[:first], paint.apply_style(note, paint.theme.warning), *body[len(body) - last :]]


def _render_why(question: Question, paint: Paint, context: CommandContext) -> list[str]:
    rows = _wrap_prose(f"why: {escape(question.verdict.reason)}", paint)
    if len(rows) > WHY_ROWS:
        rows = [*rows[: WHY_ROWS - 1], f"       {paint.ellipsis}"]
    if isinstance(question.preview, Command):
        given = question.call.input
        timeout = given.get("timeout", 120) if isinstance(given, dict) else 120
        where = paint.dot.join((escape(context.workspace), context.sandbox, f"timeout {timeout}s"))
        rows += _wrap_prose(f"in:  {where}", paint)
    return [*(_apply_dim(paint, row) for row in rows), *_render_task(question, paint)[:WHY_ROWS]]


def _render_task(question: Question, paint: Paint) -> list[str]:
    """What the child agent that asks was sent to do; none where no child asks."""
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
