"""Finished and running calls as cards: a header in words and a body, from typed details alone.

Cards are numbered in the order they finish. A card counts what it hides, and `/show` shows it.
Consecutive calls that only read become one line; until then they are held back.
"""

from itertools import groupby
from pathlib import Path

from rich.style import Style
from rich.text import Text

from agentcli.system.files import shorten_home
from agentcli.system.plain_text import to_plain_text
from agentcli.types.errors import UsageError
from agentcli.types.events import CallFinished, CallJudged
from agentcli.types.messages import Document, Image, ToolCall
from agentcli.types.tools import ChildTurn, Command, Diff, ErrorKind, FileView, Matches, Raw
from agentcli.types.words import format_bytes, pluralize
from agentcli.ui.render.card_header import (
    Card,
    CardState,
    build_shell_highlighter,
    format_time_taken,
    render_card_header,
    render_header,
)
from agentcli.ui.render.diff import render_diff
from agentcli.ui.render.paint import Paint, escape, fold, make_run, style_escaped, wrap
from agentcli.ui.render.theme import PLAIN
from agentcli.ui.render.wording import (
    format_duration,
    read_subject,
)

# The body of a card: a diff, the ends of an output, or the reason of a refusal.


LAST_LINES = 3
"""The lines shown of a command that succeeded, and of one that is running."""
FAILED_FIRST_LINES, FAILED_LAST_LINES = 2, 10
OTHER_LINES = 5
INDENT = "  "
COMMAND_ROWS = 6
USER_LINES = 200
"""The lines shown of a command that the user ran: they ran it to read its output."""
SPARED_LINES = 2
"""The number of lines not worth hiding: the note about them would take as many."""


def render_body(card: Card, paint: Paint, *, is_named: bool) -> str:
    """Render what follows the header. `is_named` says that the header has the whole target."""
    result = card.result
    if card.state is CardState.DENIED:
        return _render_reason(card, paint)
    match result.details:
        case Diff() as diff if result.error is None:
            return render_diff(diff, paint, number=card.number)
        case Command() as command:
            return render_command(command.command, paint, is_named=is_named) + _render_output(
                command, card, paint=paint
            )
        case Raw(text=text) if result.error is None:
            return render_first_lines(text, card, paint=paint, style=PLAIN)
        case ChildTurn():
            return render_first_lines(result.text, card, paint=paint, style=PLAIN)
        case _ if result.error not in (None, ErrorKind.CANCELLED):
            return render_first_lines(result.text, card, paint=paint, style=PLAIN, is_prose=True)
        case _:
            return ""


def render_command(command: str, paint: Paint, *, is_named: bool) -> str:
    """Render the command itself, if the header had no space for it."""
    if is_named and "\n" not in command.strip():
        return ""
    shell = build_shell_highlighter(paint.theme)
    rows = [
        row
        for index, line in enumerate(command.strip().expandtabs(8).split("\n"))
        for row in _wrap_command(shell.style_line(line), paint, sign="  " if index else "$ ")
    ]
    if len(rows) > COMMAND_ROWS:
        hidden = pluralize(len(rows) - COMMAND_ROWS + 1, "more line")
        rows = [
            *rows[: COMMAND_ROWS - 1],
            make_run(f"  {paint.ellipsis} {hidden}", paint.theme.dim),
        ]
    return paint.render_lines(rows)


def _wrap_command(line: Text, paint: Paint, *, sign: str) -> list[Text]:
    first, *more = wrap(line, paint.width - 6) if line.plain.strip() else [Text()]
    return [make_run(f"  {sign}") + first, *(make_run("      ") + row for row in more)]


def render_text(
    text: str, paint: Paint, *, style: Style, is_prose: bool = False, is_final: bool = False
) -> list[Text]:
    """Return any text, indented and folded, with nothing in it that acts on a terminal.

    With `is_prose` its lines are broken between words. With `is_final` they are not broken: the
    terminal wraps them, so that they can be copied, but they cannot be drawn again.
    """
    width = max(2, paint.width - len(INDENT))
    lines = text.rstrip("\n").split("\n") if text else []
    split = _keep_whole if is_final else wrap if is_prose else fold
    return [
        make_run(INDENT) + part if part.plain else Text()
        for line in lines
        for part in split(
            style_escaped(line.rstrip().expandtabs(8), style, escape_style=paint.theme.escaped),
            width,
        )
    ]


def _render_first_row(line: str, paint: Paint) -> Text:
    """Return one row for a line, cut off with an ellipsis if it is longer."""
    rows = render_text(line, paint, style=paint.theme.dim) or [Text()]
    if len(rows) == 1:
        return rows[0]
    first = rows[0]
    first.right_crop(len(paint.ellipsis))
    return first + make_run(paint.ellipsis, paint.theme.dim)


def _keep_whole(line: Text, width: int) -> list[Text]:
    return [line]


