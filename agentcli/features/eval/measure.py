"""The figures of an evaluation, and the comparison of two. Pure arithmetic on results."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import comb, lcm
from typing import Literal

FailureClass = Literal[
    "wrong",
    "limit",
    "denied",
    "interrupted",
    "error",
    "setup failed",
    "check timed out",
    "check was stopped",
    "check did not start",
]
"""Why an attempt did not pass. `wrong` if the agent was done and the check says no."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    passed: bool
    failure: FailureClass | None = None
    message: str = ""
    ending: str = ""
    """How the agent's turn ended."""
    turns: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float | None = None
    """None if the price is not known."""
    duration_s: float = 0.0
    session: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskScore:
    id: str
    fingerprint: str
    language: str = ""
    attempts: tuple[Attempt, ...] = ()

    @property
    def passes(self) -> int:
        return sum(attempt.passed for attempt in self.attempts)

    @property
    def rate(self) -> Fraction:
        return Fraction(self.passes, len(self.attempts)) if self.attempts else Fraction(0)

    def compute_power(self, k: int) -> Fraction:
        """Return the chance that k attempts, drawn from those made, all pass."""
        return Fraction(comb(self.passes, k), comb(len(self.attempts), k))


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    tasks: int
    attempts: int
    pass_at_1: float | None
    """The share of attempts that pass, averaged over tasks. None without a task."""
    pass_power_k: Mapping[int, float]
    """By k, the chance that k attempts at a task all pass, averaged over tasks."""
    turns: float | None
    """Turns, tokens and time are averages over attempts."""
    input_tokens: float | None
    output_tokens: float | None
    duration_s: float | None
    cost_usd: float | None
    """The sum of all attempts; None if the price of one is not known."""
    failures: Mapping[str, int]
    """The number of attempts that failed, by class, most first."""


def summarize(scores: Sequence[TaskScore]) -> Summary:
    tried = [score for score in scores if score.attempts]
    attempts = [attempt for score in tried for attempt in score.attempts]
    costs = [attempt.cost_usd for attempt in attempts]
    fewest = min((len(score.attempts) for score in tried), default=0)
    failures = Counter(one.failure for one in attempts if one.failure is not None)
    return Summary(
        tasks=len(tried),
        attempts=len(attempts),
        pass_at_1=_average(score.rate for score in tried),
        pass_power_k={
            k: float(sum(score.compute_power(k) for score in tried) / len(tried))
            for k in range(1, fewest + 1)
        },
        turns=_average(one.turns for one in attempts),
        input_tokens=_average(one.input_tokens for one in attempts),
        output_tokens=_average(one.output_tokens for one in attempts),
        duration_s=_average(one.duration_s for one in attempts),
        cost_usd=None if None in costs else sum(cost for cost in costs if cost is not None),
        failures=dict(failures.most_common()),
    )


def _average(values: Iterable[float | Fraction]) -> float | None:
    listed = list(values)
    return float(sum(listed) / len(listed)) if listed else None


# Two runs, task by task


@dataclass(frozen=True, slots=True, kw_only=True)
class RunComparison:
    before: float
    after: float
    """The average pass rates of the tasks that both have."""
    p_value: float
    tasks: int
    better: tuple[str, ...] = ()
    worse: tuple[str, ...] = ()
    left_out: Mapping[str, str] = field(default_factory=dict)
    """Why tasks of either run are not compared, by their ids."""


def compare(before: Sequence[TaskScore], after: Sequence[TaskScore]) -> RunComparison:
    old = {score.id: score for score in before if score.attempts}
    new = {score.id: score for score in after if score.attempts}
    left_out = {
        **{name: "only in the baseline" for name in old.keys() - new.keys()},
        **{name: "not in the baseline" for name in new.keys() - old.keys()},
        **{
            name: "the task was changed"
            for name in old.keys() & new.keys()
            if old[name].fingerprint != new[name].fingerprint
        },
    }
    both = [name for name in new if name not in left_out]
    gains = {name: new[name].rate - old[name].rate for name in both}
    return RunComparison(
        before=_average(old[name].rate for name in both) or 0.0,
        after=_average(new[name].rate for name in both) or 0.0,
        p_value=compute_p_value(list(gains.values())),
        tasks=len(both),
        better=tuple(name for name, gain in gains.items() if gain > 0),
        worse=tuple(name for name, gain in gains.items() if gain < 0),
        left_out=dict(sorted(left_out.items())),
    )


def compute_p_value(gains: Sequence[Fraction]) -> float:
    """Return the two-sided p-value of the paired permutation test, exactly.

    If nothing distinguished the two runs, each task's gain could as well have had the other sign.
    The value is the share of all choices of signs whose sum is at least as far from 0 as the
    observed one. With one attempt per task, this is the exact McNemar test."""
    scale = lcm(*(gain.denominator for gain in gains)) if gains else 1
    steps = [abs(int(gain * scale)) for gain in gains if gain]
    observed = abs(sum(int(gain * scale) for gain in gains))
    counts = {0: 1}
    for step in steps:
        sums: Counter[int] = Counter()
        for total, count in counts.items():
            sums[total + step] += count
            sums[total - step] += count
        counts = sums
    extreme = sum(count for total, count in counts.items() if abs(total) >= observed)
    return float(Fraction(extreme, 2 ** len(steps)))
