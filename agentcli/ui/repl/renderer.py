"""The renderer of all text of the session, made once the first prompt is on the screen."""

import re
from dataclasses import replace

from rich.color import ColorType
from rich.style import Style

from agentcli.session.session import Session
from agentcli.system.files import shorten_home
from agentcli.types.events import TurnStarted
from agentcli.types.settings import Settings
from agentcli.types.tools import Diff
from agentcli.ui.render.diff import render_diff
from agentcli.ui.render.markdown import MarkdownStream
from agentcli.ui.render.paint import Paint, escape
from agentcli.ui.render.theme import ColorDepth, ColorWhen, Theme
from agentcli.ui.render.wording import format_target, render_exit_summary
from agentcli.ui.repl import transcript_blocks
from agentcli.ui.repl.answer_table import AnswerChoice
from agentcli.ui.repl.approval import PendingApproval, PendingPlan
from agentcli.ui.repl.approval_panel import (
    CommandContext,
    describe_saved_rules,
    render_panel,
    render_plan_panel,
    render_question,
    render_viewed_question,
)
from agentcli.ui.repl.key_table import build_table
from agentcli.ui.repl.status import Status
from agentcli.ui.repl.transcript import LiveTranscript
from agentcli.ui.repl.transcript_blocks import Display, ScreenPainter
from agentcli.ui.stored_changes import count_changes


class TranscriptRenderer:
    def __init__(
        self, painter: ScreenPainter, transcript: LiveTranscript, *, context: CommandContext
    ) -> None:
        self._painter = painter
        self.transcript = transcript
        self._context = context

    @property
    def paint(self) -> Paint:
        """The paint for the current size and theme."""
        return self._painter.paint

    @property
    def theme(self) -> Theme:
        return self._painter.theme

    @property
    def theme_name(self) -> str:
        return self._painter.theme_name

    @property
    def depth(self) -> ColorDepth:
        return self._painter.depth

    def use_theme(self, name: str) -> None:
        self._painter.use_theme(name)

    def say(self, text: str, style: str = "") -> None:
        """Add a block to the transcript."""
        self.transcript.say(self.render_prose(text, style))

    def say_saved_rules(self, pending: PendingApproval, choice: AnswerChoice) -> None:
        for line in describe_saved_rules(pending, choice):
            self.say(line, "dim")

    def build_live_styles(self) -> dict[str, str]:
        """Return the theme in prompt-toolkit's names, for what it draws itself."""
        theme = self.theme
        return {
            "dim": _to_live_style(theme.dim),
            "mode": _to_live_style(theme.strong),
            "warning": _to_live_style(theme.warning),
            "failed": _to_live_style(theme.failed),
            "accent": _to_live_style(theme.accent),
            "atom": _to_live_style(theme.accent),
            "prompt": _to_live_style(theme.strong),
        }

    def apply_style(self, text: str, style: str) -> str:
        return self.paint.apply_style(text, getattr(self.theme, style))

    def render_prose(self, text: str, style: str = "") -> str:
        shown = transcript_blocks.wrap_prose(self.paint, text)
        return transcript_blocks.apply_style(self.paint, shown, style=style) if style else shown

    def render_panel(
        self, pending: PendingApproval | PendingPlan, *, rows: int, takes_keys: bool
    ) -> list[str]:
        if isinstance(pending, PendingPlan):
            return render_plan_panel(
                pending, self.paint, context=self._context, rows=rows, takes_keys=takes_keys
            )
        return render_panel(
            pending, self.paint, context=self._context, rows=rows, takes_keys=takes_keys
        )

    def render_exit_summary(self, session: Session, seconds: float, *, stopped: int) -> list[str]:
        turns = sum(isinstance(fact, TurnStarted) for fact in session.facts)
        if not turns:
            return []
        paths = session.paths
        changed = count_changes(session.facts, sessions=paths.sessions)
        text = render_exit_summary(
            replace(self.transcript.tally, session=paths.id, changed=changed),
            turns=turns,
            duration_s=seconds,
            stopped=stopped,
            resume=f"agentcli --resume {paths.id}",
            log_path=shorten_home(paths.log),
            ascii=self.paint.ascii,
        )
        return ["", *text]

    def render_patch(self, unified: str) -> str:
        """Return a patch of several files, each under its name."""
        paint, shown = self.paint, []
        for piece in re.split(r"^(?=diff --git )", unified, flags=re.MULTILINE):
            if not piece.strip():
                continue
            path = next(iter(re.findall(r"^\+\+\+ (?:b/)?(.+)$", piece, re.MULTILINE)), "")
            hunks = piece[piece.index("--- ") :] if "--- " in piece else ""
            name = piece.split("\n", 1)[0].rpartition(" b/")[2]
            shown.append(paint.apply_style(escape(name), paint.theme.strong))
            if hunks:
                details = Diff(path=path, unified=hunks, added=0, removed=0)
                shown.append(render_diff(details, paint, whole=True).rstrip("\n"))
        return "\n".join(shown)

    def render_markdown(self, text: str) -> str:
        stream = MarkdownStream(self.paint)
        return stream.feed(text) + stream.finish()

    def describe_question(self, pending: PendingApproval | PendingPlan) -> str:
        """Return the subject of a question, in a few words."""
        if isinstance(pending, PendingPlan):
            return "the plan"
        call = pending.question.call
        return f"{call.name} {escape(format_target(call))}"

    def render_question(self, pending: PendingApproval) -> str:
        return render_question(pending, self.paint)

    def render_viewed_question(self, pending: PendingApproval) -> str:
        return render_viewed_question(pending, self.paint)


def _to_live_style(style: Style) -> str:
    words = [word for word in ("bold", "dim", "underline") if getattr(style, word)]
    if style.color is not None:
        named = style.color.type is ColorType.STANDARD
        words.append(f"ansi{style.color.name}" if named else style.color.get_truecolor().hex)
    return " ".join(words)


def build_renderer(
    settings: Settings, *, background: str, color: ColorWhen, display: Display, status: Status
) -> TranscriptRenderer:
    """`background` is the colour as the terminal reports it, or empty."""
    painter = ScreenPainter(settings, display, background=background, color=color)
    keys = build_table(settings.keys)
    return TranscriptRenderer(
        painter,
        LiveTranscript(display, painter, status=status, read_key=keys["transcript"].hint),
        context=CommandContext(workspace=str(settings.workspace), answer_key=keys["complete"].hint),
    )
