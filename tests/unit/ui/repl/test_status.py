import pytest

from agentcli.ui.repl.live_view import render_waiting_question
from agentcli.ui.repl.status import Status, shorten_end


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_status_is_empty_while_nothing_runs() -> None:
    assert Status(clock=Clock()).render_line(80) == ""


def test_status_says_what_how_long_and_how_much() -> None:
    clock = Clock()
    status = Status(clock=clock)
    status.begin("Waiting for model")
    status.add_usage(sent=12_300, received=300)
    status.add_received("Writing", "x" * 84)
    clock.now += 12
    status.set_verb("Running bash pytest -q")
    assert status.render_line(80)[1:] == (
        " Running bash pytest -q · 12s · ↑12.3k ↓321 tok · esc to interrupt"
    )


def test_status_shortens_the_verb_before_anything_else() -> None:
    status = Status(clock=Clock())
    status.begin("Running bash " + "x" * 100)
    line = status.render_line(50)
    assert len(line) == 50
    assert line.endswith("· 0s · esc to interrupt")


def test_status_tells_of_silence() -> None:
    clock = Clock()
    status = Status(clock=clock)
    status.begin("Waiting for model")
    clock.now += 12
    assert "no data for 12s" in status.render_line(80)
    status.set_verb("Running bash make")
    clock.now += 12
    assert "no data" not in status.render_line(80)


def test_status_counts_down_to_the_next_attempt() -> None:
    clock = Clock()
    status = Status(clock=clock)
    status.begin("Waiting for model")
    status.set_retry("Rate limited (429)", wait_s=18, attempt=2, attempts=6)
    clock.now += 3
    assert status.render_line(100)[2:] == (
        "Rate limited (429) · retrying in 15s · try 2 of 6 · enter now · esc cancel"
    )
    assert status.is_waiting_to_retry
    clock.now += 16
    assert "retrying" not in status.render_line(100)


def test_cut_counts_wide_characters_twice() -> None:
    assert shorten_end("日本語", 6) == "日本語"
    assert shorten_end("日本語", 5) == "日本…"
    assert shorten_end("abc", 0) == ""


def test_narrow_status_drops_what_is_worth_least() -> None:
    clock = Clock()
    status = Status(clock=clock)
    status.begin("Waiting for model")
    status.set_retry("cannot reach api.example.org", wait_s=17.2, attempt=2, attempts=6)
    assert {width: status.render_line(width)[2:] for width in (80, 60, 40, 30, 20)} == {
        80: "cannot reach api.exam… · retrying in 18s · try 2 of 6 · enter now · esc cancel",
        60: "cannot reach a… · retrying in 18s · enter now · esc cancel",
        40: "cannot… · retrying in 18s · esc cancel",
        30: "cannot re… · retrying in 18s",
        20: "cannot reach api.…",
    }
    status.set_verb("Writing")
    status.add_usage(sent=12_300, received=20)
    clock.now += 12
    assert {width: status.render_line(width)[2:] for width in (60, 40, 30)} == {
        60: "Writing · 12s · no data for 12s · esc to interrupt",
        40: "Writing · 12s · no data for 12s",
        30: "Writing · no data for 12s",
    }


@pytest.mark.parametrize("width", [24, 39, 47, 48, 79, 200])
def test_waiting_question_always_says_how_to_answer(width: int) -> None:
    row = render_waiting_question("bash " + "x" * 300, width, key="tab")
    assert row.endswith(" (tab to answer)")
    assert len(row) <= width
