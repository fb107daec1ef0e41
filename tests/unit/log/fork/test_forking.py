import os
from pathlib import Path

import pytest

from agentcli.features.fork.engine import (
    diff_trees,
    find_cut,
    fork,
    make_user_result,
    summarize_course,
)
from agentcli.log.audit import audit_log
from agentcli.log.paths import SessionPaths
from agentcli.log.reader import read_log
from agentcli.log.sessions import append_facts
from agentcli.types.errors import UsageError
from agentcli.types.events import Entry, Fact
from tests.support.record import (
    DONE,
    SESSION,
    STARTED,
    A,
    B,
    C,
    asked,
    finished,
    judged,
    replied,
    write,
)


def entries(*facts: Fact) -> list[Entry]:
    return [
        Entry(seq=seq, at="", session="s", parent=None, fact=fact)
        for seq, fact in enumerate(facts, start=1)
    ]


@pytest.mark.parametrize(
    ("at", "seq", "until"), [(None, 16, 16), ("1", 1, 9), ("2", 9, 15), ("a", 3, 9), ("b", 5, 9)]
)
def test_cut_is_before_the_turn_or_the_call(at: str | None, seq: int, until: int) -> None:
    cut = find_cut(entries(*SESSION), at)
    assert (cut.seq, cut.until) == (seq, until)


def test_cut_never_falls_between_a_verdict_and_its_result() -> None:
    together = entries(
        STARTED,
        asked("x"),
        replied(A, B, C),
        judged(A),
        judged(B),
        finished(A),
        judged(C),
        finished(B),
        finished(C),
        DONE,
    )
    assert [find_cut(together, call).seq for call in ("a", "b", "c")] == [3, 3, 3]


@pytest.mark.parametrize("at", ["0", "3", "none"])
def test_cut_where_nothing_is_is_refused(at: str) -> None:
    with pytest.raises(UsageError, match="no"):
        find_cut(entries(*SESSION), at)


def test_fork_begins_with_the_same_bytes_and_says_where_it_is_from(tmp_path: Path) -> None:
    origin = SessionPaths(id="s", directory=tmp_path / "s")
    origin.directory.mkdir()
    recorded = write(origin.log)
    place = fork(origin, recorded, cut=find_cut(recorded, "2"), sessions=tmp_path)
    lines = origin.log.read_bytes().splitlines(keepends=True)
    assert place.log.read_bytes().startswith(b"".join(lines[:9]))
    forked = read_log(place.log).entries
    assert [entry.session for entry in forked] == ["s"] * 9 + [place.id]
    assert audit_log(place.log).faults == ()


def test_given_result_answers_the_call(tmp_path: Path) -> None:
    origin = SessionPaths(id="s", directory=tmp_path / "s")
    origin.directory.mkdir()
    recorded = write(origin.log)
    place = fork(origin, recorded, cut=find_cut(recorded, "b"), sessions=tmp_path)
    last = read_log(place.log)
    append_facts(place, make_user_result(B, "so it said"), seq=last.last_seq, prev=last.last_hash)
    assert audit_log(place.log).faults == ()
    assert "so it said" in place.log.read_text()


def test_course_says_what_a_stretch_amounts_to(tmp_path: Path) -> None:
    course = summarize_course(SESSION, sessions=tmp_path, workspace=tmp_path)
    assert (course.model, course.ending, course.spending.requests) == ("m/n", "done", 4)
    assert (course.calls, course.failed, course.denied) == (3, 1, 1)
    assert course.answer == "It hangs."


def test_trees_differ_by_what_is_in_them(tmp_path: Path) -> None:
    for side in ("old", "new"):
        (tmp_path / side / "sub").mkdir(parents=True)
        (tmp_path / side / "same").write_text("x\n")
    (tmp_path / "old" / "gone").write_text("")
    (tmp_path / "new" / "sub" / "made").write_text("y\n")
    (tmp_path / "old" / "blob").write_bytes(b"\0\1")
    (tmp_path / "new" / "blob").write_bytes(b"\0\2")
    (tmp_path / "old" / "latin").write_bytes(b"\xe9\n")
    (tmp_path / "new" / "latin").write_bytes(b"\xe8\n")
    os.mkfifo(tmp_path / "new" / "pipe")
    assert diff_trees(tmp_path / "old", tmp_path / "new") == (
        "Binary files a/blob and b/blob differ\n"
        "only in the first: gone\n"
        "--- a/latin\n+++ b/latin\n@@ -1,1 +1,1 @@\n-é\n+è\n"
        "only in the second: sub/made\n"
        "--- a/sub/made\n+++ b/sub/made\n@@ -0,0 +1,1 @@\n+y\n"
    )
