from itertools import pairwise
from typing import Any

import pytest

from agentcli.providers.dialect import Model
from agentcli.providers.gemini import interactions as gemini_interactions
from agentcli.types.messages import (
    AssistantMessage,
    Block,
    Echo,
    Image,
    Json,
    Opaque,
    Stop,
    Text,
    Thinking,
    ToolCall,
    UserMessage,
)
from agentcli.types.provider import Message
from agentcli.types.tools import ErrorKind, ToolMessage, ToolResult
from tests.support.gemini_fixtures import BASH, READ_FILE, encoded, model, said

NOW = model("gemini-interactions")
STORED = model("gemini-interactions", quirks=["stored"])
PNG = Image(media_type="image/png", data="iVBORw0KGgo=")
GO: Json = {"type": "user_input", "content": [{"type": "text", "text": "Go."}]}


def reply(
    *blocks: Block, stop: Stop = "tool_calls", by: Model = NOW, echo: Json = None
) -> AssistantMessage:
    whole = Echo(protocol=by.protocol, model=by.name, data=echo) if echo else None
    return AssistantMessage(
        content=blocks, stop=stop, protocol=by.protocol, model=by.name, echo=whole
    )


def kept(step: Json, by: Model = NOW) -> Echo:
    return Echo(protocol=by.protocol, model=by.name, data=step)


def thought(signature: str) -> Thinking:
    return Thinking(text="", echo=kept({"type": "thought", "signature": signature}))


def called(call_id: str, *, sent_id: str | None = None) -> ToolCall:
    sent: Json = sent_id or call_id
    step: Json = {"type": "function_call", "id": sent, "name": "bash", "arguments": {}}
    return ToolCall(id=call_id, name="bash", input={}, echo=kept(step))


def done(call_id: str, text: str = "ok", *more: Image, failed: bool = False) -> ToolResult:
    return ToolResult(
        call_id=call_id,
        name="bash",
        status="error" if failed else "ok",
        content=(Text(text=text), *more),
        error=ErrorKind.FAILED if failed else None,
    )


def result_step(call_id: str, result: Json = "ok", **more: Json) -> Json:
    return {
        "type": "function_result",
        "call_id": call_id,
        "name": "bash",
        "result": result,
        **more,
    }


def answers(*results: ToolResult) -> ToolMessage:
    return ToolMessage(results=results)


def steps(*messages: Any, asked: Model = NOW) -> Json:
    found: Json = encoded(asked, *messages)["input"]
    return found


def test_request_has_everything_in_its_place() -> None:
    assert encoded(NOW, said("Go."), output_limit_tokens=256, effort="max") == {
        "model": "gemini-4-argon",
        "stream": True,
        "store": False,
        "input": [GO],
        "system_instruction": "You are a coding agent.",
        "tools": [
            {
                "type": "function",
                "name": "read_file",
                "description": "Read a file.",
                "parameters": READ_FILE.schema,
            },
            {
                "type": "function",
                "name": "bash",
                "description": "Run a command.",
                "parameters": BASH.schema,
            },
        ],
        "generation_config": {
            "max_output_tokens": 256,
            "thinking_summaries": "auto",
            "thinking_level": "high",
            "tool_choice": "validated",
        },
    }


def test_request_says_nothing_of_what_there_is_not() -> None:
    plain = Model(provider="gemini", name="gemini-4-argon", protocol="gemini-interactions")
    assert encoded(plain, said("Go."), system="", tools=(), tool_choice="required") == {
        "model": "gemini-4-argon",
        "stream": True,
        "store": False,
        "input": [GO],
    }


def test_address_and_headers_name_the_revision() -> None:
    assert gemini_interactions.open_exchange(NOW, None).path == "/v1beta/interactions"
    revision = {"Api-Revision": "2026-05-20"}
    assert gemini_interactions.build_headers("k") == {**revision, "x-goog-api-key": "k"}
    assert gemini_interactions.build_headers(None) == revision


