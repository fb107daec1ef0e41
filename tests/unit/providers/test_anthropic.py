import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agentcli.providers.anthropic import messages as anthropic
from agentcli.providers.catalog import resolve
from agentcli.providers.connection import encode_text
from agentcli.providers.dialect import Model
from agentcli.types.errors import ProviderErrorKind
from agentcli.types.messages import Json, Text, UserMessage
from agentcli.types.provider import Message, Request
from agentcli.types.tools import ToolSpec
from tests.support.anthropic_fixtures import TOOLS, answered, body, cases, decoded, made
from tests.support.conversations import NAMES, conversation
from tests.support.provider import Recorded
from tests.support.strict_anthropic import StrictAnthropic

OPUS = resolve("opus")
SONNET = resolve("sonnet")
PLAIN = Model(provider="anthropic", name="plain", protocol="anthropic")
PROMPT = Request(
    model="opus",
    system="You are a coding agent.",
    messages=(UserMessage(content=(Text(text="Go"),)),),
    tools=TOOLS,
)


def sent(encoded: dict[str, Json]) -> Recorded:
    return Recorded(
        method="POST",
        path=anthropic.open_exchange(OPUS, None).path,
        headers={**anthropic.build_headers("key"), "content-type": "application/json"},
        body=encode_text(encoded),
        connection=0,
    )


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
def test_recorded_stream_leads_to_its_message_and_request(case: Path) -> None:
    expected = {path.name: json.loads(path.read_text("utf-8")) for path in case.glob("*.json")}
    assert json.loads(json.dumps(made(case))) == expected


@pytest.mark.parametrize("name", NAMES)
def test_conversation_passes_the_strict_checker(name: str) -> None:
    assert StrictAnthropic()(sent(body(conversation(name)))) is None


@pytest.mark.parametrize(
    "case", [case for case in cases() if not (case / "error.json").exists()], ids=lambda c: c.name
)
def test_recorded_reply_goes_back_past_the_strict_checker(case: Path) -> None:
    message, _ = decoded([(case / "stream.sse").read_bytes()])
    checker = StrictAnthropic()
    history: list[Message] = [*PROMPT.messages]
    assert checker(sent(body(history))) is None
    history += answered(message)
    if message.tool_calls or message.stop == "paused":
        assert checker(sent(body(history))) is None
    history += PROMPT.messages
    assert checker(sent(body(history))) is None


def test_whole_body_is_as_expected() -> None:
    cached = {"type": "ephemeral"}
    assert anthropic.encode(replace(PROMPT, effort="high"), OPUS) == {
        "model": "claude-opus-5-5",
        "max_tokens": 128_000,
        "stream": True,
        "system": [{"type": "text", "text": "You are a coding agent.", "cache_control": cached}],
        "tools": [
            {
                "name": "read_file",
                "description": "Read a file.",
                "input_schema": TOOLS[0].schema,
                "strict": True,
            },
            {
                "name": "bash",
                "description": "Run a command.",
                "input_schema": {
                    "type": "object",
                    "properties": {
                        "command": {"type": "string"},
                        "timeout_s": {"type": "integer", "description": "at least 1"},
                    },
                    "required": ["command"],
                    "additionalProperties": False,
                },
                "strict": True,
                "cache_control": cached,
            },
        ],
        "tool_choice": {"type": "auto"},
        "thinking": {"type": "adaptive", "display": "summarized"},
        "output_config": {"effort": "high"},
        "messages": [
            {
                "role": "user",
                "content": [{"type": "text", "text": "Go", "cache_control": cached}],
            }
        ],
    }


def test_bare_request_has_nothing_that_is_not_needed() -> None:
    bare = replace(PROMPT, system=" ", tools=())
    assert set(anthropic.encode(bare, PLAIN)) == {"model", "max_tokens", "stream", "messages"}


