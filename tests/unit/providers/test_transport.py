import asyncio
from collections.abc import Sequence
from dataclasses import replace

import pytest

from agentcli.providers.catalog import Key, resolve
from agentcli.providers.connection import ProviderConnection, RetryPolicy
from agentcli.providers.http.sockets import Timeouts
from agentcli.providers.normalize import encode_name
from agentcli.providers.transport import open_provider
from agentcli.types.deltas import CallDelta, Delta, RequestSent, RetryDelta, TextDelta
from agentcli.types.errors import Exit, ProviderError, ProviderErrorKind, SettingsError
from agentcli.types.messages import AssistantMessage, Text, ToolCall, UserMessage
from agentcli.types.provider import Request
from agentcli.types.tools import ToolSpec
from tests.support.anthropic_streams import call, calls, says
from tests.support.provider import Provider, Reply, Script, answer, page, sse, stream

SECRET = "sk-ant-api03-very-secret-3f9a"
KEY = Key(value=SECRET, source="ANTHROPIC_API_KEY", fix="export ANTHROPIC_API_KEY=…")
QUICK = RetryPolicy(waits_s=(0.0,))
PROMPT = Request(
    model="opus", system="Be brief.", messages=(UserMessage(content=(Text(text="Go"),)),)
)
OVERLOADED = answer(
    {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}, status=529
)
SLOW_DOWN = answer(
    {"type": "error", "error": {"type": "rate_limit_error", "message": "Too many"}},
    status=429,
    headers={"retry-after": "0.01"},
)


def connection(
    provider: Provider, *, retry_policy: RetryPolicy = QUICK, timeouts: Timeouts | None = None
) -> ProviderConnection:
    return open_provider(
        resolve("opus"),
        key=KEY,
        base_url=provider.base_url,
        environ={},
        retry_policy=retry_policy,
        timeouts=timeouts,
    )


def ask(
    script: Script, *, request: Request = PROMPT, retry_policy: RetryPolicy = QUICK
) -> tuple[AssistantMessage, list[Delta], Provider]:
    shown: list[Delta] = []
    with Provider(script) as provider:
        wire = connection(provider, retry_policy=retry_policy)
        message = asyncio.run(wire.send(request, shown.append))
    return message, shown, provider


def failed(script: Script) -> tuple[ProviderError, Provider]:
    with Provider(script) as provider, pytest.raises(ProviderError) as caught:
        asyncio.run(connection(provider).send(PROMPT, lambda delta: None))
    assert SECRET not in str(caught.value) + caught.value.hint
    return caught.value, provider


def retries(shown: Sequence[Delta]) -> list[RetryDelta]:
    return [delta for delta in shown if isinstance(delta, RetryDelta)]


def error(status: int, kind: str, message: str) -> Reply:
    return answer({"type": "error", "error": {"type": kind, "message": message}}, status=status)


def test_reply_is_shown_and_returned() -> None:
    message, shown, provider = ask([says("Hel", "lo")])
    assert message.text == "Hello"
    assert shown == [RequestSent(), TextDelta(text="Hello")]  # it came at once
    assert provider.requests[0].headers["x-api-key"] == SECRET


def test_burst_of_failures_is_waited_out() -> None:
    message, shown, provider = ask([OVERLOADED, SLOW_DOWN, OVERLOADED, SLOW_DOWN, says("Hi")])
    assert message.text == "Hi"
    assert [(delta.reason, delta.attempt, delta.attempts) for delta in retries(shown)] == [
        ("overloaded", 2, 6),
        ("rate limited", 3, 6),
        ("overloaded", 4, 6),
        ("rate limited", 5, 6),
    ]
    assert len({request.body for request in provider.requests}) == 1


def test_request_id_is_told_if_a_reply_breaks_off_or_ends_with_an_error() -> None:
    whole = says("Hello")
    fault = {"type": "error", "error": {"type": "invalid_request_error", "message": "no"}}
    for reply in (whole.but(cut_at=40), stream(sse([fault]))):
        named = reply.but(headers={**reply.headers, "request-id": "req_011"})
        told, _ = failed([named] * 6)
        assert "(request req_011)" in str(told)


def test_request_id_of_a_reply_is_kept_with_it() -> None:
    whole = says("Hello")
    named = whole.but(headers={**whole.headers, "request-id": "req_012"})
    message, _, _ = ask([named])
    assert message.request_id == "req_012"
    assert ask([whole])[0].request_id == ""


def test_wait_the_provider_asks_for_is_shown() -> None:
    _, shown, _ = ask([SLOW_DOWN, says("Hi")])
    assert retries(shown) == [
        RetryDelta(reason="rate limited", status=429, wait_s=0.01, attempt=2, attempts=6)
    ]


