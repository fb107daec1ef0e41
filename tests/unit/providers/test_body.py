import json
from collections.abc import Sequence

import pytest

from agentcli.providers.http.body import PIECE_BYTES, RequestBody
from agentcli.types.messages import Json


def written(writer: RequestBody, body: dict[str, Json], history_key: str = "messages") -> bytes:
    return b"".join(writer.write(body, history_key))


def test_text_is_the_body_as_json() -> None:
    item: Json = {"role": "user", "content": "é\u2028😀"}
    body: dict[str, Json] = {"model": "m", "messages": [item, {"x": [1, None]}], "stream": True}
    text = written(RequestBody(), body)
    assert json.loads(text) == body
    assert "é\u2028😀".encode() in text


def test_history_may_be_all_there_is_or_nothing() -> None:
    assert written(RequestBody(), {"messages": []}) == b'{"messages":[]}'
    assert written(RequestBody(), {"input": "text"}, "input") == b'{"input":"text"}'
    assert written(RequestBody(), {"model": "m"}) == b'{"model":"m"}'


def test_grown_history_begins_with_the_same_bytes() -> None:
    writer = RequestBody()
    items: list[Json] = [{"n": number} for number in range(3)]
    first = written(writer, {"messages": items[:2]})
    second = written(writer, {"messages": [*items]})
    assert second.startswith(first[:-2])


def test_item_is_written_once_while_it_is_sent() -> None:
    writer = RequestBody()
    item: dict[str, Json] = {"n": 1}
    writer.write({"messages": [item]}, "messages")
    item["n"] = 2  # only to see that it is not read again
    assert written(writer, {"messages": [item]}) == b'{"messages":[{"n":1}]}'
    writer.write({"messages": []}, "messages")
    assert written(writer, {"messages": [item]}) == b'{"messages":[{"n":2}]}'


def test_same_item_twice_is_there_twice() -> None:
    item: Json = {"n": 1}
    assert written(RequestBody(), {"messages": [item, item]}) == b'{"messages":[{"n":1},{"n":1}]}'


def test_half_a_character_does_not_stop_a_request() -> None:
    assert written(RequestBody(), {"system": "\udcff", "messages": []}) == (
        b'{"system":"?","messages":[]}'
    )


def test_what_stands_beside_the_history_is_as_it_is_now() -> None:
    writer = RequestBody()
    bodies: Sequence[dict[str, Json]] = (
        {"tools": [1], "messages": []},
        {"tools": [1, 2], "messages": []},
        {"messages": []},
        {"tools": [1], "messages": [], "last": True},
    )
    for body in bodies:
        assert json.loads(written(writer, body)) == body


@pytest.mark.parametrize("kept", [0, 1, 5, 39, 40])
def test_long_history_is_cut_and_grows_anywhere(kept: int) -> None:
    writer = RequestBody()
    items: list[Json] = [{"n": number, "text": "é" * (PIECE_BYTES // 16)} for number in range(40)]
    before = writer.write({"messages": [*items]}, "messages")
    assert json.loads(b"".join(before)) == {"messages": items}
    cut: list[Json] = [*items[:kept], {"summary": "s"}, *items]
    assert json.loads(written(writer, {"messages": cut})) == {"messages": cut}
    assert json.loads(b"".join(before)) == {"messages": items}


def test_long_history_is_not_copied_for_the_next_request() -> None:
    writer = RequestBody()
    items: list[Json] = [{"text": "x" * PIECE_BYTES} for _ in range(4)]
    before = writer.write({"messages": items[:3]}, "messages")
    after = writer.write({"messages": [*items]}, "messages")
    assert all(one is other for one, other in zip(before[1:-1], after[1:-1], strict=False))
    assert len(before) > 2