@pytest.mark.parametrize(
    ("choice", "is_forced", "expected"),
    [
        ("auto", True, "validated"),
        ("none", True, "none"),
        ("required", True, "any"),
        ("bash", True, {"allowed_tools": {"mode": "any", "tools": ["bash"]}}),
        ("none", False, "none"),
        ("required", False, "validated"),
        ("bash", False, "validated"),
    ],
)
def test_tool_choice_stands_in_the_configuration(
    choice: str, is_forced: bool, expected: Json
) -> None:
    asked = Model(
        provider="gemini",
        name="gemini-4-argon",
        protocol="gemini-interactions",
        forced_tool_choice=is_forced,
    )
    body = encoded(asked, said("Go."), tool_choice=choice)
    assert body["generation_config"] == {"tool_choice": expected}


def test_steps_of_a_reply_go_back_as_they_came() -> None:
    sent: list[dict[str, Json]] = [
        {"type": "thought", "signature": "QQ==", "summary": [{"type": "text", "text": "Hm."}]},
        {
            "type": "model_output",
            "content": [{"type": "text", "text": "Look.", "annotations": [{"a": 1}]}],
        },
        {"type": "code_execution_call", "id": "x1", "arguments": {}, "signature": "Qg=="},
        {
            "type": "function_call",
            "id": "f1",
            "name": "bash",
            "arguments": {"n": 1.0},
            "signature": "Qw==",
        },
    ]
    made = reply(
        Thinking(text="Hm.", echo=kept(sent[0])),
        Text(text="Look.", echo=kept(sent[1])),
        Text(text="Plain."),
        Opaque(echo=kept(sent[2])),
        ToolCall(id="f1", name="bash", input={"n": 1}, echo=kept(sent[3])),
    )
    plain: Json = {"type": "model_output", "content": [{"type": "text", "text": "Plain."}]}
    assert steps(said("Go."), made, answers(done("f1"))) == [
        GO,
        *sent[:2],
        plain,
        *sent[2:],
        result_step("f1"),
    ]


def test_results_follow_their_calls_in_order() -> None:
    made = reply(thought("QQ=="), called("a"), called("b", sent_id="b0"))
    body = steps(said("Go."), made, answers(done("b", "no", failed=True)), said("Go."))
    assert isinstance(body, list)
    assert body[4:] == [
        result_step("a", "Cancelled before it ran.", is_error=True),
        result_step("b", "no", is_error=True),
        GO,
    ]


def test_images_stand_in_what_they_belong_to() -> None:
    image: Json = {"type": "image", "mime_type": "image/png", "data": "iVBORw0KGgo="}
    asked = UserMessage(content=(Text(text="Look:"), PNG))
    made = reply(thought("QQ=="), called("a"))
    body = steps(asked, made, answers(done("a", "a.png", PNG)))
    assert isinstance(body, list)
    assert body[0] == {
        "type": "user_input",
        "content": [{"type": "text", "text": "Look:"}, image],
    }
    assert body[3] == result_step("a", [{"type": "text", "text": "a.png"}, image])


