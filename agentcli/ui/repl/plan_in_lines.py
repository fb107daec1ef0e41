"""The question about a plan where there are only lines: typed answers, and nothing is redrawn."""

from collections.abc import Awaitable, Callable
from pathlib import Path

from agentcli.ui.render.escape import escape
from agentcli.ui.repl.approval import PlanAnswer
from agentcli.ui.repl.outside import edited
from agentcli.ui.repl.plan_answers import MODE_OF

ANSWERS = "y follow it in ask mode, a in auto-edit mode, n not yet, m edit it, or write a change"


async def ask_about_plan(
    plan: str,
    *,
    read: Callable[[], Awaitable[str | None]],
    write: Callable[[str], None],
    workspace: Path,
) -> tuple[PlanAnswer | None, str]:
    """The answer and the plan as the person left it. No answer: the person has left."""
    while True:
        write(f"\nplan: {ANSWERS}: ")
        line = await read()
        said = (line or "").strip()
        if line is None:
            return None, plan
        if said == "m":
            plan = (await edited(plan, suffix=".md", workspace=workspace) or "").strip() or plan
            write(f"{escape(plan)}\n")
        elif said:
            return _answer(said), plan


def _answer(said: str) -> PlanAnswer:
    match said.lower():
        case "y" | "a" as letter:
            return PlanAnswer(mode=MODE_OF[letter])
        case "n" | "no":
            return PlanAnswer()
        case _:
            return PlanAnswer(instead=said)
