from dataclasses import replace
from typing import Any, Literal

import pytest

from agentcli.providers.dialect import Model
from agentcli.providers.openai import responses
from agentcli.providers.openai.responses import build_headers, encode
from agentcli.types.deltas import TextDelta
from agentcli.types.errors import ProviderError, ProviderErrorKind
from agentcli.types.messages import (
    AssistantMessage,
    Echo,
    Image,
    Json,
    Text,
    Thinking,
    ToolCall,
    Usage,
    UserMessage,
)
from agentcli.types.provider import Message, Request
from agentcli.types.tools import ToolMessage, ToolResult, ToolSpec

MODEL = Model(provider="openai", name="gpt-6.1-sol", protocol="openai-responses", thinking=True)
PLAIN = replace(MODEL, thinking=False)
STORED = replace(MODEL, quirks=frozenset({"stored"}))
PATCHING = replace(MODEL, patch_tool=True)
PROMPT = UserMessage(content=(Text(text="Hi"),))
READ = ToolSpec(
    name="read_file",
    description="Read.",
    schema={
        "type": "object",
        "properties": {"path": {"type": "string"}, "limit": {"type": "integer"}},
        "required": ["path"],
        "additionalProperties": False,
    },
)
PATCH = ToolSpec(
    name="apply_patch",
    description="Patch.",
    schema={
        "type": "object",
        "properties": {"patch": {"type": "string"}},
        "required": ["patch"],
        "additionalProperties": False,
    },
    grammar="start: /.+/",
)
ASKED = {
    "model": "gpt-6.1-sol",
    "stream": True,
    "input": [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hi"}]}
    ],
}


def asked(*messages: Message, model: Model = MODEL, **fields: Any) -> dict[str, Any]:
    request = Request(model=model.name, system="", messages=messages or (PROMPT,))
    return encode(replace(request, **fields), model)


def items(*messages: Message, model: Model = MODEL) -> list[Any]:
    return list(asked(*messages, model=model)["input"])


def own(data: Json, model: Model = MODEL) -> Echo:
    return Echo(protocol="openai-responses", model=model.name, data=data)


def replied(*blocks: Text | Thinking | ToolCall, echo: Echo | None = None) -> AssistantMessage:
    return AssistantMessage(
        content=blocks, stop="end", protocol="openai-responses", model=MODEL.name, echo=echo
    )


def result(call_id: str, *content: Text | Image, name: str = "read_file") -> ToolMessage:
    answer = ToolResult(call_id=call_id, name=name, status="ok", content=content)
    return ToolMessage(results=(answer,))


def test_least_request_holds_nothing_that_is_optional() -> None:
    assert asked(model=PLAIN) == {**ASKED, "store": False}


def test_thinking_model_is_asked_for_what_must_come_back() -> None:
    assert asked(effort="high") == {
        **ASKED,
        "store": False,
        "reasoning": {"effort": "high", "summary": "auto"},
        "include": ["reasoning.encrypted_content"],
    }


def test_system_limit_and_session_have_their_places() -> None:
    body = asked(model=PLAIN, system="Be brief.", output_limit_tokens=3, session="s" * 70)
    assert body == {
        **ASKED,
        "store": False,
        "instructions": "Be brief.",
        "max_output_tokens": 16,
        "prompt_cache_key": "s" * 64,
    }


def test_tool_is_declared_strictly_with_optional_fields_as_unions_with_null() -> None:
    body = asked(tools=(READ,), parallel=False)
    assert (body["tools"], body["tool_choice"], body["parallel_tool_calls"]) == (
        [
            {
                "type": "function",
                "name": "read_file",
                "description": "Read.",
                "parameters": {
                    "type": "object",
                    "properties": {
                        "path": {"type": "string"},
                        "limit": {"type": ["integer", "null"]},
                    },
                    "required": ["path", "limit"],
                    "additionalProperties": False,
                },
                "strict": True,
            }
        ],
        "auto",
        False,
    )


def test_schema_beyond_the_strict_subset_is_declared_as_it_is() -> None:
    schema: Json = {"type": "object", "properties": {"x": {"oneOf": [{"type": "string"}]}}}
    body = asked(tools=(replace(READ, schema=schema),))
    assert body["tools"] == [
        {
            "type": "function",
            "name": "read_file",
            "description": "Read.",
            "parameters": schema,
            "strict": False,
        }
    ]


def test_tool_with_a_grammar_is_custom_only_for_models_trained_on_it() -> None:
    custom = asked(model=PATCHING, tools=(PATCH,), tool_choice="apply_patch")
    assert (custom["tools"], custom["tool_choice"]) == (
        [
            {
                "type": "custom",
                "name": "apply_patch",
                "description": "Patch.",
                "format": {"type": "grammar", "syntax": "lark", "definition": "start: /.+/"},
            }
        ],
        {"type": "custom", "name": "apply_patch"},
    )
    function = asked(tools=(PATCH,), tool_choice="apply_patch")
    assert function["tool_choice"] == {"type": "function", "name": "apply_patch"}


