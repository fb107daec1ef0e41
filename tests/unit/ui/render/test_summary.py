import pytest

from agentcli.types.messages import Usage
from agentcli.types.spending import Spending
from agentcli.ui.render.paint import Paint
from agentcli.ui.render.theme import NONE
from agentcli.ui.render.wording import (
    format_cost,
    format_elapsed,
    format_tokens,
    render_exit_summary,
    render_turn_summary,
)
from agentcli.ui.tally import Tally

PAINT = Paint(columns=80, theme=NONE, color="none")


@pytest.mark.parametrize(
    ("count", "said"),
    [
        (0, "0"),
        (999, "999"),
        (1_300, "1.3k"),
        (12_345, "12.3k"),
        (49_000, "49k"),
        (99_960, "100k"),
        (210_400, "210k"),
        (999_600, "1M"),
        (1_400_000, "1.4M"),
    ],
)
def test_tokens_are_short(count: int, said: str) -> None:
    assert format_tokens(count) == said


@pytest.mark.parametrize(
    ("usd", "said"), [(0, "$0.00"), (0.0004, "$0.0004"), (0.12, "$0.12"), (12, "$12.00")]
)
def test_cost_says_something(usd: float, said: str) -> None:
    assert format_cost(Spending(known_usd=usd)) == said
    estimated = Spending(known_usd=usd, usage=Usage(is_estimate=True))
    assert format_cost(estimated) == f"about {said}"


@pytest.mark.parametrize(
    ("seconds", "said"), [(38.2, "38s"), (64, "1m 04s"), (1_090, "18m"), (7_500, "2h 05m")]
)
def test_elapsed_is_in_whole_units(seconds: float, said: str) -> None:
    assert format_elapsed(seconds) == said


def test_turn_is_summed_up_unless_it_was_short() -> None:
    usage = Usage(input_tokens=49_000, output_tokens=1_300)
    tally = Tally(spending=Spending(usage=usage, known_usd=0.12))
    assert render_turn_summary(PAINT, tally, tools=0, duration_s=4.9) == ""
    assert render_turn_summary(PAINT, tally, tools=3, duration_s=38) == (
        "done in 38s · 3 tools · ↑49k ↓1.3k · $0.12\n"
    )


def test_session_is_summed_up_in_three_lines() -> None:
    tally = Tally(
        session="7f3a",
        spending=Spending(
            usage=Usage(input_tokens=46_200, cache_read_tokens=163_800, output_tokens=9_400),
            known_usd=1.42,
        ),
        changed={"a.py": (40, 2), "b.py": (8, 10), "c.py": (0, 0)},
    )
    said = render_exit_summary(
        tally,
        turns=12,
        duration_s=1_090,
        stopped=1,
        resume="agentcli --resume 7f3a",
        log_path="~/x/7f3a.jsonl",
    )
    assert said == [
        "session 7f3a · 12 turns · 18m · ↑210k ↓9.4k (cache 78 %) · $1.42",
        "3 files changed, +48 −12 · 1 command still running was stopped",
        "resume: agentcli --resume 7f3a",
        "log:    ~/x/7f3a.jsonl",
    ]


def test_empty_session_says_little() -> None:
    assert render_exit_summary(Tally(session="7f3a"), turns=0, duration_s=3) == [
        "session 7f3a · 0 turns · 3s"
    ]
