"""The last row: mode, model, context, cost, branch, background commands; narrow, the left of it."""

from prompt_toolkit.utils import get_cwidth

from agentcli.types.record import dataclass
from agentcli.types.spending import NO_SPENDING, Spending
from agentcli.ui.render.summary import format_cost, format_traffic

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
"""A style's name and a text."""


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
    """Fields from the left while they fit; at least the mode, cut if need be."""
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
