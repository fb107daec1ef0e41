import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from agentcli.providers.catalog import Key, resolve
from agentcli.providers.connection import RetryPolicy
from agentcli.providers.http.sockets import HttpError
from agentcli.providers.openai.chat_quirks import QuirkMemory, find_quirk
from agentcli.providers.transport import open_provider
from agentcli.types.deltas import Delta, RetryDelta
from agentcli.types.errors import ProviderError
from agentcli.types.messages import Text, UserMessage
from agentcli.types.provider import Request
from agentcli.types.tools import ToolSpec
from tests.support.provider import Provider, Reply, sse, stream

PROMPT = Request(
    model="m",
    system="",
    messages=(UserMessage(content=(Text(text="hi"),)),),
    tools=(ToolSpec(name="look", description="", schema={"type": "object"}),),
    parallel=False,
)
OPTIONAL = {"stream_options", "parallel_tool_calls"}
CHUNK = {"choices": [{"index": 0, "delta": {"content": "Hi."}, "finish_reason": "stop"}]}
SAID = stream(sse([CHUNK], named=False, done=True))


def refuse(body: Any, status: int = 400) -> Reply:
    return Reply(status=status, body=json.dumps(body).encode())


def send(provider: Provider, file: Path | None, *, base_url: str = "") -> list[Delta]:
    shown: list[Delta] = []
    connection = open_provider(
        resolve("openai-chat/local"),
        key=Key(value="sk-test", source="test"),
        base_url=base_url or provider.base_url,
        environ={},
        retry_policy=RetryPolicy(waits_s=(0.0,)),
        quirks_file=file,
    )
    asyncio.run(connection.send(PROMPT, shown.append))
    return shown


def test_field_that_a_server_names_is_left_out_from_then_on(tmp_path: Path) -> None:
    file = tmp_path / "quirks.json"
    unknown = refuse({"error": {"message": "Unknown parameter: 'stream_options'"}})
    extra = {"type": "extra_forbidden", "loc": ["body", "parallel_tool_calls"], "msg": "Extra"}
    with Provider([unknown, refuse({"detail": [extra]}, 422), SAID, SAID]) as provider:
        shown = send(provider, file)
        send(provider, file)
        fields = [
            body.keys() & {"stream_options", "parallel_tool_calls"} for body in provider.bodies
        ]
    assert fields == [
        {"stream_options", "parallel_tool_calls"},
        {"parallel_tool_calls"},
        set(),
        set(),
    ]
    told = [delta.reason for delta in shown if isinstance(delta, RetryDelta)]
    assert [reason.partition("(quirk ")[2] for reason in told] == [
        "no_stream_usage)",
        "no_parallel_switch)",
    ]


def test_memory_holds_no_password_of_an_address(tmp_path: Path) -> None:
    file = tmp_path / "quirks.json"
    unknown = refuse({"error": {"message": "Unknown parameter: 'stream_options'"}})
    with Provider([unknown, SAID]) as provider:
        plain = provider.base_url
        send(provider, file, base_url=f"{plain.replace('//', '//me:secret@')}?key=secret")
    assert json.loads(file.read_text()) == {plain: ["no_stream_usage"]}


def test_refusal_that_stays_is_told_and_not_remembered(tmp_path: Path) -> None:
    file = tmp_path / "quirks.json"
    never = refuse({"error": {"message": "stream_options is not for you"}})
    with Provider([never, never]) as provider, pytest.raises(ProviderError, match="not for you"):
        send(provider, file)
    assert not file.exists()


def test_memory_is_kept_by_address_and_survives_nonsense(tmp_path: Path) -> None:
    memory = QuirkMemory(tmp_path / "quirks.json")
    memory.add("http://a", frozenset({"no_strict"}))
    memory.add("http://a", frozenset({"max_tokens"}))
    assert memory.find("http://a") == {"no_strict", "max_tokens"}
    assert memory.find("http://b") == frozenset()
    for nonsense in ("[", "[]", '{"http://a": 7}', '{"http://a": ["rm"]}'):
        (tmp_path / "quirks.json").write_text(nonsense)
        assert memory.find("http://a") == frozenset()


@pytest.mark.parametrize(
    ("sent", "said", "quirk"),
    [
        ({"max_completion_tokens": 9}, "unknown field max_completion_tokens", "max_tokens"),
        (
            {"max_tokens": 9},
            "'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
            "max_completion_tokens",
        ),
        ({"max_tokens": 9}, "max_tokens is too large: 9", ""),
        ({"tool_choice": "required"}, "tool_choice: unknown", "no_tool_choice"),
        ({}, "tool_choice: unknown", ""),
        ({"reasoning_effort": "low"}, "reasoning_effort is not allowed", "no_effort"),
        (
            {"messages": []},
            "The reasoning_content in the thinking mode must be passed back to the API.",
            "reasoning_back",
        ),
        ({"messages": []}, "messages.2.reasoning_content: Extra inputs", "no_reasoning_back"),
        ({"tools": [{"function": {"strict": True}}]}, "unknown key strict", "no_strict"),
        ({"tools": [{"function": {}}]}, "be strict", ""),
    ],
)
def test_words_of_a_server_are_understood(sent: Any, said: str, quirk: str) -> None:
    assert find_quirk(HttpError(400, {}, body={"error": {"message": said}}), sent) == quirk
    assert find_quirk(HttpError(500, {}, body=said), sent) == ""
