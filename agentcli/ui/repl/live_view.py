"""The contents of the live region, built from the current state at each drawing."""

import asyncio

from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.output.color_depth import ColorDepth
from prompt_toolkit.styles import BaseStyle, Style
from prompt_toolkit.utils import get_cwidth

from agentcli.types.fast_dataclass import dataclass
from agentcli.types.spending import NO_SPENDING, Spending
from agentcli.ui.render.wording import format_cost, format_traffic
from agentcli.ui.repl.approval import ApprovalPrompt
from agentcli.ui.repl.composer import Composer
from agentcli.ui.repl.screen import LOW_ROWS
from agentcli.ui.repl.session_manager import ReplOptions, SessionManager
from agentcli.ui.repl.status import Status, shorten_end
from agentcli.ui.repl.terminal import Terminal
from agentcli.ui.repl.turns import Turns, render_waiting_rows

# The toolbar: mode, model, context, cost, branch, background commands, as far as they fit


WARN_PERCENT = 70
SOON_PERCENT = 85
HINT_COLUMNS = 100
TOOLBAR_HINTS = "shift+tab mode · / commands · ctrl+o transcript"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolbarFigures:
    mode: str
    is_confined: bool = True
    model: str = ""
    context_tokens: int = 0
    window_tokens: int | None = None
    spending: Spending = NO_SPENDING
    branch: str = ""
    background: int = 0


ToolbarField = tuple[str, str]
"""The name of a style, and a text."""


def build_fields(figures: ToolbarFigures) -> list[ToolbarField]:
    found: list[ToolbarField] = [("mode", figures.mode)]
    if not figures.is_confined:
        found = [("failed", f"{figures.mode}, no sandbox")]
    if figures.model:
        found.append(("dim", figures.model.rpartition("/")[2]))
    found += _format_context(figures)
    found += _format_spending(figures)
    if figures.branch:
        found.append(("dim", figures.branch))
    if figures.background:
        found.append(("dim", f"{figures.background} bg"))
    return found


def fit_fields(
    found: list[ToolbarField], *, width: int, dot: str, hints: str = ""
) -> list[ToolbarField]:
    """Return the fields that fit, from the left. The mode always stays, shortened if necessary."""
    shown: list[ToolbarField] = []
    used = 0
    for style, text in found:
        wide = get_cwidth(text) + (len(dot) if shown else 0)
        if shown and used + wide > width:
            return shown
        if shown:
            shown.append(("dim", dot))
        shown.append((style, text if wide <= width else text[: max(0, width)]))
        used += wide
    if hints and used + 2 + len(hints) <= width:
        shown.append(("dim", f"  {hints}"))
    return shown


def _format_context(figures: ToolbarFigures) -> list[ToolbarField]:
    if not figures.context_tokens or not figures.window_tokens:
        return []
    percent = round(100 * figures.context_tokens / figures.window_tokens)
    if percent >= SOON_PERCENT:
        return [("failed", f"ctx {percent}%! compact soon")]
    return [
        ("warning", f"ctx {percent}%!") if percent >= WARN_PERCENT else ("dim", f"ctx {percent}%")
    ]


def _format_spending(figures: ToolbarFigures) -> list[ToolbarField]:
    spending = figures.spending
    if not spending.usage.prompt_tokens:
        return []
    return [("dim", format_traffic(spending.usage) if spending.unpriced else format_cost(spending))]


NOTICE_S = 1.5
TAIL_ROWS_MIN = 3
SHELL_ROWS = 3
FIRST_STYLES = {"dim": "dim", "mode": "bold", "atom": "bold", "prompt": "bold"}
"""The styles until the theme is known."""
DEPTHS = {
    "truecolor": ColorDepth.TRUE_COLOR,
    "256": ColorDepth.DEPTH_8_BIT,
    "16": ColorDepth.DEPTH_4_BIT,
    "none": ColorDepth.DEPTH_1_BIT,
}


