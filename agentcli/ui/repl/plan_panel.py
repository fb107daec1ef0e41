"""The question about a plan as rows of the live region; the plan itself stands above them.

The letters mean what they mean everywhere: y and a agree, n and e do not, m changes it first.
"""

from rich.text import Text

from agentcli.ui.render.paint import Paint
from agentcli.ui.repl.approval import LETTERS, OF_A_PLAN, AskedPlan, Letter
from agentcli.ui.repl.panel import WAITS

_WORDS: dict[Letter, str] = {
    "y": "yes, follow it and ask before each change",
    "a": "yes, follow it and edit files without asking",
    "n": "no, keep planning",
    "e": "no, tell the agent what to change",
    "m": "modify it first, in $EDITOR",
}
_SHORT: dict[Letter, str] = {
    "y": "ask",
    "a": "auto-edit",
    "n": "no",
    "e": "change",
    "m": "edit",
}


def plan_panel(asked: AskedPlan, paint: Paint, *, rows: int, takes_keys: bool) -> list[str]:
    note = "follow it?" if takes_keys else WAITS
    head = f"{paint.styled('?', paint.theme.warning)} {paint.styled('plan', paint.theme.strong)}"
    head += f"  {paint.styled(note, paint.theme.dim)}"
    answers = [_row(asked, letter, paint) for letter in OF_A_PLAN]
    is_narrow = any(len(f"  [{letter}] {words}") > paint.width for letter, words in _WORDS.items())
    if is_narrow or len(answers) >= rows:
        short = " ".join(f"[{letter}]{words}" for letter, words in _SHORT.items())
        answers = [row.plain for row in Text(short).wrap(paint.console(), max(8, paint.width - 2))]
    shown = [head, *answers]
    return shown if len(shown) <= rows else answers[:rows]


def _row(asked: AskedPlan, letter: Letter, paint: Paint) -> str:
    is_selected = asked.selected is not None and LETTERS[asked.selected] == letter
    key = paint.styled(f"[{letter}]", paint.theme.strong)
    enter = (
        paint.styled("  press Enter", paint.theme.dim) if is_selected and asked.awaits_enter else ""
    )
    return f"{'>' if is_selected else ' '} {key} {_WORDS[letter]}{enter}"
