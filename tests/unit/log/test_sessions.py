import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agentcli.features.sessions.render import build_session_json, format_session_line
from agentcli.log.lock import SessionInUse, SessionLock, is_held
from agentcli.log.paths import SessionPaths
from agentcli.log.sessions import (
    find_latest_session,
    find_session,
    list_sessions,
    search_session,
    summarize,
)
from agentcli.types.errors import Ending, SettingsError, UsageError
from agentcli.types.events import Fact, ModeChanged, SessionEnded, SessionForked, SessionNamed
from tests.support.record import DONE, SESSION, STARTED, A, asked, finished, replied, write


def session(sessions: Path, name: str, *facts: Fact) -> SessionPaths:
    place = SessionPaths(id=name, directory=sessions / name)
    place.directory.mkdir(parents=True)
    write(place.log, facts or SESSION)
    return place


def test_summary_says_what_a_list_shows(tmp_path: Path) -> None:
    summary = summarize(session(tmp_path, "20260101-000000-abcd"))
    assert (summary.title, summary.workspace, summary.model, summary.mode) == (
        "make it work",
        "/w",
        "m/n",
        "ask",
    )
    assert (summary.turns, summary.ending, summary.is_closed) == (2, "done", True)
    assert summary.started <= summary.last


def test_name_is_the_title(tmp_path: Path) -> None:
    summary = summarize(session(tmp_path, "a", *SESSION, SessionNamed(name="the parser")))
    assert (summary.title, summary.is_closed) == ("the parser", True)


def test_signal_that_ended_the_session_is_its_ending(tmp_path: Path) -> None:
    end = SessionEnded(exit_code=143, ending=Ending.TERMINATED)
    assert summarize(session(tmp_path, "a", *SESSION, end)).ending == "terminated"
    assert summarize(session(tmp_path, "b", *SESSION, SessionEnded(exit_code=0))).ending == "done"


def test_session_that_was_cut_short_says_how_far_it_came(tmp_path: Path) -> None:
    summary = summarize(session(tmp_path, "a", *SESSION[:12]))
    assert (summary.turns, summary.ending, summary.is_closed) == (2, "", False)


@pytest.mark.parametrize("data", [b"", b"\n", b"not json\n", b"[]\n", b"\x00" * 5000, b'{"v":1}\n'])
def test_log_that_is_none_is_listed_all_the_same(tmp_path: Path, data: bytes) -> None:
    place = session(tmp_path, "a")
    place.log.write_bytes(data)
    (summary,) = list_sessions(tmp_path)
    assert (summary.id, summary.turns, summary.title) == ("a", 0, "")


ODD: tuple[Any, ...] = (None, True, 7, 1.5, "x", "\ud800\0", [], ["x"], [7], {}, {"x": [None]})


def odd_ones(value: Any) -> Iterator[Any]:
    """The value with each part of it, and itself, replaced by something of each type."""
    yield from ODD
    if not isinstance(value, dict | list):
        return
    for key in value if isinstance(value, dict) else range(len(value)):
        for odd in odd_ones(value[key]):
            copy: Any = value.copy()
            copy[key] = odd
            yield copy


def test_log_with_anything_in_any_place_is_listed_and_searched(tmp_path: Path) -> None:
    facts = (
        *(STARTED, asked("first"), replied(A), finished(A), DONE),
        SessionNamed(name="parser"),
        SessionForked(session="s", origin="o", at_seq=3),
        ModeChanged(mode="auto"),
        SessionEnded(exit_code=0),
    )
    place = session(tmp_path, "a", *facts)
    for line in place.log.read_text().splitlines():
        for odd in odd_ones(json.loads(line)):
            place.log.write_text(json.dumps(odd, separators=(",", ":")) + "\n")
            summary = summarize(place)
            assert {type(value) for value in build_session_json(summary).values()} == {str, int}
            assert format_session_line(summary).encode()
            assert not Path(summary.workspace, "none").exists()
            assert all(f"{hit.seq:>5} {hit.fact}" for hit in search_session(place, "x"))


