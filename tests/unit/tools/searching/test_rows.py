import base64
import json
from pathlib import Path
from typing import Any

import pytest

from agentcli.tools.search.rows import FileCounts, MatchRows
from agentcli.tools.search.scope import SearchScope

SCOPE = SearchScope(where="", root=Path(), cwd=Path(), target=".", prefix="src/")


def message(kind: str, **data: Any) -> bytes:
    parts = {"type": kind, "data": {"path": {"text": "./a"}, **data}}
    return json.dumps(parts, separators=(",", ":")).encode()


def match(number: int, text: str, start: int = 0) -> bytes:
    submatches = [{"match": {"text": "x"}, "start": start, "end": start + 1}] * 3
    return message(
        "match", lines={"text": text}, line_number=number, absolute_offset=0, submatches=submatches
    )


def test_record_that_was_cut_after_its_line_is_still_read() -> None:
    rows = MatchRows(SCOPE, limit=5)
    whole = match(7, "y" * 99_900 + "x" + "y" * 900 + "\n", start=99_900)
    assert rows.take(whole[: whole.index(b'"end"') + 20])
    assert rows.lines() == ["src/a", f"  7: …{'y' * 199}x{'y' * 200}…"]


def test_record_that_was_cut_within_its_line_is_counted() -> None:
    rows = MatchRows(SCOPE, limit=5)
    assert rows.take(match(7, "x" * 200_000)[:100_000])
    assert rows.lines() == []
    assert list(rows.notes()) == ["1 match of over 16 MB not shown"]


def test_file_that_turns_out_binary_is_taken_back() -> None:
    rows = MatchRows(SCOPE, limit=5)
    rows.take(match(1, "x\n"))
    rows.take(message("end", binary_offset=100_000))
    assert (rows.lines(), rows.matches, rows.files) == ([], 0, 0)


def test_bytes_come_as_base64() -> None:
    rows = MatchRows(SCOPE, limit=5)
    raw = base64.b64encode(b"\xffx\n").decode()
    rows.take(
        message("match", lines={"bytes": raw}, line_number=1, submatches=[{"start": 1, "end": 2}])
    )
    assert rows.lines() == ["src/a", "  1: \ufffdx"]


def test_lines_of_one_match_are_numbered_on() -> None:
    rows = MatchRows(SCOPE, limit=5)
    rows.take(match(7, "x\r\n\r\ny\r\n"))
    assert rows.lines() == ["src/a", "  7: x", "  8:", "  9: y"]
    assert rows.matches == 1


def test_context_of_a_match_that_is_not_shown_is_not_shown() -> None:
    rows = MatchRows(SCOPE, limit=1, before=1, after=1)
    rows.take(match(1, "x\n"))
    rows.take(message("context", lines={"text": "after\n"}, line_number=2, submatches=[]))
    rows.take(message("context", lines={"text": "before\n"}, line_number=8, submatches=[]))
    assert not rows.take(match(9, "x\n"))
    assert rows.lines() == ["src/a", "  1: x", "  2- after"]


def test_tally_reads_names_with_newlines() -> None:
    tally = FileCounts(SCOPE, limit=5, with_counts=True)
    for record in (b"./a\0" + b"3", b"./two", b"lines\0" + b"1"):
        assert tally.take(record)
    assert tally.lines() == ["src/a: 3", "src/two\\nlines: 1"]
    assert list(tally.notes()) == ["4 matches in 2 files"]


@pytest.mark.parametrize("character", ["y", "é", "日", "😀"])
@pytest.mark.parametrize(
    ("before", "after"), [(0, 900), (900, 0), (10, 900), (900, 10), (900, 900)]
)
def test_window_holds_the_match_and_is_full(character: str, before: int, after: int) -> None:
    rows = MatchRows(SCOPE, limit=5)
    text = character * before + "x" + character * after
    rows.take(match(1, text, start=len((character * before).encode())))
    shown = rows.lines()[1].removeprefix("  1: ")
    window = shown.strip("…")
    assert "x" in window
    assert len(window) == 400
    assert (shown.startswith("…"), shown.endswith("…")) == (before > 200, after > 200)