class LiveView:
    def __init__(
        self,
        *,
        sessions: SessionManager,
        turns: Turns,
        approvals: ApprovalPrompt,
        composer: Composer,
        status: Status,
        terminal: Terminal,
        options: ReplOptions,
    ) -> None:
        self._sessions = sessions
        self._turns = turns
        self._approvals = approvals
        self._composer = composer
        self._status = status
        self._terminal = terminal
        self._branch = options.branch
        self._initial_model = options.model
        self._notice = ""
        self.style: BaseStyle = Style.from_dict(FIRST_STYLES)

    def find_color_depth(self) -> ColorDepth:
        stage = self._sessions.renderer
        return DEPTHS[stage.depth] if stage else ColorDepth.DEPTH_1_BIT

    def apply_theme(self) -> None:
        """Apply the theme after it is known or changed."""
        if self._sessions.renderer is not None:
            self.style = Style.from_dict(self._sessions.renderer.build_live_styles())
        self._terminal.redraw()

    def show_notice(self, text: str, *, seconds: float = NOTICE_S) -> None:
        """Show a notice instead of the toolbar, for a moment or until something is sent."""
        self._notice = text
        self._terminal.redraw()

        def forget() -> None:
            if self._notice == text:
                self._notice = ""
                self._terminal.redraw()

        asyncio.get_running_loop().call_later(seconds, forget)

    def clear_notice(self) -> None:
        self._notice = ""

    def render_live(self, rows: int) -> list[str]:
        """Return the rows of the live region.

        The text continues below what was committed. An empty row separates what is not text.
        """
        below = self._render_below(max(1, rows - 1))
        room = rows - len(below)
        if room < 1 or self._sessions.renderer is None or self._approvals.is_open:
            return ["", *below] if room > 0 else below
        tail = self._sessions.renderer.transcript.render_tail(
            min(room - 1, self._count_tail_rows())
        )
        return [*tail, "", *below]

    def render_toolbar(self) -> StyleAndTextTuples:
        width = self._terminal.size.columns - 2
        if self._notice:
            return [("class:dim", shorten_end(self._notice, width))]
        wants_hints = width >= HINT_COLUMNS and self._composer.is_empty
        shown = fit_fields(
            build_fields(self._build_figures()),
            width=width,
            dot=" · ",
            hints=TOOLBAR_HINTS if wants_hints else "",
        )
        return [(f"class:{style}", text) for style, text in shown]

    def _render_below(self, rows: int) -> list[str]:
        stage, width = self._sessions.renderer, self._terminal.size.columns - 1
        status = self._render_status_row(width)
        if stage is None:
            return status
        asked = self._approvals.pending
        if asked is not None and asked.opened:
            return stage.render_panel(asked, rows=rows, takes_keys=self._approvals.takes_keys)
        queue = [
            stage.apply_style(shorten_end(row, width), "dim") for row in self._render_waiting_rows()
        ]
        room = max(0, rows - len(queue) - len(status))
        doing = [*stage.transcript.render_running(room), *self._render_shell_rows(width)]
        return [
            *(doing[-room:] if room else []),
            *queue,
            *(stage.apply_style(row, "accent") for row in status),
        ]

    def _render_waiting_rows(self) -> list[str]:
        session = self._sessions.session
        steered = session.steering.waiting if session else []
        return [
            *render_waiting_rows(steered, "told at the next step"),
            *self._turns.queue.render_rows(),
        ]

    def _count_tail_rows(self) -> int:
        rows = self._terminal.size.rows
        return max(TAIL_ROWS_MIN, rows // 3) if rows >= LOW_ROWS else 1

    def _render_shell_rows(self, width: int) -> list[str]:
        output = self._turns.shell_output.rstrip("\n")
        lines = output.split("\n")[-SHELL_ROWS:] if output else []
        return [shorten_end(f"  {line}", width) for line in lines]

    def _render_status_row(self, width: int) -> list[str]:
        asked, stage = self._approvals.pending, self._sessions.renderer
        if asked is not None and stage is not None and self._approvals.is_waiting:
            what = stage.describe_question(asked)
            rows = [_waiting_for(what, width)]
            if self._composer.is_used and self._terminal.size.rows >= LOW_ROWS:
                rows.append(shorten_end("  it opens when your message is sent or cleared", width))
            return rows
        line = self._status.render_line(width)
        return [line] if line else []

    def _build_figures(self) -> ToolbarFigures:
        session, stage = self._sessions.session, self._sessions.renderer
        if session is None or stage is None:
            return ToolbarFigures(
                mode=self._sessions.mode, model=self._initial_model, branch=self._branch.name
            )
        return ToolbarFigures(
            mode=self._sessions.mode,
            is_confined=session.settings.sandbox != "off",
            model=session.model.name,
            context_tokens=stage.transcript.context_tokens,
            window_tokens=session.model.window_tokens,
            spending=stage.transcript.tally.spending,
            branch=self._branch.name,
            background=self._sessions.count_background(),
        )


def _waiting_for(what: str, width: int) -> str:
    """Return the row for a waiting question. Its subject is shortened, not how to answer."""
    before, after = "? Waiting for approval: ", " (tab to answer)"
    return shorten_end(
        before + shorten_end(what, max(8, width - len(before) - len(after))) + after, width
    )
