import json

from agentcli.types.messages import Json
from agentcli.wire.http.body import BodyText


def test_text_is_the_body_as_json() -> None:
    item: Json = {"role": "user", "content": "é\u2028😀"}
    body: dict[str, Json] = {"model": "m", "messages": [item, {"x": [1, None]}], "stream": True}
    text = BodyText().of(body, "messages")
    assert json.loads(text) == body
    assert "é\u2028😀".encode() in text


def test_history_may_be_all_there_is_or_nothing() -> None:
    only: dict[str, Json] = {"messages": []}
    assert BodyText().of(only, "messages") == b'{"messages":[]}'
    assert BodyText().of({"input": "text"}, "input") == b'{"input":"text"}'
    assert BodyText().of({"model": "m"}, "messages") == b'{"model":"m"}'


def test_grown_history_begins_with_the_same_bytes() -> None:
    writer = BodyText()
    items: list[Json] = [{"n": number} for number in range(3)]
    first = writer.of({"messages": items[:2]}, "messages")
    second = writer.of({"messages": [*items]}, "messages")
    assert second.startswith(first[:-2])


def test_item_is_written_once_while_it_is_sent() -> None:
    writer = BodyText()
    item: dict[str, Json] = {"n": 1}
    writer.of({"messages": [item]}, "messages")
    item["n"] = 2  # only to see that it is not read again
    assert writer.of({"messages": [item]}, "messages") == b'{"messages":[{"n":1}]}'
    writer.of({"messages": []}, "messages")
    assert writer.of({"messages": [item]}, "messages") == b'{"messages":[{"n":2}]}'


def test_same_item_twice_is_there_twice() -> None:
    item: Json = {"n": 1}
    assert (
        BodyText().of({"messages": [item, item]}, "messages") == b'{"messages":[{"n":1},{"n":1}]}'
    )


def test_half_a_character_does_not_stop_a_request() -> None:
    assert BodyText().of({"system": "\udcff", "messages": []}, "messages") == (
        b'{"system":"?","messages":[]}'
    )