def render_first_lines(
    text: str, card: Card, *, paint: Paint, style: Style, is_prose: bool = False
) -> str:
    lines = to_plain_text(text).strip("\n").split("\n") if text.strip() else []
    if len(lines) <= OTHER_LINES + 1:
        return paint.render_lines(
            render_text("\n".join(lines), paint, style=style, is_prose=is_prose)
        )
    shown = render_text("\n".join(lines[:OTHER_LINES]), paint, style=style, is_prose=is_prose)
    return paint.render_lines(
        [*shown, *render_hidden_note(len(lines) - OTHER_LINES, card, paint=paint)]
    )


def render_hidden_note(
    count: int, card: Card, *, paint: Paint, command: Command | None = None
) -> list[Text]:
    """Render how much is hidden, and where it is. `command` is that of a hidden output."""
    parts, extent = [f"{pluralize(count, 'line')} hidden"], "full log"
    if command and command.stored_bytes is not None:
        parts, extent = ["part of it hidden"], f"first {format_bytes(command.stored_bytes)} in"
    if card.number is not None:
        parts.append(f"/show {card.number}")
    if command and command.log_path:
        parts.append(f"{extent} {escape(shorten_home(Path(command.log_path)))}")
    note = f"{paint.ellipsis} {paint.dot.join(parts)}"
    style = paint.theme.dim + Style(italic=not paint.accessible)
    return wrap(make_run(note, style), paint.width, indent="  ")


def _render_output(command: Command, card: Card, *, paint: Paint) -> str:
    head = _split_lines(command.head)
    tail = _split_lines(command.tail)
    first: list[str]
    if card.is_users:
        first, last = [], head[-USER_LINES:]
    elif card.state is CardState.OK and (tail or len(head) > LAST_LINES + SPARED_LINES):
        first, last = [], (tail or head)[-LAST_LINES:]
    elif tail:
        first, last = head[:FAILED_FIRST_LINES], tail[-FAILED_LAST_LINES:]
    else:
        first, last = head, []
    hidden = max(command.output_lines, len(head) + len(tail)) - len(first) - len(last)
    between = render_hidden_note(hidden, card, paint=paint, command=command) if hidden > 0 else []
    quiet = paint.theme.dim if last else PLAIN
    shown_first = render_text("\n".join(first), paint, style=quiet, is_final=True)
    shown_last = render_text("\n".join(last), paint, style=PLAIN, is_final=True)
    left = command.left_running
    pids = ", ".join(map(str, left[:LAST_LINES]))
    note = make_run(f"still running: pid {pids}" if left else "", paint.theme.warning)
    still = wrap(note, paint.width, indent="  ") if left else []
    return paint.render_lines([*shown_first, *between, *shown_last, *still])


def _split_lines(text: str) -> list[str]:
    return text.split("\n") if text else []


def _render_reason(card: Card, paint: Paint) -> str:
    """Render why a call was denied, and what would have permitted it.

    If the user said no, render what they want instead.
    """
    verdict = card.verdict
    if verdict is not None and verdict.by == "user":
        if not verdict.instead:
            return ""
        line = make_run(escape(f"you said: {verdict.instead}"), paint.theme.strong)
        return paint.render_lines(wrap(line, paint.prose_width, indent="  "))
    why = (
        verdict.reason
        if verdict is not None and verdict.decision == "deny"
        else card.result.unlabelled_text
    )
    text = make_run(escape(" ".join(why.split())), paint.theme.dim)
    return paint.render_lines(wrap(text, paint.prose_width, indent="  "))


FOLDED_NAMES = 2
"""The number of files that a folded line names."""
SHOWN_LOG_BYTES = 1_000_000
CHILD_TOOL = "delegate"
"""The tool whose calls are child agents."""


