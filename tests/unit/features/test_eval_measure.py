from fractions import Fraction
from math import comb

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentcli.features.eval.measure import (
    Attempt,
    RunComparison,
    TaskScore,
    compare,
    compute_p_value,
    summarize,
)
from tests.support.examples import examples

PASSED = Attempt(passed=True, turns=2, input_tokens=10, cost_usd=0.5, duration_s=1.0)
WRONG = Attempt(passed=False, failure="wrong", turns=4, input_tokens=30, cost_usd=0.25)


def score(name: str, *attempts: Attempt, fingerprint: str = "f") -> TaskScore:
    return TaskScore(id=name, fingerprint=fingerprint, attempts=attempts)


def test_figures_are_averages_over_tasks_and_attempts() -> None:
    sums = summarize([score("a", PASSED, PASSED, WRONG), score("b", WRONG, WRONG, WRONG)])
    assert sums.pass_at_1 == pytest.approx(1 / 3)
    assert sums.pass_power_k == {
        1: pytest.approx(1 / 3),
        2: pytest.approx(1 / 6),  # one of three pairs of a
        3: 0.0,
    }
    assert (sums.tasks, sums.attempts, sums.failures) == (2, 6, {"wrong": 4})
    assert sums.turns == pytest.approx(20 / 6)
    assert sums.cost_usd == pytest.approx(2.0)


def test_cost_is_not_known_if_one_is_not_and_nothing_is_no_figure() -> None:
    unpriced = Attempt(passed=True)
    assert summarize([score("a", PASSED, unpriced)]).cost_usd is None
    empty = summarize([score("a")])
    assert (empty.tasks, empty.pass_at_1, empty.pass_power_k) == (0, None, {})


@pytest.mark.parametrize(
    ("better", "worse"), [(0, 0), (1, 0), (5, 0), (6, 1), (10, 2), (3, 3), (0, 8), (40, 20)]
)
def test_p_value_of_single_attempts_is_that_of_the_exact_mcnemar_test(
    better: int, worse: int
) -> None:
    discordant, fewer = better + worse, min(better, worse)
    tail = sum(comb(discordant, count) for count in range(fewer + 1)) / 2**discordant
    gains = [Fraction(1)] * better + [Fraction(-1)] * worse + [Fraction(0)] * 7
    assert compute_p_value(gains) == pytest.approx(min(1.0, 2 * tail))


@examples(100)
@given(st.lists(st.fractions(min_value=-1, max_value=1, max_denominator=4), max_size=8))
def test_p_value_counts_all_choices_of_signs(gains: list[Fraction]) -> None:
    observed = abs(sum(gains, start=Fraction(0)))
    totals = [Fraction(0)]
    for gain in gains:
        totals = [total + sign * gain for total in totals for sign in (1, -1)]
    wanted = sum(abs(total) >= observed for total in totals) / len(totals)
    assert compute_p_value(gains) == pytest.approx(wanted)


def test_only_tasks_that_both_runs_have_are_compared() -> None:
    before = [score("same", WRONG), score("gone", WRONG), score("other", WRONG, fingerprint="1")]
    after = [score("same", PASSED), score("new", WRONG), score("other", PASSED, fingerprint="2")]
    assert compare(before, after) == RunComparison(
        before=0.0,
        after=1.0,
        p_value=1.0,
        tasks=1,
        better=("same",),
        left_out={
            "gone": "only in the baseline",
            "new": "not in the baseline",
            "other": "the task was changed",
        },
    )