@pytest.mark.parametrize(
    ("choice", "forced", "sent"),
    [
        ("auto", True, "auto"),
        ("none", False, "none"),
        ("required", True, "required"),
        ("required", False, "auto"),
        ("read_file", True, {"type": "function", "name": "read_file"}),
        ("read_file", False, "auto"),
    ],
)
def test_tool_choice_is_forced_only_where_the_model_can_be(
    choice: str, forced: bool, sent: Json
) -> None:
    model = replace(MODEL, forced_tool_choice=forced)
    assert asked(model=model, tools=(READ,), tool_choice=choice)["tool_choice"] == sent


def test_images_stand_in_prompts_and_in_results() -> None:
    image = Image(media_type="image/png", data="aGk=")
    call = ToolCall(id="c1", name="read_file", input={"path": "a.png"})
    sent = items(
        UserMessage(content=(Text(text="See"), image)),
        replied(call),
        result("c1", Text(text="An image:"), image),
    )
    shown = {
        "type": "input_image",
        "image_url": "data:image/png;base64,aGk=",
        "detail": "auto",
    }
    assert [sent[0], sent[2]] == [
        {
            "type": "message",
            "role": "user",
            "content": [{"type": "input_text", "text": "See"}, shown],
        },
        {
            "type": "function_call_output",
            "call_id": "c1",
            "output": [{"type": "input_text", "text": "An image:"}, shown],
        },
    ]


@pytest.mark.parametrize(("status", "first"), [("ok", []), ("error", ["Error:"])])
def test_text_and_images_of_a_result_keep_their_order(
    status: Literal["ok", "error"], first: list[str]
) -> None:
    image = Image(media_type="image/png", data="aGk=")
    call = ToolCall(id="c1", name="read_file", input={})
    content = (image, Text(text="one"), image, Text(text="two"))
    answer = ToolResult(call_id="c1", name="read_file", status=status, content=content)
    sent = items(replied(call), ToolMessage(results=(answer,)))
    shown = [part.get("text", "image") for part in sent[-1]["output"]]
    assert shown == [*first, "image", "one", "image", "two"]


def test_foreign_reply_is_sent_without_any_id() -> None:
    calls = (
        ToolCall(id="toolu_1", name="read_file", input={"path": "ä"}),
        ToolCall(id="toolu_2", name="bash", input='{"command": '),
        ToolCall(id="toolu_3", name="apply_patch", input={"patch": "*** Begin Patch"}),
    )
    results = tuple(
        ToolResult(call_id=call.id, name=call.name, status="error", content=(Text(text="no"),))
        for call in calls
    )
    sent = items(
        PROMPT, replied(Text(text="So."), *calls), ToolMessage(results=results), model=PATCHING
    )
    assert sent[1:] == [
        {"type": "message", "role": "assistant", "content": "So."},
        {
            "type": "function_call",
            "call_id": "toolu_1",
            "name": "read_file",
            "arguments": '{"path":"ä"}',
        },
        {
            "type": "function_call",
            "call_id": "toolu_2",
            "name": "bash",
            "arguments": '{"command": ',
        },
        {
            "type": "custom_tool_call",
            "call_id": "toolu_3",
            "name": "apply_patch",
            "input": "*** Begin Patch",
        },
        {"type": "function_call_output", "call_id": "toolu_1", "output": "Error: no"},
        {"type": "function_call_output", "call_id": "toolu_2", "output": "Error: no"},
        {"type": "custom_tool_call_output", "call_id": "toolu_3", "output": "Error: no"},
    ]


def thought(item_id: str, **fields: Json) -> Thinking:
    return Thinking(
        text="", echo=own({"type": "reasoning", "id": item_id, "summary": [], **fields})
    )


def own_call(number: int) -> ToolCall:
    item: Json = {
        "type": "function_call",
        "id": f"fc_{number}",
        "call_id": f"call_{number}",
        "arguments": "{ }",
    }
    return ToolCall(id=f"call_{number}", name="bash", input={}, echo=own(item))


def test_thought_goes_with_the_item_it_led_to() -> None:
    reply = replied(thought("rs_1", encrypted_content="e"), own_call(1))
    assert items(reply) == [
        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "e"},
        {
            "type": "function_call",
            "id": "fc_1",
            "call_id": "call_1",
            "name": "bash",
            "arguments": "{ }",
        },
    ]


def test_thought_that_led_to_nothing_is_left_out() -> None:
    reply = replied(own_call(1), thought("rs_1", encrypted_content="e"))
    assert [item["type"] for item in items(reply)] == ["function_call"]


