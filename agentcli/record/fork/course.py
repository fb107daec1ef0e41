"""What a stretch of a session amounts to: its end, its price, what it did."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from agentcli.types.events import (
    CallFinished,
    Fact,
    ModelChanged,
    ModelReplied,
    SessionResumed,
    SessionStarted,
    TurnEnded,
)
from agentcli.types.messages import Usage
from agentcli.types.tools import Diff, ErrorKind


@dataclass(slots=True)
class Course:
    model: str = ""
    ending: str = "none"
    requests: int = 0
    usage: Usage = field(default_factory=Usage)
    cost_usd: float | None = 0.0
    calls: int = 0
    failed: int = 0
    denied: int = 0
    changed: dict[str, tuple[int, int]] = field(default_factory=dict)
    answer: str = ""


def course_of(facts: Iterable[Fact], *, model: str = "") -> Course:
    """`model`: of the session before these facts."""
    course = Course(model=model)
    for fact in facts:
        match fact:
            case SessionStarted(model=name) | SessionResumed(model=name) | ModelChanged(model=name):
                course.model = name
            case ModelReplied():
                _reply(course, fact)
            case CallFinished():
                _finish(course, fact)
            case TurnEnded(ending=ending):
                course.ending = ending
            case _:
                pass
    return course


def _reply(course: Course, fact: ModelReplied) -> None:
    course.requests += 1
    course.usage += fact.message.usage
    course.answer = fact.message.text
    if fact.cost_usd is None or course.cost_usd is None:
        course.cost_usd = None
    else:
        course.cost_usd += fact.cost_usd


def _finish(course: Course, fact: CallFinished) -> None:
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
