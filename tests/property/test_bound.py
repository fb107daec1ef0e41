import os
import re
import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from agentcli.permissions.secrets import Redactor
from agentcli.system.output import BoundedOutput, FilteredSink, OutputExcerpt, cap
from agentcli.system.plain_text import to_plain_text
from tests.support.examples import examples
from tests.unit.permissions.test_secrets import SHAPED, VALUE

TERMINAL = st.text(
    st.sampled_from("ab é😀\n\t\r\b\x1b[];?0189mKCDGP\\\x07\x00\x7f\x85\x9b\x9c\x9d\u2028"),
    max_size=200,
)
PIECES = st.lists(
    st.tuples(
        st.sampled_from([b"x", b"line\n", b"\n", b"\xff", "é😀".encode(), b"\x1b[31m", b"20%\r"]),
        st.integers(1, 40_000),
    ),
    max_size=5,
)
CHUNK = st.integers(500, 100_000)
LEFT_OUT = re.compile(r"\[\.\.\. ([\d ]+) bytes left out \.\.\.\]")


def fed(data: bytes, *, chunk_bytes: int) -> tuple[BoundedOutput, bytes]:
    with tempfile.TemporaryDirectory() as name:
        path = Path(name, "1.log")
        bounded = BoundedOutput(Path("1.log"), os.open(path, os.O_WRONLY | os.O_CREAT, 0o600))
        for at in range(0, len(data), chunk_bytes):
            bounded.feed(data[at : at + chunk_bytes])
        bounded.close()
        return bounded, path.read_bytes()


def excerpt(bounded: BoundedOutput) -> OutputExcerpt:
    return bounded.read_lines().build_excerpt(limit_bytes=30_000, head_bytes=10_000)


@given(PIECES, CHUNK)
@examples(60)
def test_any_chunking_gives_the_same_excerpt(
    pieces: list[tuple[bytes, int]], chunk_bytes: int
) -> None:
    data = b"".join(piece * count for piece, count in pieces)
    in_chunks, logged = fed(data, chunk_bytes=chunk_bytes)
    at_once, _ = fed(data, chunk_bytes=len(data) or 1)
    assert in_chunks.read_lines() == at_once.read_lines()
    assert logged == data


SECRETS = st.lists(
    st.tuples(st.floats(0, 1), st.sampled_from([VALUE, *SHAPED])), min_size=1, max_size=12
)


@given(SECRETS, CHUNK, st.integers(0, 60_000))
@examples(25)
def test_output_beyond_what_is_stored_shows_its_end_without_secrets(
    planted: list[tuple[float, str]], chunk_bytes: int, limit_bytes: int
) -> None:
    lines = [f"line {number} of the output" for number in range(60_000)]
    for share, secret in planted:
        at = int(share * (len(lines) - 1))
        lines[at] = f"line {at} has {secret}"
    data = "\n".join(lines).encode()
    with tempfile.TemporaryDirectory() as name:
        path = Path(name, "1.log")
        handle = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
        bounded = BoundedOutput(path, handle, limit_bytes=limit_bytes)
        sink = FilteredSink(bounded, Redactor(environ={"A_KEY": VALUE}).open_bytes_stream())
        for at in range(0, len(data), chunk_bytes):
            sink.feed(data[at : at + chunk_bytes])
        sink.close()
        stored = path.read_text(errors="replace")
    shown = bounded.read_lines()
    kept = "".join((*shown.head, *shown.tail))
    assert not [secret for _, secret in planted for text in (stored, kept) if secret in text]
    assert shown.lines == len(stored.splitlines())
    whole = [line for line in shown.tail[1:] if line.startswith("line ")]
    ends = [line.partition(" of")[0].partition(" has")[0] for line in whole]
    assert ends == [f"line {number}" for number in range(len(lines) - len(ends), len(lines))]
    assert len(ends) > 1000


@given(PIECES)
@examples(60)
def test_excerpt_never_exceeds_its_limit_by_more_than_its_note(
    pieces: list[tuple[bytes, int]],
) -> None:
    bounded, _ = fed(b"".join(piece * count for piece, count in pieces), chunk_bytes=65_536)
    shown = excerpt(bounded)
    assert len(shown.text.encode()) <= 30_000 + 200
    assert shown.shown_lines <= shown.lines
    assert to_plain_text(shown.text) == shown.text


@given(st.lists(st.tuples(st.integers(0, 300), st.integers(1, 1_000)), max_size=6))
@examples(60)
def test_what_is_shown_and_what_is_left_out_is_everything(runs: list[tuple[int, int]]) -> None:
    lengths = [length for length, count in runs for _ in range(count)]
    data = b"".join(b"x" * length + b"\n" for length in lengths)
    bounded, _ = fed(data, chunk_bytes=65_536)
    shown = excerpt(bounded)
    note = re.search(r"^\[\.\.\. ([\d ]+) bytes, ([\d ]+) lines left out.*\n", shown.text, re.M)
    if note is None:
        assert shown.text.encode() == data
        return
    left_out_bytes, left_out_lines = (int(part.replace(" ", "")) for part in note.groups())
    assert len(shown.text) - len(note[0]) + left_out_bytes == len(data)
    assert shown.shown_lines + left_out_lines == len(lengths)


@given(st.text(max_size=3_000), st.integers(100, 2_000))
@settings(deadline=None)
def test_cap_never_exceeds_its_limit_and_counts_the_rest(text: str, limit_bytes: int) -> None:
    capped, was_cut = cap(text, limit_bytes)
    size = len(text.encode())
    assert len(capped.encode()) <= limit_bytes
    assert was_cut == (size > limit_bytes)
    if was_cut:
        note = LEFT_OUT.search(capped)
        assert note is not None
        kept_bytes = len(capped.encode()) - len(note[0]) - 2
        assert kept_bytes + int(note[1].replace(" ", "")) == size


@given(TERMINAL)
@settings(deadline=None)
def test_plain_leaves_no_control_and_keeps_every_line(text: str) -> None:
    result = to_plain_text(text)
    assert re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", result) is None
    assert result.count("\n") == text.count("\n")
    assert to_plain_text(result) == result


@given(TERMINAL, TERMINAL)
@settings(deadline=None)
def test_lines_are_made_plain_one_by_one(before: str, after: str) -> None:
    assert to_plain_text(f"{before}\n{after}") == f"{to_plain_text(before)}\n{to_plain_text(after)}"
