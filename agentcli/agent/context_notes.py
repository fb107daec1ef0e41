"""Context notes on the environment of a session, and on its plan."""

import os
import re
import sys
from collections.abc import Iterable, Sequence
from datetime import date
from pathlib import Path
from typing import Literal

from agentcli.system.lazy import compile_later
from agentcli.system.plain_text import abbreviate, show_controls
from agentcli.system.repository import UncommittedChanges, find_branch
from agentcli.types.answers import AnswerParts
from agentcli.types.deltas import CallDelta, TextDelta, ThinkingDelta
from agentcli.types.errors import Ending
from agentcli.types.events import (
    CallJudged,
    Compacted,
    ContextNote,
    DirectoryAdded,
    Event,
    Fact,
    ModeChanged,
    ModelReplied,
    NoteReason,
    SessionResumed,
    SessionStarted,
    TurnEnded,
    TurnStarted,
)
from agentcli.types.fast_dataclass import dataclass
from agentcli.types.messages import Text
from agentcli.types.tools import Effect

# The environment of a session: noted at its start, and again when it changes.


PATHS_SHOWN = 10
DIRECTORY_CHARS = 500
_HEADING = "[Environment: "


class EnvironmentNotes:
    """The notes on date, directory and git; listens to events to learn when a request is sent.

    They are added between messages, so that what was already sent stays the same to the byte. The
    git status is read while the first reply arrives. It is noted once, and only if it was known
    before any of our calls could have changed the work tree."""

    def __init__(
        self,
        workspace: Path,
        past: Iterable[Fact] = (),
        *,
        hosts: Sequence[str] = (),
        has_sandbox: bool = True,
    ) -> None:
        """`past` is the facts of a resumed session; its work tree is not noted again. `hosts` are
        those that every command may reach."""
        self._workspace = workspace
        self._shown_workspace = abbreviate(str(workspace), DIRECTORY_CHARS)
        self._reach = describe_reach(hosts, has_sandbox=has_sandbox)
        self._last_text = ""
        self._changes: UncommittedChanges | None = UncommittedChanges(workspace)
        """None if the changes were noted, or must no longer be noted."""
        self._stopped: UncommittedChanges | None = None
        self._is_asked = False
        self._added: list[str] = []
        for fact in past:
            self._changes = None
            self._note_directory(fact)
            if isinstance(fact, ContextNote) and fact.text.startswith(_HEADING):
                self._last_text = fact.text

    def __call__(self, event: Event) -> None:
        match event:
            case Compacted():
                self._last_text = ""
            case DirectoryAdded():
                self._note_directory(event)
            case TextDelta() | ThinkingDelta() | CallDelta() | ModelReplied():
                self._request_changes()
            case CallJudged(effect=effect) if effect is not Effect.READ:
                if self._changes is not None and self._changes.known is None:
                    self._changes.stop()  # without a wait, which would hold up the call
                    self._stopped, self._changes = self._changes, None
            case _:
                pass

    def rewind(self, facts: Iterable[Fact]) -> None:
        """Go on from these facts, in which the model may not have got the latest notes."""
        notes = [fact.text for fact in facts if isinstance(fact, ContextNote)]
        self._last_text = next((one for one in reversed(notes) if one.startswith(_HEADING)), "")

    def _describe(self) -> str:
        machine = os.uname().machine if hasattr(os, "uname") else ""
        branch = find_branch(self._workspace)
        parts = (
            f"today is {date.today():%A, %Y-%m-%d}",
            f"working directory {self._shown_workspace}",
            *self._added,
            f"{sys.platform} {machine}".strip(),
            f"git {branch}" if branch else "no git repository",
            self._reach,
        )
        return f"{_HEADING}{'; '.join(parts)}]"

    def collect_notes(self) -> Sequence[ContextNote]:
        """Return notes on everything that changed or became known since the last notes."""
        notes = []
        text = self._describe()
        if text != self._last_text:
            self._last_text = text
            notes.append(ContextNote(text=text, why=NoteReason.ENVIRONMENT))
        if self._changes is not None and self._changes.known is not None:
            notes.append(
                ContextNote(
                    text=describe_work_tree(self._changes.known), why=NoteReason.ENVIRONMENT
                )
            )
            self._changes = None
        return notes

    def close(self) -> None:
        for changes in (self._changes, self._stopped):
            if changes is not None:
                changes.close()
        self._changes = self._stopped = None

    def _note_directory(self, event: Event) -> None:
        if isinstance(event, DirectoryAdded):
            access = "" if event.writable else " (read-only)"
            self._added = [*self._added, f"also {abbreviate(event.path, DIRECTORY_CHARS)}{access}"]

    def _request_changes(self) -> None:
        if self._is_asked or self._changes is None:
            return
        self._is_asked = True
        if find_branch(self._workspace):
            self._changes.request()


