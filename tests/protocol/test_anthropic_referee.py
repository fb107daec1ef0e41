"""The official SDK as referee: it accepts our requests, and reads streams as we do."""

import asyncio
import json
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import BaseModel

from agentcli.types.messages import AssistantMessage, Opaque, Text, Thinking, ToolCall
from agentcli.types.provider import Message
from tests.support.anthropic_fixtures import FOLDER, PROMPT, answered, body, cases, decoded
from tests.support.conversations import NAMES, conversation
from tests.support.provider import Provider, stream
from tests.support.sdk_types import load_request_type

if TYPE_CHECKING:
    from anthropic.types import Message as SdkMessage

WHOLE = [case for case in cases() if not (case / "error.json").exists()]
READ_DIFFERENTLY = {
    "malformed_arguments": "its helper raises on arguments that are not JSON",
    "deep_arguments": "the same",
    "half_surrogates": "its helper raises on half a character",
    "half_surrogates_across_deltas": "it keeps half a character",
    "many_data_lines": "it passes over events whose name it does not know",
    "not_streamed": "the same",
    "unknown_blocks_and_events": "it drops deltas it does not know",
    "length_in_call": "it keeps half a call",
    "length_before_arguments": "the same",
    "length_in_thinking": "it keeps half a thought",
}
READ_ALIKE = [case for case in WHOLE if case.name not in READ_DIFFERENTLY]


def assert_accepted(encoded: dict[str, Any]) -> None:
    """Keys the SDK does not know would be missing from what it understood."""
    assert settled(load_request_type("anthropic").validate_python(encoded)) == encoded


def settled(value: Any) -> Any:
    """The SDK's types check the items of an iterable only when they are taken out of it."""
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json", exclude_none=True)
    if isinstance(value, dict):
        return {key: settled(item) for key, item in value.items()}
    if isinstance(value, list | tuple | Iterator) or type(value).__name__ == "ValidatorIterator":
        return [settled(item) for item in value]
    return value


@pytest.mark.parametrize("name", NAMES)
def test_sdk_accepts_the_request_of_a_conversation(name: str) -> None:
    assert_accepted(body(conversation(name)))


@pytest.mark.parametrize(
    "case", [it for it in WHOLE if "unknown_blocks" not in it.name], ids=lambda case: case.name
)
def test_sdk_accepts_a_reply_sent_back(case: Path) -> None:
    message, _ = decoded([(case / "stream.sse").read_bytes()])
    history: list[Message] = [PROMPT, *answered(message)]
    assert_accepted(body(history))


@pytest.mark.parametrize("name", ["answer_schema.json", "hosted.json"])
def test_sdk_accepts_a_schema_for_the_answer_and_hosted_tools(name: str) -> None:
    assert_accepted(json.loads((FOLDER / name).read_text("utf-8")))


@pytest.mark.parametrize(
    "broken",
    [
        {"temperature": 1},
        {"max_tokens": "many"},
        {"messages": [{"role": "user", "content": [{"type": "text"}]}]},
        {"messages": [{"role": "user", "content": [{"type": "text", "text": "x", "more": 1}]}]},
    ],
)
def test_referee_sees_what_is_wrong(broken: dict[str, Any]) -> None:
    with pytest.raises((ValueError, AssertionError)):
        assert_accepted({**body([PROMPT]), **broken})


@pytest.mark.parametrize("case", READ_ALIKE, ids=lambda case: case.name)
def test_sdk_reads_the_same_message(case: Path, read_by_the_sdk: dict[str, "SdkMessage"]) -> None:
    ours, _ = decoded([(case / "stream.sse").read_bytes()])
    theirs = read_by_the_sdk[case.name]
    assert as_read_by_the_sdk(ours) == [
        block.model_dump(mode="json", exclude_none=True)
        for block in theirs.content
        if not (block.type == "text" and not block.text)
    ]
    assert ours.usage.input_tokens == theirs.usage.input_tokens
    assert ours.usage.output_tokens == theirs.usage.output_tokens
    assert ours.usage.cache_write_tokens == (theirs.usage.cache_creation_input_tokens or 0)


@pytest.fixture(scope="module")
def read_by_the_sdk() -> dict[str, "SdkMessage"]:
    streams = [stream((case / "stream.sse").read_bytes()) for case in READ_ALIKE]
    with Provider(streams) as provider:
        messages = asyncio.run(accumulated(provider.base_url))
    return {case.name: message for case, message in zip(READ_ALIKE, messages, strict=True)}


async def accumulated(base_url: str) -> list["SdkMessage"]:
    prompt: Any = {"role": "user", "content": "Go"}
    messages: list[SdkMessage] = []
    sdk = import_module("anthropic")
    async with sdk.AsyncAnthropic(api_key="k", base_url=base_url, max_retries=0) as client:
        for _ in READ_ALIKE:
            async with client.messages.stream(
                model="m", max_tokens=9, messages=[prompt]
            ) as replies:
                messages.append(await replies.get_final_message())
    return messages


def as_read_by_the_sdk(message: AssistantMessage) -> list[Any]:
    return [json.loads(json.dumps(_dumped(block))) for block in message.content]


def _dumped(block: Text | Thinking | ToolCall | Opaque) -> dict[str, Any]:
    data: Any = block.echo.data if block.echo else {}
    match block:
        case Text():
            return {"type": "text", "text": block.text, **data}
        case ToolCall():
            fields = {"id": block.id, "name": block.name, "input": block.input}
            return {"type": "tool_use", **fields, **data}
        case _:
            return {key: value for key, value in data.items() if value is not None}
