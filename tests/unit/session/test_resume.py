from collections.abc import Sequence
from pathlib import Path

import pytest

from agentcli.agent.history import MAY_HAVE_RUN, NEVER_RAN
from agentcli.agent.journal import Journal
from agentcli.log.audit import audit_log
from agentcli.log.paths import SessionPaths
from agentcli.log.reader import read_log
from agentcli.log.reopen import is_read, reopen_log
from agentcli.session.context_sources import build_delegate_spec
from agentcli.session.start import add_fact, close_unfinished, open_existing
from agentcli.settings import build_settings
from agentcli.types.errors import SettingsError
from agentcli.types.events import (
    CallFinished,
    Fact,
    PastFacts,
    SessionForked,
    SessionNamed,
    TurnEnded,
)
from tests.support.record import SESSION, STARTED, A, judged, rewrite, write


def closed(facts: Sequence[Fact]) -> tuple[list[Fact], tuple[str, ...]]:
    past = PastFacts(facts=facts, seqs=range(1, len(facts) + 1), times=[""] * len(facts))
    added: list[Fact] = []
    journal = Journal("s", record=lambda entry: added.append(entry.fact), past=past)
    return added, close_unfinished(journal)


def test_closed_session_has_no_open_ends() -> None:
    assert closed(SESSION) == ([], ())
    assert closed([*SESSION, SessionNamed(name="x")]) == ([], ())


def test_open_calls_are_answered_by_what_can_be_known_of_them() -> None:
    added, words = closed([*SESSION[:3], judged(A)])
    results = [fact.result for fact in added if isinstance(fact, CallFinished)]
    assert [(one.call_id, one.text) for one in results] == [("a", MAY_HAVE_RUN), ("b", NEVER_RAN)]
    assert isinstance(added[-1], TurnEnded)
    assert words == (
        "the call a (bash) had no result",
        "the call b (bash) had no result",
        "its last turn had no end",
        "it was not closed",
    )


def test_session_that_died_between_turns_was_only_not_closed() -> None:
    assert closed(SESSION[:9]) == ([], ("it was not closed",))


def test_turn_of_a_fresh_fork_stays_open() -> None:
    fork = SessionForked(session="t", origin="s", at_seq=3)
    assert closed([*SESSION[:3], fork]) == ([], ())


def place_with(tmp_path: Path, facts: Sequence[Fact] = SESSION) -> SessionPaths:
    place = SessionPaths(id="s", directory=tmp_path / "s")
    place.directory.mkdir()
    write(place.log, facts)
    return place


@pytest.mark.parametrize("cut_bytes", [1, 50, 200])
def test_unfinished_record_is_set_aside_and_nothing_else(tmp_path: Path, cut_bytes: int) -> None:
    place = place_with(tmp_path)
    whole = place.log.read_bytes()
    place.log.write_bytes(whole[:-cut_bytes])
    taken = open_existing(place)
    taken.lock.release()
    kept = next(place.directory.glob("unfinished-*.txt"))
    assert place.log.read_bytes() + kept.read_bytes() == whole[:-cut_bytes]
    assert list(taken.past.seqs) == list(range(1, 16))


def test_log_that_was_tampered_with_is_not_continued(tmp_path: Path) -> None:
    place = place_with(tmp_path)
    data = place.log.read_bytes().replace(b"It works.", b"It fails.")
    place.log.write_bytes(data)
    with pytest.raises(SettingsError, match="changed after it was written") as raised:
        open_existing(place)
    assert raised.value.hint.endswith("agentcli fork s")
    assert place.log.read_bytes() == data
    with pytest.raises(SettingsError):
        open_existing(place)  # and not because the first one still holds it


def test_fact_is_added_to_a_session_nobody_works_in(tmp_path: Path) -> None:
    place = place_with(tmp_path)
    add_fact(place, SessionNamed(name="x"))
    assert read_log(place.log).entries[-1].fact == SessionNamed(name="x")
    assert audit_log(place.log).status == "intact"


def test_session_with_a_last_record_of_a_newer_version_is_continued_after_it(
    tmp_path: Path,
) -> None:
    place = place_with(tmp_path)
    rewrite(place.log, lambda facts: facts.append({"type": "from_the_future"}))
    add_fact(place, SessionNamed(name="x"))
    found = audit_log(place.log)
    assert (found.records, found.faults) == (18, ())


def test_record_that_is_cut_short_twice_is_set_aside_twice(tmp_path: Path) -> None:
    place = place_with(tmp_path)
    for half in (b'{"v":1,"seq":17,"half', b'{"v":1,"se'):
        with place.log.open("ab") as log:
            log.write(half)
        open_existing(place).lock.release()
    kept = sorted(path.read_bytes() for path in place.directory.glob("unfinished-17*.txt"))
    assert kept == [b'{"v":1,"se', b'{"v":1,"seq":17,"half']


def test_declaring_delegate_reads_no_other_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    write(tmp_path / "log.jsonl", SESSION)
    past = reopen_log(tmp_path / "log.jsonl", version=STARTED.version).facts
    spec = build_delegate_spec(build_settings({}, workspace=tmp_path), (), past=past)
    assert spec.deferred
    results = [fact for fact in past if isinstance(fact, CallFinished)]
    assert results
    assert not any(map(is_read, results))
