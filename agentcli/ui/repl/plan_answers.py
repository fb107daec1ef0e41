"""What a person can answer to the question about a plan, and what comes of it."""

from typing import TYPE_CHECKING

from agentcli.ui.repl.approval import AskedPlan, Letter, PlanAnswer
from agentcli.ui.repl.desk import Desk
from agentcli.ui.repl.outside import edited

if TYPE_CHECKING:
    from agentcli.types.verdicts import Mode
    from agentcli.ui.repl.repl import Repl

CARRY_OUT = "Carry out the plan."
"""What the model is sent when the person has agreed."""
AS_CHANGED = "This is the plan as I have changed it:"
MODE_OF: "dict[Letter, Mode]" = {"y": "ask", "a": "auto-edit"}


def proposed(desk: Desk) -> str:
    """The plan that the person has not decided on; empty where there is none."""
    return desk.session.planning.proposed if desk.mode == "plan" else ""


def settle(desk: Desk, plan: str, answer: PlanAnswer) -> str:
    """What is sent to the model next; empty: nothing is."""
    if answer.mode is None:
        planning = desk.session.planning
        is_changed, planning.proposed = plan != planning.proposed, plan
        changed = f"\n\n{AS_CHANGED}\n\n{plan}" if is_changed and answer.instead else ""
        return answer.instead + changed
    desk.set_mode(answer.mode)
    desk.session.accept_plan(plan, mode=answer.mode)
    return CARRY_OUT


class PlanAnswers:
    def __init__(self, repl: "Repl") -> None:
        self._repl = repl

    def choose(self, letter: Letter, asked: AskedPlan) -> None:
        match letter:
            case "y" | "a":
                self._repl.approvals.decide_on_plan(PlanAnswer(mode=MODE_OF[letter]))
            case "n":
                self.keep_planning()
            case "e":
                self._repl.actions.answering.ask_what_instead(asked)
            case "m":
                self._repl.actions.do(self._modify(asked))
            case _:
                pass

    def keep_planning(self) -> None:
        self._repl.approvals.decide_on_plan(PlanAnswer())

    def change(self, what: str) -> None:
        self._repl.approvals.decide_on_plan(PlanAnswer(instead=what))

    async def _modify(self, asked: AskedPlan) -> None:
        after = await self._repl.terminal.hand_over(
            lambda: edited(asked.plan, suffix=".md", workspace=self._repl.settings.workspace)
        )
        if after is None or not after.strip():
            self._repl.notice("the plan is as it was")
        elif after.strip() != asked.plan:
            asked.plan = after.strip()
            self._repl.print(self._repl.stage.markdown(asked.plan))
        self._repl.approvals.viewed()
