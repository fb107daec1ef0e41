import json

import pytest

from agentcli.providers.http import sse
from agentcli.providers.http.sse import Event, EventStream
from agentcli.types.errors import ProviderError, ProviderErrorKind
from agentcli.types.messages import Json


def fed(*chunks: bytes) -> list[Event]:
    stream = EventStream()
    return [event for chunk in chunks for event in stream.feed(chunk)]


def ended(*chunks: bytes) -> list[Event]:
    stream = EventStream()
    events = [event for chunk in chunks for event in stream.feed(chunk)]
    return [*events, *stream.end()]


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_event_ends_with_any_line_end(end: bytes) -> None:
    assert fed(b'data: {"a": 1}' + end + end) == [{"a": 1}]


def test_line_end_cut_in_two_is_one() -> None:
    assert fed(b'data: {"a": 1}\r', b"\n", b"\r", b'\ndata: {"b": 2}\r', b"\n\r\n") == [
        {"a": 1},
        {"b": 2},
    ]


def test_chunk_of_nothing_changes_nothing() -> None:
    assert fed(b"data: {}\r", b"", b"\ndata: {", b"", b"}") == []
    assert fed(b"", b'data: {"a": 1}\r', b"", b"\n\r", b"", b"\n") == [{"a": 1}]


@pytest.mark.parametrize("text", [{"error": {"code": 503}}, [{"error": {"code": 503}}]])
@pytest.mark.parametrize("indent", [None, 2])
def test_error_without_a_field_name_is_an_event(text: Json, indent: int | None) -> None:
    bare = json.dumps(text, indent=indent).encode()
    events = [{"a": 1}, {"error": {"code": 503}}]
    assert ended(b'data: {"a": 1}\n\n' + bare) == events
    assert ended(b'data: {"a": 1}\n\n', *(bytes([byte]) for byte in bare)) == events
    assert fed(b'data: {"a": 1}\n' + bare + b"\n\n") == events


@pytest.mark.parametrize("space", [b"", b" "])
def test_error_in_a_field_of_its_own_is_an_event(space: bytes) -> None:
    field = b"error:" + space + b'{"code": 400, "message": "too long"}\n\n'
    told = {"error": {"code": 400, "message": "too long"}}
    assert fed(b'data: {"a": 1}\n\n', field, b"data: [DONE]\n\n")[:2] == [{"a": 1}, told]
    assert fed(b"error: no JSON\n\n") == []


@pytest.mark.parametrize("line", [b"{", b'{"a": 1}', b"[1]", b"[]", b"{]", b"[" * 100_000])
def test_other_lines_without_a_field_name_are_ignored(line: bytes) -> None:
    assert ended(b'data: {"a": 1}\n\n' + line + b'\n\ndata: {"b": 2}\n\n') == [{"a": 1}, {"b": 2}]


def test_other_separators_end_no_line() -> None:
    text = "a\u2028b\u2029c\u0085d\x0be\x0cf\x1cg"
    data = json.dumps({"text": text}, ensure_ascii=False).encode()
    assert fed(b"data: " + data + b"\n\n") == [{"text": text}]


def test_data_lines_are_joined() -> None:
    assert fed(b'data: {"a":\ndata:  1,\ndata: "b": 2}\n\n') == [{"a": 1, "b": 2}]


def test_comments_and_other_fields_are_passed_over() -> None:
    stream = b': OPENROUTER PROCESSING\n\nevent: x\nid: 3\nretry: 9\nnothing\ndata:{"a":1}\n\n'
    assert fed(stream) == [{"a": 1}]


def test_byte_order_mark_is_passed_over_once() -> None:
    assert fed(b"\xef\xbb", b'\xbfdata: {"a": 1}\n\n') == [{"a": 1}]


def test_done_is_an_event_and_a_flag() -> None:
    stream = EventStream()
    assert list(stream.feed(b"data: [DONE]\n\n")) == [{"type": sse.DONE}]
    assert stream.done


def test_end_gives_the_event_that_lacks_its_empty_line() -> None:
    assert ended(b'data: {"a": 1}') == [{"a": 1}]
    assert ended(b'data: {"a": 1}\n') == [{"a": 1}]
    assert ended(b"data: [DONE]") == [{"type": sse.DONE}]


def test_end_leaves_out_half_an_event() -> None:
    assert ended(b'data: {"a": 1}\n\ndata: {"b": ') == [{"a": 1}]
    assert ended(b"") == []


@pytest.mark.parametrize("data", [b"upstream failed", b"[1]", b'"text"', b'{"a"', b"[" * 100_000])
def test_data_that_is_no_object_is_an_error(data: bytes) -> None:
    with pytest.raises(ProviderError) as caught:
        fed(b"data: " + data + b"\n\n")
    assert caught.value.kind is ProviderErrorKind.CUT
    assert len(str(caught.value)) < 200


def test_event_without_end_is_an_error() -> None:
    megabyte = b"x" * 1024 * 1024
    with pytest.raises(ProviderError):
        fed(*[megabyte] * 65)
    with pytest.raises(ProviderError):
        fed(*[b"data: " + megabyte + b"\n"] * 65)


def test_characters_cut_by_chunks_are_whole() -> None:
    data = 'data: {"a": "é😀"}\n\n'.encode()
    assert fed(*(data[index : index + 1] for index in range(len(data)))) == [{"a": "é😀"}]
