"""Everything that lays out text for the session, made once the first prompt is on the screen."""

import os
import re
from collections.abc import Callable
from dataclasses import dataclass, replace

from rich.color import ColorType
from rich.style import Style

from agentcli.app.session import Session
from agentcli.settings import Settings
from agentcli.types.events import TurnStarted
from agentcli.types.tools import Diff
from agentcli.ui.lines import short_path, target
from agentcli.ui.render.colour import Colour
from agentcli.ui.render.diff import diff_body
from agentcli.ui.render.escape import escape
from agentcli.ui.render.markdown import MarkdownStream
from agentcli.ui.render.paint import Paint
from agentcli.ui.render.palette import ColorDepth, Theme
from agentcli.ui.render.summary import exit_lines, is_ascii
from agentcli.ui.render.theme import When, choose_theme
from agentcli.ui.repl import phrases
from agentcli.ui.repl.approval import Asked, AskedPlan
from agentcli.ui.repl.panel import Place, panel, viewed_text, whole_text
from agentcli.ui.repl.plan_panel import plan_panel
from agentcli.ui.repl.status import Status
from agentcli.ui.repl.story import Story

Size = tuple[int, int]
"""Columns and rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Looks:
    """How the terminal is, as far as it was told before anything was drawn."""

    background: Colour | None = None
    color: When = "auto"
    accessible: bool = False


class Stage:
    def __init__(
        self,
        settings: Settings,
        *,
        looks: Looks,
        commit: Callable[[str], None],
        size: Callable[[], Size],
        status: Status,
        place: Place,
    ) -> None:
        self._looks = looks
        self._size = size
        self._place = place
        self._diff_colors = settings.diff_colors
        self._painted: tuple[Size, str] | None = None
        self.theme_name: str = settings.theme
        self.theme, self.depth = self._chosen()
        self._paint = self._fresh_paint()
        self.story = Story(commit=commit, paint=lambda: self.paint, status=status)

    @property
    def paint(self) -> Paint:
        """For the terminal as it is now."""
        if self._painted != (self._size(), self.theme_name):
            self._paint = self._fresh_paint()
            if hasattr(self, "story"):
                self.story.resized()
        return self._paint

    def use_theme(self, name: str) -> None:
        self.theme_name = name
        self.theme, self.depth = self._chosen()
        self.story.resized()

    def live_styles(self) -> dict[str, str]:
        """The theme in prompt-toolkit's words, for what it draws itself."""
        theme = self.theme
        return {
            "dim": _live_style(theme.dim),
            "mode": _live_style(theme.strong),
            "warning": _live_style(theme.warning),
            "failed": _live_style(theme.failed),
            "atom": _live_style(theme.accent),
            "prompt": _live_style(theme.strong),
        }

    def ink(self, text: str, style: str) -> str:
        return self.paint.styled(text, getattr(self.theme, style))

    def prose(self, text: str, style: str = "") -> str:
        shown = phrases.prose(self.paint, text)
        return phrases.styled(self.paint, shown, style) if style else shown

    def panel(self, asked: Asked | AskedPlan, *, rows: int, takes_keys: bool) -> list[str]:
        if isinstance(asked, AskedPlan):
            return plan_panel(asked, self.paint, rows=rows, takes_keys=takes_keys)
        return panel(asked, self.paint, place=self._place, rows=rows, takes_keys=takes_keys)

    def last_words(self, session: Session, seconds: float, *, stopped: int) -> list[str]:
        turns = sum(isinstance(fact, TurnStarted) for fact in session.facts)
        if not turns:
            return []
        place = session.place
        said = exit_lines(
            replace(self.story.tally, session=place.id),
            turns=turns,
            duration_s=seconds,
            stopped=stopped,
            resume=f"agentcli --resume {place.id}",
            log_path=short_path(place.log),
            ascii=self.paint.ascii,
        )
        return ["", *said]

    def patch(self, unified: str) -> str:
        """A patch of several files, each under its name."""
        paint, shown = self.paint, []
        for piece in re.split(r"^(?=diff --git )", unified, flags=re.MULTILINE):
            if not piece.strip():
                continue
            path = next(iter(re.findall(r"^\+\+\+ (?:b/)?(.+)$", piece, re.MULTILINE)), "")
            hunks = piece[piece.index("--- ") :] if "--- " in piece else ""
            name = piece.split("\n", 1)[0].rpartition(" b/")[2]
            shown.append(paint.styled(escape(name), paint.theme.strong))
            if hunks:
                details = Diff(path=path, unified=hunks, added=0, removed=0)
                shown.append(diff_body(details, paint, whole=True).rstrip("\n"))
        return "\n".join(shown)

    def markdown(self, text: str) -> str:
        stream = MarkdownStream(self.paint)
        return stream.feed(text) + stream.finish()

    def question(self, asked: Asked | AskedPlan) -> str:
        """What is asked about, in a few words."""
        if isinstance(asked, AskedPlan):
            return "the plan"
        call = asked.question.call
        return f"{call.name} {escape(target(call))}"

    def whole_question(self, asked: Asked) -> str:
        return whole_text(asked, self.paint)

    def viewed_question(self, asked: Asked) -> str:
        return viewed_text(asked, self.paint)

    def _chosen(self) -> tuple[Theme, ColorDepth]:
        return choose_theme(
            self.theme_name,
            self._looks.background,
            os.environ,
            True,
            color=self._looks.color,
            diff=self._diff_colors,
        )

    def _fresh_paint(self) -> Paint:
        columns, rows = self._size()
        self._painted = (self._size(), self.theme_name)
        return Paint(
            columns=columns,
            rows=rows,
            theme=self.theme,
            color=self.depth,
            ascii=is_ascii(),
            accessible=self._looks.accessible,
        )


def _live_style(style: Style) -> str:
    words = [word for word in ("bold", "dim", "underline") if getattr(style, word)]
    if style.color is not None:
        named = style.color.type is ColorType.STANDARD
        words.append(f"ansi{style.color.name}" if named else style.color.get_truecolor().hex)
    return " ".join(words)


def make_stage(
    settings: Settings,
    *,
    background: Colour | None,
    color: When,
    commit: Callable[[str], None],
    size: Callable[[], Size],
    status: Status,
) -> Stage:
    confinement = "no sandbox" if settings.sandbox == "off" else "sandboxed, network off"
    return Stage(
        settings,
        looks=Looks(background=background, color=color, accessible=settings.accessible),
        commit=commit,
        size=size,
        status=status,
        place=Place(workspace=str(settings.workspace), confinement=confinement),
    )
