"""The plan of a session: what a turn in plan mode ended with, and what the person agreed to.

That plan mode only reads is the judge's verdict, not a matter of what is told here. An accepted
plan is told word for word, outlives every summary, and gives way to the next one only.
"""

import re
from collections.abc import Iterable, Sequence

from agentcli.types.answers import AnswerParts
from agentcli.types.events import (
    Compacted,
    Ending,
    Event,
    Fact,
    ModeChanged,
    SessionResumed,
    SessionStarted,
    Told,
    TurnEnded,
    TurnStarted,
    Why,
)

BEGINS = (
    "Plan mode: calls that do more than read are denied, and nothing may be changed yet. Find out "
    "what you need to know, then end with the plan: the steps in order, the files each of them "
    "changes, how each is checked, and what the person has to decide. They read it, may change it, "
    "and say when it is carried out. If only they can tell you something first, ask just that: a "
    "reply that ends with a question and has no steps is not taken for the plan."
)
ENDS = "Plan mode is over: whatever the mode now in force allows can be done again."
ACCEPTED = "Plan mode is over. The person accepted this plan: carry it out, step by step."
CHANGED = (
    "Plan mode is over. The person changed your plan and accepted it as it stands here: carry it "
    "out, step by step."
)
DEPARTING = " Where it turns out to be wrong, say so before you do otherwise."

_LISTED = r"(?:[-*+•–]|\(?(?:[0-9]{1,2}|[A-Za-z])[.)])\s"
_QUESTION_MARKS = ("?", "？", "؟")
_AFTER_A_SENTENCE = "*_`)]\"'”’»」"


class Planning:
    """Listens to a session."""

    def __init__(self, before: Iterable[Fact] = ()) -> None:
        self.proposed = ""
        """What the last turn ended with, if that was in plan mode and nobody agreed to it yet."""
        self.asked = ""
        """What it ended with instead, where that is a question to the person."""
        self.accepted = ""
        self._mode = ""
        self._said = AnswerParts()
        self._is_told = False
        for fact in before:
            self(fact)

    def __call__(self, event: Event) -> None:
        self._said(event)
        match event:
            case SessionStarted(mode=mode) | SessionResumed(mode=mode) | ModeChanged(mode=mode):
                self._mode = mode
            case Told():
                self._hears(event)
            case Compacted() if self._mode == "plan":
                self._is_told = False
            case TurnStarted():
                self.proposed = self.asked = ""
            case TurnEnded(ending=Ending.DONE) if self._mode == "plan":
                answer = self._said.whole.strip()
                if asks_back(answer):
                    self.asked = answer
                else:
                    self.proposed = answer
            case _:
                pass

    def notices(self) -> Sequence[Told]:
        """What the model has to know of the mode before its next reply."""
        is_planning = self._mode == "plan"
        if is_planning == self._is_told:
            return ()
        return (Told(text=BEGINS if is_planning else ENDS, why=Why.PLAN_MODE),)

    def agreed(self, plan: str) -> Told:
        """For a plan that the person accepts, as it was proposed or as they changed it."""
        is_changed = bool(self.proposed) and plan.strip() != self.proposed
        heading = (CHANGED if is_changed else ACCEPTED) + DEPARTING
        return Told(text=f"{heading}\n\n{plan.strip()}", why=Why.PLAN)

    def _hears(self, told: Told) -> None:
        if told.why == Why.PLAN:
            self.accepted, self.proposed, self.asked = told.text.partition("\n\n")[2], "", ""
            self._is_told = False
        elif told.why == Why.PLAN_MODE:
            self._is_told = told.text == BEGINS


def asks_back(reply: str) -> bool:
    """Whether it is a question to the person: it ends with one, or with what there is to choose
    from, and has no heading and no list but of questions and choices."""
    is_asking = False
    for line in filter(None, map(str.strip, reply.splitlines())):
        is_heading, is_listed = line.startswith("#"), re.match(_LISTED, line) is not None
        if is_heading or (is_listed and not is_asking and not _ends_asking(line)):
            return False
        is_asking = _ends_asking(line) or (is_listed and is_asking)
    return is_asking


def _ends_asking(line: str) -> bool:
    return line.rstrip(_AFTER_A_SENTENCE).endswith(_QUESTION_MARKS)