def test_item_whose_thought_nobody_kept_goes_without_its_id() -> None:
    item: Json = {"type": "message", "id": "msg_1", "phase": "commentary", "content": []}
    said = Text(text="So.", echo=own(item))
    assert items(replied(thought("rs_1"), said, own_call(1))) == [
        {"type": "message", "role": "assistant", "content": "So.", "phase": "commentary"},
        {"type": "function_call", "call_id": "call_1", "name": "bash", "arguments": "{ }"},
    ]


def test_stored_thought_goes_back_by_its_id_alone() -> None:
    reply = replied(thought("rs_1"), own_call(1))
    sent = items(reply, model=STORED)
    assert sent[0] == {"type": "reasoning", "id": "rs_1", "summary": []}


def test_renamed_call_is_sent_by_its_new_id() -> None:
    sent = items(replied(replace(own_call(1), id="call_1_2")))
    assert sent[0]["call_id"] == "call_1_2"


def test_stored_conversation_names_the_last_response_and_sends_what_came_after() -> None:
    body = asked(
        PROMPT,
        replied(own_call(1), echo=own("resp_1")),
        result("call_1", Text(text="ok"), name="bash"),
        model=STORED,
    )
    assert (body["store"], body["previous_response_id"], body["input"]) == (
        True,
        "resp_1",
        [{"type": "function_call_output", "call_id": "call_1", "output": "ok"}],
    )


def test_stored_conversation_whose_echo_is_gone_is_sent_whole() -> None:
    messages = (PROMPT, replied(own_call(1)), result("call_1", Text(text="ok")))
    body = asked(*messages, model=STORED)
    assert "previous_response_id" not in body
    assert body["input"] == items(*messages)


def completed(**response: Json) -> dict[str, Json]:
    return {"type": "response.completed", "response": {"status": "completed", **response}}


def test_reply_of_a_stored_conversation_names_its_response() -> None:
    fed = responses.open_exchange(STORED, None).decoder
    fed.feed(completed(id="resp_9"))
    assert fed.message().echo == own("resp_9")
    stateless = responses.open_exchange(MODEL, None).decoder
    stateless.feed(completed(id="resp_9"))
    assert stateless.message().echo is None


def test_reply_that_was_not_streamed_is_read_whole() -> None:
    part: Json = {"type": "output_text", "text": "Hello.", "annotations": []}
    item: Json = {"type": "message", "id": "msg_1", "role": "assistant", "content": [part]}
    fed = responses.open_exchange(MODEL, None).decoder
    shown = fed.feed(
        {
            "object": "response",
            "status": "completed",
            "error": None,
            "output": [item],
            "usage": {"input_tokens": 7, "output_tokens": 2},
        }
    )
    assert shown == [TextDelta(text="Hello.")]
    assert fed.message() == AssistantMessage(
        content=(Text(text="Hello.", echo=own(item)),),
        stop="end",
        protocol="openai-responses",
        model="gpt-6.1-sol",
        usage=Usage(input_tokens=7, output_tokens=2),
    )


@pytest.mark.parametrize(
    "event",
    [
        {},
        {"type": "keepalive"},
        {"type": 3},
        {"type": "response.output_item.added"},
        {"type": "response.output_item.done", "output_index": None, "item": None},
        {"type": "response.output_text.delta", "output_index": "x", "delta": None},
        {"type": "response.function_call_arguments.delta", "delta": {}},
        {"type": "response.output_item.done", "output_index": 4, "item": {"type": 5}},
        {"type": "response.output_item.done", "item": {"type": "message", "content": [3, {}]}},
        {"type": "response.output_item.done", "item": {"type": "reasoning", "summary": 1}},
        {"type": "response.reasoning_summary_part.added"},
    ],
)
def test_event_that_makes_no_sense_breaks_nothing(event: dict[str, Json]) -> None:
    fed = responses.open_exchange(MODEL, None).decoder
    fed.feed(event)
    fed.feed(completed(usage={"input_tokens": None}, output=None))
    assert fed.message().text == ""


def test_calls_of_a_server_that_counts_nothing_are_told_apart() -> None:
    fed = responses.open_exchange(MODEL, None).decoder
    for number in (1, 2):
        item: dict[str, Json] = {
            "type": "function_call",
            "call_id": f"call_{number}",
            "name": "bash",
            "arguments": "{}",
        }
        fed.feed({"type": "response.output_item.added", "item": {**item, "arguments": ""}})
        fed.feed({"type": "response.function_call_arguments.delta", "delta": "{}"})
        fed.feed({"type": "response.output_item.done", "item": item})
    fed.feed(completed())
    assert [call.id for call in fed.message().tool_calls] == ["call_1", "call_2"]


