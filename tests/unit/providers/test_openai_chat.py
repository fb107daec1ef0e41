from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentcli.providers.dialect import Model
from agentcli.providers.openai import chat
from agentcli.providers.openai.chat import build_headers, encode
from agentcli.types.deltas import TextDelta, ThinkingDelta
from agentcli.types.errors import ProviderError, ProviderErrorKind
from agentcli.types.messages import (
    AssistantMessage,
    Echo,
    Image,
    Json,
    Text,
    Thinking,
    ToolCall,
    UserMessage,
)
from agentcli.types.provider import Message, Request
from agentcli.types.tools import ToolMessage, ToolResult, ToolSpec
from tests.support.examples import examples

MODEL = Model(provider="ollama", name="qwen3", protocol="openai-chat", strict_tools=False)
GPT = Model(provider="openai-chat", name="gpt-5.4", protocol="openai-chat", thinking=True)
PROMPT = UserMessage(content=(Text(text="Hi"),))
IMAGE = Image(media_type="image/png", data="aGk=")
SHOWN = {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}}
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


def asked(*messages: Message, model: Model = MODEL, **fields: Any) -> dict[str, Any]:
    request = Request(model=model.name, system="", messages=messages or (PROMPT,))
    return encode(replace(request, **fields), model)


def sent(*messages: Message, model: Model = MODEL) -> list[Any]:
    return list(asked(*messages, model=model)["messages"])


def replied(*blocks: Text | Thinking | ToolCall) -> AssistantMessage:
    return AssistantMessage(content=blocks, stop="end", protocol="openai-chat", model=MODEL.name)


def own(data: Json) -> Echo:
    return Echo(protocol="openai-chat", model=MODEL.name, data=data)


def test_least_request_holds_nothing_that_is_optional() -> None:
    assert asked() == {
        "model": "qwen3",
        "messages": [{"role": "user", "content": "Hi"}],
        "stream": True,
        "stream_options": {"include_usage": True},
    }


def test_server_that_knows_no_tally_is_not_asked_for_one() -> None:
    model = replace(MODEL, quirks=frozenset({"no_stream_usage"}))
    assert "stream_options" not in asked(model=model)


@pytest.mark.parametrize(
    ("quirks", "name"),
    [(frozenset(), "max_completion_tokens"), (frozenset({"max_tokens"}), "max_tokens")],
)
def test_output_limit_goes_by_the_name_the_server_knows(quirks: frozenset[str], name: str) -> None:
    body = asked(model=replace(MODEL, quirks=quirks), output_limit_tokens=50)
    limits = {key: value for key, value in body.items() if key.startswith("max")}
    assert limits == {name: 50}


@pytest.mark.parametrize(
    ("model", "tools", "effort"),
    [
        (GPT, (), "high"),
        (GPT, (READ,), "high"),
        (replace(GPT, name="gpt-5.6-sol"), (READ,), "none"),
        (replace(GPT, name="gpt-5.6-sol"), (), "high"),
        (replace(GPT, name="gpt-6-luna-2026-09-01"), (READ,), "none"),
        (replace(GPT, name="gpt-10"), (READ,), "none"),
        (replace(GPT, name="gpt-4o"), (READ,), "high"),
        (replace(GPT, name="openai/gpt-6-luna"), (READ,), "high"),
        (replace(GPT, name="gpt-oss-120b"), (READ,), "high"),
        (MODEL, (READ,), None),
    ],
)
def test_effort_is_none_where_tools_are_refused_otherwise(
    model: Model, tools: tuple[ToolSpec, ...], effort: str | None
) -> None:
    assert asked(model=model, tools=tools, effort="high").get("reasoning_effort") == effort


@pytest.mark.parametrize(
    ("choice", "forced", "field"),
    [
        ("auto", True, None),
        ("none", True, "none"),
        ("required", True, "required"),
        ("required", False, None),
        ("read_file", True, {"type": "function", "function": {"name": "read_file"}}),
        ("read_file", False, None),
    ],
)
def test_tool_choice_is_left_out_where_it_says_nothing(
    choice: str, forced: bool, field: Json
) -> None:
    model = replace(MODEL, forced_tool_choice=forced)
    assert asked(model=model, tools=(READ,), tool_choice=choice).get("tool_choice") == field


