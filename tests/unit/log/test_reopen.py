import copy
import json
import pickle
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agentcli.log.reader import read_valid_part
from agentcli.log.reopen import ReopenedLog, is_read, reopen_log
from agentcli.types.errors import Ending, SettingsError
from agentcli.types.events import CallFinished, Fact, ModelReplied, TurnEnded
from agentcli.types.messages import Usage
from agentcli.types.tools import ChildTurn
from tests.support.record import SESSION, STARTED, A, asked, finished, replied, rewrite, write

OURS = STARTED.version


def reopened(
    tmp_path: Path, facts: Sequence[Fact] = SESSION, *, version: str = OURS
) -> ReopenedLog:
    write(tmp_path / "log.jsonl", facts)
    return reopen_log(tmp_path / "log.jsonl", version=version)


def find_reply(log: ReopenedLog) -> ModelReplied:
    return next(fact for fact in log.facts if isinstance(fact, ModelReplied))


def test_reopened_log_has_the_facts_of_the_log(tmp_path: Path) -> None:
    log = reopened(tmp_path)
    recorded = read_valid_part(tmp_path / "log.jsonl")
    entries = recorded.entries
    assert not all(map(is_read, log.facts))
    assert [type(one).__name__ for one in log.facts] == [type(one).__name__ for one in SESSION]
    assert log.seqs == [entry.seq for entry in entries]
    assert log.times == [entry.at for entry in entries]
    assert log.session == entries[-1].session
    assert (log.last_seq, log.last_hash) == (recorded.last_seq, recorded.last_hash)
    assert log.size_bytes == recorded.size_bytes == (tmp_path / "log.jsonl").stat().st_size
    assert tuple(log.facts) == SESSION
    assert [type(one) for one in log.facts] == [type(one) for one in SESSION]


def test_fact_is_read_when_a_field_is_asked_for(tmp_path: Path) -> None:
    log = reopened(tmp_path)
    reply = find_reply(log)
    assert reply.type == "model_replied"
    assert not is_read(reply)
    assert reply.retries == 0
    assert is_read(reply)
    assert type(reply) is ModelReplied
    assert reply.message.text == "I will."


@pytest.mark.parametrize(
    "use",
    [repr, hash, copy.copy, copy.deepcopy, replace, lambda fact: pickle.loads(pickle.dumps(fact))],
)
def test_unread_fact_is_used_as_any_other(tmp_path: Path, use: Any) -> None:
    ended = next(fact for fact in reopened(tmp_path).facts if isinstance(fact, TurnEnded))
    assert not is_read(ended)
    assert use(ended) == use(TurnEnded(ending=Ending.DONE))


def test_unread_fact_equals_its_like_on_either_side(tmp_path: Path) -> None:
    log = reopened(tmp_path)
    first, last = [fact for fact in log.facts if isinstance(fact, TurnEnded)]
    assert TurnEnded(ending=Ending.DONE) == first
    assert last == first
    assert last != TurnEnded(ending=Ending.CANCELLED)


def test_fact_is_read_once_by_many_threads(tmp_path: Path) -> None:
    replies = [replied(text=f"{number} {'x' * 9000}") for number in range(200)]
    log = reopened(tmp_path, [STARTED, asked("go"), *replies])
    read: list[ModelReplied] = [fact for fact in log.facts if isinstance(fact, ModelReplied)]
    with ThreadPoolExecutor(4) as pool:
        texts = list(pool.map(lambda _: [one.message.text for one in read], range(4)))
    assert texts == [[one.message.text for one in replies]] * 4


def test_lines_of_another_version_are_read_at_once(tmp_path: Path) -> None:
    assert all(map(is_read, reopened(tmp_path, version="another").facts))


def test_results_that_name_an_agent_or_tools_are_read_at_once(tmp_path: Path) -> None:
    turn = ChildTurn(role="", ending="done", calls=0, usage=Usage(), cost_usd=None, log_path="x")
    plain = finished(A, text='"type":"child_turn" and "found":[')
    of_child = CallFinished(result=replace(plain.result, details=turn))
    of_search = CallFinished(result=replace(plain.result, content=(), found=("a",)), duration_s=1)
    log = reopened(tmp_path, [STARTED, plain, of_child, of_search])
    assert list(map(is_read, log.facts)) == [True, False, True, True]


def test_damaged_log_is_named_as_by_every_reader(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    write(path, SESSION)
    data = path.read_bytes()
    for at in range(0, len(data), 7):
        path.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
        log, recorded = reopen_log(path, version=OURS), read_valid_part(path)
        assert log.fault == recorded.fault
        assert (log.last_seq, log.last_hash) == (recorded.last_seq, recorded.last_hash)
        assert len(log.facts) == len(recorded.entries)


def test_missing_line_is_named_as_by_every_reader(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    write(path, SESSION)
    lines = path.read_bytes().splitlines(keepends=True)
    for missing in range(len(lines) - 1):
        path.write_bytes(b"".join([*lines[:missing], *lines[missing + 1 :]]))
        fault = reopen_log(path, version=OURS).fault
        assert fault == read_valid_part(path).fault
        assert fault is not None
        assert fault.line == missing + 1


def test_record_with_a_wrong_content_is_an_error_when_it_is_needed(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    write(path, SESSION)

    def spoil(facts: list[dict[str, Any]]) -> None:
        facts[2] = {"message": 7, "type": "model_replied"}

    rewrite(path, spoil)
    assert reopen_log(path, version="another").fault == read_valid_part(path).fault
    reply = find_reply(reopen_log(path, version=OURS))
    with pytest.raises(SettingsError, match="record 3 of the log is not of this format"):
        json.dumps(reply.message)


def test_log_without_a_file_is_an_error_with_a_hint(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="cannot read the session log"):
        reopen_log(tmp_path / "log.jsonl", version=OURS)
