from typing import Any

import pytest

from agentcli.providers.gemini.generate_reply import GenerateDecoder
from agentcli.types.deltas import CallDelta, Delta, TextDelta, ThinkingDelta
from agentcli.types.errors import ProviderError, ProviderErrorKind
from agentcli.types.messages import (
    AssistantMessage,
    Echo,
    Json,
    Opaque,
    Text,
    Thinking,
    ToolCall,
    Usage,
)
from tests.support.gemini_fixtures import model

NOW = model("gemini")


def chunk(*parts: Json, finish: str = "", **more: Json) -> dict[str, Json]:
    candidate: dict[str, Json] = {"content": {"role": "model", "parts": list(parts)}, **more}
    return {"candidates": [{**candidate, "finishReason": finish} if finish else candidate]}


def kept(data: Json) -> Echo:
    return Echo(protocol="gemini", model="gemini-4-argon", data=data)


def read(*events: dict[str, Json]) -> tuple[AssistantMessage, list[Delta]]:
    reply = GenerateDecoder(NOW)
    shown = [delta for event in events for delta in reply.feed(event)]
    return reply.message(), shown


def refused(*events: dict[str, Json]) -> ProviderError:
    with pytest.raises(ProviderError) as caught:
        read(*events)
    return caught.value


def test_texts_in_a_row_are_one_until_a_signature() -> None:
    message, shown = read(
        chunk({"text": "a"}, {"text": "b"}),
        chunk({"text": "c", "thoughtSignature": "QQ=="}),
        chunk({"text": ""}, {"text": "d"}),
        chunk({"text": "e"}, {"text": "", "thoughtSignature": "Qg=="}, finish="STOP"),
    )
    assert message.content == (
        Text(text="ab"),
        Text(text="c", echo=kept({"text": "c", "thoughtSignature": "QQ=="})),
        Text(text="de"),
        Text(text="", echo=kept({"text": "", "thoughtSignature": "Qg=="})),
    )
    assert shown == [TextDelta(text=text) for text in "abcde"]
    assert (message.stop, message.text) == ("end", "abcde")


def test_thoughts_are_told_from_text() -> None:
    message, shown = read(
        chunk({"text": "hm", "thought": True}),
        chunk({"text": "m", "thought": True}, {"text": "So", "thought": False}),
        chunk({"text": "!", "thought": True, "thoughtSignature": "QQ=="}, finish="STOP"),
    )
    signed: Json = {"text": "!", "thought": True, "thoughtSignature": "QQ=="}
    assert message.content == (
        Thinking(text="hmm", echo=kept({"text": "hmm", "thought": True})),
        Text(text="So"),
        Thinking(text="!", echo=kept(signed)),
    )
    assert shown == [
        ThinkingDelta(text="hm"),
        ThinkingDelta(text="m"),
        TextDelta(text="So"),
        ThinkingDelta(text="!"),
    ]


def test_signature_without_any_content_gets_an_empty_text() -> None:
    message, shown = read(chunk({"thoughtSignature": "QQ=="}, finish="STOP"))
    assert message.content == (Text(text="", echo=kept({"thoughtSignature": "QQ==", "text": ""})),)
    assert shown == []


def test_call_keeps_its_part_and_counts_in_integers() -> None:
    part: Json = {
        "functionCall": {"id": "f1", "name": "bash", "args": {"n": 3.0, "x": [1.5, {"y": 2.0}]}},
        "thoughtSignature": "QQ==",
    }
    message, shown = read(chunk(part, finish="STOP"))
    assert message.content == (
        ToolCall(id="f1", name="bash", input={"n": 3, "x": [1.5, {"y": 2}]}, echo=kept(part)),
    )
    assert repr(message.tool_calls[0].input) == "{'n': 3, 'x': [1.5, {'y': 2}]}"
    assert message.stop == "tool_calls"
    assert shown == [
        CallDelta(call_id="f1", name="bash", arguments='{"n": 3, "x": [1.5, {"y": 2}]}')
    ]