def describe_reach(hosts: Sequence[str], *, has_sandbox: bool) -> str:
    """Return what commands may reach, and how to ask for more, in one line."""
    if not has_sandbox:
        return "commands run without a sandbox"
    network = " ".join(hosts) or "none"
    return (
        f"commands reach: network {network}; write: workspace, $TMPDIR; the user's home is hidden."
        " For more give bash needs, which the user may grant: network:HOST, write:PATH, read:PATH,"
        " credentials:git, outside, reason:TEXT"
    )


def describe_work_tree(changes: Sequence[str]) -> str:
    """Describe the lines of `git status`: two letters and a path each."""
    if not changes:
        return "[Work tree as the session found it: clean]"
    new = sum(change.startswith("??") for change in changes)
    counts = [f"{len(changes) - new} changed", f"{new} untracked"]
    shown = [f"\n{change[:3]}{abbreviate(change[3:])}" for change in changes[:PATHS_SHOWN]]
    left_out = len(changes) - len(shown)
    more = f"\n... and {left_out} more" if left_out else ""
    return f"[Work tree as the session found it: {', '.join(counts)}:{''.join(shown)}{more}]"


# The plan of a session: the result of a turn in plan mode, and what the user accepted.


BEGINS = (
    "Plan mode: calls that do more than read are denied, and nothing may be changed yet. Find out "
    "what you need to know, then end with the plan: the steps in order, the files each of them "
    "changes, how each is checked, and what the user has to decide. They read it, may change it, "
    "and say when it is carried out. If only they can tell you something first, ask just that: a "
    "reply that ends with a question and has no steps is not taken for the plan."
)
ENDS = "Plan mode is over: whatever the mode now in force allows can be done again."
ACCEPTED = "Plan mode is over. The user accepted this plan: carry it out, step by step."
CHANGED = (
    "Plan mode is over. The user changed your plan and accepted it in this form: carry it "
    "out, step by step."
)
DEPARTING = " Where it turns out to be wrong, say so before you do otherwise."
TICKING = " When a step is done, write a line with [x] and its number beside your next call: [x] 1"
STEPS_LIMIT = 50
STEP_CHARS = 300

_LISTED = r"(?:[-*+•–]|\(?(?:[0-9]{1,2}|[A-Za-z])[.)])\s"
_QUESTION_MARKS = ("?", "？", "؟")
_AFTER_A_SENTENCE = "*_`)]\"'”’»」"


_STEP = compile_later(r"^[ ]?(?:\d{1,2}[.)]|[-*+])\s+(?:\[[ xX]\]\s+)?(.+)$", re.MULTILINE)
_FENCED = compile_later(r"^(```+|~~~+).*?^\1", re.MULTILINE | re.DOTALL)
_TICK = compile_later(
    r"^[\s>*+-]*\[([xX✓ ])\][\s*]*(?:step\s+)?#?(\d{1,2})\b", re.MULTILINE | re.IGNORECASE
)

StepState = Literal["pending", "in_progress", "done"]


@dataclass(frozen=True, slots=True)
class PlanStep:
    text: str
    state: StepState = "pending"


def parse_steps(plan: str) -> tuple[str, ...]:
    """Return the items of the plan's list, without those below them; none if it has no list."""
    found: Sequence[str] = _STEP.findall(plan)[:STEPS_LIMIT]
    return tuple(show_controls(step.strip())[:STEP_CHARS] for step in found)


