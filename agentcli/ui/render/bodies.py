"""What stands under a card's header: a diff, the ends of an output, the reason of a refusal."""

from pathlib import Path

from rich.style import Style
from rich.text import Text

from agentcli.machine.plain import to_plain_text
from agentcli.types.tools import ChildTurn, Command, Diff, ErrorKind, Raw
from agentcli.types.words import pluralize
from agentcli.ui.lines import USER_SAID_INSTEAD, shorten_home
from agentcli.ui.render.card import Card, CardState
from agentcli.ui.render.diff import render_diff
from agentcli.ui.render.escape import escape, style_escaped
from agentcli.ui.render.paint import Paint, fold, make_run, wrap
from agentcli.ui.render.palette import PLAIN

LAST_LINES = 3
"""Of a command that went well, and of one that is running."""
FAILED_FIRST_LINES, FAILED_LAST_LINES = 2, 10
OTHER_LINES = 5
COMMAND_ROWS = 6
SPARED_LINES = 2
"""So few are shown rather than hidden: the note would take as much room."""


def render_body(card: Card, paint: Paint, *, is_named: bool) -> str:
    """`is_named`: the header has all of the target."""
    result = card.result
    if card.state is CardState.DENIED:
        return _render_reason(card, paint)
    match result.details:
        case Diff() as diff if result.error is None:
            return render_diff(diff, paint, number=card.number)
        case Command() as command:
            return render_command(command.command, paint, is_named=is_named) + _render_output(
                command, card, paint
            )
        case Raw(text=text) if result.error is None:
            return render_first_lines(text, card, paint, PLAIN)
        case ChildTurn():
            return render_first_lines(result.text, card, paint, PLAIN)
        case _ if result.error not in (None, ErrorKind.CANCELLED):
            return render_first_lines(result.text, card, paint, PLAIN, is_prose=True)
        case _:
            return ""


def render_command(command: str, paint: Paint, *, is_named: bool) -> str:
    """The command itself, where the header had no room for it."""
    if is_named and "\n" not in command.strip():
        return ""
    rows = [
        row
        for index, line in enumerate(command.strip().expandtabs(8).split("\n"))
        for row in _wrap_command(line, paint, sign="$ " if index == 0 else "  ")
    ]
    if len(rows) > COMMAND_ROWS:
        hidden = pluralize(len(rows) - COMMAND_ROWS + 1, "more line")
        rows = [
            *rows[: COMMAND_ROWS - 1],
            make_run(f"  {paint.ellipsis} {hidden}", paint.theme.dim),
        ]
    return paint.render_lines(rows)


def _wrap_command(line: str, paint: Paint, *, sign: str) -> list[Text]:
    shown = style_escaped(line, PLAIN, escape_style=paint.theme.escaped)
    first, *more = wrap(shown, paint.width - 6) if line.strip() else [Text()]
    return [make_run(f"  {sign}") + first, *(make_run("      ") + row for row in more)]


def render_text(
    text: str, paint: Paint, style: Style, *, indent: str = "  ", is_prose: bool = False
) -> list[Text]:
    """Any text, indented and folded, with nothing in it that acts on a terminal.

    `is_prose`: its lines are broken between words."""
    width = max(2, paint.width - len(indent))
    lines = text.rstrip("\n").split("\n") if text else []
    split = wrap if is_prose else fold
    return [
        make_run(indent) + part if part.plain else Text()
        for line in lines
        for part in split(
            style_escaped(line.rstrip().expandtabs(8), style, escape_style=paint.theme.escaped),
            width,
        )
    ]


def render_first_lines(
    text: str, card: Card, paint: Paint, style: Style, *, is_prose: bool = False
) -> str:
    lines = to_plain_text(text).strip("\n").split("\n") if text.strip() else []
    if len(lines) <= OTHER_LINES + 1:
        return paint.render_lines(render_text("\n".join(lines), paint, style, is_prose=is_prose))
    shown = render_text("\n".join(lines[:OTHER_LINES]), paint, style, is_prose=is_prose)
    return paint.render_lines([*shown, *render_hidden_note(len(lines) - OTHER_LINES, card, paint)])


def render_hidden_note(count: int, card: Card, paint: Paint, *, log_path: str = "") -> list[Text]:
    parts = [f"{pluralize(count, 'line')} hidden"]
    if card.number is not None:
        parts.append(f"/show {card.number}")
    if log_path:
        parts.append(f"full log {escape(shorten_home(Path(log_path)))}")
    note = f"{paint.ellipsis} {paint.dot.join(parts)}"
    style = paint.theme.dim + Style(italic=not paint.accessible)
    return wrap(make_run(note, style), paint.width, indent="  ")


def _render_output(command: Command, card: Card, paint: Paint) -> str:
    head = _split_lines(command.head)
    tail = _split_lines(command.tail)
    if card.state is CardState.OK and (tail or len(head) > LAST_LINES + SPARED_LINES):
        first, last = [], (tail or head)[-LAST_LINES:]
    elif tail:
        first, last = head[:FAILED_FIRST_LINES], tail[-FAILED_LAST_LINES:]
    else:
        first, last = head, []
    hidden = max(command.output_lines, len(head) + len(tail)) - len(first) - len(last)
    between = (
        render_hidden_note(hidden, card, paint, log_path=command.log_path) if hidden > 0 else []
    )
    shown_first = render_text("\n".join(first), paint, paint.theme.dim if last else PLAIN)
    shown_last = render_text("\n".join(last), paint, PLAIN)
    left = command.left_running
    pids = ", ".join(map(str, left[:LAST_LINES]))
    note = make_run(f"still running: pid {pids}" if left else "", paint.theme.warning)
    still = wrap(note, paint.width, indent="  ") if left else []
    return paint.render_lines([*shown_first, *between, *shown_last, *still])


def _split_lines(text: str) -> list[str]:
    return text.split("\n") if text else []


def _render_reason(card: Card, paint: Paint) -> str:
    """Why, and what would have permitted it; of a person who said no, what they want instead."""
    verdict = card.verdict
    if verdict is not None and verdict.by == "person":
        instead = verdict.reason.partition(USER_SAID_INSTEAD)[2]
        said = make_run(escape(f"you said: {instead}"), paint.theme.strong)
        return paint.render_lines(wrap(said, paint.prose_width, indent="  ")) if instead else ""
    why = (
        verdict.reason
        if verdict is not None and verdict.decision == "deny"
        else card.result.unlabelled_text
    )
    text = make_run(escape(" ".join(why.split())), paint.theme.dim)
    return paint.render_lines(wrap(text, paint.prose_width, indent="  "))