@pytest.mark.parametrize(
    ("args", "given", "sent"),
    [
        (["ls"], '["ls"]', {"malformed_arguments": '["ls"]'}),
        (7, "7", {"malformed_arguments": "7"}),
        ('{"command": "l', '{"command": "l', {"malformed_arguments": '{"command": "l'}),
        ('{"command": "ls"}', {"command": "ls"}, {"command": "ls"}),
    ],
)
def test_arguments_that_are_no_object_stay_text_and_go_back_as_one(
    args: Json, given: Json, sent: Json
) -> None:
    message, _ = read(
        chunk({"functionCall": {"id": "f1", "name": "bash", "args": args}}, finish="STOP")
    )
    back = kept({"functionCall": {"id": "f1", "name": "bash", "args": sent}})
    assert message.content == (ToolCall(id="f1", name="bash", input=given, echo=back),)


def test_arguments_nested_without_end_are_text() -> None:
    nested: Any = "x"
    for _ in range(400):
        nested = {"a": nested}
    message, _ = read(chunk({"functionCall": {"name": "bash", "args": nested}}, finish="STOP"))
    assert isinstance(message.tool_calls[0].input, str)


def test_call_without_arguments_has_none() -> None:
    part: Json = {"functionCall": {"id": "f1", "name": "bash"}}
    message, _ = read(chunk(part, finish="STOP"))
    assert message.content == (ToolCall(id="f1", name="bash", input={}, echo=kept(part)),)


def test_ids_are_minted_the_same_way_for_the_same_stream_only() -> None:
    part: Json = {"functionCall": {"name": "bash", "args": {}}}
    stream = [{**chunk(part, part), "responseId": "r1"}, chunk(finish="STOP")]
    other = [{**chunk(part, part), "responseId": "r2"}, chunk(finish="STOP")]
    unnamed = [chunk({"text": "1"}, part), chunk(part, finish="STOP")]
    ids = [[call.id for call in read(*it)[0].tool_calls] for it in (stream, stream, other, unnamed)]
    assert ids[0] == ids[1]
    assert len({*ids[0], *ids[2], *ids[3]}) == 6


def test_unknown_parts_keep_their_place() -> None:
    code: Json = {"executableCode": {"language": "PYTHON", "code": "1"}}
    strange: Json = {"functionCall": "not an object", "partMetadata": {"a": [None]}}
    message, shown = read(
        chunk(
            {"text": "a"},
            code,
            {"text": "b"},
            strange,
            "no part",
            {},
            {"thought": True},
            finish="STOP",
        )
    )
    assert message.content == (
        Text(text="a"),
        Opaque(echo=kept(code)),
        Text(text="b"),
        Opaque(echo=kept(strange)),
    )
    assert shown == [TextDelta(text="a"), TextDelta(text="b")]


def test_halves_of_a_character_meet_and_a_lone_one_is_replaced() -> None:
    message, shown = read(
        chunk({"text": "a\ud83d"}),
        chunk({"text": "\ude00\ud800"}, {"text": "\udfff", "thoughtSignature": "QQ=="}),
        chunk({"functionCall": {"id": "f", "name": "bash", "args": {"\ud800": "\ud800"}}}),
        chunk(finish="STOP"),
    )
    lone: Json = {"text": "�", "thoughtSignature": "QQ=="}
    call: Json = {"functionCall": {"id": "f", "name": "bash", "args": {"�": "�"}}}
    assert message.content == (
        Text(text="a😀�"),
        Text(text="�", echo=kept(lone)),
        ToolCall(id="f", name="bash", input={"�": "�"}, echo=kept(call)),
    )
    assert [delta.text for delta in shown if isinstance(delta, TextDelta)] == ["a�", "��", "�"]


