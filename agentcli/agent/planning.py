"""The plan of a session: what a turn in plan mode ended with, and what the person agreed to.

That plan mode only reads is the judge's verdict, not a matter of what is told here. An accepted
plan is told word for word, outlives every summary, and gives way to the next one only.
"""

import re
from collections.abc import Iterable, Sequence

from agentcli.types.answers import AnswerParts
from agentcli.types.events import (
    Compacted,
    ContextNote,
    Ending,
    Event,
    Fact,
    ModeChanged,
    NoteReason,
    SessionResumed,
    SessionStarted,
    TurnEnded,
    TurnStarted,
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


class PlanTracker:
    """Listens to a session."""

    def __init__(self, past: Iterable[Fact] = ()) -> None:
        self.proposed = ""
        """What the last turn ended with, if that was in plan mode and nobody agreed to it yet."""
        self.asked = ""
        """What it ended with instead, where that is a question to the person."""
        self.accepted = ""
        self._mode = ""
        self._said = AnswerParts()
        self._is_noted = False
        for fact in past:
            self(fact)

    def __call__(self, event: Event) -> None:
        self._said(event)
        match event:
            case SessionStarted(mode=mode) | SessionResumed(mode=mode) | ModeChanged(mode=mode):
                self._mode = mode
            case ContextNote():
                self._handle_note(event)
            case Compacted() if self._mode == "plan":
                self._is_noted = False
            case TurnStarted():
                self.proposed = self.asked = ""
            case TurnEnded(ending=Ending.DONE) if self._mode == "plan":
                answer = self._said.whole.strip()
                if is_question(answer):
                    self.asked = answer
                else:
                    self.proposed = answer
            case _:
                pass

    def collect_notes(self) -> Sequence[ContextNote]:
        """What the model has to know of the mode before its next reply."""
        is_planning = self._mode == "plan"
        if is_planning == self._is_noted:
            return ()
        return (ContextNote(text=BEGINS if is_planning else ENDS, why=NoteReason.PLAN_MODE),)

    def build_accepted_note(self, plan: str) -> ContextNote:
        """For a plan that the person accepts, as it was proposed or as they changed it."""
        is_changed = bool(self.proposed) and plan.strip() != self.proposed
        heading = (CHANGED if is_changed else ACCEPTED) + DEPARTING
        return ContextNote(text=f"{heading}\n\n{plan.strip()}", why=NoteReason.PLAN)

    def _handle_note(self, note: ContextNote) -> None:
        if note.why == NoteReason.PLAN:
            self.accepted, self.proposed, self.asked = note.text.partition("\n\n")[2], "", ""
            self._is_noted = False
        elif note.why == NoteReason.PLAN_MODE:
            self._is_noted = note.text == BEGINS


def is_question(reply: str) -> bool:
    """Whether it is a question to the person: it ends with one, or with what there is to choose
    from, and has no heading and no list but of questions and choices."""
    is_asking = False
    for line in filter(None, map(str.strip, reply.splitlines())):
        is_heading, is_listed = line.startswith("#"), re.match(_LISTED, line) is not None
        if is_heading or (is_listed and not is_asking and not _ends_with_question(line)):
            return False
        is_asking = _ends_with_question(line) or (is_listed and is_asking)
    return is_asking


def _ends_with_question(line: str) -> bool:
    return line.rstrip(_AFTER_A_SENTENCE).endswith(_QUESTION_MARKS)