def test_tool_is_strict_only_where_the_server_holds_the_model_to_it() -> None:
    (loose,) = asked(tools=(READ,), parallel=False)["tools"]
    (strict,) = asked(model=GPT, tools=(READ,))["tools"]
    assert loose == {
        "type": "function",
        "function": {"name": "read_file", "description": "Read.", "parameters": READ.schema},
    }
    assert strict["function"]["strict"] is True
    assert strict["function"]["parameters"]["required"] == ["path", "limit"]


def test_parallel_calls_are_spoken_of_only_to_forbid_them() -> None:
    assert "parallel_tool_calls" not in asked(tools=(READ,))
    assert asked(tools=(READ,), parallel=False)["parallel_tool_calls"] is False
    assert "parallel_tool_calls" not in asked(parallel=False)


def test_results_stand_together_and_their_images_follow() -> None:
    calls = [ToolCall(id=f"c{n}", name="read_file", input={"path": f"{n}"}) for n in (1, 2, 3)]
    contents = [(Text(text="one"), IMAGE), (Text(text="no such file"),), (IMAGE, IMAGE)]
    results = tuple(
        ToolResult(
            call_id=call.id,
            name=call.name,
            status="error" if call.id == "c2" else "ok",
            content=content,
        )
        for call, content in zip(calls, contents, strict=True)
    )
    assert sent(replied(*calls), ToolMessage(results=results))[1:] == [
        {"role": "tool", "tool_call_id": "c1", "content": "one"},
        {"role": "tool", "tool_call_id": "c2", "content": "Error: no such file"},
        {"role": "tool", "tool_call_id": "c3", "content": "(see the image below)"},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "From read_file:"},
                SHOWN,
                {"type": "text", "text": "From read_file:"},
                SHOWN,
                SHOWN,
            ],
        },
    ]


def test_prompt_is_a_string_unless_it_holds_an_image() -> None:
    texts = UserMessage(content=(Text(text="a"), Text(text="b")))
    mixed = UserMessage(content=(Text(text="a"), IMAGE))
    assert sent(texts) == [{"role": "user", "content": "a\n\nb"}]
    assert sent(mixed) == [{"role": "user", "content": [{"type": "text", "text": "a"}, SHOWN]}]


def test_user_messages_in_a_row_are_one() -> None:
    texts = [UserMessage(content=(Text(text=text),)) for text in "abc"]
    mixed = UserMessage(content=(Text(text="d"), IMAGE))
    reply = replied(Text(text="Yes."))
    said = {"role": "assistant", "content": "Yes."}
    joined = {"role": "user", "content": "a\n\nb"}
    assert sent(*texts[:2], reply, texts[2]) == [joined, said, {"role": "user", "content": "c"}]
    assert sent(reply, texts[0], mixed, texts[1]) == [
        said,
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "a"},
                {"type": "text", "text": "d"},
                SHOWN,
                {"type": "text", "text": "b"},
            ],
        },
    ]


@pytest.mark.parametrize(
    ("call", "arguments"),
    [
        (ToolCall(id="c", name="f", input={"a": "ä"}), '{"a":"ä"}'),
        (
            ToolCall(id="c", name="f", input={"a": 1}, echo=own({"arguments": '{"a": 1}'})),
            '{"a": 1}',
        ),
        (ToolCall(id="c", name="f", input='{"a": '), "{}"),
        (ToolCall(id="c", name="f", input=[1]), "{}"),
    ],
)
def test_arguments_go_back_as_written_or_as_an_object(call: ToolCall, arguments: str) -> None:
    (message,) = sent(replied(call))
    assert message == {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"id": "c", "type": "function", "function": {"name": "f", "arguments": arguments}}
        ],
    }


