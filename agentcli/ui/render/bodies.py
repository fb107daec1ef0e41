"""What stands under a card's header: a diff, the ends of an output, the reason of a refusal."""

from pathlib import Path

from rich.style import Style
from rich.text import Text

from agentcli.machine.plain import plain
from agentcli.types.tools import ChildTurn, Command, Diff, ErrorKind, Raw
from agentcli.types.words import counted
from agentcli.ui.lines import SAID_INSTEAD, short_path
from agentcli.ui.render.card import Card, State
from agentcli.ui.render.diff import diff_body
from agentcli.ui.render.escape import escape, escaped
from agentcli.ui.render.paint import Paint, folded, run, wrapped
from agentcli.ui.render.palette import PLAIN

LAST_LINES = 3
"""Of a command that went well, and of one that is running."""
FAILED_FIRST_LINES, FAILED_LAST_LINES = 2, 10
OTHER_LINES = 5
COMMAND_ROWS = 6
SPARED_LINES = 2
"""So few are shown rather than hidden: the note would take as much room."""


def body(card: Card, paint: Paint, *, is_named: bool) -> str:
    """`is_named`: the header has all of the target."""
    result = card.result
    if card.state is State.DENIED:
        return _reason(card, paint)
    match result.details:
        case Diff() as diff if result.error is None:
            return diff_body(diff, paint, number=card.number)
        case Command() as command:
            return command_line(command.command, paint, is_named=is_named) + _output(
                command, card, paint
            )
        case Raw(text=text) if result.error is None:
            return first_lines(text, card, paint, PLAIN)
        case ChildTurn():
            return first_lines(result.text, card, paint, PLAIN)
        case _ if result.error not in (None, ErrorKind.CANCELLED):
            return first_lines(result.text, card, paint, PLAIN, is_prose=True)
        case _:
            return ""


def command_line(command: str, paint: Paint, *, is_named: bool) -> str:
    """The command itself, where the header had no room for it."""
    if is_named and "\n" not in command.strip():
        return ""
    rows = [
        row
        for index, line in enumerate(command.strip().expandtabs(8).split("\n"))
        for row in _command_rows(line, paint, sign="$ " if index == 0 else "  ")
    ]
    if len(rows) > COMMAND_ROWS:
        hidden = counted(len(rows) - COMMAND_ROWS + 1, "more line")
        rows = [*rows[: COMMAND_ROWS - 1], run(f"  {paint.ellipsis} {hidden}", paint.theme.dim)]
    return paint.lines(rows)


def _command_rows(line: str, paint: Paint, *, sign: str) -> list[Text]:
    shown = escaped(line, PLAIN, mark=paint.theme.escaped)
    first, *more = wrapped(shown, paint.width - 6) if line.strip() else [Text()]
    return [run(f"  {sign}") + first, *(run("      ") + row for row in more)]


def text_rows(
    text: str, paint: Paint, style: Style, *, indent: str = "  ", is_prose: bool = False
) -> list[Text]:
    """Any text, indented and folded, with nothing in it that acts on a terminal.

    `is_prose`: its lines are broken between words."""
    width = max(2, paint.width - len(indent))
    lines = text.rstrip("\n").split("\n") if text else []
    split = wrapped if is_prose else folded
    return [
        run(indent) + part if part.plain else Text()
        for line in lines
        for part in split(
            escaped(line.rstrip().expandtabs(8), style, mark=paint.theme.escaped), width
        )
    ]


def first_lines(
    text: str, card: Card, paint: Paint, style: Style, *, is_prose: bool = False
) -> str:
    lines = plain(text).strip("\n").split("\n") if text.strip() else []
    if len(lines) <= OTHER_LINES + 1:
        return paint.lines(text_rows("\n".join(lines), paint, style, is_prose=is_prose))
    shown = text_rows("\n".join(lines[:OTHER_LINES]), paint, style, is_prose=is_prose)
    return paint.lines([*shown, *hidden_note(len(lines) - OTHER_LINES, card, paint)])


def hidden_note(count: int, card: Card, paint: Paint, *, log_path: str = "") -> list[Text]:
    parts = [f"{counted(count, 'line')} hidden"]
    if card.number is not None:
        parts.append(f"/show {card.number}")
    if log_path:
        parts.append(f"full log {escape(short_path(Path(log_path)))}")
    note = f"{paint.ellipsis} {paint.dot.join(parts)}"
    style = paint.theme.dim + Style(italic=not paint.accessible)
    return wrapped(run(note, style), paint.width, indent="  ")


def _output(command: Command, card: Card, paint: Paint) -> str:
    head = _lines(command.head)
    tail = _lines(command.tail)
    if card.state is State.OK and (tail or len(head) > LAST_LINES + SPARED_LINES):
        first, last = [], (tail or head)[-LAST_LINES:]
    elif tail:
        first, last = head[:FAILED_FIRST_LINES], tail[-FAILED_LAST_LINES:]
    else:
        first, last = head, []
    hidden = max(command.output_lines, len(head) + len(tail)) - len(first) - len(last)
    between = hidden_note(hidden, card, paint, log_path=command.log_path) if hidden > 0 else []
    shown_first = text_rows("\n".join(first), paint, paint.theme.dim if last else PLAIN)
    shown_last = text_rows("\n".join(last), paint, PLAIN)
    left = command.left_running
    pids = ", ".join(map(str, left[:LAST_LINES]))
    note = run(f"still running: pid {pids}" if left else "", paint.theme.warning)
    still = wrapped(note, paint.width, indent="  ") if left else []
    return paint.lines([*shown_first, *between, *shown_last, *still])


def _lines(text: str) -> list[str]:
    return text.split("\n") if text else []


def _reason(card: Card, paint: Paint) -> str:
    """Why, and what would have permitted it; of a person who said no, what they want instead."""
    verdict = card.verdict
    if verdict is not None and verdict.by == "person":
        instead = verdict.reason.partition(SAID_INSTEAD)[2]
        said = run(escape(f"you said: {instead}"), paint.theme.strong)
        return paint.lines(wrapped(said, paint.prose_width, indent="  ")) if instead else ""
    why = verdict.reason if verdict is not None and verdict.decision == "deny" else card.result.said
    text = run(escape(" ".join(why.split())), paint.theme.dim)
    return paint.lines(wrapped(text, paint.prose_width, indent="  "))
