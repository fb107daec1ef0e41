"""The last row: mode, model, context, cost, branch, background commands; narrow, the left of it."""

from prompt_toolkit.utils import get_cwidth

from agentcli.types.record import dataclass
from agentcli.types.spending import NOTHING, Spending
from agentcli.ui.render.summary import cost, traffic

WARN_PERCENT = 70
SOON_PERCENT = 85
HINT_COLUMNS = 100
HINTS = "shift+tab mode · / commands · ctrl+o transcript"


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    mode: str
    is_confined: bool = True
    model: str = ""
    context_tokens: int = 0
    window_tokens: int | None = None
    spending: Spending = NOTHING
    branch: str = ""
    background: int = 0


Field = tuple[str, str]
"""A style's name and a text."""


def fields(figures: Figures) -> list[Field]:
    found: list[Field] = [("mode", figures.mode)]
    if not figures.is_confined:
        found = [("failed", f"{figures.mode}, no sandbox")]
    if figures.model:
        found.append(("dim", figures.model.rpartition("/")[2]))
    found += _context(figures)
    found += _cost(figures)
    if figures.branch:
        found.append(("dim", figures.branch))
    if figures.background:
        found.append(("dim", f"{figures.background} bg"))
    return found


def fitted(found: list[Field], *, width: int, dot: str, hints: str = "") -> list[Field]:
    """Fields from the left while they fit; at least the mode, cut if need be."""
    shown: list[Field] = []
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


def _context(figures: Figures) -> list[Field]:
    if not figures.context_tokens or not figures.window_tokens:
        return []
    percent = round(100 * figures.context_tokens / figures.window_tokens)
    if percent >= SOON_PERCENT:
        return [("failed", f"ctx {percent}%! compact soon")]
    return [
        ("warning", f"ctx {percent}%!") if percent >= WARN_PERCENT else ("dim", f"ctx {percent}%")
    ]


def _cost(figures: Figures) -> list[Field]:
    spending = figures.spending
    if not spending.usage.prompt_tokens:
        return []
    return [("dim", traffic(spending.usage) if spending.unpriced else cost(spending))]
