"""Any history, normalised for any model, is one every provider can accept."""

import json
from collections.abc import Sequence
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from agentcli.providers.catalog import resolve
from agentcli.providers.connection import RequestBody, encode_text
from agentcli.providers.dialect import Model
from agentcli.providers.normalize import NormalizedHistory, normalize
from agentcli.providers.transport import find_dialect
from agentcli.types.messages import (
    AssistantMessage,
    Echo,
    Image,
    Text,
    Thinking,
    ToolCall,
    UserMessage,
)
from agentcli.types.provider import Message
from agentcli.types.tools import ToolMessage, ToolResult
from tests.support.anthropic_fixtures import body as anthropic_body
from tests.support.anthropic_fixtures import request
from tests.support.examples import examples
from tests.support.provider import Recorded
from tests.support.strict_anthropic import StrictAnthropic

OPUS = resolve("opus")
MODELS = [
    OPUS,
    resolve("sol"),
    resolve("openai-chat/gpt-6.1-sol"),
    resolve("ollama/qwen3"),
    resolve("argon"),
    resolve("gemini-interactions/gemini-4-argon"),
]
ORIGINS = [(model.protocol, model.name) for model in MODELS]

texts = st.sampled_from(["", " ", "\n", "ok", "\ud800", "😀", "\x00", "\u2028"])
ids = st.sampled_from(["a", "b", "a_2", "", "z" * 50])
names = st.sampled_from(["bash", "server.tool", "", "9", "n" * 70])
echoes = st.builds(
    lambda origin, data: Echo(protocol=origin[0], model=origin[1], data=data),
    st.sampled_from(ORIGINS),
    st.just({"type": "thinking", "thinking": "x", "signature": "s"}),
)
values = st.sampled_from([{}, {"a": ["\udfff", 1]}, {"\ud800": None}, "{", [1], None])
images = st.builds(
    Image, media_type=st.sampled_from(["image/png", "image/tiff"]), data=st.just("AAAA")
)
said = st.builds(Text, text=texts)
content = st.lists(said | images, max_size=3).map(tuple)
thoughts = st.builds(Thinking, text=texts, echo=st.none() | echoes)
tool_calls = st.builds(ToolCall, id=ids, name=names, input=values)
replies = st.builds(
    lambda origin, blocks, stop: AssistantMessage(
        content=tuple(blocks), stop=stop, protocol=origin[0], model=origin[1]
    ),
    st.sampled_from(ORIGINS),
    st.lists(said | tool_calls | thoughts, max_size=4),
    st.sampled_from(["end", "tool_calls", "length", "refusal"]),
)
results = st.builds(
    ToolResult, call_id=ids, name=names, status=st.sampled_from(["ok", "error"]), content=content
)
answers = st.builds(ToolMessage, results=st.lists(results, max_size=4).map(tuple))
users = st.builds(UserMessage, content=content)
histories = st.lists(users | replies | answers, max_size=8)


@examples(80)
@given(history=histories, model=st.sampled_from(MODELS))
def test_every_call_is_answered_once_adjacent_and_in_order(
    history: list[Message], model: Model
) -> None:
    normal = normalize(history, model)
    seen: list[str] = []
    for number, message in enumerate(normal):
        follower = normal[number + 1] if number + 1 < len(normal) else None
        if isinstance(message, AssistantMessage) and message.tool_calls:
            assert isinstance(follower, ToolMessage)
            wanted = [call.id for call in message.tool_calls]
            assert [result.call_id for result in follower.results] == wanted
            seen += wanted
        if isinstance(message, ToolMessage):
            before = normal[number - 1]
            assert isinstance(before, AssistantMessage)
            assert before.tool_calls
    assert len(seen) == len(set(seen))
    assert "" not in seen
    assert not isinstance(normal[-1], AssistantMessage)


@examples(80)
@given(history=histories, model=st.sampled_from(MODELS))
def test_normal_history_stays_as_it_is(history: list[Message], model: Model) -> None:
    normal = normalize(history, model)
    assert normalize(normal, model) == normal


@examples(80)
@given(history=histories, more=histories, reply=replies, model=st.sampled_from(MODELS))
def test_longer_history_begins_the_same(
    history: list[Message], more: list[Message], reply: AssistantMessage, model: Model
) -> None:
    part = normalize(history, model)
    assert normalize([*history, reply, *more], model)[: len(part)] == part


@examples(80)
@given(history=histories)
def test_anthropic_finds_no_fault_with_any_history(history: list[Message]) -> None:
    assert StrictAnthropic()(_sent(history)) is None


@examples(40)
@given(history=histories)
def test_anthropic_finds_no_fault_with_a_history_that_grows(history: list[Message]) -> None:
    """One request before each reply, and one at the end: as a session sends them."""
    checker = StrictAnthropic()
    for number, message in enumerate(history):
        if isinstance(message, AssistantMessage):
            assert checker(_sent(history[:number])) is None
    assert checker(_sent(history)) is None


def _sent(history: Sequence[Message]) -> Recorded:
    return Recorded(
        method="POST",
        path="/v1/messages",
        headers={
            "anthropic-version": "x",
            "x-api-key": "k",
            "content-type": "application/json",
        },
        body=encode_text(anthropic_body(history)),
        connection=0,
    )


@examples(60)
@given(history=histories, model=st.sampled_from(MODELS))
def test_every_dialect_encodes_every_history(history: list[Message], model: Model) -> None:
    dialect = find_dialect(model.protocol)
    asked = replace(request([]), messages=normalize(history, model))
    assert isinstance(json.loads(encode_text(dialect.encode(asked, model))), dict)


@examples(120)
@given(
    histories=st.lists(histories, min_size=1, max_size=3),
    lengths=st.lists(st.tuples(st.integers(0, 2), st.integers(0, 12)), min_size=1, max_size=8),
    model=st.sampled_from(MODELS),
)
def test_text_of_a_conversation_is_that_of_the_whole_body(
    histories: list[list[Message]], lengths: list[tuple[int, int]], model: Model
) -> None:
    """Histories grow, are cut and take turns. Each request is as if it were the first."""
    dialect = find_dialect(model.protocol)
    writer, normal = RequestBody(dialect), NormalizedHistory(model)
    conversation = [message for history in histories for message in history]
    for which, length in lengths:
        history = conversation if which == 0 else histories[which % len(histories)]
        asked = replace(request([]), messages=normal.normalize(history[:length] or conversation))
        whole = dialect.encode(asked, model)
        assert json.loads(b"".join(writer.write(asked, model))) == json.loads(encode_text(whole))
