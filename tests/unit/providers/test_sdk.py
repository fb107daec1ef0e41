"""The official clients as sockets, against loopback.

Azure is opened with a made-up key. What the platforms themselves answer cannot be seen from here.
"""

import asyncio
import json
import sys
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from typing import Any

import pytest

from agentcli.providers.catalog import Key, resolve
from agentcli.providers.connection import RetryPolicy
from agentcli.providers.http.sockets import ACCEPTED, ConnectionBroken, HttpError, Socket, Timeouts
from agentcli.providers.http.sse import Event
from agentcli.providers.transport import open_provider
from agentcli.types.deltas import Delta, RequestSent, RetryDelta
from agentcli.types.errors import ProviderError, ProviderErrorKind, SettingsError
from agentcli.types.messages import AssistantMessage, Json, Text, UserMessage
from agentcli.types.provider import Request
from tests.support.anthropic_streams import call, calls, says
from tests.support.provider import Provider, Reply, answer, sse, stream
from tests.support.strict_anthropic import StrictAnthropic

KEY = Key(value="sk-test-0123456789", source="TEST")
Opened = Callable[[str], Socket]


# Importing an SDK takes a second, so only tests do it.


def anthropic_at(base_url: str, timeouts: Timeouts | None = None) -> Socket:
    sdk = import_module("agentcli.providers.sdk_anthropic")
    socket: Socket = sdk.open_anthropic_socket("", key=KEY, base_url=base_url, timeouts=timeouts)
    return socket


def openai_at(base_url: str, platform: str = "", key: Key | None = KEY) -> Socket:
    sdk = import_module("agentcli.providers.sdk_openai")
    socket: Socket = sdk.open_openai_socket(platform, key=key, base_url=base_url, timeouts=None)
    return socket


BOTH = pytest.mark.parametrize(
    ("opened", "path"), [(anthropic_at, "/v1/messages"), (openai_at, "/v1/responses")]
)
EVENTS: list[Event] = [{"type": "response.a", "text": "é\u2028"}, {"type": "response.b", "n": [1]}]


async def exchanged(socket: Socket, path: str, body: Json) -> list[Event]:
    events = socket.exchange(path, headers={}, body=[json.dumps(body).encode()])
    try:
        return [event async for together in events for event in together]
    finally:
        await socket.close()


@BOTH
@pytest.mark.parametrize("suffix", ["", "/", "/v1", "/v1/"])
def test_body_and_events_pass_unchanged(opened: Opened, path: str, suffix: str) -> None:
    body: Json = {"model": "m", "stream": True, "x_unknown": {"a": ["é", None]}}
    with Provider([stream(sse(EVENTS))]) as provider:
        socket = opened(provider.base_url + suffix)
        assert asyncio.run(exchanged(socket, path, body)) == EVENTS
        assert (provider.requests[0].path, provider.bodies) == (path, [body])


@BOTH
def test_request_id_comes_first(opened: Opened, path: str) -> None:
    reply = stream(sse(EVENTS))
    named = reply.but(headers={**reply.headers, "X-Request-Id": "req_1"})
    with Provider([named]) as provider:
        events = asyncio.run(exchanged(opened(provider.base_url), path, {"model": "m"}))
    assert events == [{"type": ACCEPTED, "request_id": "req_1"}, *EVENTS]


@BOTH
def test_error_comes_once_with_its_body(opened: Opened, path: str) -> None:
    failure = answer({"error": {"message": "no"}}, status=429, headers={"Retry-After": "3"})
    with Provider([failure] * 2) as provider:
        with pytest.raises(HttpError) as caught:
            asyncio.run(exchanged(opened(provider.base_url), path, {}))
        assert len(provider.requests) == 1
    assert (caught.value.status, caught.value.body) == (429, {"error": {"message": "no"}})
    assert caught.value.headers["retry-after"] == "3"


@BOTH
def test_error_in_the_stream_is_an_event(opened: Opened, path: str) -> None:
    failure: Event = {"type": "error", "error": {"type": "overloaded_error", "message": "Busy"}}
    with Provider([stream(sse([EVENTS[0], failure]))]) as provider:
        events = asyncio.run(exchanged(opened(provider.base_url), path, {}))
    assert events == [EVENTS[0], failure]


@BOTH
@pytest.mark.parametrize(
    "reply", [stream(sse(EVENTS)).but(cut_at=20), Reply(drop=True), stream(b"").but(cut_at=0)]
)
def test_cut_is_broken(opened: Opened, path: str, reply: Reply) -> None:
    with Provider([reply]) as provider, pytest.raises(ConnectionBroken):
        asyncio.run(exchanged(opened(provider.base_url), path, {}))


@BOTH
def test_nothing_listens_there(opened: Opened, path: str) -> None:
    with Provider([]) as provider:
        url = provider.base_url
    with pytest.raises(ConnectionBroken) as caught:
        asyncio.run(exchanged(opened(url), path, {}))
    assert caught.value.kind is ProviderErrorKind.UNAVAILABLE