@pytest.mark.parametrize(
    ("finish", "stop", "detail"),
    [
        ("STOP", "end", ""),
        ("MAX_TOKENS", "length", "MAX_TOKENS: why"),
        ("CONTINUATION", "length", "CONTINUATION: why"),
        ("SAFETY", "refusal", "SAFETY: why"),
        ("RECITATION", "refusal", "RECITATION: why"),
        ("BLOCKLIST", "refusal", "BLOCKLIST: why"),
        ("PROHIBITED_CONTENT", "refusal", "PROHIBITED_CONTENT: why"),
        ("SPII", "refusal", "SPII: why"),
        ("LANGUAGE", "refusal", "LANGUAGE: why"),
        ("OTHER", "error", "OTHER: why"),
        ("FINISH_REASON_UNSPECIFIED", "error", "FINISH_REASON_UNSPECIFIED: why"),
        ("NOT_YET_KNOWN", "error", "NOT_YET_KNOWN: why"),
    ],
)
def test_finish_reason_decides_the_stop(finish: str, stop: str, detail: str) -> None:
    message, _ = read(chunk({"text": "a"}, finish=finish, finishMessage="why"))
    assert (message.stop, message.stop_detail) == (stop, detail)


@pytest.mark.parametrize(
    "finish",
    [
        "MALFORMED_FUNCTION_CALL",
        "UNEXPECTED_TOOL_CALL",
        "TOO_MANY_TOOL_CALLS",
        "MALFORMED_RESPONSE",
    ],
)
def test_reply_that_the_model_missaid_is_worth_another(finish: str) -> None:
    error = refused(chunk({"text": "a"}, finish=finish, finishMessage="call:bash{"))
    assert error.kind is ProviderErrorKind.UNAVAILABLE
    assert str(error) == f"the model's reply was unusable ({finish}): call:bash{{"


def test_calls_of_a_reply_cut_at_the_limit_are_not_to_be_run() -> None:
    part: Json = {"functionCall": {"id": "f1", "name": "bash", "args": {}}}
    message, _ = read(chunk(part, finish="MAX_TOKENS"))
    assert (message.stop, len(message.tool_calls)) == ("length", 1)


def test_blocked_prompt_is_a_refusal() -> None:
    feedback: Json = {"blockReason": "SAFETY", "blockReasonMessage": "no"}
    message, _ = read({"promptFeedback": feedback, "usageMetadata": {"promptTokenCount": 3}})
    assert message == AssistantMessage(
        content=(),
        stop="refusal",
        stop_detail="SAFETY: no",
        protocol="gemini",
        model="gemini-4-argon",
        usage=Usage(input_tokens=3),
    )


def test_continuation_is_a_pause_that_keeps_its_token() -> None:
    message, _ = read(
        chunk({"text": "a"}, continuationToken="MQ=="),
        chunk(finish="CONTINUATION", continuationToken="Mg=="),
    )
    assert (message.stop, message.echo) == ("paused", kept({"continuationToken": "Mg=="}))


@pytest.mark.parametrize(
    "events",
    [
        [],
        [{}],
        [chunk({"text": "a"})],
        [chunk({"text": "a"}, continuationToken="MQ==")],
        [{"promptFeedback": {}}],
        [{"candidates": []}, {"candidates": None}, {"candidates": [None]}],
    ],
)
def test_stream_without_an_end_is_cut(events: list[dict[str, Json]]) -> None:
    assert refused(*events).kind is ProviderErrorKind.CUT


def test_error_in_the_stream_is_raised() -> None:
    error = refused(
        chunk({"text": "a"}),
        {"error": {"code": 429, "message": "Slow down.", "status": "RESOURCE_EXHAUSTED"}},
    )
    assert (error.kind, error.status) == (ProviderErrorKind.RATE_LIMITED, 429)
    assert str(error) == "Slow down. (HTTP 429)"


def test_usage_is_the_last_told_and_does_not_count_twice() -> None:
    message, _ = read(
        {**chunk({"text": "a"}), "usageMetadata": {"promptTokenCount": 90}},
        {
            **chunk(finish="STOP"),
            "usageMetadata": {
                "promptTokenCount": 100,
                "cachedContentTokenCount": 64,
                "candidatesTokenCount": 20.0,
                "thoughtsTokenCount": 30,
                "toolUsePromptTokenCount": 7,
                "totalTokenCount": 157,
            },
        },
    )
    assert message.usage == Usage(
        input_tokens=43, cache_read_tokens=64, output_tokens=50, reasoning_tokens=30
    )