@pytest.mark.parametrize(
    ("name", "opening"),
    [
        ("gemini-4-argon", [{"type": "thought", "signature": "skip_thought_signature_validator"}]),
        ("gemini-2.5-pro", []),
    ],
)
def test_calls_of_another_model_are_led_by_the_documented_thought(
    name: str, opening: list[Json]
) -> None:
    other = Model(provider="anthropic", name="claude-opus-5-5", protocol="anthropic")
    foreign = reply(
        Thinking(text="Hm.", echo=kept("x", other)),
        Text(text="Looking."),
        ToolCall(id="toolu_1", name="bash", input={"command": "ls"}),
        ToolCall(id="toolu_2", name="bash", input='{"command": "l'),
        by=other,
    )
    talk = reply(Text(text="Done."), stop="end", by=other)
    asked = model("gemini-interactions", name)
    results = answers(done("toolu_1"), done("toolu_2"))
    call: dict[str, Json] = {"type": "function_call", "name": "bash"}
    looking: Json = {"type": "model_output", "content": [{"type": "text", "text": "Looking."}]}
    finished: Json = {"type": "model_output", "content": [{"type": "text", "text": "Done."}]}
    assert steps(said("Go."), foreign, results, talk, said("Go."), asked=asked) == [
        GO,
        *opening,
        looking,
        {**call, "id": "toolu_1", "arguments": {"command": "ls"}},
        {**call, "id": "toolu_2", "arguments": {"malformed_arguments": '{"command": "l'}},
        result_step("toolu_1"),
        result_step("toolu_2"),
        finished,
        GO,
    ]


def test_paused_reply_is_asked_for_again_with_its_last_token() -> None:
    first = reply(Text(text="Once"), stop="paused", echo={"continuation_token": "MQ=="})
    second = reply(Text(text=" upon"), stop="paused", echo={"continuation_token": "Mg=="})
    plain = encoded(NOW, said("Go."))
    assert encoded(NOW, said("Go."), first) == {**plain, "continuation_token": "MQ=="}
    assert encoded(NOW, said("Go."), first, second) == {**plain, "continuation_token": "Mg=="}


def test_stored_conversation_brings_only_what_is_new() -> None:
    made = reply(thought("QQ=="), called("a"), echo={"id": "v1_1"})
    plain = encoded(STORED, said("Go."))
    assert (plain["store"], plain["input"]) == (True, [GO])
    assert "previous_interaction_id" not in plain
    assert encoded(STORED, said("Go."), made, answers(done("a"))) == {
        **plain,
        "previous_interaction_id": "v1_1",
        "input": [result_step("a")],
    }


def test_stored_conversation_whose_call_got_another_id_is_sent_whole() -> None:
    made = reply(thought("QQ=="), called("a_2", sent_id="a"), echo={"id": "v1_1"})
    messages = (said("Go."), made, answers(done("a_2")))
    assert encoded(STORED, *messages)["input"] == steps(*messages)
    assert "previous_interaction_id" not in encoded(STORED, *messages)


def test_stored_reply_that_paused_is_named_and_nothing_is_sent_twice() -> None:
    data: Json = {"id": "v1_2", "continuation_token": "MQ=="}
    paused = reply(Text(text="Once"), stop="paused", echo=data)
    plain = encoded(STORED, said("Go."))
    del plain["input"]
    assert encoded(STORED, said("Go."), paused) == {
        **plain,
        "previous_interaction_id": "v1_2",
        "continuation_token": "MQ==",
    }


def test_stored_conversation_that_others_went_on_with_sends_their_steps() -> None:
    other = Model(provider="anthropic", name="claude-opus-5-5", protocol="anthropic")
    body = encoded(
        STORED,
        said("Go."),
        reply(Text(text="One."), stop="end", echo={"id": "v1_1"}),
        said("Go."),
        reply(Text(text="Two."), stop="end", by=other),
        said("Go."),
    )
    assert (body["previous_interaction_id"], body["input"]) == (
        "v1_1",
        [GO, {"type": "model_output", "content": [{"type": "text", "text": "Two."}]}, GO],
    )


def test_longer_conversation_begins_with_the_shorter_one() -> None:
    messages: list[Message] = [
        said("Go."),
        reply(thought("QQ=="), called("a")),
        answers(done("a")),
        reply(Text(text="Done."), stop="end"),
        said("More."),
        reply(thought("Qg=="), called("b")),
        answers(done("b")),
    ]
    bodies = [encoded(NOW, *messages[:count]) for count in (1, 3, 5, 7)]
    for shorter, longer in pairwise(bodies):
        begun = longer["input"][: len(shorter["input"])]
        assert {**longer, "input": begun} == shorter
