"""A reply that makes no progress is broken, whatever bytes keep coming."""

import asyncio
import json
from typing import Any

import pytest

from agentcli.providers.catalog import Key, resolve
from agentcli.providers.connection import RetryPolicy
from agentcli.providers.http.sockets import SILENT_ATTEMPTS, Timeouts
from agentcli.providers.transport import SocketKind, open_provider
from agentcli.types.deltas import Delta, RetryDelta
from agentcli.types.errors import EXIT_OF_ENDING, Exit, ProviderError, ProviderErrorKind
from agentcli.types.messages import AssistantMessage, Text, UserMessage
from agentcli.types.provider import Request
from tests.support.anthropic_streams import events as anthropic_events
from tests.support.anthropic_streams import says, text, thinking
from tests.support.provider import Provider, Reply, Script, sse, stream

MODELS = (
    "anthropic/claude-opus-5-5",
    "openai/gpt-6.1-sol",
    "openai-chat/deepseek-v4",
    "gemini/gemini-4-argon",
    "gemini-interactions/gemini-4-argon",
)
OVER_SDK = MODELS[:3]
BOUND_S = 0.25
QUICK = Timeouts(connect_s=5, first_byte_s=5, head_s=BOUND_S, stall_s=5, content_s=BOUND_S)
PROMPT = Request(model="", system="", messages=(UserMessage(content=(Text(text="Go"),)),))


def data(event: Any) -> bytes:
    return b"data: " + json.dumps(event).encode() + b"\n\n"


IDLE = {
    "comments": b": keep-alive\n\n",
    "empty lines": b"\n",
    "spaces": b" ",
    "pings": b"event: ping\n" + data({"type": "ping"}),
    "counted keep-alives": data({"type": "keepalive", "sequence_number": 7}),
    "empty chunks": data({"choices": [{"index": 0, "delta": {"content": ""}}]}),
    "empty candidates": data({"candidates": [], "usageMetadata": {}}),
    "an event without an end": b"x",
    "a document without an end": b'{"content": [' + b" " * 8,
}
"""What servers send, for ever, while nothing comes of a reply."""


def endless(body: bytes) -> Reply:
    return stream(body).but(endless=True, pause_s=0.02)


def ask(
    script: Script, model: str, *, transport: SocketKind = "direct", timeouts: Timeouts = QUICK
) -> tuple[AssistantMessage | ProviderError, list[Delta]]:
    shown: list[Delta] = []

    async def answered(base_url: str) -> AssistantMessage | ProviderError:
        wire = open_provider(
            resolve(model),
            key=Key(value="sk-test", source="TEST_API_KEY"),
            base_url=base_url,
            transport=transport,
            environ={},
            timeouts=timeouts,
            retry_policy=RetryPolicy(waits_s=(0.0,)),
        )
        try:
            return await wire.send(PROMPT, shown.append)
        except ProviderError as error:
            return error
        finally:
            await wire.close()

    with Provider(script) as provider:
        return asyncio.run(answered(provider.base_url)), shown


def assert_given_up(came: AssistantMessage | ProviderError, shown: list[Delta], words: str) -> None:
    assert isinstance(came, ProviderError)
    assert words in str(came)
    assert "AGENTCLI_STALL_TIMEOUT" in came.hint
    assert EXIT_OF_ENDING[came.ending] is Exit.PROVIDER
    assert sum(isinstance(delta, RetryDelta) for delta in shown) == SILENT_ATTEMPTS - 1


@pytest.mark.parametrize("kind", IDLE)
def test_bytes_without_content_do_not_keep_a_reply_alive(kind: str) -> None:
    came, shown = ask([endless(IDLE[kind])] * SILENT_ATTEMPTS, MODELS[0])
    assert_given_up(came, shown, f"sent no content for {BOUND_S:g} s")


@pytest.mark.parametrize("model", MODELS[1:])
def test_pings_do_not_keep_a_reply_alive_in_any_dialect(model: str) -> None:
    mixed = endless(b"".join(IDLE[kind] for kind in ("comments", "pings", "empty chunks")))
    came, shown = ask([mixed] * SILENT_ATTEMPTS, model)
    assert_given_up(came, shown, f"sent no content for {BOUND_S:g} s")


@pytest.mark.parametrize("model", OVER_SDK)
def test_pings_do_not_keep_a_reply_alive_over_an_sdk(model: str) -> None:
    mixed = endless(IDLE["comments"] + IDLE["counted keep-alives"])
    came, shown = ask([mixed] * SILENT_ATTEMPTS, model, transport="sdk")
    assert_given_up(came, shown, f"sent no content for {BOUND_S:g} s")


def test_pings_in_the_middle_of_a_reply_do_not_keep_it_alive() -> None:
    body = sse(anthropic_events([text("Hel", "lo")]))
    begun = body[: body.index(b"content_block_stop")]
    pinged = stream(begun + IDLE["pings"] * 1000).but(chunk_bytes=400, pause_s=0.02)
    came, _ = ask([pinged] * SILENT_ATTEMPTS, MODELS[0])
    assert isinstance(came, ProviderError)
    assert came.kind is ProviderErrorKind.CUT


def test_headers_that_trickle_are_bounded() -> None:
    reply = says("Hi").but(head_pause_s=0.05)
    came, shown = ask([reply] * SILENT_ATTEMPTS, MODELS[0])
    assert_given_up(came, shown, "does not answer")


def test_headers_that_trickle_are_bounded_over_an_sdk() -> None:
    quick = Timeouts(connect_s=0.1, first_byte_s=0.1, head_s=0.1, stall_s=5, content_s=5)
    reply = says("Hi").but(head_pause_s=0.05)
    came, shown = ask([reply] * SILENT_ATTEMPTS, MODELS[0], transport="sdk", timeouts=quick)
    assert_given_up(came, shown, "does not answer")


def test_reply_that_comes_slowly_is_read_to_its_end() -> None:
    blocks = [thinking(*"thinking for long"), text(*"said in small pieces")]
    body = sse(anthropic_events(blocks))
    slow = stream(body).but(chunk_bytes=len(body) // 30, pause_s=0.05)
    came, shown = ask([slow], MODELS[0], timeouts=Timeouts(content_s=1))
    assert isinstance(came, AssistantMessage)
    assert came.text == "said in small pieces"
    assert not any(isinstance(delta, RetryDelta) for delta in shown)


def test_reply_that_is_whole_is_taken_though_pings_go_on() -> None:
    whole = says("Hi").body + IDLE["pings"] * 1000
    came, _ = ask([stream(whole).but(chunk_bytes=900, pause_s=0.05)], MODELS[0])
    assert isinstance(came, AssistantMessage)
    assert came.text == "Hi"


def test_setting_bounds_every_kind_of_silence() -> None:
    assert Timeouts.limit_silence(None) == Timeouts()
    set_s = Timeouts.limit_silence(7)
    assert (set_s.first_byte_s, set_s.head_s, set_s.stall_s, set_s.content_s) == (7, 7, 7, 7)
    assert Timeouts.limit_silence(1200).head_s == Timeouts().head_s
