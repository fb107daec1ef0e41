"""The figures of a turn and of a session in the few words people read: time, tokens, money.

Without rich: the toolbar needs it for the first paint.
"""

import locale
from typing import TYPE_CHECKING

from agentcli.types.messages import Usage
from agentcli.types.spending import Spending
from agentcli.types.words import pluralize
from agentcli.ui.tally import Tally

if TYPE_CHECKING:
    from agentcli.ui.render.paint import Paint

QUIET_TURN_S = 5.0


def is_ascii() -> bool:
    """Whether the locale has no more than ASCII to show."""
    return "utf" not in locale.getpreferredencoding(False).lower()


def format_tokens(count: int) -> str:
    """321, 12.3k, 49k, 210k, 1.4M."""
    if count < 1_000:
        return str(count)
    if count < 99_950:
        return f"{count / 1_000:.1f}k".replace(".0k", "k")
    if count < 999_500:
        return f"{count / 1_000:.0f}k"
    return f"{count / 1_000_000:.1f}M".replace(".0M", "M")


def format_traffic(usage: Usage, *, ascii: bool = False) -> str:
    sent, received = ("in ", "out ") if ascii else ("↑", "↓")
    return (
        f"{sent}{format_tokens(usage.prompt_tokens)} {received}{format_tokens(usage.output_tokens)}"
    )


def format_cost(spending: Spending) -> str:
    """What is known of it: two digits, four where two would say nothing."""
    usd = spending.known_usd
    digits = 2 if usd == 0 or usd >= 0.005 else 4
    return f"{spending.estimate_prefix}${usd:.{digits}f}"


def format_elapsed(seconds: float) -> str:
    """Whole units: 38s, 1m 04s, 18m, 2h 05m."""
    minutes, rest = divmod(int(seconds), 60)
    if minutes < 1:
        return f"{rest}s"
    if minutes < 10:
        return f"{minutes}m {rest:02}s"
    return f"{minutes}m" if minutes < 60 else f"{minutes // 60}h {minutes % 60:02}m"


def render_turn_summary(paint: "Paint", tally: Tally, *, tools: int, duration_s: float) -> str:
    """`done in 38s · 3 tools · ↑49k ↓1.3k · $0.12`, or nothing after a short turn without tools."""
    if duration_s <= QUIET_TURN_S and not tools:
        return ""
    facts = [f"done in {format_elapsed(duration_s)}"]
    if tools:
        facts.append(pluralize(tools, "tool"))
    facts += _list_spending(tally, ascii=paint.ascii)
    return paint.apply_style(paint.dot.join(facts), paint.theme.dim) + "\n"


def render_exit_summary(
    tally: Tally,
    *,
    turns: int,
    duration_s: float,
    stopped: int = 0,
    resume: str = "",
    log_path: str = "",
    ascii: bool = False,
) -> list[str]:
    """At most four plain lines. `stopped`: commands that were running; `resume`: how to go on."""
    dot = " - " if ascii else " · "
    first = [f"session {tally.session}" if tally.session else "session", pluralize(turns, "turn")]
    lines = [
        dot.join(
            (*first, format_elapsed(duration_s), *_list_spending(tally, ascii=ascii, cached=True))
        )
    ]
    did = []
    if tally.changed:
        added, removed = map(sum, zip(*tally.changed.values(), strict=True))
        minus = "-" if ascii else "−"
        did.append(f"{pluralize(len(tally.changed), 'file')} changed +{added} {minus}{removed}")
    if stopped:
        did.append(f"{pluralize(stopped, 'command')} still running {_was_or_were(stopped)} stopped")
    if did:
        lines.append(dot.join(did))
    if resume:
        lines.append(f"resume: {resume}")
    if log_path:
        lines.append(f"log:    {log_path}")
    return lines


def _list_spending(tally: Tally, *, ascii: bool, cached: bool = False) -> list[str]:
    usage = tally.usage
    if not usage.prompt_tokens and not usage.output_tokens:
        return []
    flow = format_traffic(usage, ascii=ascii)
    if cached and usage.cache_read_tokens:
        flow += f" (cache {100 * usage.cache_read_tokens // usage.prompt_tokens} %)"
    return [flow] + ([format_cost(tally.spending)] if tally.spending.cost_usd else [])


def _was_or_were(count: int) -> str:
    return "was" if count == 1 else "were"
