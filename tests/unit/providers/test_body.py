import json
import tracemalloc
from collections.abc import Sequence
from dataclasses import replace

import pytest

from agentcli.providers.catalog import resolve
from agentcli.providers.connection import (
    CONVERSATIONS,
    PIECE_BYTES,
    RequestBody,
    count_settled,
    encode_text,
)
from agentcli.providers.dialect import Dialect, Model
from agentcli.providers.transport import find_dialect
from agentcli.types.messages import AssistantMessage, Json, Text, Thinking, ToolCall, UserMessage
from agentcli.types.provider import Message, Request
from agentcli.types.tools import ToolMessage, ToolResult, ToolSpec

MODELS = [
    resolve("opus"),
    resolve("sol"),
    resolve("openai-chat/gpt-6.1-sol"),
    resolve("argon"),
    resolve("gemini-interactions/gemini-4-argon"),
]
OPUS = MODELS[0]
SEARCH = ToolSpec(name="search_tools", description="Finds tools.", schema={"type": "object"})
PAY = ToolSpec(name="hub__pay", description="Pays.", schema={"type": "object"})


class Counted:
    """A dialect that counts the items it makes."""

    def __init__(self, model: Model) -> None:
        self._dialect = find_dialect(model.protocol)
        self.PROTOCOL = self._dialect.PROTOCOL
        self.HISTORY_KEY = self._dialect.HISTORY_KEY
        self.open_exchange = self._dialect.open_exchange
        self.build_headers = self._dialect.build_headers
        self.read_error = self._dialect.read_error
        self.items = 0

    def encode(
        self, request: Request, model: Model, *, start: int = 0, end: int | None = None
    ) -> dict[str, Json]:
        body = self._dialect.encode(request, model, start=start, end=end)
        items = body[self.HISTORY_KEY]
        self.items += len(items) if isinstance(items, list) else 0
        return body


def ask(text: str) -> UserMessage:
    return UserMessage(content=(Text(text=text),))


def converse(steps: int, *, text: str = "é\u2028😀", found: Sequence[str] = ()) -> list[Message]:
    messages: list[Message] = [ask("Go.")]
    for step in range(steps):
        name = "search_tools" if found else "bash"
        call = ToolCall(id=f"call_{step}", name=name, input={"command": "ls"})
        messages.append(
            AssistantMessage(content=(call,), stop="tool_calls", protocol="p", model="m")
        )
        result = ToolResult(
            call_id=call.id,
            name=call.name,
            status="ok",
            content=(Text(text=f"{text} {step}"),),
            found=tuple(found),
        )
        messages.append(ToolMessage(results=(result,)))
    return messages


def build(
    messages: Sequence[Message],
    *,
    system: str = "You are an agent.",
    tools: tuple[ToolSpec, ...] = (),
    deferred: tuple[ToolSpec, ...] = (),
) -> Request:
    return Request(
        model="m", system=system, messages=tuple(messages), tools=tools, deferred=deferred
    )


def check(writer: RequestBody, dialect: Dialect, request: Request, model: Model) -> None:
    text = b"".join(writer.write(request, model))
    assert json.loads(text) == json.loads(encode_text(dialect.encode(request, model)))


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.protocol)
def test_text_is_that_of_the_whole_body(model: Model) -> None:
    dialect = find_dialect(model.protocol)
    writer, messages = RequestBody(dialect), converse(8)
    for length in (1, 3, 5, 7, 7, 17, 5, 6, 17):
        check(writer, dialect, build(messages[:length]), model)
    for system in ("Another.", "", "Another."):
        check(writer, dialect, build(messages, system=system), model)


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.protocol)
def test_tools_that_are_gone_are_not_named(model: Model) -> None:
    dialect = find_dialect(model.protocol)
    writer, messages = RequestBody(dialect), converse(8, found=["hub__pay"])
    for deferred in ((PAY,), (), (PAY,)):
        request = build(messages, tools=(SEARCH,), deferred=deferred)
        check(writer, dialect, request, model)


@pytest.mark.parametrize("quirk", ["", "stored"])
@pytest.mark.parametrize("model", [MODELS[1], MODELS[4]], ids=lambda model: model.protocol)
def test_conversation_may_be_stored(model: Model, quirk: str) -> None:
    stored = replace(model, quirks=frozenset({quirk} - {""}))
    dialect = find_dialect(model.protocol)
    writer, messages = RequestBody(dialect), converse(8)
    for length in (5, 7, 17):
        check(writer, dialect, build(messages[:length]), stored)


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.protocol)
def test_step_encodes_no_more_in_a_long_conversation(model: Model) -> None:
    made = []
    for steps in (20, 200):
        dialect, messages = Counted(model), converse(steps + 1)
        writer = RequestBody(dialect)
        writer.write(build(messages[:-2]), model)
        dialect.items = 0
        writer.write(build(messages), model)
        made.append(dialect.items)
    assert made[0] == made[1]


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.protocol)
def test_little_more_than_the_text_is_kept(model: Model) -> None:
    writer, messages = RequestBody(find_dialect(model.protocol)), converse(1000, text="x" * 400)
    writer.write(build(messages[:5]), model)
    tracemalloc.start()
    for length in range(7, len(messages), 2):
        text_bytes = sum(map(len, writer.write(build(messages[:length]), model)))
    kept_bytes, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept_bytes < 1.3 * text_bytes


def test_conversations_take_turns() -> None:
    dialect = Counted(OPUS)
    writer = RequestBody(dialect)
    conversations = [converse(50) for _ in range(CONVERSATIONS)]
    for messages in conversations:
        writer.write(build(messages), OPUS)
    dialect.items = 0
    for messages in conversations:
        check(writer, find_dialect(OPUS.protocol), build(messages), OPUS)
    assert dialect.items < 50 * CONVERSATIONS
    for messages in (converse(50), *conversations):
        check(writer, find_dialect(OPUS.protocol), build(messages), OPUS)


def test_reply_that_says_nothing_settles_nothing() -> None:
    silent = AssistantMessage(content=(Thinking(text="Hm."),), stop="end", protocol="p", model="m")
    messages = [
        *converse(3),
        silent,
        ask("And?"),
        AssistantMessage(content=(Text(text="Yes."),), stop="end", protocol="p", model="m"),
        ask("Thanks."),
    ]
    assert count_settled(messages) == 6
    assert count_settled(messages[:1]) == 0


def test_half_a_character_does_not_stop_a_request() -> None:
    assert encode_text("\udcff") == b'"?"'


def test_long_history_is_not_copied_for_the_next_request() -> None:
    writer = RequestBody(find_dialect(OPUS.protocol))
    messages = converse(8, text="x" * PIECE_BYTES)
    before = writer.write(build(messages[:-2]), OPUS)
    sent = b"".join(before)
    after = writer.write(build(messages), OPUS)
    assert all(one is other for one, other in zip(before[1:-1], after[1:-1], strict=False))
    assert len(before) > 2
    assert b"".join(before) == sent
