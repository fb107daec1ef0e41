"""An open question as rows of the live region: what would happen, why it is asked, the answers.

All of the command and all of the diff, wrapped and never clipped; where that does not fit, its
beginning and its end, and the question knows that something is not shown.
"""

from dataclasses import dataclass

from rich.cells import cell_len
from rich.text import Text

from agentcli.settings import rules_file
from agentcli.types.messages import Json
from agentcli.types.tools import Command, Diff
from agentcli.types.verdicts import Question
from agentcli.ui.lines import target
from agentcli.ui.render.diff import diff_body
from agentcli.ui.render.escape import escape, escaped
from agentcli.ui.render.paint import Paint, folded
from agentcli.ui.repl.approval import LETTERS, Asked, Letter

BODY_SHARE = 0.6
LOW_ROWS = 13
WHY_ROWS = 3

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
    "y": "once",
    "s": "session",
    "a": "always",
    "n": "no",
    "e": "instead",
    "v": "view",
    "m": "modify",
}
"""Where the terminal is too low for a row each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a command would run, for the line that says so."""

    workspace: str
    confinement: str


def panel(asked: Asked, paint: Paint, *, place: Place, rows: int, takes_keys: bool) -> list[str]:
    """At most `rows` rows. Notes in `asked` whether all of the call is among them."""
    head, body = [_header(asked, paint)], body_rows(asked, paint)
    asked.is_cut = False
    foot = _foot(asked, paint, place=place, is_low=rows < LOW_ROWS, takes_keys=takes_keys)
    room = min(int(BODY_SHARE * paint.rows), rows - len(head) - len(foot))
    asked.is_cut = len(body) > room
    if asked.is_cut:
        foot = _foot(asked, paint, place=place, is_low=rows < LOW_ROWS, takes_keys=takes_keys)
        body = _ends_of(body, max(1, room), paint, was_viewed=asked.was_viewed)
    return [*head, *body, *foot][:rows]


def _foot(asked: Asked, paint: Paint, *, place: Place, is_low: bool, takes_keys: bool) -> list[str]:
    why = _why(asked.question, paint, place)
    foot = [*why[: 1 if is_low else None], *_answers(asked, paint, is_low=is_low)]
    if not takes_keys:
        foot.append(_dim(paint, "  keys go to your message until you pause"))
    return foot


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
    """For a pager."""
    return "\n".join([_header(asked, paint), *body_rows(asked, paint)]) + "\n"


def _header(asked: Asked, paint: Paint) -> str:
    call = asked.question.call
    index, count = asked.position
    of = f"  {index} of {count}" if count > 1 else ""
    path = "" if isinstance(asked.question.preview, Command) else f" {escape(target(call))}"
    mark = paint.styled("?", paint.theme.warning)
    name = paint.styled(call.name, paint.theme.strong)
    return f"{mark} {name}{path}  " + paint.styled(f"needs approval{of}", paint.theme.dim)


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
    last = (room - 1) // 2
    first = max(0, room - 1 - last)
    hidden = len(body) - first - last
    says = "press v to view, then y/s/a become active" if not was_viewed else "viewed"
    note = f"  {paint.ellipsis} {hidden} of {len(body)} lines not shown: {says}"
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
    return [_dim(paint, row) for row in rows]


def _prose(text: str, paint: Paint) -> list[str]:
    wrapped = Text(text).wrap(paint.console(), max(8, paint.width - 7))
    return [f"  {'' if index == 0 else '     '}{row.plain}" for index, row in enumerate(wrapped)]


def _answers(asked: Asked, paint: Paint, *, is_low: bool) -> list[str]:
    if is_low:
        shown = [f"[{letter}] {_SHORT[letter]}" for letter in LETTERS if asked.offers(letter)]
        return _prose("  ".join(shown), paint)
    rows = [_answer(asked, letter, paint) for letter in LETTERS[:5]]
    last = "   ".join(_answer(asked, letter, paint).strip() for letter in LETTERS[5:])
    return ["", *rows, f"  {last}"]


def _answer(asked: Asked, letter: Letter, paint: Paint) -> str:
    is_selected = asked.selected is not None and LETTERS[asked.selected] == letter
    words = f"[{letter}] {_WORDS[letter]}"
    note = _note(asked, letter)
    if not asked.offers(letter):
        return _dim(paint, f"  {words}  {note}".rstrip())
    key = paint.styled(f"[{letter}]", paint.theme.strong)
    shown = f"{'>' if is_selected else ' '} {key} {_WORDS[letter]}"
    room = paint.width - cell_len(f"  {words}  ")
    if note and room > 8:
        shown += "  " + _dim(paint, note if cell_len(note) <= room else note[: room - 1] + "…")
    return shown


def _note(asked: Asked, letter: Letter) -> str:
    if asked.is_locked and letter in ("y", "s", "a", "m"):
        return "view it first" if letter in ("y", "s", "a") else ""
    if why_not := asked.offer.why_not(letter):
        return f"not offered: {escape(why_not)}"
    if letter == "s":
        return escape(asked.offer.session)
    if letter != "a":
        return ""
    return escape(f"saves: allow {', '.join(asked.offer.rules)} in {rules_file().name}")


def _arguments(question: Question) -> list[tuple[str, Json]]:
    given = question.call.input
    return list(given.items()) if isinstance(given, dict) else [("input", given)]


def _dim(paint: Paint, text: str) -> str:
    return paint.styled(text, paint.theme.dim)
