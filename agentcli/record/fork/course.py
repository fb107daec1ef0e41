"""What a stretch of a session amounts to: its end, its price, what it did."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from agentcli.types.answers import AnswerParts
from agentcli.types.events import (
    CallFinished,
    Fact,
    ModelChanged,
    SessionResumed,
    SessionStarted,
    TurnEnded,
)
from agentcli.types.spending import NO_SPENDING, Spending, compute_spending
from agentcli.types.tools import Diff, ErrorKind


@dataclass(slots=True)
class CourseSummary:
    model: str = ""
    ending: str = "none"
    spending: Spending = NO_SPENDING
    calls: int = 0
    failed: int = 0
    denied: int = 0
    changed: dict[str, tuple[int, int]] = field(default_factory=dict)
    answer: str = ""


def summarize_course(facts: Iterable[Fact], *, model: str = "") -> CourseSummary:
    """`model`: of the session before these facts."""
    course, said = CourseSummary(model=model), AnswerParts()
    for fact in facts:
        course.spending += compute_spending(fact)
        said(fact)
        match fact:
            case SessionStarted(model=name) | SessionResumed(model=name) | ModelChanged(model=name):
                course.model = name
            case CallFinished():
                _finish(course, fact)
            case TurnEnded(ending=ending):
                course.ending = ending
            case _:
                pass
    course.answer = said.whole
    return course


def _finish(course: CourseSummary, fact: CallFinished) -> None:
    result = fact.result
    course.calls += 1
    course.denied += result.error is ErrorKind.DENIED
    course.failed += result.status == "error" and result.error is not ErrorKind.DENIED
    if isinstance(result.details, Diff) and result.status == "ok":
        added, removed = course.changed.get(result.details.path, (0, 0))
        course.changed[result.details.path] = (
            added + result.details.added,
            removed + result.details.removed,
        )
