"""The figures of a turn and of a session in the few words people read: time, tokens, money.

Without rich: the toolbar needs it for the first paint.
"""

import locale
from typing import TYPE_CHECKING

from agentcli.types.messages import Usage
from agentcli.types.spending import Spending
from agentcli.types.words import counted
from agentcli.ui.tally import Tally

if TYPE_CHECKING:
    from agentcli.ui.render.paint import Paint

QUIET_TURN_S = 5.0


def is_ascii() -> bool:
    """Whether the locale has no more than ASCII to show."""
    return "utf" not in locale.getpreferredencoding(False).lower()


def tokens(count: int) -> str:
    """321, 12.3k, 49k, 210k, 1.4M."""
    if count < 1_000:
        return str(count)
    if count < 99_950:
        return f"{count / 1_000:.1f}k".replace(".0k", "k")
    if count < 999_500:
        return f"{count / 1_000:.0f}k"
    return f"{count / 1_000_000:.1f}M".replace(".0M", "M")


def traffic(usage: Usage, *, ascii: bool = False) -> str:
    sent, received = ("in ", "out ") if ascii else ("↑", "↓")
    return f"{sent}{tokens(usage.prompt_tokens)} {received}{tokens(usage.output_tokens)}"


def cost(spending: Spending) -> str:
    """What is known of it: two digits, four where two would say nothing."""
    usd = spending.known_usd
    digits = 2 if usd == 0 or usd >= 0.005 else 4
    return f"{spending.about}${usd:.{digits}f}"


def elapsed(seconds: float) -> str:
    """Whole units: 38s, 1m 04s, 18m, 2h 05m."""
    minutes, rest = divmod(int(seconds), 60)
    if minutes < 1:
        return f"{rest}s"
    if minutes < 10:
        return f"{minutes}m {rest:02}s"
    return f"{minutes}m" if minutes < 60 else f"{minutes // 60}h {minutes % 60:02}m"


def turn_line(paint: "Paint", tally: Tally, *, tools: int, duration_s: float) -> str:
    """`done in 38s · 3 tools · ↑49k ↓1.3k · $0.12`, or nothing after a short turn without tools."""
    if duration_s <= QUIET_TURN_S and not tools:
        return ""
    facts = [f"done in {elapsed(duration_s)}"]
    if tools:
        facts.append(counted(tools, "tool"))
    facts += _spent(tally, ascii=paint.ascii)
    return paint.styled(paint.dot.join(facts), paint.theme.dim) + "\n"


def exit_lines(
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
    first = [f"session {tally.session}" if tally.session else "session", counted(turns, "turn")]
    lines = [dot.join((*first, elapsed(duration_s), *_spent(tally, ascii=ascii, cached=True)))]
    did = []
    if tally.changed:
        added, removed = map(sum, zip(*tally.changed.values(), strict=True))
        minus = "-" if ascii else "−"
        did.append(f"{counted(len(tally.changed), 'file')} changed +{added} {minus}{removed}")
    if stopped:
        did.append(f"{counted(stopped, 'command')} still running {_was(stopped)} stopped")
    if did:
        lines.append(dot.join(did))
    if resume:
        lines.append(f"resume: {resume}")
    if log_path:
        lines.append(f"log:    {log_path}")
    return lines


def _spent(tally: Tally, *, ascii: bool, cached: bool = False) -> list[str]:
    usage = tally.usage
    if not usage.prompt_tokens and not usage.output_tokens:
        return []
    flow = traffic(usage, ascii=ascii)
    if cached and usage.cache_read_tokens:
        flow += f" (cache {100 * usage.cache_read_tokens // usage.prompt_tokens} %)"
    return [flow] + ([cost(tally.spending)] if tally.spending.cost_usd else [])


def _was(count: int) -> str:
    return "was" if count == 1 else "were"
