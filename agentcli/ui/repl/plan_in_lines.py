"""The question about a plan where there are only lines: typed answers, and nothing is redrawn."""

from collections.abc import Awaitable, Callable
from pathlib import Path

from agentcli.ui.render.escape import escape
from agentcli.ui.repl.approval import PlanAnswer
from agentcli.ui.repl.outside import edit_text
from agentcli.ui.repl.plan_answers import MODE_BY_LETTER

PLAN_ANSWERS = (
    "y follow it in ask mode, a in auto-edit mode, n not yet, m edit it, or write a change"
)


async def ask_about_plan(
    plan: str,
    *,
    read: Callable[[], Awaitable[str | None]],
    write: Callable[[str], None],
    workspace: Path,
) -> tuple[PlanAnswer | None, str]:
    """The answer and the plan as the person left it. No answer: the person has left."""
    while True:
        write(f"\nplan: {PLAN_ANSWERS}: ")
        line = await read()
        said = (line or "").strip()
        if line is None:
            return None, plan
        if said == "m":
            plan = (await edit_text(plan, suffix=".md", workspace=workspace) or "").strip() or plan
            write(f"{escape(plan)}\n")
        elif said:
            return _parse_plan_answer(said), plan


def _parse_plan_answer(line: str) -> PlanAnswer:
    match line.lower():
        case "y" | "a" as letter:
            return PlanAnswer(mode=MODE_BY_LETTER[letter])
        case "n" | "no":
            return PlanAnswer()
        case _:
            return PlanAnswer(instead=line)