def test_call_that_is_not_done_is_taken_from_the_completed_response() -> None:
    item: dict[str, Json] = {"type": "function_call", "call_id": "c", "name": "bash"}
    whole: Json = {**item, "arguments": '{"command":"ls"}', "status": "completed"}
    fed = responses.open_exchange(MODEL, None).decoder
    fed.feed({"type": "response.output_item.added", "output_index": 0, "item": item})
    fed.feed({"type": "response.function_call_arguments.delta", "delta": '{"command":"'})
    fed.feed(completed(output=[whole]))
    assert [call.input for call in fed.message().tool_calls] == [{"command": "ls"}]


@pytest.mark.parametrize(
    "output",
    [
        [],
        [
            {
                "type": "function_call",
                "call_id": "c",
                "name": "bash",
                "arguments": '{"command":"rm',
                "status": "in_progress",
            }
        ],
    ],
)
def test_completed_response_with_half_a_call_is_cut(output: Json) -> None:
    item: dict[str, Json] = {"type": "function_call", "call_id": "c", "name": "bash"}
    fed = responses.open_exchange(MODEL, None).decoder
    fed.feed({"type": "response.output_item.added", "output_index": 0, "item": item})
    fed.feed({"type": "response.function_call_arguments.delta", "delta": '{"command":"'})
    with pytest.raises(ProviderError, match="its call of bash was incomplete") as caught:
        fed.feed(completed(output=output))
    assert caught.value.kind is ProviderErrorKind.CUT


def test_call_whose_arguments_are_done_needs_no_other_end() -> None:
    item: dict[str, Json] = {"type": "function_call", "call_id": "c", "name": "bash"}
    custom: dict[str, Json] = {"type": "custom_tool_call", "call_id": "d", "name": "apply_patch"}
    fed = responses.open_exchange(MODEL, None).decoder
    for index, added in enumerate((item, custom)):
        fed.feed({"type": "response.output_item.added", "output_index": index, "item": added})
    fed.feed(
        {
            "type": "response.function_call_arguments.done",
            "output_index": 0,
            "arguments": '{"command":"ls"}',
        }
    )
    fed.feed(
        {"type": "response.custom_tool_call_input.done", "output_index": 1, "input": "*** Begin"}
    )
    fed.feed(completed(output=[]))
    message = fed.message()
    assert [call.input for call in message.tool_calls] == [
        {"command": "ls"},
        {"patch": "*** Begin"},
    ]
    assert (message.stop, message.cut_off) == ("tool_calls", ())


def test_item_that_is_done_twice_is_one() -> None:
    call: dict[str, Json] = {"type": "function_call", "id": "fc_1", "call_id": "c", "name": "bash"}
    done: dict[str, Json] = {"type": "response.output_item.done", "output_index": 0, "item": call}
    other: dict[str, Json] = {**done, "item": {**call, "call_id": "d"}}
    fed = responses.open_exchange(MODEL, None).decoder
    for event in (done, done, other, completed(output=[call])):
        fed.feed(event)
    assert [made.id for made in fed.message().tool_calls] == ["c", "d"]


def test_call_that_the_limit_cut_is_named() -> None:
    item: dict[str, Json] = {"type": "function_call", "call_id": "c", "name": "write_file"}
    fed = responses.open_exchange(MODEL, None).decoder
    fed.feed({"type": "response.output_item.added", "output_index": 0, "item": item})
    fed.feed({"type": "response.function_call_arguments.delta", "delta": '{"path":"'})
    fed.feed(
        {
            "type": "response.incomplete",
            "response": {
                "status": "incomplete",
                "incomplete_details": {"reason": "max_output_tokens"},
            },
        }
    )
    message = fed.message()
    assert (message.content, message.stop, message.cut_off) == ((), "length", ("write_file",))


def test_error_without_a_type_is_an_error() -> None:
    with pytest.raises(ProviderError) as caught:
        responses.open_exchange(MODEL, None).decoder.feed(
            {"error": {"message": "Overloaded", "code": "server_error"}}
        )
    assert caught.value.kind is ProviderErrorKind.UNAVAILABLE


def test_message_may_be_asked_for_again_and_again() -> None:
    fed = responses.open_exchange(MODEL, None).decoder
    fed.feed({"type": "response.output_text.delta", "output_index": 0, "delta": "Hel"})
    with pytest.raises(ProviderError):
        fed.message()
    fed.feed({"type": "response.output_text.delta", "output_index": 0, "delta": "lo"})
    fed.feed(completed())
    assert fed.message() == fed.message()
    assert fed.message().text == "Hello"


def test_address_and_key() -> None:
    assert responses.open_exchange(MODEL, None).path == "/v1/responses"
    assert (build_headers("k"), build_headers(None)) == ({"authorization": "Bearer k"}, {})
