from typing import Any

import pytest

from agentcli.providers.dialect import Model
from agentcli.providers.gemini.interactions_reply import InteractionsDecoder
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

NOW = model("gemini-interactions")
Event = dict[str, Json]


def start(index: int, kind: str, **more: Json) -> Event:
    return {"event_type": "step.start", "index": index, "step": {"type": kind, **more}}


def delta(index: int, kind: str, **more: Json) -> Event:
    return {"event_type": "step.delta", "index": index, "delta": {"type": kind, **more}}


def stop(index: int) -> Event:
    return {"event_type": "step.stop", "index": index}


def ended(status: str = "completed", **more: Json) -> Event:
    return {
        "event_type": "interaction.completed",
        "interaction": {"id": "v1_1", "status": status, **more},
    }


def said(index: int, *texts: str) -> list[Event]:
    deltas = [delta(index, "text", text=text) for text in texts]
    return [start(index, "model_output"), *deltas, stop(index)]


def called(index: int, *pieces: str, **more: Json) -> list[Event]:
    opening = start(index, "function_call", id="f1", name="bash", arguments={}, **more)
    deltas = [delta(index, "arguments_delta", arguments=piece) for piece in pieces]
    return [opening, *deltas, stop(index)]


def kept(data: Json) -> Echo:
    return Echo(protocol="gemini-interactions", model="gemini-4-argon", data=data)


def call(arguments: Json, **more: Json) -> ToolCall:
    step: dict[str, Json] = {"type": "function_call", "id": "f1", "name": "bash"}
    sent: Json = arguments if isinstance(arguments, dict) else {"malformed_arguments": arguments}
    echo = kept({**step, "arguments": sent, **more})
    return ToolCall(id="f1", name="bash", input=arguments, echo=echo)


def read(*events: Event, asked: Model = NOW) -> tuple[AssistantMessage, list[Delta]]:
    reply = InteractionsDecoder(asked)
    shown = [delta for event in events for delta in reply.feed(event)]
    return reply.message(), shown


def content(*events: Event) -> tuple[Any, ...]:
    return read(*events, ended())[0].content


def refused(*events: Event) -> ProviderError:
    with pytest.raises(ProviderError) as caught:
        read(*events)
    return caught.value


def test_text_is_joined_within_a_step_and_not_beyond() -> None:
    message, shown = read(*said(0, "a", "b"), *said(1, "c"), ended())
    assert message.content == (Text(text="ab"), Text(text="c"))
    assert shown == [TextDelta(text=text) for text in "abc"]
    assert message.stop == "end"


def test_thought_is_its_summary_and_its_signature() -> None:
    text: Json = {"type": "text", "text": "hm"}
    message, shown = read(
        start(0, "thought", signature=""),
        delta(0, "thought_summary", content=text),
        delta(0, "thought_summary", content=text),
        delta(0, "thought_signature", signature="QQ=="),
        stop(0),
        ended(),
    )
    step: Json = {
        "type": "thought",
        "summary": [{"type": "text", "text": "hmhm"}],
        "signature": "QQ==",
    }
    assert message.content == (Thinking(text="hmhm", echo=kept(step)),)
    assert shown == [ThinkingDelta(text="hm"), ThinkingDelta(text="hm")]


@pytest.mark.parametrize(
    "told", [["QUJD", "REVG"], ["QUJDREVG"], ["QUJDREVG", "QUJDREVG"], ["QUJD", "QUJDREVG"]]
)
def test_signature_may_come_in_pieces_or_twice(told: list[str]) -> None:
    deltas = [delta(0, "thought_signature", signature=piece) for piece in told]
    step: Json = {"type": "thought", "signature": "QUJDREVG"}
    assert content(start(0, "thought"), *deltas, stop(0)) == (Thinking(text="", echo=kept(step)),)


def test_thought_of_nothing_is_none() -> None:
    assert content(start(0, "thought", signature=""), stop(0)) == ()


def test_call_is_put_together_from_its_pieces() -> None:
    message, shown = read(
        *called(0, '{"com', 'mand": "ls", "n": 3.0}', signature="QQ=="), ended("requires_action")
    )
    (made,) = message.tool_calls
    assert made.input == {"command": "ls", "n": 3}
    assert repr(made.input) == "{'command': 'ls', 'n': 3}"
    assert made.echo == kept(
        {
            "type": "function_call",
            "id": "f1",
            "name": "bash",
            "arguments": {"command": "ls", "n": 3.0},
            "signature": "QQ==",
        }
    )
    assert message.stop == "tool_calls"
    assert shown == [
        CallDelta(call_id="f1", name="bash", arguments=piece)
        for piece in ("", '{"com', 'mand": "ls", "n": 3.0}')
    ]


