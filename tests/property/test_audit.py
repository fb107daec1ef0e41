from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given, settings
from hypothesis import strategies as st

from agentcli.log.audit import AuditResult, LogHead, audit_log
from tests.support.record import SESSION, write

with TemporaryDirectory() as scratch:
    write(Path(scratch) / "log.jsonl")
    WHOLE = (Path(scratch) / "log.jsonl").read_bytes()
    KEPT = audit_log(Path(scratch) / "log.jsonl").head
LINES = WHOLE.splitlines(keepends=True)
RECORDS = st.integers(0, len(SESSION) - 1)


def audited(data: bytes, kept: LogHead | None = None) -> AuditResult:
    with TemporaryDirectory() as place:
        path = Path(place) / "log.jsonl"
        path.write_bytes(data)
        return audit_log(path, kept=kept)


@settings(deadline=None)
@given(at=st.integers(0, len(WHOLE) - 1), bit=st.integers(0, 7))
def test_flipped_bit_is_found_in_its_record(at: int, bit: int) -> None:
    changed = bytearray(WHOLE)
    changed[at] ^= 1 << bit
    line = WHOLE[:at].count(b"\n") + 1
    found = audited(bytes(changed), KEPT)
    assert found.status == "broken"
    assert found.faults[0].line == line


@settings(deadline=None)
@given(RECORDS)
def test_dropped_record_is_found_where_it_is_missing(index: int) -> None:
    found = audited(b"".join(LINES[:index] + LINES[index + 1 :]), KEPT)
    assert found.faults[0].line == index + 1


@settings(deadline=None)
@given(st.lists(RECORDS, min_size=2, max_size=2, unique=True))
def test_swapped_records_are_found_at_the_first(two: list[int]) -> None:
    first, second = sorted(two)
    lines = list(LINES)
    lines[first], lines[second] = lines[second], lines[first]
    assert audited(b"".join(lines), KEPT).faults[0].line == first + 1


@settings(deadline=None)
@given(of=RECORDS, at=st.integers(0, len(SESSION)))
def test_inserted_record_is_found_where_it_stands(of: int, at: int) -> None:
    found = audited(b"".join([*LINES[:at], LINES[of], *LINES[at:]]), KEPT)
    # The copy and its original cannot be told apart where they stand side by side.
    assert found.faults[0].line == (at + 2 if at == of else at + 1)


@settings(deadline=None)
@given(st.integers(0, len(WHOLE)))
def test_log_cut_at_any_byte_is_sound_up_to_its_last_whole_record(length: int) -> None:
    found = audited(WHOLE[:length])
    assert found.faults == ()
    assert found.records == WHOLE[:length].count(b"\n")
    assert found.status == ("intact" if length == len(WHOLE) else "open")


@settings(deadline=None)
@given(st.integers(0, len(WHOLE) - 1))
def test_kept_head_shows_that_the_end_was_cut_off(length: int) -> None:
    found = audited(WHOLE[:length], KEPT)
    assert found.faults[0].line == WHOLE[:length].count(b"\n") + 1
