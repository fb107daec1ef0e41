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
from agentcli.ui.lines import child_name, child_task, target
from agentcli.ui.render.diff import diff_body
from agentcli.ui.render.escape import escape, escaped
from agentcli.ui.render.paint import Paint, folded, wrapped
from agentcli.ui.repl.answers import Density, answer_rows, shows_rules
from agentcli.ui.repl.approval import Asked

BODY_SHARE = 0.6
WHY_ROWS = 3
ENDS_ROWS = 3
"""Of a call that does not fit: its beginning, how much is not shown, its end."""
DENSITIES: tuple[Density, ...] = ("rows", "flowing", "short")
ROOMY = 60
"""Columns that are enough to say more than that a question waits."""
WAITS = "keys go to your message; tab to answer"


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a command would run, for the line that says so."""

    workspace: str
    confinement: str


def panel(asked: Asked, paint: Paint, *, place: Place, rows: int, takes_keys: bool) -> list[str]:
    """At most `rows` rows. Notes in `asked` what of the question is not among them.

    The answers make room for the call: they stand closer together rather than hide a line of it.
    """
    head, body = _header(asked, paint, takes_keys=takes_keys), body_rows(asked, paint)
    asked.is_cut = False
    why = _why(asked.question, paint, place)
    for density in DENSITIES:
        asked.hides_rules = not shows_rules(asked, paint, density)
        foot = _foot(asked, paint, why, density)
        if len(body) <= _room(paint, rows - len(head) - len(foot)):
            return [*head, *body, *foot]
    asked.is_cut = True
    for density in DENSITIES:
        asked.hides_rules = not shows_rules(asked, paint, density)
        foot = _foot(asked, paint, why, density)
        room = _room(paint, rows - len(head) - len(foot))
        if room >= ENDS_ROWS:
            break
    else:
        foot = answer_rows(asked, paint, density)
        room = _room(paint, rows - len(head) - len(foot))
    body = _ends_of(body, max(1, room), paint, was_viewed=asked.was_viewed)
    return [*head, *body, *foot][:rows]


def _room(paint: Paint, rows: int) -> int:
    return min(int(BODY_SHARE * paint.rows), rows)


def _foot(asked: Asked, paint: Paint, why: list[str], density: Density) -> list[str]:
    if density == "short" and len(why) > 1:
        why = [why[0] + _dim(paint, paint.ellipsis)]
    return [*why, *answer_rows(asked, paint, density)]


def body_rows(asked: Asked, paint: Paint) -> list[str]:
    """All of what would be done, wrapped."""
    match asked.question.preview:
        case Diff() as diff:
            return diff_body(diff, paint, whole=True).rstrip("\n").split("\n")
        case Command(command=command):
            return _command_rows(command, asked, paint)
        case _:
            shown = "\n".join(f"{key}={value}" for key, value in _arguments(asked.question))
            return _wrapped(escaped(shown, paint.theme.strong, mark=paint.theme.escaped), paint)


def whole_text(asked: Asked, paint: Paint) -> str:
    head = _header(asked, paint, takes_keys=True)
    return "\n".join([*head, *_task(asked.question, paint), *body_rows(asked, paint)]) + "\n"


def viewed_text(asked: Asked, paint: Paint) -> str:
    """For a pager: with what the lasting answers would store."""
    lasting = [
        _dim(paint, f"  [{letter}] {what}")
        for letter, what in (("s", asked.offer.session), ("a", ", ".join(asked.offer.rules)))
        if what
    ]
    return whole_text(asked, paint) + "".join(f"\n{row}\n" for row in lasting)


def _header(asked: Asked, paint: Paint, *, takes_keys: bool) -> list[str]:
    """On a second row what does not fit in the first."""
    call = asked.question.call
    index, count = asked.position
    needed = "needs an answer" if asked.question.form else "needs approval"
    note = needed if takes_keys else WAITS if paint.width >= ROOMY else "not yet"
    note += f"  {index} of {count}" if count > 1 else ""
    shown = Text.assemble(("?", paint.theme.warning), " ", (call.name, paint.theme.strong))
    if asked.question.form is not None:
        shown.append(" asks you")
    elif not isinstance(asked.question.preview, Command):
        shown.append(f" {escape(target(call))}")
    if asked.question.child is not None:
        shown.append(f"  {child_name(asked.question.child)}", paint.theme.strong)
    shown.append(f"  {note}", paint.theme.dim)
    return [paint.lines([row]).rstrip("\n") for row in wrapped(shown, paint.width)]


def _command_rows(command: str, asked: Asked, paint: Paint) -> list[str]:
    shown = Text("$ ") + escaped(command, paint.theme.strong, mark=paint.theme.escaped)
    for part in asked.offer.uncovered:
        at = shown.plain.find(part)
        if at >= 0 and part != command.strip():
            shown.stylize("underline", at, at + len(part))
    return _wrapped(shown, paint)


def _wrapped(text: Text, paint: Paint) -> list[str]:
    rows = []
    for index, line in enumerate(text.split("\n", allow_blank=True)):
        for number, piece in enumerate(folded(line, max(4, paint.width - 6))):
            indent = "  " if index == 0 and number == 0 else "    "
            rows.append(indent + paint.lines([piece]).rstrip("\n"))
    return rows


def _ends_of(body: list[str], room: int, paint: Paint, *, was_viewed: bool) -> list[str]:
    if len(body) <= room:
        return body
    last = (room - 1) // 2
    first = max(0, room - 1 - last)
    hidden = len(body) - first - last
    count = f"  {paint.ellipsis} {hidden} of {len(body)} lines not shown: "
    says = "viewed" if was_viewed else "press v to view, then y/s/a become active"
    if cell_len(count + says) > paint.width:
        count, says = f"  {paint.ellipsis} {hidden} more: ", "viewed" if was_viewed else "v"
    note = count + says
    return [*body[:first], paint.styled(note, paint.theme.warning), *body[len(body) - last :]]


def _why(question: Question, paint: Paint, place: Place) -> list[str]:
    rows = _prose(f"why: {escape(question.verdict.reason)}", paint)
    if len(rows) > WHY_ROWS:
        rows = [*rows[: WHY_ROWS - 1], f"       {paint.ellipsis}"]
    if isinstance(question.preview, Command):
        given = question.call.input
        timeout = given.get("timeout", 120) if isinstance(given, dict) else 120
        where = paint.dot.join((escape(place.workspace), place.confinement, f"timeout {timeout}s"))
        rows += _prose(f"in:  {where}", paint)
    return [*(_dim(paint, row) for row in rows), *_task(question, paint)[:WHY_ROWS]]


def _task(question: Question, paint: Paint) -> list[str]:
    """What the child agent that asks was sent to do; none where no child asks."""
    if question.child is None:
        return []
    return [_dim(paint, row) for row in _prose(f"task: {child_task(question.child)}", paint)]


def _prose(text: str, paint: Paint) -> list[str]:
    wrapped = Text(text).wrap(paint.console(), max(8, paint.width - 7))
    return [f"  {'' if index == 0 else '     '}{row.plain}" for index, row in enumerate(wrapped)]


def _arguments(question: Question) -> list[tuple[str, Json]]:
    given = question.call.input
    return list(given.items()) if isinstance(given, dict) else [("input", given)]


def _dim(paint: Paint, text: str) -> str:
    return paint.styled(text, paint.theme.dim)