def test_calls_may_interleave() -> None:
    message, _ = read(
        start(0, "function_call", id="a", name="bash", arguments={}),
        start(1, "function_call", id="b", name="bash", arguments={}),
        delta(1, "arguments_delta", arguments='{"n":'),
        delta(0, "arguments_delta", arguments='{"n": 1}'),
        delta(1, "arguments_delta", arguments=" 2}"),
        stop(1),
        stop(0),
        ended("requires_action"),
    )
    assert [(it.id, it.input) for it in message.tool_calls] == [("a", {"n": 1}), ("b", {"n": 2})]


def test_call_that_starts_whole_is_whole() -> None:
    opening = start(0, "function_call", id="f1", name="bash", arguments={"command": "ls"})
    assert content(opening, stop(0)) == (call({"command": "ls"}),)


def test_arguments_under_the_index_of_the_thought_belong_to_the_call() -> None:
    events = [
        start(0, "thought", signature="QQ=="),
        stop(0),
        start(1, "function_call", id="f1", name="bash", arguments={}),
        delta(0, "arguments_delta", arguments='{"command": "ls"}'),
        ended("requires_action"),
    ]
    assert read(*events)[0].tool_calls == (call({"command": "ls"}),)


@pytest.mark.parametrize(
    ("piece", "given"),
    [
        ({"arguments": {"command": "ls"}}, {"command": "ls"}),
        ({"partial_arguments": '{"command": "ls"}'}, {"command": "ls"}),
        ({"arguments": '{"command": "l'}, '{"command": "l'),
        ({"arguments": "[1]"}, "[1]"),
        ({"arguments": ""}, {}),
        ({}, {}),
    ],
)
def test_arguments_are_an_object_or_stay_text(piece: dict[str, Json], given: Json) -> None:
    opening = start(0, "function_call", id="f1", name="bash", arguments={})
    assert content(opening, delta(0, "arguments", **piece), stop(0)) == (call(given),)


def test_half_a_call_is_left_out_of_a_reply_cut_at_the_limit() -> None:
    message, _ = read(
        *said(0, "Once"),
        *called(1, '{"command": "ls"}'),
        start(2, "function_call", id="f2", name="bash", arguments={}),
        delta(2, "arguments_delta", arguments='{"command": "rm -rf x'),
        ended("incomplete"),
    )
    assert message.content == (Text(text="Once"), call({"command": "ls"}))
    assert (message.stop, message.stop_detail) == ("length", "incomplete")


def test_call_without_an_id_gets_one_of_ours() -> None:
    events = [
        start(0, "function_call", name="bash", arguments={}),
        start(1, "function_call", name="bash", arguments={}),
    ]
    first, second = content(*events)
    assert (first, second) == content(*events)
    assert first.id != second.id
    assert "id" not in first.echo.data  # the service does not know it


def test_steps_that_we_made_ourselves_are_passed_over() -> None:
    events = [start(0, "user_input", content=[]), start(1, "function_result", result="x"), stop(0)]
    assert content(*events) == ()


def test_deltas_without_a_start_make_their_step() -> None:
    events = [
        delta(0, "thought_signature", signature="QQ=="),
        delta(1, "text", text="a"),
        delta(1, "text", text="b"),
        delta(7, "never_heard_of", text="c"),
    ]
    step: Json = {"type": "thought", "signature": "QQ=="}
    assert content(*events) == (Thinking(text="", echo=kept(step)), Text(text="ab"))


def test_steps_under_one_index_are_all_kept() -> None:
    assert content(*said(0, "a"), *called(0, "{}"), *said(0, "b")) == (
        Text(text="a"),
        call({}),
        Text(text="b"),
    )


def test_reply_told_only_at_the_end_is_a_reply() -> None:
    said_whole: Json = {"type": "model_output", "content": [{"type": "text", "text": "a"}]}
    asked: Json = {"type": "user_input", "content": []}
    assert read(ended(steps=[asked, said_whole]))[0].content == (Text(text="a"),)
    streamed, _ = read(*said(0, "a"), ended(steps=[asked, said_whole]))
    assert streamed.content == (Text(text="a"),)


def test_text_with_more_than_text_keeps_its_step() -> None:
    image: dict[str, Json] = {"mime_type": "image/png", "data": "iVBORw0KGgo="}
    events = [
        start(0, "model_output", content=[{"type": "text", "text": "a"}]),
        delta(0, "text", text="b"),
        delta(0, "text_annotation_delta", annotations=[1]),
        delta(0, "text_annotation_delta", annotations=[2]),
        delta(0, "image", **image),
        delta(0, "text", text="c"),
        stop(0),
        start(1, "model_output"),
        delta(1, "image", **image),
        stop(1),
    ]
    item: Json = {"type": "image", **image}
    annotated: Json = {"type": "text", "text": "ab", "annotations": [1, 2]}
    step: Json = {
        "type": "model_output",
        "content": [annotated, item, {"type": "text", "text": "c"}],
    }
    assert content(*events) == (
        Text(text="abc", echo=kept(step)),
        Opaque(echo=kept({"type": "model_output", "content": [item]})),
    )