def test_reasoning_goes_back_with_calls_and_not_with_the_last_word() -> None:
    thought = Thinking(text="Hm.", echo=own({"reasoning": "Hm."}))
    call = ToolCall(id="c", name="f", input={})
    quiet = replace(MODEL, quirks=frozenset({"no_reasoning_back"}))
    assert sent(replied(thought, call))[0]["reasoning"] == "Hm."
    assert "reasoning" not in sent(replied(thought, call), model=quiet)[0]
    assert sent(replied(thought, Text(text="Yes."))) == [{"role": "assistant", "content": "Yes."}]


def test_reasoning_goes_back_always_to_a_server_that_demands_it() -> None:
    model = replace(MODEL, quirks=frozenset({"reasoning_back"}))
    thought = Thinking(text="Hm.", echo=own({"reasoning_content": "Hm."}))
    call, text = ToolCall(id="c", name="f", input={}), Text(text="Yes.")
    replies = [replied(thought, call), replied(call), replied(thought, text), replied(text)]
    back = [message["reasoning_content"] for message in sent(*replies, model=model)]
    assert back == ["Hm.", "", "Hm.", ""]


INLINE = "\n<think>\nSo </ thin k> it < is.\n</think>\n\n<p>Yes</p> </think>"


@pytest.mark.parametrize("size_chars", [1, 3, 8, 100])
def test_thought_between_tags_is_no_part_of_the_answer(size_chars: int) -> None:
    decoder = chat.open_exchange(MODEL, None).decoder
    pieces = [INLINE[at : at + size_chars] for at in range(0, len(INLINE), size_chars)]
    shown = [delta for piece in pieces for delta in decoder.feed(choice(content=piece))]
    decoder.feed(choice("stop"))
    thoughts = [delta.text for delta in shown if isinstance(delta, ThinkingDelta)]
    texts = [delta.text for delta in shown if isinstance(delta, TextDelta)]
    assert "".join(thoughts) == "\nSo </ thin k> it < is.\n"
    assert "".join(texts) == "<p>Yes</p> </think>"
    thought, text = decoder.message().content
    assert (thought, text) == (
        Thinking(text="So </ thin k> it < is.", echo=own({"content": INLINE})),
        Text(text="<p>Yes</p> </think>"),
    )


@pytest.mark.parametrize(
    ("written", "thought", "text"),
    [
        ("<think>\n\n</think>\n\nYes.", [], "Yes."),
        ("<think>So it is.</thi", ["So it is.</thi"], ""),
        ("<think", [], "<think"),
        (" \n", [], " \n"),
        ("Yes. <think>No.</think>", [], "Yes. <think>No.</think>"),
        ("So it is.</think>Yes.", [], "So it is.</think>Yes."),
    ],
)
def test_thought_is_only_what_a_tag_begins(written: str, thought: list[str], text: str) -> None:
    decoder = chat.open_exchange(MODEL, None).decoder
    decoder.feed(choice("stop", content=written))
    message = decoder.message()
    assert [one.text for one in message.content if isinstance(one, Thinking)] == thought
    assert message.text == text


def test_thought_between_tags_goes_back_with_its_calls() -> None:
    decoder = chat.open_exchange(MODEL, None).decoder
    decoder.feed(choice(content=INLINE))
    function: Json = {"name": "read_file", "arguments": "{}"}
    decoder.feed(choice("stop", tool_calls=[{"index": 0, "id": "c1", "function": function}]))
    assert sent(decoder.message())[0]["content"] == INLINE
    spoken = [one for one in decoder.message().content if isinstance(one, Thinking | Text)]
    assert sent(replied(*spoken))[0]["content"] == "<p>Yes</p> </think>"


@pytest.mark.parametrize(
    ("finish", "stop"),
    [("stop", "end"), ("STOP", "end"), ("MAX_TOKENS", "length"), ("something_new", "error")],
)
def test_unknown_finish_reason_is_not_the_end(finish: str, stop: str) -> None:
    reading = chat.open_exchange(MODEL, None).decoder
    for event in (choice(content="Hi"), choice(finish)):
        reading.feed(event)
    assert reading.message().stop == stop