class PlanTracker:
    """Listens to a session for its mode, its plan, and the steps that the model ticks off."""

    def __init__(self, past: Iterable[Fact] = (), *, wants_plan: bool = True) -> None:
        """`wants_plan` is False if the task itself says how plan mode ends."""
        self._wants_plan = wants_plan
        self.proposed = ""
        """The answer of the last turn, if it was in plan mode and is not accepted yet."""
        self.asked = ""
        """The answer of the last turn in plan mode, if it is a question to the user."""
        self.accepted = ""
        self._texts: tuple[str, ...] = ()
        """The steps of the accepted plan; empty after a turn that found all of them done."""
        self._done: frozenset[int] = frozenset()
        """The numbers of the steps that are done, from 1."""
        self._mode = ""
        self._turn: list[Event] = []
        """The events of the turn that its answer is made from."""
        self._is_noted = False
        self._owes_steps = False
        """True if the model has to be told which steps are done."""
        for fact in past:
            self(fact)

    def __call__(self, event: Event) -> None:
        if isinstance(event, ModelReplied | ContextNote):
            self._turn.append(event)
        match event:
            case SessionStarted(mode=mode) | SessionResumed(mode=mode) | ModeChanged(mode=mode):
                self._mode = mode
            case ContextNote():
                self._handle_note(event)
            case Compacted():
                self._handle_summary()
            case TurnStarted():
                self._begin_turn()
            case ModelReplied() if self._texts:
                content = event.message.content
                texts = (block.text for block in content if isinstance(block, Text))
                self._tick_steps("\n".join(texts))
            case TurnEnded() if self._mode == "plan" and event.ending is Ending.DONE:
                self._take_answer(AnswerParts(self._turn).whole.strip())
            case _:
                pass

    def rewind(self, facts: Iterable[Fact]) -> None:
        """Go on from these facts. The mode is the user's, and stays."""
        past = PlanTracker(facts, wants_plan=self._wants_plan)
        self.proposed, self.asked, self.accepted = past.proposed, past.asked, past.accepted
        self._texts, self._done = past._texts, past._done
        self._is_noted = past._is_noted

    @property
    def steps(self) -> tuple[PlanStep, ...]:
        """The steps of the plan that is carried out. The first that is not done is in progress."""
        open_steps = (n for n in range(1, len(self._texts) + 1) if n not in self._done)
        current = next(open_steps, None)
        states: dict[int, StepState] = {n: "done" for n in self._done}
        return tuple(
            PlanStep(text, states.get(n, "in_progress" if n == current else "pending"))
            for n, text in enumerate(self._texts, start=1)
        )

    @property
    def progress(self) -> str:
        """How far the plan is carried out: `plan 2/5`; empty if there are no steps."""
        return f"plan {len(self._done)}/{len(self._texts)}" if self._texts else ""

    def _handle_summary(self) -> None:
        """Say again what a summary may have lost: the mode, and which steps are done."""
        if self._mode == "plan":
            self._is_noted = False
        self._owes_steps = bool(self._done)

    def _begin_turn(self) -> None:
        self._turn = []
        self.proposed = self.asked = ""
        if len(self._done) == len(self._texts):
            self._texts, self._done = (), frozenset()

    def _take_answer(self, answer: str) -> None:
        """Take the last reply of a turn in plan mode for a plan, or for a question."""
        if is_question(answer):
            self.asked = answer
        else:
            self.proposed = answer

    def propose(self, plan: str) -> None:
        """Take this text for the plan to decide on: the user's own wording, or their choice."""
        self.proposed = plan

    def _tick_steps(self, said: str) -> None:
        """Note the steps that a reply marks: `[x] 2` is done, and `[ ] 2` is not after all."""
        for mark, written in _TICK.findall(_FENCED.sub("", said)):
            number = int(written)
            if 1 <= number <= len(self._texts):
                self._done = self._done - {number} if mark == " " else self._done | {number}

    def collect_notes(self) -> Sequence[ContextNote]:
        """Return the notes on the plan and its mode that the model needs before its next reply."""
        due = []
        if self._owes_steps:
            numbers = ", ".join(map(str, sorted(self._done)))
            text = f"Steps of the plan that are done: {numbers} of {len(self._texts)}."
            due.append(ContextNote(text=text, why=NoteReason.PLAN_STEPS))
        is_planning = self._mode == "plan"
        if is_planning != self._is_noted and not (is_planning and not self._wants_plan):
            due.append(
                ContextNote(text=BEGINS, why=NoteReason.PLAN_MODE)
                if is_planning
                else ContextNote(text=ENDS, why=NoteReason.PLAN_MODE_OVER)
            )
        return due

    def build_accepted_note(self, plan: str) -> ContextNote:
        """Build the note for an accepted plan, unchanged or as the user changed it."""
        is_changed = bool(self.proposed) and plan.strip() != self.proposed
        heading = (CHANGED if is_changed else ACCEPTED) + DEPARTING
        if len(parse_steps(plan)) > 1:
            heading += TICKING
        return ContextNote(text=f"{heading}\n\n{plan.strip()}", why=NoteReason.PLAN)

    def _handle_note(self, note: ContextNote) -> None:
        if note.why == NoteReason.PLAN:
            self.accepted, self.proposed, self.asked = note.text.partition("\n\n")[2], "", ""
            steps = parse_steps(self.accepted)
            self._texts, self._done = steps if len(steps) > 1 else (), frozenset()
            self._is_noted = False
        elif note.why == NoteReason.PLAN_STEPS:
            self._owes_steps = False
        elif note.why in (NoteReason.PLAN_MODE, NoteReason.PLAN_MODE_OVER):
            self._is_noted = note.why == NoteReason.PLAN_MODE


def is_question(reply: str) -> bool:
    """Return whether a reply is a question to the user, not a plan.

    It ends with a question, or with the choices for one. It has no heading, and its lists hold only
    questions and choices."""
    is_asking = False
    for line in filter(None, map(str.strip, reply.splitlines())):
        is_heading, is_listed = line.startswith("#"), re.match(_LISTED, line) is not None
        if is_heading or (is_listed and not is_asking and not _ends_with_question(line)):
            return False
        is_asking = _ends_with_question(line) or (is_listed and is_asking)
    return is_asking


def _ends_with_question(line: str) -> bool:
    return line.rstrip(_AFTER_A_SENTENCE).endswith(_QUESTION_MARKS)