def test_halves_of_a_character_meet_and_a_lone_one_is_replaced() -> None:
    message, shown = read(
        *said(0, "a\ud83d", "\ude00\ud800"),
        *called(1, '{"command": "\\udfff', '"}'),
        ended(),
    )
    assert message.content == (Text(text="a😀�"), call({"command": "�"}))
    assert [it.text for it in shown if isinstance(it, TextDelta)] == ["a�", "��"]


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ("completed", "end"),
        ("incomplete", "length"),
        ("budget_exceeded", "length"),
        ("requires_continuation", "length"),
        ("requires_action", "error"),
        ("cancelled", "error"),
        ("not_yet_known", "error"),
    ],
)
def test_status_decides_the_stop(status: str, expected: str) -> None:
    assert read(*said(0, "a"), ended(status))[0].stop == expected


def test_action_that_is_required_is_calls_to_run() -> None:
    assert read(*called(0, "{}"), ended("requires_action"))[0].stop == "tool_calls"
    assert read(*called(0, "{}"), ended("completed"))[0].stop == "tool_calls"
    named = {**ended("requires_action"), "event_type": "interaction.requires_action"}
    assert read(*called(0, "{}"), named)[0].stop == "tool_calls"


def test_pause_keeps_its_token() -> None:
    message, _ = read(*said(0, "a"), ended("requires_continuation", continuation_token="MQ=="))
    assert (message.stop, message.echo) == ("paused", kept({"continuation_token": "MQ=="}))


def test_stored_reply_keeps_its_id() -> None:
    asked = model("gemini-interactions", quirks=["stored"])
    created: Event = {
        "event_type": "interaction.created",
        "interaction": {"id": "v1_1", "status": "in_progress"},
    }
    assert read(created, ended(), asked=asked)[0].echo == kept({"id": "v1_1"})
    paused, _ = read(ended("requires_continuation", continuation_token="MQ=="), asked=asked)
    assert paused.echo == kept({"id": "v1_1", "continuation_token": "MQ=="})
    assert read(created, ended())[0].echo is None
    assert read(created, ended("incomplete"), asked=asked)[0].echo is None


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("malformed_function_call", ProviderErrorKind.UNAVAILABLE),
        ("internal", ProviderErrorKind.UNAVAILABLE),
        ("missing_thought_signature", ProviderErrorKind.REJECTED),
        ("invalid_request", ProviderErrorKind.REJECTED),
        ("rate_limit_exceeded", ProviderErrorKind.RATE_LIMITED),
    ],
)
def test_failed_interaction_is_an_error_of_its_kind(code: str, kind: ProviderErrorKind) -> None:
    error = refused(*said(0, "a"), ended("failed", errors=[{"code": code, "message": "Oh."}]))
    assert (error.kind, str(error)) == (kind, "Oh.")


def test_failed_interaction_that_a_filter_stopped_is_a_refusal() -> None:
    errors: Json = [{"code": "internal"}, {"code": "safety", "message": "No."}]
    message, _ = read(*said(0, "a"), ended("failed", errors=errors))
    assert (message.stop, message.stop_detail, message.text) == ("refusal", "safety: No.", "a")


def test_error_of_a_step_says_why_the_interaction_failed() -> None:
    opening = start(0, "model_output", error={"code": 13, "message": "Broken inside."})
    error = refused(opening, ended("failed"))
    assert (error.kind, str(error)) == (ProviderErrorKind.UNAVAILABLE, "Broken inside.")


@pytest.mark.parametrize(
    "event",
    [
        {"event_type": "error", "error": {"code": "internal", "message": "Oh."}},
        {"error": {"code": 500, "message": "Oh."}},
    ],
)
def test_error_in_the_stream_is_raised(event: Event) -> None:
    assert refused(*said(0, "a"), event).kind is ProviderErrorKind.UNAVAILABLE


@pytest.mark.parametrize(
    "events",
    [
        [],
        [{}],
        [*said(0, "a")],
        [*called(0, "{}")],
        [{"event_type": "interaction.status_update", "status": "requires_action"}],
        [*said(0, "a"), ended("in_progress")],
    ],
)
def test_stream_without_an_end_is_cut(events: list[Event]) -> None:
    assert refused(*events).kind is ProviderErrorKind.CUT


def test_usage_counts_thoughts_once_and_the_cache_apart() -> None:
    usage: Json = {
        "total_input_tokens": 100,
        "total_cached_tokens": 64,
        "total_output_tokens": 20,
        "total_thought_tokens": 30,
        "total_tool_use_tokens": 7,
        "total_tokens": 157,
    }
    assert read(ended(usage=usage))[0].usage == Usage(
        input_tokens=43, cache_read_tokens=64, output_tokens=50, reasoning_tokens=30
    )