@pytest.mark.parametrize(
    ("choice", "model", "expected"),
    [
        ("auto", OPUS, {"type": "auto"}),
        ("none", OPUS, {"type": "none"}),
        ("required", OPUS, {"type": "auto"}),
        ("bash", OPUS, {"type": "auto"}),
        ("required", SONNET, {"type": "any"}),
        ("bash", SONNET, {"type": "tool", "name": "bash"}),
    ],
)
def test_tool_choice_is_what_the_model_allows(choice: str, model: Model, expected: Json) -> None:
    encoded = anthropic.encode(replace(PROMPT, tool_choice=choice), model)
    assert encoded["tool_choice"] == expected
    assert ("thinking" in encoded) is (expected in ({"type": "auto"}, {"type": "none"}))


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        ("auto", {"type": "auto", "disable_parallel_tool_use": True}),
        ("required", {"type": "any", "disable_parallel_tool_use": True}),
        ("none", {"type": "none"}),
    ],
)
def test_calls_one_at_a_time(choice: str, expected: Json) -> None:
    request = replace(PROMPT, tool_choice=choice, parallel=False)
    assert anthropic.encode(request, SONNET)["tool_choice"] == expected


@pytest.mark.parametrize(
    ("wanted", "model", "expected"),
    [
        (None, OPUS, 128_000),
        (1000, OPUS, 1000),
        (999_999, OPUS, 128_000),
        (None, PLAIN, 8192),
        (9000, PLAIN, 9000),
    ],
)
def test_output_limit_fits_the_model(wanted: int | None, model: Model, expected: int) -> None:
    request = replace(PROMPT, output_limit_tokens=wanted)
    assert anthropic.encode(request, model)["max_tokens"] == expected


def test_too_many_tools_are_not_strict() -> None:
    fields: Json = {f"field_{number}": {"type": "string"} for number in range(5)}
    spec = ToolSpec(name="t", description="", schema={"type": "object", "properties": fields})
    few = anthropic.encode(replace(PROMPT, tools=(spec,) * 4), OPUS)
    many = anthropic.encode(replace(PROMPT, tools=(spec,) * 5), OPUS)
    assert '"strict": true' in json.dumps(few)
    assert '"strict": true' not in json.dumps(many)


def test_tools_of_others_are_never_strict() -> None:
    foreign = ToolSpec(
        name="t",
        description="",
        schema={"anyOf": [{"properties": {"a": {"type": "string", "minLength": 2}}}]},
        source="mcp server",
    )
    assert anthropic.encode(replace(PROMPT, tools=(foreign,)), OPUS)["tools"] == [
        {
            "name": "t",
            "input_schema": {
                "type": "object",
                "properties": {"a": {"type": "string", "minLength": 2}},
            },
            "cache_control": {"type": "ephemeral"},
        }
    ]


def test_cache_ends_are_marked_at_most_twice() -> None:
    encoded: Any = body(conversation("thinking"))
    marked = [
        number
        for number, turn in enumerate(encoded["messages"])
        for block in turn["content"]
        if "cache_control" in block
    ]
    assert marked == [4, 6]


@pytest.mark.parametrize(
    ("status", "said", "kind"),
    [
        (400, {"type": "invalid_request_error", "message": "bad"}, ProviderErrorKind.REJECTED),
        (402, {"type": "billing_error", "message": "pay"}, ProviderErrorKind.CREDENTIALS),
        (409, {"type": "conflict_error", "message": "x"}, ProviderErrorKind.UNAVAILABLE),
        (429, {"type": "rate_limit_error", "message": "x"}, ProviderErrorKind.RATE_LIMITED),
        (500, {"type": "api_error", "message": "x"}, ProviderErrorKind.UNAVAILABLE),
        (504, {"type": "timeout_error", "message": "x"}, ProviderErrorKind.UNAVAILABLE),
        (529, {"type": "overloaded_error", "message": "x"}, ProviderErrorKind.UNAVAILABLE),
        (418, {"type": "new_error", "message": "x"}, ProviderErrorKind.REJECTED),
        (503, "upstream", ProviderErrorKind.UNAVAILABLE),
        (
            400,
            {
                "type": "invalid_request_error",
                "message": "input length and `max_tokens` exceed context limit: 9 + 9 > 10",
            },
            ProviderErrorKind.OVERFLOW,
        ),
        (
            400,
            {
                "type": "invalid_request_error",
                "message": "Your credit balance is too low to access the Anthropic API.",
            },
            ProviderErrorKind.CREDENTIALS,
        ),
    ],
)
def test_error_has_the_kind_it_names(status: int, said: Json, kind: ProviderErrorKind) -> None:
    error = anthropic.read_error(
        status, {"retry-after": "2"}, body={"type": "error", "error": said}
    )
    assert (error.kind, error.status, error.retry_after_s) == (kind, status, 2.0)
