import hashlib
import json
import stat
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest

from agentcli.log.paths import create_session_paths
from agentcli.log.reader import read_log
from agentcli.log.writer import FIRST_PREV, LogWriter, read_lines, verify_seal
from agentcli.types.errors import SettingsError
from agentcli.types.events import ContextNote, Entry, Fact, NoteReason
from tests.support.record import write


def entry(seq: int, text: str = "x") -> Entry:
    return Entry(
        seq=seq,
        at="2026-01-01T00:00:00.000Z",
        session="s",
        parent=seq - 1 or None,
        fact=ContextNote(text=text, why="test"),
    )


def sealed(body: bytes) -> bytes:
    return body[:-1] + b',"hash":"' + hashlib.sha256(body).hexdigest().encode() + b'"}'


def written(path: Path, count: int = 3) -> list[Entry]:
    entries = [entry(seq) for seq in range(1, count + 1)]
    log = LogWriter(path)
    for one in entries:
        log.append(one)
    log.close()
    return entries


def test_log_reads_back_what_was_written(tmp_path: Path) -> None:
    entries = written(tmp_path / "log.jsonl")
    assert list(read_log(tmp_path / "log.jsonl").entries) == entries


def test_every_line_carries_the_hash_of_the_one_before(tmp_path: Path) -> None:
    written(tmp_path / "log.jsonl")
    whole = list(read_lines(tmp_path / "log.jsonl"))
    assert [json.loads(line)["prev"] for line in whole] == [
        FIRST_PREV,
        verify_seal(whole[0]),
        verify_seal(whole[1]),
    ]


def test_log_is_continued_under_its_last_hash(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    written(path)
    log = LogWriter(path, prev=read_log(path).last_hash)
    log.append(entry(4))
    log.close()
    assert [one.seq for one in read_log(path).entries] == [1, 2, 3, 4]


def test_log_cut_in_the_middle_of_a_line_reads_up_to_its_last_whole_record(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    entries = written(path)
    data = path.read_bytes()
    for length in range(len(data) + 1):
        path.write_bytes(data[:length])
        whole = data[:length].count(b"\n")
        assert list(read_log(path).entries) == entries[:whole]


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        (b"{not json", "not JSON"),
        (b"[1]", "not a JSON object"),
        (b'{"v":99}', "written in format 99"),
        (b'{"v":1,"prev":"' + b"0" * 64 + b'","fact":{}}', "changed after it was written"),
        (sealed(b'{"v":1,"prev":"else","fact":{}}'), "the chain is broken"),
        (sealed(b'{"v":1,"prev":"' + b"0" * 64 + b'","seq":7}'), "its number is 7, expected 1"),
        (sealed(b'{"v":1,"prev":"' + b"0" * 64 + b'","seq":1}'), "not a record"),
    ],
)
def test_line_that_does_not_fit_is_named(tmp_path: Path, line: bytes, complaint: str) -> None:
    path = tmp_path / "log.jsonl"
    path.write_bytes(line + b"\n")
    with pytest.raises(SettingsError, match=complaint) as raised:
        read_log(path)
    assert f"{path}:1" in str(raised.value)


def test_missing_log_is_an_error_with_a_hint(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="No such file"):
        read_log(tmp_path / "none.jsonl")


def test_full_disk_is_an_error_and_leaves_only_whole_records(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    program = f"""
import resource
from pathlib import Path
from agentcli.log.writer import LogWriter
from agentcli.types.errors import SettingsError
from tests.unit.log.test_log import entry
log = LogWriter(Path({str(path)!r}))
log.append(entry(1))
resource.setrlimit(resource.RLIMIT_FSIZE, (400, 400))
try:
    log.append(entry(2, "y" * 1000))
except SettingsError as error:
    print(error, error.hint, sep="|")
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    message, _, hint = ran.stdout.strip().partition("|")
    assert (ran.returncode, ran.stderr) == (0, "")
    assert message == f"cannot write {path}: File too large"
    assert hint == f"df -h {path.parent}"
    assert list(read_log(path).entries) == [entry(1)]
    assert path.read_bytes().count(b"\n") == 1
    assert path.read_bytes().endswith(b"\n")


def test_log_that_was_removed_takes_no_more_records(tmp_path: Path) -> None:
    log = LogWriter(tmp_path / "log.jsonl")
    log.append(entry(1))
    log.path.unlink()
    with pytest.raises(SettingsError, match=r"log\.jsonl: it was removed"):
        log.append(entry(2))
    log.close()


def test_session_directory_is_its_owners_alone(tmp_path: Path) -> None:
    place = create_session_paths(tmp_path / "state" / "sessions")
    LogWriter(place.log).close()
    modes = {
        path.name: stat.S_IMODE(path.stat().st_mode)
        for path in (place.directory, place.out, place.log)
    }
    assert modes == {place.id: 0o700, "out": 0o700, "log.jsonl": 0o600}


def test_two_sessions_in_one_second_get_two_directories(tmp_path: Path) -> None:
    places = {create_session_paths(tmp_path).directory for _ in range(50)}
    assert len(places) == 50


def test_state_directory_that_is_a_file_is_an_error_with_a_hint(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("")
    with pytest.raises(SettingsError, match="cannot create a session directory") as raised:
        create_session_paths(tmp_path / "state")
    assert raised.value.hint.startswith("export XDG_STATE_HOME=")


def test_every_fact_is_described_in_the_reference() -> None:
    described = (Path(__file__).parents[3] / "docs" / "reference" / "log.md").read_text()
    types = [fact.__dataclass_fields__["type"].default for fact in get_args(Fact)]
    assert [name for name in types if f"`{name}`" not in described] == []


def test_every_reason_for_telling_is_described_in_the_reference() -> None:
    described = (Path(__file__).parents[3] / "docs" / "reference" / "log.md").read_text()
    assert [why for why in NoteReason if f"`{why}`" not in described] == []


def test_reason_that_another_version_had_is_read_back_as_it_is(tmp_path: Path) -> None:
    told = [
        ContextNote(text="a", why="a reason of another version"),
        ContextNote(text="b", why=NoteReason.SHELL),
    ]
    write(tmp_path / "log.jsonl", told)
    assert [entry.fact for entry in read_log(tmp_path / "log.jsonl").entries] == told
    assert '"why":"user ran"' in (tmp_path / "log.jsonl").read_text()


def test_log_is_on_disk_before_a_call_changes_anything(tmp_path: Path) -> None:
    program = f"""
import os
from pathlib import Path
from agentcli.agent.journal import Journal
from agentcli.log.writer import LogWriter
from tests.support.record import SESSION
synced = []
os.fsync = lambda fd: synced.append(os.fstat(fd).st_size)
log = LogWriter(Path({str(tmp_path / "log.jsonl")!r}))
journal = Journal("s", record=log.append)
for fact in SESSION:
    before = len(synced)
    journal.append(fact)
    print(fact.type, len(synced) - before)
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    rows = [line.split() for line in ran.stdout.splitlines()]
    assert [name for name, count in rows if count == "1"] == [
        "call_judged",
        "call_finished",
        "turn_ended",
        "call_judged",
        "call_finished",
        "turn_ended",
        "session_ended",
    ]
