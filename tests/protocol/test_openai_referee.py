import json
from collections.abc import Iterator
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from agentcli.providers.dialect import Model
from agentcli.providers.openai import chat as openai_chat
from agentcli.providers.openai import responses as openai_responses
from agentcli.types.messages import AssistantMessage, Image, Text, ToolCall, UserMessage
from agentcli.types.provider import Message
from agentcli.types.tools import ToolMessage, ToolResult
from tests.support.openai_fixtures import CHAT, FIXTURES, RESPONSES, cases, decoded, request
from tests.support.provider import Provider, stream
from tests.support.sdk_types import load_request_type

if TYPE_CHECKING:
    from openai import BaseModel, OpenAI

PROTOCOLS = ("openai-responses", "openai-chat")
EXTENSIONS = {"reasoning_content", "reasoning", "reasoning_details", "extra_content"}
"""Fields of other servers, which get them back from us and which OpenAI does not have."""

ACCUMULATED = {
    "openai-responses": (
        "custom_patch",
        "items_only_at_the_end",
        "malformed_arguments",
        "open_reasoning",
        "parallel_interleaved",
        "program_call",
        "reasoning_then_call",
        "sealed_reasoning_only",
        "text",
        "unknown_items",
    ),
    "openai-chat": (
        "call",
        "call_as_text",
        "comments",
        "extra_fields",
        "malformed_arguments",
        "no_done",
        "reasoning_content_then_call",
        "stop_with_calls",
        "text",
        "text_then_parallel_calls",
        "usage_missing",
        "whole_arguments",
    ),
}
"""Where the SDK puts a reply together itself; it raises at replies that are cut off or refused."""


def whole(protocol: str) -> list[Path]:
    return [case for case in cases(protocol) if (case / "message.json").exists()]


def validated(value: Any) -> Any:
    """What the SDK's types keep of a request, with the parts that are validated only when read."""
    match value:
        case dict():
            return {key: validated(item) for key, item in value.items()}
        case str() | int() | float() | None:
            return value
        case _:
            return [validated(item) for item in value]


def without_extensions(value: Any) -> Any:
    match value:
        case dict():
            return {k: without_extensions(v) for k, v in value.items() if k not in EXTENSIONS}
        case list():
            return [without_extensions(item) for item in value]
        case _:
            return value


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_sdk_takes_every_recorded_request_as_it_is(protocol: str) -> None:
    for case in whole(protocol):
        body = without_extensions(json.loads((case / "request.json").read_text(encoding="utf-8")))
        assert validated(load_request_type(protocol).validate_python(body)) == body, case.name


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_sdk_takes_conversations_of_other_models_and_schemas_for_answers(protocol: str) -> None:
    folder = FIXTURES / protocol
    more = [folder / name for name in ("answer_schema.json", "hosted.json")]
    for path in (*folder.glob("conversations/*.json"), *more):
        body = json.loads(path.read_text(encoding="utf-8"))
        assert validated(load_request_type(protocol).validate_python(body)) == body, path.name


def written(call: ToolCall) -> str:
    """The arguments as the model wrote them, which the echo has where the input cannot tell."""
    own = call.echo.data if call.echo and isinstance(call.echo.data, dict) else {}
    given = own.get("arguments") or own.get("input") or call.input
    return given if isinstance(given, str) else json.dumps(given, separators=(",", ":"))


def gist(message: AssistantMessage) -> tuple[str, list[tuple[str, str, str]]]:
    return message.text, [(call.id, call.name, written(call)) for call in message.tool_calls]


def playing(case: Path) -> Provider:
    return Provider([stream((case / "stream.sse").read_bytes())])


@pytest.fixture(scope="module")
def sdk() -> Iterator["OpenAI"]:
    with import_module("openai").OpenAI(
        api_key="k", base_url="http://127.0.0.1", max_retries=0
    ) as client:
        yield client


def as_json(event: "BaseModel") -> dict[str, Any]:
    return event.to_dict()


def at(provider: Provider, client: "OpenAI") -> "OpenAI":
    return client.with_options(base_url=f"{provider.base_url}/v1")


@pytest.mark.parametrize("case", whole("openai-responses"), ids=lambda case: case.name)
def test_responses_events_of_the_sdk_give_our_message(case: Path, sdk: "OpenAI") -> None:
    decoder = openai_responses.open_exchange(RESPONSES, None).decoder
    with playing(case) as provider:
        for event in at(provider, sdk).responses.create(model="m", input="x", stream=True):
            decoder.feed(as_json(event))
    ours, _ = decoded([(case / "stream.sse").read_bytes()], "openai-responses")
    assert decoder.message() == ours


