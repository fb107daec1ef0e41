import asyncio
from contextlib import suppress
from typing import Any

import pytest

from agentcli.providers.catalog import Key, resolve
from agentcli.providers.connection import ProviderConnection, RetryPolicy
from agentcli.providers.length import count_request_tokens
from agentcli.providers.transport import open_provider
from agentcli.types.deltas import AttemptBrokenOff, Delta, RequestSent, RetryDelta, TextDelta
from agentcli.types.errors import ProviderError, ProviderErrorKind
from agentcli.types.messages import AssistantMessage, Text, Usage, UserMessage
from agentcli.types.provider import ModelProvider, OnDelta, Request
from agentcli.types.tools import ToolSpec
from tests.support import anthropic_streams as anthropic
from tests.support.provider import Provider, Reply, Script, answer, page, sse, stream

PROMPT = Request(
    model="m",
    system="Be brief.",
    messages=(UserMessage(content=(Text(text="word " * 200),)),),
    tools=(ToolSpec(name="look", description="Look. " * 40, schema={"type": "object"}),),
)
TOLD = {"input_tokens": 1200, "cache_read_input_tokens": 300, "output_tokens": 1}
WORDS = "one two three four five six seven eight nine ten"
WHOLE = stream(sse(anthropic.events([anthropic.text(WORDS, " end")], usage=TOLD)))
HALF = WHOLE.but(cut_at=WHOLE.body.index(b" end"))
LOST = Usage(input_tokens=1200, cache_read_tokens=300, output_tokens=10, is_estimate=True)


def opened(provider: Provider, model: str = "opus") -> ProviderConnection:
    return open_provider(
        resolve(model),
        key=Key(value="sk-test", source="test"),
        base_url=provider.base_url,
        environ={},
        retry_policy=RetryPolicy(waits_s=(0.0,)),
    )


def shown_by(script: Script, model: str = "opus") -> list[Delta]:
    """Of a request that may fail."""
    shown: list[Delta] = []
    with Provider(script) as provider, suppress(ProviderError):
        asyncio.run(opened(provider, model).send(PROMPT, shown.append))
    return shown


def lost(shown: list[Delta]) -> list[Usage]:
    return [delta.usage for delta in shown if isinstance(delta, AttemptBrokenOff)]


def test_every_attempt_that_broke_off_says_what_it_used() -> None:
    shown = shown_by([HALF, HALF, WHOLE])
    assert lost(shown) == [LOST, LOST]
    kinds = [type(delta) for delta in shown[:4]]
    assert kinds == [RequestSent, TextDelta, AttemptBrokenOff, RetryDelta]


def test_last_attempt_counts_too() -> None:
    assert lost(shown_by([HALF] * 6)) == [LOST] * 6


BROKEN: dict[str, list[dict[str, Any]]] = {
    "openai/gpt-6.1-sol": [
        {"type": "response.created", "response": {"id": "r", "usage": None}},
        {"type": "response.output_text.delta", "output_index": 0, "delta": WORDS},
    ],
    "openai-chat/deepseek-v4": [{"choices": [{"index": 0, "delta": {"content": WORDS}}]}],
    "gemini-interactions/gemini-4-argon": [
        {"event_type": "step.start", "index": 0, "step": {"type": "model_output"}},
        {"event_type": "step.delta", "index": 0, "delta": {"type": "text", "text": WORDS}},
    ],
}


@pytest.mark.parametrize("model", BROKEN)
def test_what_a_provider_does_not_say_is_estimated(model: str) -> None:
    broken = stream(sse(BROKEN[model], named=False))
    prompt = count_request_tokens(PROMPT)
    used = Usage(input_tokens=prompt, output_tokens=10, is_estimate=True)
    assert lost(shown_by([broken] * 6, model)) == [used] * 6