def test_waits_grow_with_jitter() -> None:
    _, shown, _ = ask(
        [OVERLOADED, OVERLOADED, says("Hi")], retry_policy=RetryPolicy(waits_s=(0.01, 0.02))
    )
    first, second = (delta.wait_s for delta in retries(shown))
    assert 0.008 <= first <= 0.012
    assert 0.016 <= second <= 0.024


@pytest.mark.parametrize(
    "headers",
    [
        {"retry-after": "0"},
        {"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"},
        {"retry-after-ms": "0"},
        {"retry-after-ms": "1"},
    ],
)
def test_provider_cannot_ask_for_no_wait(headers: dict[str, str]) -> None:
    limited = SLOW_DOWN.but(headers=headers)
    retry_policy = RetryPolicy(waits_s=(0.02, 5.0))
    _, shown, _ = ask([limited, limited, says("Hi")], retry_policy=retry_policy)
    waits = [delta.wait_s for delta in retries(shown)]
    assert len(waits) == 2
    assert all(0.016 <= wait <= 0.024 for wait in waits)


def test_provider_says_whether_to_retry() -> None:
    caught, provider = failed([OVERLOADED.but(headers={"x-should-retry": "false"})])
    assert (caught.kind, len(provider.requests)) == (ProviderErrorKind.UNAVAILABLE, 1)
    odd = error(400, "invalid_request_error", "Not now.").but(headers={"x-should-retry": "true"})
    message, _, _ = ask([odd, says("Hi")])
    assert message.text == "Hi"


def test_server_fault_with_a_status_of_the_request_is_final() -> None:
    caught, provider = failed([error(400, "api_error", "Oops")])
    assert (caught.kind, len(provider.requests)) == (ProviderErrorKind.REJECTED, 1)


@pytest.mark.parametrize("is_at_once", [True, False])
@pytest.mark.parametrize("after", ["chunk", "event"])
def test_whole_reply_is_kept_whatever_follows(after: str, is_at_once: bool) -> None:
    whole = says("Hi").body
    if after == "event":
        broken = stream(whole + b"data: {nonsense\n\n")
    else:
        chunked = f"{len(whole):x}\r\n".encode() + whole + b"\r\nzz\r\n"
        headers = {"transfer-encoding": "chunked"}
        broken = Reply(headers=headers, body=chunked, framing="close", keep_alive=False)
    message, _, provider = ask([broken if is_at_once else broken.but(chunk_bytes=7)])
    assert (message.text, len(provider.requests)) == ("Hi", 1)


def test_no_wait_is_longer_than_is_allowed() -> None:
    retry_policy = RetryPolicy(max_wait_s=0.01, waits_s=(60.0,))
    _, shown, _ = ask([OVERLOADED, OVERLOADED, says("Hi")], retry_policy=retry_policy)
    assert [delta.wait_s for delta in retries(shown)] == [0.01, 0.01]


def test_six_failures_end_it() -> None:
    caught, provider = failed([OVERLOADED] * 7)
    assert str(caught) == "anthropic: Overloaded (HTTP 529), after 6 attempts"
    assert (caught.kind, caught.exit_code) == (ProviderErrorKind.UNAVAILABLE, Exit.PROVIDER)
    assert len(provider.requests) == 6


def test_too_long_a_wait_is_not_waited() -> None:
    caught, provider = failed([SLOW_DOWN.but(headers={"retry-after": "7200"})])
    assert "asks to wait 2 h 0 min, more than the 60 s allowed" in str(caught)
    assert caught.kind is ProviderErrorKind.RATE_LIMITED
    assert len(provider.requests) == 1


@pytest.mark.parametrize(
    ("reply", "kind", "exit_code"),
    [
        (error(400, "invalid_request_error", "bad"), ProviderErrorKind.REJECTED, Exit.PROVIDER),
        (error(401, "authentication_error", SECRET), ProviderErrorKind.CREDENTIALS, Exit.SETTINGS),
        (error(403, "permission_error", "no"), ProviderErrorKind.CREDENTIALS, Exit.SETTINGS),
        (error(404, "not_found_error", "model"), ProviderErrorKind.MODEL, Exit.SETTINGS),
        (error(413, "request_too_large", "big"), ProviderErrorKind.OVERFLOW, Exit.LIMIT),
        (
            error(400, "invalid_request_error", "prompt is too long: 9 tokens > 8 maximum"),
            ProviderErrorKind.OVERFLOW,
            Exit.LIMIT,
        ),
    ],
)
def test_what_will_not_change_is_asked_once(
    reply: Reply, kind: ProviderErrorKind, exit_code: Exit
) -> None:
    caught, provider = failed([reply, says("Hi")])
    assert (caught.kind, caught.exit_code, len(provider.requests)) == (kind, exit_code, 1)