class CardRenderer:
    def __init__(self, paint: Paint, *, numbered: bool = True) -> None:
        """`numbered` says that there is a user who can ask for a card."""
        self._paint = paint
        self._is_numbered = numbered
        self._cards: list[Card] = []
        self._held: list[Card] = []

    def set_paint(self, paint: Paint) -> None:
        """Use this paint for what follows, such as after a resize."""
        self._paint = paint

    def add_finished(
        self, judged: CallJudged | None, finished: CallFinished, *, call: ToolCall | None = None
    ) -> str:
        """Return the text to commit now; empty while read-only calls are held back to be folded.

        It ends with a newline, and has an empty line between two cards. `call` is the request, for
        a call that was never judged.
        """
        result = finished.result
        asked = judged.call if judged else call
        card = Card(
            number=len(self._cards) + 1 if self._is_numbered else None,
            call=asked or ToolCall(id=result.call_id, name=result.name, input=None),
            judged=judged,
            finished=finished,
        )
        self._cards.append(card)
        if not _is_quiet(card):
            return "\n".join(part for part in (self.flush(), self._render_card(card)) if part)
        self._held.append(card)
        return ""

    def render_held(self) -> str:
        """Return the calls held back, a line for each kind in a row; empty if there are none."""
        groups = (list(group) for _, group in groupby(self._held, lambda card: card.call.name))
        return "".join(
            self._render_folded(group) if len(group) > 1 else self._render_card(group[0])
            for group in groups
        )

    def flush(self) -> str:
        """Return what is held back, and forget it. Call this before anything that is not a card."""
        shown = self.render_held()
        self._held = []
        return shown

    def render_running(self, call: ToolCall, elapsed_s: float, *, last_lines: str = "") -> str:
        """Return a call that has not ended, for the live region: a header and its latest output.

        For a child agent the output goes into the header, because several of them work at the same
        time.
        """
        paint = self._paint
        took = format_duration(elapsed_s) if elapsed_s >= 60 else f"{elapsed_s:.0f}s"
        if call.name == CHILD_TOOL:
            remarks = [took, *to_plain_text(last_lines).strip().split("\n")[-1:]]
            lines, _ = render_header(
                CardState.RUNNING,
                call.name,
                target=read_subject(call),
                remarks=remarks,
                paint=paint,
            )
            return paint.render_lines(lines)
        lines, _ = render_header(
            CardState.RUNNING, call.name, target=read_subject(call), remarks=[took], paint=paint
        )
        latest = to_plain_text(last_lines).rstrip("\n").split("\n")[-LAST_LINES:]
        rows = [_render_first_row(line, paint) for line in latest] if last_lines else []
        return paint.render_lines([*lines, *rows])

    def render_card(self, number: int, *, for_model: bool = False) -> str:
        """Return the whole card, or exactly the text the model got.

        Raise UsageError if there is none.
        """
        if not 1 <= number <= len(self._cards):
            hint = f"cards are numbered 1 to {len(self._cards)}" if self._cards else ""
            raise UsageError(f"there is no card {number}", hint=hint)
        card = self._cards[number - 1]
        return _render_for_model(card) if for_model else self._render_whole(card)

    def _render_card(self, card: Card) -> str:
        lines, is_named = render_card_header(card, self._paint)
        return self._paint.render_lines(lines) + render_body(card, self._paint, is_named=is_named)

    def _render_folded(self, cards: list[Card]) -> str:
        names = [card.subject for card in cards]
        named = ", ".join(dict.fromkeys(names[:FOLDED_NAMES]))
        more = f", +{len(cards) - FOLDED_NAMES}" if len(cards) > FOLDED_NAMES else ""
        is_reading = isinstance(cards[0].result.details, FileView)
        count = f"{len(cards)} {'files' if is_reading else 'searches'}"
        took = format_time_taken(sum(card.finished.duration_s for card in cards), self._paint)
        target = f"{count}  {named}{more}"
        lines, _ = render_header(
            CardState.OK, cards[0].call.name, target=target, remarks=[took], paint=self._paint
        )
        return self._paint.render_lines(lines)

    def _render_whole(self, card: Card) -> str:
        lines, is_named = render_card_header(card, self._paint)
        shown = self._paint.render_lines(lines)
        match card.result.details:
            case Diff() as diff:
                return shown + render_diff(diff, self._paint, whole=True)
            case Command() as command:
                called = render_command(command.command, self._paint, is_named=is_named)
                return shown + called + self._render_text(_read_output(command))
            case Raw(text=text):
                return shown + self._render_text(text)
            case _:
                return shown + self._render_text(card.result.text)

    def _render_text(self, text: str) -> str:
        rows = render_text(to_plain_text(text), self._paint, style=PLAIN, is_final=True)
        return self._paint.render_lines(rows)


def _is_quiet(card: Card) -> bool:
    """Return whether it has nothing to say beyond its header."""
    return card.state is CardState.OK and isinstance(card.result.details, FileView | Matches)


def _read_output(command: Command) -> str:
    """Return all output of the command, or the end of it, or the part that the card has."""
    output = "\n".join(part for part in (command.head, command.tail) if part)
    if not command.log_path:
        return output
    try:
        with Path(command.log_path).open("rb") as log:
            size_bytes = log.seek(0, 2)
            log.seek(max(0, size_bytes - SHOWN_LOG_BYTES))
            text = log.read(SHOWN_LOG_BYTES).decode("utf-8", "replace")
    except OSError as error:
        return f"{output}\n[{command.log_path} cannot be read: {error.strerror}]"
    if size_bytes <= SHOWN_LOG_BYTES:
        return text
    note = f"[the last {SHOWN_LOG_BYTES} of {size_bytes} bytes; all of it: {command.log_path}]"
    return f"{note}\n{text}"


def _render_for_model(card: Card) -> str:
    """Return the text as the model got it: not folded, not styled.

    Only characters that a terminal cannot show are escaped.
    """
    notes = "".join(
        f"[{block.media_type} {block.type}]\n"
        for block in card.result.content
        if isinstance(block, Image | Document)
    )
    text = escape(card.result.text)
    return text + ("\n" if text and not text.endswith("\n") else "") + notes
