"""However a stream is cut into pieces, the same message comes out of it."""

from itertools import pairwise
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from agentcli.providers.http.http1 import ResponseReader
from agentcli.providers.http.sse import Event, EventStream
from agentcli.types.errors import ProviderError, ProviderErrorKind
from tests.support.anthropic_fixtures import cases, decoded
from tests.support.examples import examples

WHOLE = [case for case in cases() if not (case / "error.json").exists()]
SMALL = [case for case in WHOLE if (case / "stream.sse").stat().st_size < 5000]

LINES = st.lists(
    st.sampled_from(
        [
            b"data: {}",
            b'data: {"a": "\xc3\xa9\xe2\x80\xa8"}',
            b"data:",
            b": x",
            b"event: y",
            b"",
            b"",
        ]
    ),
    max_size=12,
)
ENDS = st.sampled_from([b"\n", b"\r\n", b"\r"])


def cut(data: bytes, places: list[int]) -> list[bytes]:
    borders = [0, *sorted(place % (len(data) + 1) for place in places), len(data)]
    return [data[start:end] for start, end in pairwise(borders)]


@examples(80)
@given(case=st.sampled_from(SMALL), places=st.lists(st.integers(0, 5000), max_size=40))
def test_stream_cut_anywhere_gives_the_same_message(case: Path, places: list[int]) -> None:
    raw = (case / "stream.sse").read_bytes()
    assert decoded(cut(raw, places)) == decoded([raw])


@examples(100)
@given(lines=LINES, end=ENDS, places=st.lists(st.integers(0, 500), max_size=20))
def test_events_do_not_depend_on_cuts_or_line_ends(
    lines: list[bytes], end: bytes, places: list[int]
) -> None:
    def events(chunks: list[bytes]) -> tuple[list[Event], ProviderErrorKind | None]:
        stream, found = EventStream(), list[Event]()
        for chunk in chunks:
            try:
                found += stream.feed(chunk)
            except ProviderError as error:
                return found, error.kind
            if stream.fault:  # the events before it were returned
                return found, stream.fault.kind
        return found, None

    with_feeds = b"".join(line + b"\n" for line in lines)
    with_ends = b"".join(line + end for line in lines)
    assert events(cut(with_ends, places)) == events([with_feeds])


@examples(80)
@given(
    body=st.binary(max_size=300),
    sizes=st.lists(st.integers(1, 60), min_size=1, max_size=8),
    places=st.lists(st.integers(0, 2000), max_size=30),
)
def test_chunked_body_cut_anywhere_is_the_same(
    body: bytes, sizes: list[int], places: list[int]
) -> None:
    raw = bytearray(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n")
    raw += b"Transfer-Encoding: chunked\r\n\r\n"
    rest = body
    while rest:
        size = sizes[len(rest) % len(sizes)]
        piece, rest = rest[:size], rest[size:]
        raw += b"%X\r\n%s\r\n" % (len(piece), piece)
    raw += b"0\r\n\r\n"
    response = ResponseReader()
    assert b"".join(response.feed(piece) for piece in cut(bytes(raw), places)) == body
    assert response.finished