def test_rejected_key_is_told_by_its_end() -> None:
    caught, _ = failed([error(401, "authentication_error", f"invalid x-api-key {SECRET}")])
    assert str(caught) == (
        "anthropic rejected the API key (401, key from ANTHROPIC_API_KEY, ends in …3f9a)"
    )
    assert caught.hint == "export ANTHROPIC_API_KEY=…"


def test_forbidden_key_is_told_by_its_end() -> None:
    caught, _ = failed([error(403, "permission_error", f"not for {SECRET}")])
    assert str(caught) == (
        "anthropic: not for …3f9a (HTTP 403) (key from ANTHROPIC_API_KEY, ends in …3f9a)"
    )
    assert caught.hint == "export ANTHROPIC_API_KEY=…"


def test_spent_money_is_not_asked_for_again() -> None:
    details = {"error_code": "enforced_spend_limit_reached"}
    body = {
        "type": "error",
        "error": {"type": "rate_limit_error", "message": "", "details": details},
    }
    caught, provider = failed([answer(body, status=429, headers={"retry-after": "1"})])
    assert (caught.kind, len(provider.requests)) == (ProviderErrorKind.CREDENTIALS, 1)


@pytest.mark.parametrize(
    ("reply", "line"),
    [
        (
            page("<html><title>502 Bad Gateway</title>" + "x" * 10_000_000, status=502),
            "anthropic: received a web page: 502 Bad Gateway (HTTP 502), after 6 attempts",
        ),
        (
            Reply(status=500, body=b'{"error": {"mess', framing="length"),
            'anthropic: {"error": {"mess (HTTP 500), after 6 attempts',
        ),
        (Reply(status=503, framing="length"), "anthropic: HTTP 503, after 6 attempts"),
        (
            Reply(status=500, body=b"\x00\xff\n" * 1_000_000, framing="close"),
            "anthropic: " + "\x00\ufffd " * 133 + "\x00… (HTTP 500), after 6 attempts",
        ),
    ],
)
def test_any_error_page_is_one_line(reply: Reply, line: str) -> None:
    caught, _ = failed([reply] * 6)
    assert str(caught) == line


def test_cut_reply_is_asked_for_again_and_told() -> None:
    whole = says("Half of", " it")
    half = whole.but(cut_at=whole.body.index(b" it"))
    message, shown, _ = ask([half, half.but(cut_at=0), says("Whole")])
    assert message.text == "Whole"
    assert [delta.reason for delta in retries(shown)] == [
        "the connection was closed in the middle of the answer (dropping 7 characters)",
        "the connection was closed in the middle of the answer",
    ]


def test_cut_at_every_byte_is_recovered() -> None:
    reply = calls(call("toolu_1", "bash", {"command": "ls"}))
    cuts = range(0, len(reply.body), 97)
    for cut in cuts:
        message, _, provider = ask([reply.but(cut_at=cut), reply])
        assert message.tool_calls == (ToolCall(id="toolu_1", name="bash", input={"command": "ls"}),)
        assert len(provider.requests) <= 2


def test_error_in_the_stream_is_asked_again() -> None:
    whole = says("Half").body
    started = whole[: whole.index(b"event: content_block_stop")]
    failure = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    message, shown, _ = ask([stream(started + sse([failure])), says("Whole")])
    assert message.text == "Whole"
    assert len(retries(shown)) == 1


def test_reply_that_is_complete_does_not_wait_for_its_connection() -> None:
    reply = says("Done")
    message, shown, _ = ask([reply.but(stall_at=len(reply.body))])
    assert (message.text, retries(shown)) == ("Done", [])


def test_reply_cut_after_its_last_word_is_whole() -> None:
    reply = says("Done")
    message, _, provider = ask([reply.but(cut_at=len(reply.body) - 1)])
    assert (message.text, len(provider.requests)) == ("Done", 1)


def test_stalled_reply_is_asked_again() -> None:
    with Provider([says("Hello").but(stall_at=200), says("Hi")]) as provider:
        wire = connection(provider, timeouts=Timeouts(stall_s=0.1))
        shown: list[Delta] = []
        message = asyncio.run(wire.send(PROMPT, shown.append))
    assert message.text == "Hi"
    assert "sent nothing for 0.1 s" in retries(shown)[0].reason


def test_foreign_tool_names_are_translated_both_ways() -> None:
    spec = ToolSpec(name="server.look up", description="", schema={"type": "object"})
    asked = replace(PROMPT, tools=(spec,), tool_choice="server.look up")
    wired = encode_name("server.look up")
    message, shown, provider = ask([calls(call("toolu_1", wired, {}))], request=asked)
    assert provider.bodies[0]["tools"][0]["name"] == wired
    assert message.tool_calls[0].name == "server.look up"
    assert {delta.name for delta in shown if isinstance(delta, CallDelta)} == {"server.look up"}