@BOTH
@pytest.mark.parametrize("status", [301, 307, 308])
def test_redirect_is_told_not_followed(opened: Opened, path: str, status: int) -> None:
    with Provider([stream(sse(EVENTS))]) as elsewhere:
        moved = Reply(status=status, headers={"location": f"{elsewhere.base_url}/taken"})
        with Provider([moved]) as provider, pytest.raises(ConnectionBroken) as caught:
            asyncio.run(exchanged(opened(provider.base_url), path, {}))
    assert elsewhere.requests == []
    assert str(caught.value) == (
        f"127.0.0.1:{provider.port} redirects to {elsewhere.base_url}/taken"
    )
    assert (caught.value.kind, caught.value.max_attempts) == (ProviderErrorKind.REJECTED, 1)


@BOTH
def test_event_that_is_no_json_is_a_cut(opened: Opened, path: str) -> None:
    body = sse(EVENTS[:1]) + b'event: response.b\ndata: {"half":\n\n'
    with Provider([stream(body)]) as provider, pytest.raises(ConnectionBroken) as caught:
        asyncio.run(exchanged(opened(provider.base_url), path, {}))
    assert caught.value.kind is ProviderErrorKind.CUT


@BOTH
def test_exchange_left_in_the_middle_leaves_nothing_open(opened: Opened, path: str) -> None:
    complaints: list[Any] = []

    async def left() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda loop, told: complaints.append(told))
        socket = opened(provider.base_url)
        events = socket.exchange(path, headers={}, body=[b"{}"])
        async for together in events:
            if together:
                break
        await events.aclose()
        await socket.close()

    with Provider([stream(sse(EVENTS * 20))]) as provider:
        asyncio.run(left())
    assert complaints == []


def test_stall_is_broken() -> None:
    quick = Timeouts(first_byte_s=0.2, stall_s=0.1)
    with Provider([says("Hi").but(stall_at=30)]) as provider:
        socket = anthropic_at(provider.base_url, quick)
        with pytest.raises(ConnectionBroken):
            asyncio.run(exchanged(socket, "/v1/messages", {}))


def test_whole_session_through_the_sdk() -> None:
    prompt = UserMessage(content=(Text(text="Go"),))
    request = Request(model="", system="Work.", messages=(prompt,))
    overloaded: Json = {"type": "error", "error": {"type": "overloaded_error", "message": "Busy"}}
    shown: list[Delta] = []

    async def session(provider: Provider) -> list[AssistantMessage]:
        wire = open_provider(
            resolve("opus"),
            key=KEY,
            base_url=provider.base_url,
            transport="sdk",
            environ={},
            retry_policy=RetryPolicy(waits_s=(0.0,)),
        )
        first = await wire.send(request, shown.append)
        second = await wire.send(replace(request, messages=(prompt, first)), shown.append)
        await wire.close()
        return [first, second]

    script = [answer(overloaded, status=529), calls(call("toolu_1", "bash", {})), says("Done.")]
    with Provider(script, check=StrictAnthropic()) as provider:
        first, second = asyncio.run(session(provider))
    assert provider.complaints == []
    assert first.tool_calls[0].id == "toolu_1"
    assert second.text == "Done."
    assert [type(delta) for delta in shown[:2]] == [RequestSent, RetryDelta]


def test_rejected_key_is_told_the_same_way() -> None:
    refused: Json = {"type": "error", "error": {"type": "authentication_error", "message": "bad"}}
    with Provider([answer(refused, status=401)]) as provider:
        wire = open_provider(
            resolve("opus"), key=KEY, base_url=provider.base_url, transport="sdk", environ={}
        )
        with pytest.raises(ProviderError, match="rejected the API key"):
            asyncio.run(wire.send(Request(model="", system="", messages=()), lambda delta: None))
        assert len(provider.requests) == 1


def test_azure_routes_and_signs_in_its_own_way(monkeypatch: pytest.MonkeyPatch) -> None:
    with Provider([stream(sse(EVENTS))]) as provider:
        monkeypatch.setenv("AZURE_OPENAI_API_KEY", "azure-key")
        monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", provider.base_url)
        monkeypatch.setenv("OPENAI_API_VERSION", "2026-01-01")
        socket = openai_at("", "azure", key=None)
        assert asyncio.run(exchanged(socket, "/v1/responses", {"model": "m"})) == EVENTS
        request = provider.requests[0]
    assert request.path == "/openai/responses?api-version=2026-01-01"
    assert request.headers["api-key"] == "azure-key"


@pytest.mark.parametrize(
    ("name", "words"),
    [("azure/gpt-6.1-sol", "azure"), ("bedrock/anthropic.claude-opus-5-5-v1:0", "boto3|region")],
)
def test_platform_without_settings_is_told(
    name: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("AZURE_OPENAI_API_KEY", "AZURE_OPENAI_ENDPOINT", "AWS_REGION"):
        monkeypatch.delenv(variable, raising=False)
    with pytest.raises(SettingsError, match=words):
        open_provider(resolve(name), key=None, environ={})


def test_protocol_without_an_sdk_is_told() -> None:
    with pytest.raises(SettingsError, match="no SDK for gemini"):
        open_provider(resolve("argon"), key=KEY, transport="sdk", environ={})


@pytest.mark.parametrize(("model", "package"), [("opus", "anthropic"), ("sol", "openai")])
def test_sdk_that_is_not_installed_is_named_with_the_command_that_installs_it(
    model: str, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(SettingsError, match=f"needs the Python package {package}") as raised:
        open_provider(resolve(model), key=KEY, transport="sdk", environ={})
    assert "pip install 'anthropic>=" in raised.value.hint
