import pytest

from agentcli.providers.http import http1
from agentcli.providers.http.http1 import ResponseHead, ResponseReader
from agentcli.providers.http.sockets import ConnectionBroken
from agentcli.types.errors import ProviderErrorKind

CHUNKED = (
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n1;x=y\r\n!\r\n0\r\n\r\n"
)


def read(*pieces: bytes, closed: bool = False) -> tuple[ResponseReader, bytes]:
    response = ResponseReader()
    body = b"".join(response.feed(piece) for piece in pieces)
    if closed:
        response.end()
    return response, body


def one_by_one(data: bytes) -> list[bytes]:
    return [data[index : index + 1] for index in range(len(data))]


@pytest.mark.parametrize("pieces", [[CHUNKED], one_by_one(CHUNKED)])
def test_chunked_body_is_joined(pieces: list[bytes]) -> None:
    response, body = read(*pieces)
    assert (body, response.finished) == (b"hello!", True)
    assert response.head is not None
    assert response.head.keeps_alive


def test_trailers_are_passed_over() -> None:
    response, body = read(CHUNKED[:-2] + b"X-Sum: 1\r\n\r\n")
    assert (body, response.finished) == (b"hello!", True)


def test_length_says_where_a_body_ends() -> None:
    response, body = read(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabcEXTRA")
    assert (body, response.finished) == (b"abc", True)


def test_empty_body_is_finished_with_its_head() -> None:
    response, body = read(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
    assert (body, response.finished) == (b"", True)


def test_length_said_twice_counts_once() -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 3\r\n\r\n"
    response, body = read(head + b"abc")
    assert (body, response.finished) == (b"abc", True)


@pytest.mark.parametrize("status", [b"204 No Content", b"304 Not Modified"])
def test_status_without_a_body_is_finished_with_its_head(status: bytes) -> None:
    response, body = read(b"HTTP/1.1 " + status + b"\r\n\r\n")
    assert (body, response.finished) == (b"", True)


def test_other_protocol_is_told_by_its_first_line() -> None:
    with pytest.raises(ConnectionBroken, match=r"does not speak HTTP/1.1: 'SSH-2.0'"):
        read(b"SSH-2.0\r\n")


def test_body_without_framing_ends_with_the_connection() -> None:
    response, body = read(b"HTTP/1.1 200 OK\r\n\r\nabc", b"def", closed=True)
    assert (body, response.finished) == (b"abcdef", True)
    assert response.head is not None
    assert not response.head.keeps_alive


def test_interim_answers_are_passed_over() -> None:
    response, _ = read(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Hints\r\nLink: x\r\n\r\n")
    assert response.head is None
    response.feed(b"HTTP/1.1 200 OK\r\nA: 1\r\na: 2\r\nContent-Length: 0\r\n\r\n")
    assert response.head == ResponseHead(
        status=200, headers={"a": "1, 2", "content-length": "0"}, is_http_1_1=True
    )


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n", True),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nConnection: close\r\n\r\n", False),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\n", False),
        (b"HTTP/1.1 200\r\nContent-Length: -1\r\n\r\n", False),
    ],
)
def test_connection_is_kept_only_when_all_agree(head: bytes, expected: bool) -> None:
    response, _ = read(head)
    assert response.head is not None
    assert response.head.keeps_alive is expected


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"HTTP/1.1 200",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabc",
        CHUNKED[:-1],
        CHUNKED[:-5],
        CHUNKED[:-10],
    ],
)
def test_early_end_is_broken_as_cut(data: bytes) -> None:
    with pytest.raises(ConnectionBroken) as caught:
        read(data, closed=True)
    assert caught.value.kind is ProviderErrorKind.CUT


@pytest.mark.parametrize(
    "data",
    [
        b"SSH-2.0-OpenSSH\r\n\r\n",
        b"HTTP/2 200\r\n\r\n",
        b"\r\n",
        b"x" * (http1.LIMIT_LINE_BYTES + 1),
        b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * (http1.LIMIT_HEADERS + 1),
    ],
)
def test_what_is_not_http_is_broken_for_good(data: bytes) -> None:
    with pytest.raises(ConnectionBroken) as caught:
        read(data)
    assert caught.value.max_attempts == 1


@pytest.mark.parametrize("data", [b"\x15\x03\x01\x00\x02\x02\x46", b"\x15\x03\x03\x00\x02\x02\n"])
def test_tls_in_place_of_http_is_told(data: bytes) -> None:
    with pytest.raises(ConnectionBroken, match="speaks TLS") as caught:
        read(data, closed=True)
    assert (caught.value.max_attempts, caught.value.hint) == (1, "use https in the base URL")


@pytest.mark.parametrize("size", [b"xyz", b"-5", b"", b"ffffffffffffffffff"])
def test_bad_chunk_size_is_broken(size: bytes) -> None:
    with pytest.raises(ConnectionBroken):
        read(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + size + b"\r\n")