def test_ids_a_model_repeats_are_new_to_us() -> None:
    first, _, _ = ask([calls(call("toolu_1", "bash", {}), call("toolu_1", "bash", {}))])
    again = replace(PROMPT, messages=(*PROMPT.messages, first))
    second, _, _ = ask([calls(call("toolu_1", "bash", {}))], request=again)
    assert [it.id for it in (*first.tool_calls, *second.tool_calls)] == [
        "toolu_1",
        "toolu_1_2",
        "toolu_1_3",
    ]


class Watch:
    """A `Show` that waits for the first delta of a kind."""

    def __init__(self, kind: type[Delta]) -> None:
        self._kind = kind
        self._seen = asyncio.Event()

    def __call__(self, delta: Delta) -> None:
        if isinstance(delta, self._kind):
            self._seen.set()

    async def seen(self) -> None:
        await self._seen.wait()


async def cancelled_s(task: "asyncio.Task[AssistantMessage]") -> float:
    """How long it took to end."""
    start = asyncio.get_running_loop().time()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    return asyncio.get_running_loop().time() - start


@pytest.mark.parametrize(
    ("reply", "kind"), [(OVERLOADED, RetryDelta), (says("word ").but(endless=True), TextDelta)]
)
def test_cancel_while_waiting_or_speaking_ends_at_once(reply: Reply, kind: type[Delta]) -> None:
    async def session(provider: Provider) -> float:
        watch = Watch(kind)
        wire = connection(provider, retry_policy=RetryPolicy(waits_s=(60.0,)))
        task = asyncio.create_task(wire.send(PROMPT, watch))
        await watch.seen()
        return await cancelled_s(task)

    with Provider([reply]) as provider:
        assert asyncio.run(session(provider)) < 1


def test_cancel_while_the_model_thinks_ends_at_once() -> None:
    async def session(provider: Provider) -> float:
        task = asyncio.create_task(connection(provider).send(PROMPT, lambda delta: None))
        assert await asyncio.to_thread(provider.stalled.wait, 10)
        return await cancelled_s(task)

    with Provider([says("Hi").but(stall_before_headers=True)]) as provider:
        assert asyncio.run(session(provider)) < 1
        assert provider.client_left.wait(5)


def test_hurry_ends_the_wait() -> None:
    async def session(provider: Provider) -> AssistantMessage:
        watch = Watch(RetryDelta)
        wire = connection(provider, retry_policy=RetryPolicy(waits_s=(60.0,)))
        wire.hurry()
        task = asyncio.create_task(wire.send(PROMPT, watch))
        await watch.seen()
        wire.hurry()
        return await task

    with Provider([OVERLOADED, says("Hi")]) as provider:
        assert asyncio.run(session(provider)).text == "Hi"


def test_connection_can_be_opened_early() -> None:
    async def session(provider: Provider) -> None:
        wire = connection(provider)
        await wire.prepare()
        await wire.send(PROMPT, lambda delta: None)
        await wire.close()

    with Provider([says("Hi")]) as provider:
        asyncio.run(session(provider))
        assert provider.connections == 1


def test_missing_key_is_a_setting_to_fix() -> None:
    with pytest.raises(SettingsError, match="no API key for anthropic") as caught:
        open_provider(resolve("opus"), key=None, environ={})
    assert caught.value.hint == "agentcli login anthropic   or: export ANTHROPIC_API_KEY=…"


@pytest.mark.parametrize("value", ["clé", "a b", "", "line\nbreak", "\x1b[0m"])
def test_key_that_cannot_be_one_is_a_setting_to_fix(value: str) -> None:
    with pytest.raises(SettingsError, match="contains characters that no API key has"):
        open_provider(resolve("opus"), key=Key(value=value, source="ANTHROPIC_API_KEY"), environ={})


def test_blanks_around_a_key_are_left_out() -> None:
    with Provider([says("Hi")]) as provider:
        key = Key(value=f"  {SECRET}\n", source="x")
        wire = open_provider(resolve("opus"), key=key, base_url=provider.base_url, environ={})
        asyncio.run(wire.send(PROMPT, lambda delta: None))
        assert provider.requests[0].headers["x-api-key"] == SECRET


def test_local_server_that_is_not_there_is_asked_for_by_name() -> None:
    with Provider([]) as provider:
        url = provider.base_url
    wire = open_provider(
        resolve("ollama/qwen3"), key=None, base_url=url, environ={}, retry_policy=QUICK
    )
    with pytest.raises(ProviderError, match="connection refused") as caught:
        asyncio.run(wire.send(PROMPT, lambda delta: None))
    assert caught.value.hint == "check that ollama is running"


def test_unknown_protocol_is_a_setting_to_fix() -> None:
    model = replace(resolve("ollama/x"), protocol="smoke-signals")
    with pytest.raises(SettingsError, match="smoke-signals"):
        open_provider(model, key=None, environ={})
