import re
import statistics
import time
from functools import partial
from pathlib import Path

import pytest

from tests.support import anthropic_streams as anthropic
from tests.support.repl import await_question, live, live_in_tmux, paced, says
from tests.support.terminal import PyteTerm, TmuxTerm, needs_tmux, until

PARAGRAPHS = [
    f"Paragraph number {index} has words enough to be wrapped on every width that is tried here, "
    f"and ends in its own word end{index}."
    for index in range(1, 13)
]
CODE = 'def f(a):\n    if a:\n        return "x"\n\n\treturn None\n'


@needs_tmux
def test_stream_of_eight_seconds_writes_little_and_leaves_keys_alone(tmp_path: Path) -> None:
    text = " ".join(["word"] * 40 + ["\n\n"] + ["other"] * 60) + "\n\n"
    reply = paced((text * 4)[:1280], tokens_per_s=40)
    with live_in_tmux(tmp_path, [reply, says("done")], cols=100, rows=30) as session:
        term = session.term
        term.ready()
        before = len(term.raw())
        term.send("go")
        term.wait("Writing")
        typed = "the quick brown fox " * 10
        for letter in typed:
            term.type(letter)
        keys = "".join(typed.split())
        term.wait_for(
            lambda: keys in "".join("".join(term.screen()).split()), "every key has arrived"
        )
        term.wait_gone("esc to interrupt")
        raw = term.raw()[before:]
        assert len(raw) <= 60_000
        for forbidden in (b"\x1b[2J", b"\x1b[3J", b"\x1b[?1049h", b"\x1b[?1000h"):
            assert forbidden not in raw


def test_key_is_echoed_soon_while_a_reply_streams(tmp_path: Path) -> None:
    with live(tmp_path, [paced("word " * 4000, tokens_per_s=40)]) as session:
        term = session.term
        assert isinstance(term, PyteTerm)
        term.ready()
        term.send("go")
        term.wait("Writing")
        waits_s = []
        for count in range(1, 41):
            term.type("x")
            is_there = partial(term.shows, "x" * count)
            waits_s.append(term.shown_after(is_there, "the key is on the screen"))
        # The slowest of them say more about what else the machine does than about the session.
        assert statistics.median(waits_s) <= 0.05


@needs_tmux
def test_resizes_while_streaming_keep_every_paragraph_once_and_the_input(tmp_path: Path) -> None:
    reply = paced("\n\n".join(PARAGRAPHS) + "\n", tokens_per_s=220)
    with live_in_tmux(tmp_path, [reply], cols=110, rows=30) as session:
        term = session.term
        term.ready()
        term.send("go")
        term.type("half typed")
        for index, cols in enumerate((70, 100, 60, 90, 50, 110), start=1):
            reached = f"Paragraph number {2 * index} "
            term.wait_for(partial(_has_said, term, reached), "more has come")
            term.resize(cols, 30)
        wanted = [*(f"Paragraph number {index} " for index in range(1, 13)), "half typed", "ask · "]
        term.wait_for(partial(_has_each_once, term, wanted), "everything is there once")
        assert not term.shows("esc to interrupt")


def test_idle_session_writes_nothing(tmp_path: Path) -> None:
    with live(tmp_path, [says("Hello.")]) as session:
        term = session.term
        term.ready()
        term.send("hi")
        term.wait("Hello.")
        term.wait_gone("esc to interrupt")
        _settled(term)
        before, cpu = len(term.raw()), _cpu_ticks(term.pid)
        time.sleep(5)  # what is tested is that nothing happens in this time
        assert len(term.raw()) == before
        assert _cpu_ticks(term.pid) - cpu <= 1


def test_code_block_on_the_screen_is_the_source_byte_for_byte(tmp_path: Path) -> None:
    reply = says(f"Look:\n\n```python\n{CODE}```\n\nThat is all.\n")
    with live(tmp_path, [reply], cols=100) as session:
        term = session.term
        term.ready()
        term.send("show code")
        term.wait("That is all.")
        rows = term.history()
        first = rows.index("def f(a):")
        copied = "\n".join(rows[first : first + 5]) + "\n"
        assert copied == CODE.expandtabs(8)
        written = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]|\r", "", term.raw().decode())
        assert CODE in written


@pytest.mark.parametrize(("cols", "rows"), [(20, 24), (80, 1), (20, 3), (300, 80)])
def test_session_works_in_a_terminal_of_any_size(tmp_path: Path, cols: int, rows: int) -> None:
    with live(tmp_path, [says("An **answer** of a few words.")], cols=cols, rows=rows) as session:
        term = session.term
        term.wait(">")
        term.send("hi")
        until(lambda: "answer" in "\n".join(term.history()), "the answer has come")
        term.key("c-d", "c-d")
        assert term.code() == 0


def test_resize_storm_ends_in_a_whole_screen(tmp_path: Path) -> None:
    with live(tmp_path, [paced("word " * 300, tokens_per_s=200)]) as session:
        term = session.term
        term.ready()
        term.send("go")
        term.type("typed")
        for step in range(60):
            term.resize(20 + (step * 37) % 90, 1 + (step * 7) % 40)
        term.resize(80, 24)
        term.wait_gone("esc to interrupt")
        term.wait("> typed")
        below = [row for row in term.screen() if row.startswith(("> ", "ask · "))][-2:]
        assert below[0] == "> typed"
        assert below[1].startswith("ask · claude-")


