"""The header of a card: one call that has ended, and all that is known about it in words.

Whatever a mark and its colour say, a remark says too.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum

from rich.cells import cell_len, set_cell_size
from rich.style import Style
from rich.text import Text

from agentcli.types.events import CallFinished, CallJudged
from agentcli.types.messages import ToolCall
from agentcli.types.tools import (
    ChildTurn,
    Command,
    Details,
    Diff,
    Effect,
    ErrorKind,
    FileView,
    Matches,
    ToolResult,
)
from agentcli.types.verdicts import Verdict
from agentcli.types.words import pluralize
from agentcli.ui.render.highlight import Highlighter, find_lexer_by_name
from agentcli.ui.render.paint import Paint, escape, make_run, wrap
from agentcli.ui.render.theme import Theme
from agentcli.ui.render.wording import (
    USER_RAN_IT,
    describe_decision,
    format_child_size,
    format_command_ending,
    format_duration,
    format_match_count,
    format_output_size,
    format_view_size,
    read_subject,
    spell_duration,
)


class CardState(Enum):
    """The end of a call: its mark, its mark in ASCII, its word for a screen reader, its style."""

    OK = ("✓", "ok", "Finished", "ok")
    FAILED = ("✗", "FAIL", "Failed", "failed")
    DENIED = ("⊘", "DENY", "Denied", "warning")
    STOPPED = ("■", "STOP", "Stopped", "warning")
    RUNNING = ("●", "*", "Running", "accent")

    def render_mark(self, paint: Paint) -> str:
        sign, letters, word, _ = self.value
        if paint.accessible:
            return str(word)
        return str(letters if paint.ascii else sign)

    def find_style(self, paint: Paint) -> Style:
        style: Style = getattr(paint.theme, self.value[3])
        return style


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """One call that has ended."""

    number: int | None
    """The number that the user asks for it by; None if nobody can ask."""
    call: ToolCall
    judged: CallJudged | None
    """The verdict on the call; None if it never got one."""
    finished: CallFinished

    @property
    def result(self) -> ToolResult:
        return self.finished.result

    @property
    def verdict(self) -> Verdict | None:
        return self.judged.verdict if self.judged else None

    @property
    def state(self) -> CardState:
        details, error = self.result.details, self.result.error
        if error is ErrorKind.DENIED:
            return CardState.DENIED
        if error in (ErrorKind.CANCELLED, ErrorKind.NOT_RUN):
            return CardState.STOPPED
        failed = isinstance(details, Command) and (details.exit_code or details.signal)
        return CardState.FAILED if error is not None or failed else CardState.OK

    @property
    def is_users(self) -> bool:
        """True for a shell command that the user ran without the model."""
        return self.verdict is not None and self.verdict.reason == USER_RAN_IT

    @property
    def subject(self) -> str:
        """The subject of the call; for a patch to several files, their number."""
        if isinstance(self.result.details, Diff) and not isinstance(self.call.input, dict):
            return self.result.details.path
        return read_subject(self.call)


def list_remarks(card: Card, paint: Paint) -> list[Text]:
    """Return the remarks: after a success its size first, after a failure how it failed.

    What decides is in colour: how it ended, and what was added and removed."""
    took = format_time_taken(card.finished.duration_s, paint)
    ending = make_run(escape(_describe_outcome(card, took)), card.state.find_style(paint))
    size, time_taken = _render_size(card, paint), make_run(took, paint.theme.dim)
    others = (_describe_approver(card), _describe_truncation(card))
    rest = [make_run(escape(fact), paint.theme.dim) for fact in others]
    match card.state:
        case CardState.OK:
            found = [size, ending, time_taken, *rest]
        case CardState.FAILED:
            is_timeout = card.result.error is ErrorKind.TIMEOUT
            found = [ending, *([] if is_timeout else [time_taken]), size, *rest]
        case _:
            found = [ending]
    return [fact for fact in found if fact.plain]


def _render_size(card: Card, paint: Paint) -> Text:
    details = card.result.details
    if isinstance(details, Diff) and not details.created:
        return render_line_counts(details.added, details.removed, paint=paint)
    return make_run(escape(_describe_size(card)), paint.theme.dim)


def render_line_counts(added: int, removed: int, *, paint: Paint) -> Text:
    """Return `+2 −1` in the colours of a diff."""
    minus = "-" if paint.ascii else "−"
    plus = make_run(f"+{added}", paint.theme.ok if added else paint.theme.dim)
    less = make_run(f"{minus}{removed}", paint.theme.failed if removed else paint.theme.dim)
    return plus + make_run(" ") + less


def format_time_taken(seconds: float, paint: Paint) -> str:
    return spell_duration(seconds) if paint.accessible else format_duration(seconds)


def _describe_outcome(card: Card, took: str) -> str:
    match card.result.error:
        case None:
            return _describe_unusual_ending(card.result.details)
        case ErrorKind.DENIED:
            return _describe_denial(card)
        case ErrorKind.CANCELLED:
            return f"interrupted after {took}"
        case ErrorKind.TIMEOUT:
            return f"timed out after {took}"
        case ErrorKind.FAILED if isinstance(card.result.details, Command):
            return format_command_ending(card.result.details)
        case error:
            return error.value.replace("_", " ")


def _describe_unusual_ending(details: Details | None) -> str:
    """Return how the command ended, or nothing if all of it succeeded."""
    if not isinstance(details, Command) or (details.exit_code == 0 and not details.pipe):
        return ""
    return format_command_ending(details)


def _describe_denial(card: Card) -> str:
    verdict = card.verdict
    if verdict is None:
        return "denied"
    if verdict.decision != "deny":
        return "result withheld by a hook"
    match verdict.by:
        case "user":
            return describe_decision(replace(verdict, lasts=None, instead=""))
        case "rule":
            return f"denied by rule {verdict.rule or ''}".rstrip()
        case "nobody":
            return "denied: needs approval"
        case "mode":
            return "denied by the mode"
        case by:
            return f"denied by the {by}"


def _describe_size(card: Card) -> str:
    match card.result.details:
        case Diff() as diff:
            return f"new file, {pluralize(diff.added, 'line')}"
        case Command(background_pid=None) as command:
            is_empty = not command.output_lines and command.stored_bytes is None
            return "" if is_empty else format_output_size(command)
        case FileView() as view:
            return _describe_view(view)
        case Matches() as found:
            return format_match_count(found)
        case ChildTurn() as child:
            return format_child_size(child)
        case _:
            return ""


def _describe_view(view: FileView) -> str:
    shown = view.last_line - view.first_line + 1 if view.last_line else 0
    if view.media == "text" and view.total_lines is not None and shown < view.total_lines:
        return f"{shown} of {pluralize(view.total_lines, 'line')}"
    return format_view_size(view)


def _describe_approver(card: Card) -> str:
    """Return who approved the call, if an approval was needed. Reading needs none."""
    judged, verdict = card.judged, card.verdict
    if judged is None or verdict is None or verdict.decision not in ("allow", "modify"):
        return ""
    if verdict.decision == "modify":
        return "changed by you" if verdict.by == "user" else f"changed by a {verdict.by}"
    match verdict.by:
        case "user":
            return "run by you" if card.is_users else "approved by you"
        case "rule":
            return f"rule {(verdict.rule or '').removeprefix('allow ')}".rstrip()
        case "mode":
            return (
                f"{verdict.mode} mode" if verdict.mode and judged.effect is not Effect.READ else ""
            )
        case by:
            return f"approved by a {by}"


def _describe_truncation(card: Card) -> str:
    match card.result.details:
        case Command(stored_bytes=int()):
            return "model saw part of it"
        case Command(output_lines=lines, shown_lines=shown) if shown < lines:
            return f"model saw {shown} of {pluralize(lines, 'line')}" if shown or lines else ""
        case FileView() | Matches() | Command() | Diff():
            return ""
        case _:
            return "model saw part of it" if card.result.truncated else ""


# The header of a card: a mark, the tool, its subject, and the remarks.


MIN_TARGET_CELLS = 12
SHELL_TOOL = "bash"
"""The tool whose calls are commands for a shell."""


def render_card_header(card: Card, paint: Paint) -> tuple[list[Text], bool]:
    """Return the lines, and whether they contain the whole target."""
    return render_header(
        card.state,
        card.call.name,
        target=card.subject,
        remarks=list_remarks(card, paint),
        paint=paint,
    )


def render_header(
    state: CardState, name: str, *, target: str, remarks: Sequence[str | Text], paint: Paint
) -> tuple[list[Text], bool]:
    start = make_run(state.render_mark(paint), state.find_style(paint)) + make_run(" ")
    start += make_run(
        shorten_to_cells(escape(" ".join(name.split())), paint.width // 2, paint=paint),
        paint.theme.strong,
    )
    remarks_text = _join_remarks(remarks, paint)
    target = escape(target)
    room = paint.width - cell_len(start.plain) - 1
    beside = room - cell_len(remarks_text.plain) - 2 if remarks_text else room
    if cell_len(target) <= beside or beside >= MIN_TARGET_CELLS:
        shown = shorten_to_cells(target, beside, paint=paint)
        line = start + _render_target(shown, name, paint=paint) + make_run("  ") + remarks_text
        line.rstrip()
        return [line], shown == target
    shown = shorten_to_cells(target, max(2, room), paint=paint)
    below = wrap(remarks_text, paint.width, indent="  ")
    return [start + _render_target(shown, name, paint=paint), *below], shown == target


def _join_remarks(remarks: Sequence[str | Text], paint: Paint) -> Text:
    dim = paint.theme.dim
    runs = [make_run(escape(it), dim) if isinstance(it, str) else it for it in remarks]
    joined = Text()
    for index, run in enumerate(runs):
        joined += (make_run(paint.dot, dim) if index else Text()) + run
    return joined


def _render_target(shown: str, tool: str, *, paint: Paint) -> Text:
    """Return the target after a blank. A command is in the colours of a shell."""
    if not shown:
        return Text()
    if tool != SHELL_TOOL:
        return make_run(f" {shown}")
    return make_run(" ") + build_shell_highlighter(paint.theme).style_line(shown)


def build_shell_highlighter(theme: Theme) -> Highlighter:
    return Highlighter(find_lexer_by_name("bash"), theme)


def shorten_to_cells(text: str, cells: int, *, paint: Paint) -> str:
    """Shorten in the middle: the beginning names the thing, and the end tells it from others."""
    if cell_len(text) <= cells:
        return text
    room = max(0, cells - len(paint.ellipsis))
    first = set_cell_size(text, (room + 1) // 2)
    last = set_cell_size(text[::-1], room // 2)[::-1]
    return f"{first.rstrip()}{paint.ellipsis}{last.lstrip()}"
