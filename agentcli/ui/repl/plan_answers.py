"""What a person can answer to the question about a plan, and what comes of it."""

from typing import TYPE_CHECKING

from agentcli.ui.repl.approval import Letter, PendingPlan, PlanAnswer
from agentcli.ui.repl.desk import CommandHost
from agentcli.ui.repl.outside import edit_text

if TYPE_CHECKING:
    from agentcli.types.verdicts import Mode
    from agentcli.ui.repl.repl import Repl

PLAN_ACCEPTED = "Carry out the plan."
"""What the model is sent when the person has agreed."""
PLAN_CHANGED = "This is the plan as I have changed it:"
MODE_BY_LETTER: "dict[Letter, Mode]" = {"y": "ask", "a": "auto-edit"}


def get_proposed_plan(host: CommandHost) -> str:
    """The plan that the person has not decided on; empty where there is none."""
    return host.session.plan_tracker.proposed if host.mode == "plan" else ""


def apply_plan_answer(host: CommandHost, plan: str, answer: PlanAnswer) -> str:
    """What is sent to the model next; empty: nothing is."""
    if answer.mode is None:
        planning = host.session.plan_tracker
        is_changed, planning.proposed = plan != planning.proposed, plan
        changed = f"\n\n{PLAN_CHANGED}\n\n{plan}" if is_changed and answer.instead else ""
        return answer.instead + changed
    host.set_mode(answer.mode)
    host.session.accept_plan(plan, mode=answer.mode)
    return PLAN_ACCEPTED


class PlanActions:
    def __init__(self, repl: "Repl") -> None:
        self._repl = repl

    def choose(self, letter: Letter, pending: PendingPlan) -> None:
        match letter:
            case "y" | "a":
                self._repl.approvals.decide_on_plan(PlanAnswer(mode=MODE_BY_LETTER[letter]))
            case "n":
                self.keep_planning()
            case "e":
                self._repl.actions.answer_actions.ask_alternative(pending)
            case "m":
                self._repl.actions.run_task(self._modify(pending))
            case _:
                pass

    def keep_planning(self) -> None:
        self._repl.approvals.decide_on_plan(PlanAnswer())

    def request_change(self, what: str) -> None:
        self._repl.approvals.decide_on_plan(PlanAnswer(instead=what))

    async def _modify(self, pending: PendingPlan) -> None:
        after = await self._repl.terminal.hand_over(
            lambda: edit_text(pending.plan, suffix=".md", workspace=self._repl.settings.workspace)
        )
        if after is None or not after.strip():
            self._repl.show_notice("the plan is as it was")
        elif after.strip() != pending.plan:
            pending.plan = after.strip()
            self._repl.print(self._repl.renderer.render_markdown(pending.plan))
        self._repl.approvals.mark_viewed()