def test_controls_and_directions_from_the_model_are_shown_and_not_obeyed(tmp_path: Path) -> None:
    evil = "A\x1b]0;title\x07B\x1b[2JC\u202eD\u200bE"
    with live(tmp_path, [says(f"{evil} end\n")]) as session:
        term = session.term
        term.ready()
        before = len(term.raw())
        term.send("hi")
        term.wait("end")
        raw = term.raw()[before:]
        assert b"\x1b]0;" not in raw
        assert b"\x1b[2J" not in raw
        assert "\u202e".encode() not in raw


def test_reply_cut_off_in_the_middle_is_marked_and_begins_anew(tmp_path: Path) -> None:
    whole = paced("One two three four five six seven eight nine ten.\n", tokens_per_s=1000)
    cut = whole.but(cut_at=len(whole.body) // 2)
    with live(tmp_path, [cut, says("The whole answer.")]) as session:
        term = session.term
        term.ready()
        term.send("go")
        term.wait("Connection lost after ")
        term.wait("retrying in ")
        term.key("enter")
        term.wait("The whole answer.")
        history = " ".join(" ".join(term.history()).split())
        assert "tokens. Dropping the partial reply and retrying." in history
        assert len(session.model.requests) == 2


def _has_said(term: TmuxTerm, words: str) -> bool:
    return words in _joined(term)


def _joined(term: TmuxTerm) -> str:
    return " ".join(" ".join(term.history()).split())


def _settled(term: PyteTerm) -> None:
    """Nothing was written for a moment."""
    sizes = [-1, -2, -3]

    def is_quiet() -> bool:
        sizes.append(len(term.raw()))
        return len(set(sizes[-15:])) == 1 and len(sizes) > 18

    until(is_quiet, "the screen is quiet")


def _cpu_ticks(pid: int) -> int:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


@needs_tmux
def test_resizes_of_a_tall_question_leave_no_stale_frames(tmp_path: Path) -> None:
    new = "".join(f"def function_{number}():\n    return {number}\n" for number in range(30))
    call = anthropic.call("toolu_1", "write_file", {"path": "new.py", "content": new})
    with live_in_tmux(tmp_path, [anthropic.calls(call)], cols=100, rows=40) as session:
        term = session.term
        term.ready()
        term.send("go")
        await_question(term)
        for cols, rows in ((100, 36), (100, 30), (100, 40), (70, 40), (90, 24), (100, 40)):
            written = len(term.raw())
            term.resize(cols, rows)
            term.wait_for(partial(_wrote_more, term, written), "the program knows the new size")
            term.wait_for(partial(_is_whole, term, cols), "the question is drawn again")
        wanted = ["[y] yes, once", "> go"]
        term.wait_for(partial(_has_each_once, term, wanted), "everything is there once")


SIZES = (
    (80, 30),
    (100, 30),
    (60, 30),
    (100, 24),
    (52, 24),
    (100, 40),
    (66, 15),
    (90, 30),
    (60, 24),
)


@needs_tmux
@pytest.mark.parametrize("is_storm", [False, True], ids=["one by one", "faster than tmux reports"])
def test_resizes_while_a_tool_runs_leave_one_header(tmp_path: Path, is_storm: bool) -> None:
    command = "for i in $(seq 1 3); do echo line $i of a rather long output, and more of it; done"
    call = anthropic.call("toolu_1", "bash", {"command": f"{command}; sleep 600"})
    with live_in_tmux(tmp_path, [anthropic.calls(call)], cols=100, rows=30) as session:
        term = session.term
        term.ready()
        term.send("go")
        await_question(term)
        term.type("y")
        term.wait("line 3 of ")
        if is_storm:
            term.resize_at_once(*SIZES)
        else:
            for cols, rows in SIZES:
                term.resize(cols, rows)
                term.wait_for(partial(_has_status_within, term, cols), "it is drawn again")
        wanted = ["> go", "● bash", "Running bash", "ask ·"]
        term.wait_for(partial(_has_each_once, term, wanted), "everything is there once")


def _has_each_once(term: TmuxTerm, texts: list[str]) -> bool:
    """Whether each text is on the screen or in its history, and no stale copy of it."""
    history = _joined(term)
    return all(history.count(text) == 1 for text in texts)


def _has_status_within(term: TmuxTerm, columns: int) -> bool:
    """Whether the live region is drawn, and about as wide as the terminal is now."""
    rows = term.screen()
    widths = [len(row) for row in rows if row.startswith("● bash")]
    has_status = any("esc to interrupt" in row for row in rows)
    return has_status and columns - 5 <= max(widths, default=0) < columns


def _wrote_more(term: TmuxTerm, before: int) -> bool:
    return len(term.raw()) > before


def _is_whole(term: TmuxTerm, columns: int) -> bool:
    return term.shows("[y] yes, once") and max(map(len, term.screen())) < columns
