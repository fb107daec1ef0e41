"""The question about a plan as rows of the live region; the plan itself stands above them.

The letters mean what they mean everywhere: y and a agree, n and e do not, m changes it first.
"""

from rich.text import Text

from agentcli.ui.render.paint import Paint
from agentcli.ui.repl.approval import LETTERS, PLAN_LETTERS, Letter, PendingPlan
from agentcli.ui.repl.panel import WAITING_NOTE

_PLAN_LABELS: dict[Letter, str] = {
    "y": "yes, follow it and ask before each change",
    "a": "yes, follow it and edit files without asking",
    "n": "no, keep planning",
    "e": "no, tell the agent what to change",
    "m": "modify it first, in $EDITOR",
}
_SHORT_PLAN_LABELS: dict[Letter, str] = {
    "y": "ask",
    "a": "auto-edit",
    "n": "no",
    "e": "change",
    "m": "edit",
}


def render_plan_panel(
    pending: PendingPlan, paint: Paint, *, rows: int, takes_keys: bool
) -> list[str]:
    note = "follow it?" if takes_keys else WAITING_NOTE
    head = (
        f"{paint.apply_style('?', paint.theme.warning)} "
        f"{paint.apply_style('plan', paint.theme.strong)}"
    )
    head += f"  {paint.apply_style(note, paint.theme.dim)}"
    answers = [_render_plan_answer(pending, letter, paint) for letter in PLAN_LETTERS]
    is_narrow = any(
        len(f"  [{letter}] {words}") > paint.width for letter, words in _PLAN_LABELS.items()
    )
    if is_narrow or len(answers) >= rows:
        short = " ".join(f"[{letter}]{words}" for letter, words in _SHORT_PLAN_LABELS.items())
        answers = [
            row.plain for row in Text(short).wrap(paint.build_console(), max(8, paint.width - 2))
        ]
    shown = [head, *answers]
    return shown if len(shown) <= rows else answers[:rows]


def _render_plan_answer(pending: PendingPlan, letter: Letter, paint: Paint) -> str:
    is_selected = pending.selected is not None and LETTERS[pending.selected] == letter
    key = paint.apply_style(f"[{letter}]", paint.theme.strong)
    enter = (
        paint.apply_style("  press Enter", paint.theme.dim)
        if is_selected and pending.awaits_enter
        else ""
    )
    return f"{'>' if is_selected else ' '} {key} {_PLAN_LABELS[letter]}{enter}"