# The SDK keeps the mark after the last event for itself.
@pytest.mark.parametrize(
    "case",
    [case for case in whole("openai-chat") if case.name != "no_finish_reason"],
    ids=lambda case: case.name,
)
@pytest.mark.filterwarnings("ignore:Pydantic serializer warnings")
def test_chat_chunks_of_the_sdk_give_our_message(case: Path, sdk: "OpenAI") -> None:
    decoder = openai_chat.open_exchange(CHAT, None).decoder
    with playing(case) as provider:
        for event in at(provider, sdk).chat.completions.create(model="m", messages=[], stream=True):
            decoder.feed(as_json(event))
    ours, _ = decoded([(case / "stream.sse").read_bytes()], "openai-chat")
    assert decoder.message() == ours


@pytest.mark.parametrize("name", ACCUMULATED["openai-responses"])
def test_response_put_together_by_the_sdk_says_the_same(name: str, sdk: "OpenAI") -> None:
    case = FIXTURES / "openai-responses" / name
    with (
        playing(case) as provider,
        at(provider, sdk).responses.stream(model="m", input="x") as events,
    ):
        final = events.get_final_response()
    calls = []
    for item in final.output:
        match item.type:
            case "function_call":
                calls.append((item.call_id, item.name, item.arguments))
            case "custom_tool_call":
                calls.append((item.call_id, item.name, item.input))
    ours, _ = decoded([(case / "stream.sse").read_bytes()], "openai-responses")
    assert (final.output_text, calls) == gist(ours)


@pytest.mark.parametrize("name", ACCUMULATED["openai-chat"])
def test_completion_put_together_by_the_sdk_says_the_same(name: str, sdk: "OpenAI") -> None:
    case = FIXTURES / "openai-chat" / name
    with (
        playing(case) as provider,
        at(provider, sdk).chat.completions.stream(model="m", messages=[]) as events,
    ):
        message = events.get_final_completion().choices[0].message
    calls = [
        (call.id, call.function.name, call.function.arguments) for call in message.tool_calls or []
    ]
    ours, _ = decoded([(case / "stream.sse").read_bytes()], "openai-chat")
    assert (message.content or "", calls) == gist(ours)


def foreign_history() -> list[Message]:
    """What another provider's conversation may hold: images, failures, calls that are no JSON."""
    image = Image(media_type="image/png", data="aGk=")
    calls = (
        ToolCall(id="toolu_1", name="read_file", input={"path": "ä.png"}),
        ToolCall(id="toolu_2", name="apply_patch", input={"patch": "*** Begin Patch"}),
        ToolCall(id="toolu_3", name="bash", input='{"command": '),
    )
    results = (
        ToolResult(
            call_id="toolu_1", name="read_file", status="ok", content=(Text(text="1"), image)
        ),
        ToolResult(
            call_id="toolu_2", name="apply_patch", status="error", content=(Text(text="no"),)
        ),
        ToolResult(call_id="toolu_3", name="bash", status="ok", content=(image,)),
    )
    return [
        UserMessage(content=(Text(text="See:"), image)),
        AssistantMessage(
            content=(Text(text="Looking."), *calls),
            stop="tool_calls",
            protocol="anthropic",
            model="claude-opus-5-5",
        ),
        ToolMessage(results=results),
    ]


@pytest.mark.parametrize("choice", ["auto", "required", "none", "read_file", "apply_patch"])
@pytest.mark.parametrize("quirks", [frozenset(), frozenset({"stored"})])
def test_sdk_takes_a_foreign_history_on_responses(choice: str, quirks: frozenset[str]) -> None:
    model = replace(RESPONSES, quirks=quirks, effort="high")
    asked = replace(request(foreign_history(), model), tool_choice=choice, parallel=False)
    body = openai_responses.encode(asked, model)
    assert validated(load_request_type("openai-responses").validate_python(body)) == body


@pytest.mark.parametrize("choice", ["auto", "required", "none", "read_file"])
@pytest.mark.parametrize("model", [CHAT, replace(CHAT, name="gpt-6-luna", strict_tools=True)])
def test_sdk_takes_a_foreign_history_on_chat(choice: str, model: Model) -> None:
    asked = replace(request(foreign_history(), model), tool_choice=choice, parallel=False)
    body = openai_chat.encode(asked, model)
    assert validated(load_request_type("openai-chat").validate_python(body)) == body
