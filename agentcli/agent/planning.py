"""The plan of a session: what a turn in plan mode ended with, and what the person agreed to.

That plan mode only reads is the judge's verdict, not a matter of what is told here. An accepted
plan is told word for word, outlives every summary, and gives way to the next one only.
"""

from collections.abc import Iterable, Sequence

from agentcli.agent.history import PLAN
from agentcli.types.events import (
    Compacted,
    Ending,
    Event,
    Fact,
    ModeChanged,
    ModelReplied,
    SessionResumed,
    SessionStarted,
    Told,
    TurnEnded,
    TurnStarted,
)

PLAN_MODE = "plan_mode"
"""Why the model is told that plan mode begins or ends."""
BEGINS = (
    "Plan mode: calls that do more than read are denied, and nothing may be changed yet. Find out "
    "what you need to know, then end with the plan: the steps in order, the files each of them "
    "changes, how each is checked, and what the person has to decide. They read it, may change it, "
    "and say when it is carried out."
)
ENDS = "Plan mode is over: whatever the mode now in force allows can be done again."
ACCEPTED = "Plan mode is over. The person accepted this plan: carry it out, step by step."
CHANGED = (
    "Plan mode is over. The person changed your plan and accepted it as it stands here: carry it "
    "out, step by step."
)
DEPARTING = " Where it turns out to be wrong, say so before you do otherwise."


class Planning:
    """Listens to a session."""

    def __init__(self, before: Iterable[Fact] = ()) -> None:
        self.proposed = ""
        """What the last turn ended with, if that was in plan mode and nobody agreed to it yet."""
        self.accepted = ""
        self._mode = ""
        self._answer = ""
        self._is_told = False
        for fact in before:
            self(fact)

    def __call__(self, event: Event) -> None:
        match event:
            case SessionStarted(mode=mode) | SessionResumed(mode=mode) | ModeChanged(mode=mode):
                self._mode = mode
            case Told():
                self._hears(event)
            case Compacted() if self._mode == "plan":
                self._is_told = False
            case TurnStarted():
                self._answer = self.proposed = ""
            case ModelReplied(message=message):
                self._answer = message.text.strip()
            case TurnEnded(ending=Ending.DONE) if self._mode == "plan":
                self.proposed = self._answer
            case _:
                pass

    def notices(self) -> Sequence[Told]:
        """What the model has to know of the mode before its next reply."""
        is_planning = self._mode == "plan"
        if is_planning == self._is_told:
            return ()
        return (Told(text=BEGINS if is_planning else ENDS, why=PLAN_MODE),)

    def agreed(self, plan: str) -> Told:
        """For a plan that the person accepts, as it was proposed or as they changed it."""
        is_changed = bool(self.proposed) and plan.strip() != self.proposed
        heading = (CHANGED if is_changed else ACCEPTED) + DEPARTING
        return Told(text=f"{heading}\n\n{plan.strip()}", why=PLAN)

    def _hears(self, told: Told) -> None:
        if told.why == PLAN:
            self.accepted, self.proposed = told.text.partition("\n\n")[2], ""
            self._is_told = False
        elif told.why == PLAN_MODE:
            self._is_told = told.text == BEGINS
