"""The contents of the live region, built from the current state at each drawing."""

import asyncio
from collections.abc import Sequence
from math import ceil
from typing import TYPE_CHECKING

from prompt_toolkit.application import get_app
from prompt_toolkit.enums import EditingMode
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.key_binding.vi_state import InputMode
from prompt_toolkit.output.color_depth import ColorDepth
from prompt_toolkit.styles import BaseStyle, Style
from prompt_toolkit.utils import get_cwidth

from agentcli.types.fast_dataclass import dataclass
from agentcli.types.spending import NO_SPENDING, Spending
from agentcli.ui.render.wording import choose_window_style, format_cost, format_traffic
from agentcli.ui.repl.approval import ApprovalPrompt
from agentcli.ui.repl.composer import Composer
from agentcli.ui.repl.state import ReplState
from agentcli.ui.repl.status import shorten_end
from agentcli.ui.repl.terminal import Terminal

if TYPE_CHECKING:
    from agentcli.agent.prompt_cache import CachedPrompt
    from agentcli.ui.render.theme import Theme
    from agentcli.ui.repl.key_table import KeyTable

# The toolbar: mode, model, context, cost, branch, background commands, as far as they fit


COUNT_EVERY_S = 10.0
HINT_COLUMNS = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolbarFigures:
    mode: str
    vi_mode: str = ""
    """The editing mode within vi; empty if the user does not edit as in vi."""
    is_confined: bool = True
    model: str = ""
    effort: str = ""
    context_tokens: int = 0
    window_tokens: int | None = None
    spending: Spending = NO_SPENDING
    cache: "CachedPrompt | None" = None
    plan: str = ""
    """How far the accepted plan is carried out."""
    branch: str = ""
    background: int = 0
    activities: tuple[str, ...] = ()
    """What features do beside the turns."""
    own_status: str = ""


ToolbarField = tuple[str, str]
"""The name of a style, and a text."""


def build_fields(figures: ToolbarFigures) -> list[ToolbarField]:
    found: list[ToolbarField] = [("mode", figures.mode)]
    if not figures.is_confined:
        found = [("failed", f"{figures.mode}, no sandbox")]
    if figures.vi_mode:
        found.append(("mode", f"vi {figures.vi_mode}"))
    if figures.model:
        effort = f":{figures.effort}" if figures.effort else ""
        found.append(("dim", figures.model.rpartition("/")[2] + effort))
    if figures.plan:
        found.append(("mode", figures.plan))
    found += _format_context(figures)
    found += _format_spending(figures)
    found += format_cache(figures.cache)
    if figures.branch:
        found.append(("dim", figures.branch))
    if figures.background:
        found.append(("dim", f"{figures.background} bg"))
    found += [("accent", activity) for activity in figures.activities]
    if figures.own_status:
        found.append(("dim", figures.own_status))
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


_WARNING_OF_STYLE = {"warning": "!", "failed": "! compact soon"}


def _format_context(figures: ToolbarFigures) -> list[ToolbarField]:
    if not figures.context_tokens or not figures.window_tokens:
        return []
    share = figures.context_tokens / figures.window_tokens
    style = choose_window_style(share, otherwise="dim")
    return [(style, f"ctx {share:.0%}{_WARNING_OF_STYLE.get(style, '')}")]


def _format_spending(figures: ToolbarFigures) -> list[ToolbarField]:
    spending = figures.spending
    if not spending.usage.prompt_tokens:
        return []
    return [("dim", format_traffic(spending.usage) if spending.unpriced else format_cost(spending))]


def format_cache(cached: "CachedPrompt | None") -> list[ToolbarField]:
    """Return how long the provider keeps the prompt, or what the next one costs without it."""
    if cached is None:
        return []
    if cached.left_s > 0:
        return [("dim", f"cache {max(1, ceil(cached.left_s / 60))}m")]
    price = "" if cached.cold_usd is None else f", ${cached.cold_usd:.2f}"
    return [("warning", f"cache cold{price}")]