def test_reply_that_says_nothing_is_left_out() -> None:
    assert sent(PROMPT, replied(Thinking(text="Hm.", echo=own({"reasoning": "Hm."})))) == [
        {"role": "user", "content": "Hi"}
    ]


@pytest.mark.parametrize(("quirks", "content"), [((), None), (("no_null_content",), "")])
def test_reply_of_calls_alone_has_the_content_that_the_server_takes(
    quirks: tuple[str, ...], content: Json
) -> None:
    model = replace(MODEL, quirks=frozenset(quirks))
    reply = replied(ToolCall(id="c1", name="read_file", input={"path": "a"}))
    assert sent(PROMPT, reply, model=model)[1]["content"] == content


def choice(finish: str | None = None, **delta: Json) -> dict[str, Json]:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


@pytest.mark.parametrize("finish", ["error", "abort", "insufficient_system_resource"])
def test_finish_reason_that_is_a_failure_is_one(finish: str) -> None:
    with pytest.raises(ProviderError) as caught:
        chat.open_exchange(MODEL, None).decoder.feed(choice(finish))
    assert caught.value.kind is ProviderErrorKind.UNAVAILABLE


@pytest.mark.parametrize(
    "event",
    [
        {},
        {"choices": "no"},
        {"choices": [None, 3]},
        {"choices": [{"delta": "no"}]},
        {"choices": [{"delta": {"content": 3, "tool_calls": [None, {"function": "no"}]}}]},
        {"choices": [{"delta": {"tool_calls": [{"index": "0", "id": 3, "function": {}}]}}]},
        {"choices": [{"delta": {"reasoning": {}, "reasoning_details": [3, {"type": 3}]}}]},
        {"usage": {"prompt_tokens": "no", "prompt_tokens_details": None}},
    ],
)
def test_event_that_makes_no_sense_breaks_nothing(event: dict[str, Json]) -> None:
    fed = chat.open_exchange(MODEL, None).decoder
    fed.feed(event)
    fed.feed(choice("stop", content="ok"))
    assert (fed.message().text, fed.message().tool_calls) == ("ok", ())


def test_tokens_told_with_every_chunk_are_not_added_up() -> None:
    fed = chat.open_exchange(MODEL, None).decoder
    for tokens in (1, 2, 3):
        usage: Json = {"prompt_tokens": 9, "completion_tokens": tokens}
        fed.feed({**choice(content="x"), "usage": usage})
    fed.feed(choice("stop"))
    assert (fed.message().usage.input_tokens, fed.message().usage.output_tokens) == (9, 3)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=6,
)
call_deltas = st.fixed_dictionaries(
    {},
    optional={
        "index": st.sampled_from([0, 1, None, "0"]),
        "id": st.sampled_from(["a", "b", "", None]),
        "function": st.fixed_dictionaries(
            {},
            optional={
                "name": st.sampled_from(["f", "g", "", None]),
                "arguments": st.sampled_from(["", "{}", '{"a":', "1}", None, "}", "{"])
                | json_values,
            },
        ),
    },
)


@examples(150)
@given(st.lists(st.lists(call_deltas, max_size=2), max_size=5), st.sampled_from(["stop", "length"]))
def test_whatever_calls_come_each_has_an_id_of_its_own(
    chunks: list[list[Any]], finish: str
) -> None:
    fed = chat.open_exchange(MODEL, None).decoder
    for calls in chunks:
        fed.feed(choice(tool_calls=calls))
    fed.feed(choice(finish))
    made = fed.message().tool_calls
    assert len({call.id for call in made}) == len(made)
    assert all(call.id for call in made)
    if finish == "length":
        assert all(isinstance(call.input, dict) for call in made)


def test_address_and_key() -> None:
    assert chat.open_exchange(MODEL, None).path == "/v1/chat/completions"
    assert (build_headers("k"), build_headers(None)) == ({"authorization": "Bearer k"}, {})