def test_damaged_record_leaves_what_stands_before_it(tmp_path: Path) -> None:
    place = session(tmp_path, "a", STARTED, asked("first"), ModeChanged(mode="auto"))
    before = summarize(place)
    text = place.log.read_text()
    place.log.write_text(text.replace('"mode":"auto"', '"mode":["auto"]'))
    assert summarize(place) == replace(before, mode="ask")


def test_session_is_found_by_either_end_of_its_id_its_name_or_its_path(tmp_path: Path) -> None:
    first = session(tmp_path, "20260101-000000-abcd")
    second = session(tmp_path, "20260202-000000-ef01", *SESSION, SessionNamed(name="parser"))
    assert find_session("abcd", tmp_path) == first
    assert find_session("20260202", tmp_path) == second
    assert find_session("parser", tmp_path) == second
    assert find_session(str(first.log), tmp_path / "elsewhere") == first
    assert find_session(str(first.directory), tmp_path / "elsewhere") == first


def test_id_that_could_be_two_is_an_error_that_names_them(tmp_path: Path) -> None:
    session(tmp_path, "20260101-000000-abcd")
    session(tmp_path, "20260101-000001-ef01")
    with pytest.raises(UsageError, match="20260101-000000-abcd, 20260101-000001-ef01"):
        find_session("2026", tmp_path)


def test_session_that_does_not_exist_is_an_error_with_the_nearest(tmp_path: Path) -> None:
    session(tmp_path, "20260101-000000-abcd")
    with pytest.raises(SettingsError, match="Did you mean 20260101-000000-abcd"):
        find_session("20260101-000000-abce", tmp_path)
    with pytest.raises(SettingsError, match="no log at"):
        find_session(str(tmp_path / "none"), tmp_path)


def test_latest_session_is_the_last_that_was_asked_something_here(tmp_path: Path) -> None:
    session(tmp_path, "1", STARTED, asked("first"))
    session(tmp_path, "2", STARTED, asked("second"))
    session(tmp_path, "3", STARTED)
    assert find_latest_session(Path("/w"), tmp_path).title == "second"
    with pytest.raises(SettingsError, match="no sessions in /elsewhere"):
        find_latest_session(Path("/elsewhere"), tmp_path)


def test_sessions_directory_that_does_not_exist_has_none(tmp_path: Path) -> None:
    assert list_sessions(tmp_path / "none") == []


def test_search_finds_words_in_any_case_where_they_were_said(tmp_path: Path) -> None:
    place = session(tmp_path, "a")
    assert [(hit.seq, hit.fact, hit.excerpt) for hit in search_session(place, "it HANGS")] == [
        (14, "model_replied", "It hangs.")
    ]
    assert list(search_session(place, "nobody said this")) == []


def test_lock_is_held_by_one_process_and_names_it(tmp_path: Path) -> None:
    lock = SessionLock(tmp_path)
    assert is_held(tmp_path)
    with pytest.raises(SessionInUse, match=f"pid {os.getpid()}") as raised:
        SessionLock(tmp_path)
    assert raised.value.hint == f"work on a copy of it: agentcli fork {tmp_path.name}"
    lock.release()
    assert not is_held(tmp_path)
    SessionLock(tmp_path).release()


def test_lock_of_a_process_that_was_killed_is_none(tmp_path: Path) -> None:
    program = f"""
import time
from pathlib import Path
from agentcli.log.lock import SessionLock
lock = SessionLock(Path({str(tmp_path)!r}))
print("held", flush=True)
time.sleep(60)
"""
    holder = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)
    assert holder.stdout is not None
    holder.stdout.readline()
    assert is_held(tmp_path)
    holder.kill()
    holder.communicate()
    assert not is_held(tmp_path)
    SessionLock(tmp_path).release()


def test_session_that_cannot_be_written_is_an_error_with_a_way_out(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="cannot write to the session") as raised:
        SessionLock(tmp_path / "none")
    assert "agentcli fork none" in raised.value.hint