LOW_ROWS = 12
"""A terminal with fewer rows shows neither the toolbar nor more than a row of the text."""
TAIL_ROWS_MIN = 3
SHELL_ROWS = 3
QUEUE_ROWS = 3
SUBJECT_COLUMNS_MIN = 8
"""The columns for the subject of a waiting question. With fewer, less is said around it."""
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
        state: ReplState,
        approvals: ApprovalPrompt,
        *,
        composer: Composer,
        terminal: Terminal,
    ) -> None:
        self._state = state
        self._approvals = approvals
        self._composer = composer
        self._terminal = terminal
        self._theme: Theme | None = None
        self._style: BaseStyle = Style.from_dict(FIRST_STYLES)

    def find_color_depth(self) -> ColorDepth:
        renderer = self._state.renderer
        return DEPTHS[renderer.depth] if renderer else ColorDepth.DEPTH_1_BIT

    def find_style(self) -> BaseStyle:
        """Return the styles of the theme in use."""
        renderer = self._state.renderer
        if renderer is not None and renderer.theme is not self._theme:
            self._theme = renderer.theme
            self._style = Style.from_dict(renderer.build_live_styles())
        return self._style

    async def count_down(self) -> None:
        """Draw the toolbar again whenever the time that it shows for the cache has changed."""
        shown: list[ToolbarField] = []
        while True:
            await asyncio.sleep(COUNT_EVERY_S)
            session = self._state.session
            before, shown = (
                shown,
                format_cache(session.model_client.find_cached_prompt() if session else None),
            )
            if shown != before:
                self._terminal.redraw()

    def render_live(self, rows: int) -> list[str]:
        """Return the rows of the live region.

        The text continues below what was committed. An empty row separates what is not text.
        """
        below = self._render_below(max(1, rows - 1))
        room = rows - len(below)
        renderer = self._state.renderer
        if room < 1 or renderer is None or self._approvals.is_open:
            return ["", *below] if room > 0 else below
        tail = renderer.transcript.render_tail(min(room - 1, self._count_tail_rows()))
        return [*tail, "", *below]

    def render_toolbar(self) -> StyleAndTextTuples:
        width = self._terminal.size.columns - 2
        if self._terminal.notice:
            return [("class:dim", shorten_end(self._terminal.notice, width))]
        wants_hints = width >= HINT_COLUMNS and self._composer.is_empty
        shown = fit_fields(
            build_fields(self._build_figures()),
            width=width,
            dot=" · ",
            hints=_render_hints(self._state.keys) if wants_hints else "",
        )
        return [(f"class:{style}", text) for style, text in shown]

    def _render_below(self, rows: int) -> list[str]:
        stage, width = self._state.renderer, self._terminal.size.columns - 1
        status = self._render_status_row(width)
        if stage is None:
            return status
        asked = self._state.pending
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
        session = self._state.session
        steered = session.steering.waiting if session else []
        return [
            *_render_waiting(steered, "steering (sent at the next step)"),
            *_render_waiting(self._state.queue, "queued"),
        ]

    def _count_tail_rows(self) -> int:
        rows = self._terminal.size.rows
        return max(TAIL_ROWS_MIN, rows // 3) if rows >= LOW_ROWS else 1

    def _render_shell_rows(self, width: int) -> list[str]:
        output = self._state.shell_output.rstrip("\n")
        lines = output.split("\n")[-SHELL_ROWS:] if output else []
        return [shorten_end(f"  {line}", width) for line in lines]

    def _render_status_row(self, width: int) -> list[str]:
        asked, stage = self._state.pending, self._state.renderer
        if asked is not None and stage is not None and self._approvals.is_waiting:
            what = stage.describe_question(asked)
            rows = [render_waiting_question(what, width, key=self._state.keys["complete"].hint)]
            if self._composer.is_used and self._terminal.size.rows >= LOW_ROWS:
                rows.append(shorten_end("  it opens after you send or clear your message", width))
            return rows
        line = self._state.status.render_line(width)
        return [line] if line else []

    def _build_figures(self) -> ToolbarFigures:
        state = self._state
        session, renderer, options = state.session, state.renderer, state.options
        if session is None or renderer is None:
            return ToolbarFigures(
                mode=state.mode,
                vi_mode=_find_vi_mode(),
                model=options.model,
                branch=options.branch.name,
            )
        return ToolbarFigures(
            mode=state.mode,
            vi_mode=_find_vi_mode(),
            is_confined=session.settings.sandbox != "off",
            model=session.model.name,
            effort=session.model.effort or "",
            context_tokens=renderer.transcript.context_tokens,
            window_tokens=session.model.window_tokens,
            spending=renderer.transcript.tally.spending,
            cache=session.model_client.find_cached_prompt(),
            plan=session.plan_tracker.progress,
            branch=options.branch.name,
            background=state.count_background(),
            activities=tuple(
                filter(None, (one.describe_activity() for one in session.features.values()))
            ),
            own_status=state.own_status,
        )


def _render_hints(keys: "KeyTable") -> str:
    return f"{keys['next_mode'].hint} mode · / commands · {keys['transcript'].hint} transcript"


def _find_vi_mode() -> str:
    """Return the mode of the application that is being drawn: insert, normal or replace."""
    app = get_app()
    if app.editing_mode is not EditingMode.VI:
        return ""
    match app.vi_state.input_mode:
        case InputMode.INSERT | InputMode.INSERT_MULTIPLE:
            return "insert"
        case InputMode.REPLACE | InputMode.REPLACE_SINGLE:
            return "replace"
        case _:
            return "normal"


def _render_waiting(texts: Sequence[str], what: str) -> list[str]:
    """Return the rows above the input for waiting messages, at most three."""
    shown = [f"  {what}: {' '.join(text.split())}" for text in texts[-QUEUE_ROWS:]]
    if len(texts) > QUEUE_ROWS:
        shown[0] = f"  … {len(texts) - QUEUE_ROWS + 1} more {what}"
    return shown


def render_waiting_question(what: str, width: int, *, key: str) -> str:
    """Return the row for a waiting question. Its subject is shortened, not how to answer."""
    before, after = "? Waiting for approval: ", f" ({key} to answer)"
    if width < len(before) + len(after) + SUBJECT_COLUMNS_MIN:
        before = "? "
    return before + shorten_end(what, max(0, width - len(before) - len(after))) + after