def test_what_a_provider_says_on_the_way_counts() -> None:
    told = {"promptTokenCount": 77, "cachedContentTokenCount": 7, "candidatesTokenCount": 50}
    part = {"candidates": [{"content": {"parts": [{"text": WORDS}]}}], "usageMetadata": told}
    broken = stream(sse([part], named=False))
    used = Usage(input_tokens=70, cache_read_tokens=7, output_tokens=50, is_estimate=True)
    assert lost(shown_by([broken] * 6, "gemini/gemini-4-argon")) == [used] * 6


@pytest.mark.parametrize(
    "reply",
    [
        answer({"error": {"type": "api_error", "message": "no"}}, status=500),
        answer({"error": {"type": "rate_limit_error", "message": "no"}}, status=429),
        answer({"error": {"type": "invalid_request_error", "message": "no"}}, status=400),
        stream(sse([{"type": "error", "error": {"type": "overloaded_error", "message": "no"}}])),
        page("<html><title>Log in</title></html>", status=200),
        Reply(drop=True),
    ],
    ids=["500", "429", "400", "overloaded", "login page", "no answer"],
)
def test_refusal_costs_nothing(reply: Reply) -> None:
    assert lost(shown_by([reply] * 6)) == []


def test_error_after_the_prompt_was_read_costs_the_prompt() -> None:
    begun = anthropic.events([], usage=TOLD)[:1]
    error: dict[str, Any] = {"type": "error", "error": {"type": "api_error", "message": "no"}}
    used = Usage(input_tokens=1200, cache_read_tokens=300, output_tokens=1, is_estimate=True)
    assert lost(shown_by([stream(sse([*begun, error])), WHOLE])) == [used]


def test_attempt_that_says_nothing_counts_with_its_prompt() -> None:
    prompt = Usage(input_tokens=count_request_tokens(PROMPT), is_estimate=True)
    assert lost(shown_by([WHOLE.but(cut_at=0), WHOLE])) == [prompt]
    assert count_request_tokens(PROMPT) > 200


@pytest.mark.parametrize(
    ("stalled", "expected"),
    [
        (WHOLE.but(stall_at=WHOLE.body.index(b" end")), [LOST]),
        (WHOLE.but(stall_before_headers=True), []),
    ],
    ids=["in the middle", "before it was taken on"],
)
def test_interrupted_attempt_says_what_it_used(stalled: Reply, expected: list[Usage]) -> None:
    shown: list[Delta] = []
    words_came = asyncio.Event()

    def show(delta: Delta) -> None:
        shown.append(delta)
        if isinstance(delta, TextDelta):
            words_came.set()

    async def interrupted(provider: Provider) -> None:
        asked = asyncio.create_task(opened(provider).send(PROMPT, show))
        await asyncio.to_thread(provider.stalled.wait, 10)
        if expected:
            await words_came.wait()
        asked.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asked

    with Provider([stalled]) as provider:
        asyncio.run(interrupted(provider))
    assert lost(shown) == expected


def test_limit_is_asked_before_every_attempt() -> None:
    class Twice:
        def __init__(self, wire: ModelProvider) -> None:
            self._wire = wire
            self._left = 2

        async def send(self, request: Request, on_delta: OnDelta) -> AssistantMessage:
            self._left -= 1
            if self._left < 0:
                raise ProviderError("enough", kind=ProviderErrorKind.COST_CAP)
            return await self._wire.send(request, on_delta)

        async def close(self) -> None:
            await self._wire.close()

    with Provider([HALF] * 6) as provider, pytest.raises(ProviderError, match=r"^enough$"):
        asyncio.run(opened(provider).wrap_attempts(Twice).send(PROMPT, lambda delta: None))
    assert len(provider.requests) == 2


def test_reply_without_usage_counts_with_an_estimate() -> None:
    nothing = {"input_tokens": 0, "output_tokens": 0}
    told = anthropic.events([anthropic.text(WORDS)], usage=nothing, final_usage=nothing)
    silent = stream(sse(told))
    with Provider([silent]) as provider:
        reply = asyncio.run(opened(provider).send(PROMPT, lambda delta: None))
    assert reply.usage == Usage(
        input_tokens=count_request_tokens(PROMPT), output_tokens=10, is_estimate=True
    )
