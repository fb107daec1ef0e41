import pytest

from agentcli.providers.anthropic import messages as anthropic
from agentcli.types.deltas import CallDelta, TextDelta, ThinkingDelta
from agentcli.types.errors import ProviderError, ProviderErrorKind
from agentcli.types.messages import Json
from tests.support.anthropic_fixtures import MODEL, decoded
from tests.support.anthropic_streams import call, calls, events, says, text, thinking, whole


def test_error_without_a_type_is_told_in_its_words() -> None:
    with pytest.raises(ProviderError, match="out of order") as caught:
        anthropic.open_exchange(MODEL, None).decoder.feed({"error": {"message": "out of order"}})
    assert caught.value.kind is ProviderErrorKind.UNAVAILABLE


def test_everything_is_shown_as_it_comes() -> None:
    blocks = [
        thinking("Let ", "me."),
        whole({"type": "text", "text": "At once."}),
        text("Hi \ud83d"),
        call("toolu_1", "bash", {"command": "ls"}, pieces=2),
    ]
    decoder = anthropic.open_exchange(MODEL, None).decoder
    shown = [delta for event in events(blocks) for delta in decoder.feed(event)]
    assert shown == [
        ThinkingDelta(text="Let "),
        ThinkingDelta(text="me."),
        TextDelta(text="At once."),
        TextDelta(text="Hi \ufffd"),
        CallDelta(call_id="toolu_1", name="bash", arguments=""),
        CallDelta(call_id="toolu_1", name="bash", arguments=""),
        CallDelta(call_id="toolu_1", name="bash", arguments='{"command'),
        CallDelta(call_id="toolu_1", name="bash", arguments='": "ls"}'),
    ]


def test_message_can_be_asked_for_again() -> None:
    decoder = anthropic.open_exchange(MODEL, None).decoder
    for event in events([text("Hi"), call("toolu_1", "bash", {})], stop_reason="tool_use"):
        decoder.feed(event)
    assert decoder.message() == decoder.message()


@pytest.mark.parametrize(
    "event",
    [
        {},
        {"type": None},
        {"type": "content_block_delta", "index": 7, "delta": {"type": "text_delta", "text": "x"}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta"}},
        {"type": "content_block_delta", "index": 0},
        {"type": "content_block_start", "index": 9},
        {"type": "content_block_start", "content_block": {"type": "text"}},
        {"type": "message_delta"},
        {"type": "message_start", "message": None},
        {"type": "ping"},
        {"type": "brand_new", "index": 0},
    ],
)
def test_event_that_makes_no_sense_is_passed_over(event: dict[str, Json]) -> None:
    decoder = anthropic.open_exchange(MODEL, None).decoder
    for given in events([text("Hi")])[:4]:
        decoder.feed(given)
    assert list(decoder.feed(event)) == []
    for given in events([text("Hi")])[4:]:
        decoder.feed(given)
    assert decoder.message().text == "Hi"


@pytest.mark.parametrize(
    "body", [says("Hel", "lo").body, calls(call("toolu_1", "bash", {"a": "é"})).body]
)
def test_stream_cut_at_any_byte_is_whole_or_an_error(body: bytes) -> None:
    complete, _ = decoded([body])
    for cut in range(len(body)):
        try:
            message, _ = decoded([body[:cut]])
        except ProviderError as error:
            assert error.kind is ProviderErrorKind.CUT
        else:
            assert message == complete


def test_large_arguments_are_whole() -> None:
    content = "line of text é\n" * 80_000
    reply = calls(call("toolu_1", "write_file", {"content": content}, pieces=5000))
    message, _ = decoded([reply.body])
    assert message.tool_calls[0].input == {"content": content}
