"""The same reply in every protocol, on its way through odd servers, gateways and failures."""

import asyncio
import gzip
import json
import zlib
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from agentcli.providers.catalog import Key
from agentcli.providers.connection import RetryPolicy
from agentcli.providers.dialect import Model
from agentcli.providers.transport import open_provider
from agentcli.types.errors import ProviderError, ProviderErrorKind
from agentcli.types.messages import AssistantMessage, Text, UserMessage
from agentcli.types.provider import Request
from tests.support import responses_streams
from tests.support.anthropic_fixtures import MODEL
from tests.support.gemini_fixtures import BASH, READ_FILE, model
from tests.support.openai_fixtures import CHAT, RESPONSES
from tests.support.provider import Provider, Reply, answer, page, sse, stream
from tests.support.voices import VOICES, Responses, Voice

MODELS: Mapping[str, Model] = {
    "Anthropic": MODEL,
    "Responses": RESPONSES,
    "Chat": CHAT,
    "Gemini": model("gemini"),
    "Interactions": model("gemini-interactions"),
}
TEXT = "Grüße 你好 👩‍💻"
CALL = ("read_file", {"path": "ä.txt"})
LATE = b'event: error\ndata: {"type": "error", "error": {"type": "overloaded_error"}}\n\n'


def rewrite(body: bytes, write: Callable[[Any], str]) -> Reply:
    """Each event's JSON written in another way."""
    made = [
        "\n".join(
            write(json.loads(line[6:])) if line.startswith("data: {") else line for line in one
        )
        for one in (event.split("\n") for event in body.decode().split("\n\n"))
    ]
    return stream("\n\n".join(made).encode())


def encoded(body: bytes, name: str) -> Reply:
    return Reply(headers={"content-type": "text/event-stream", "content-encoding": name}, body=body)


def limited(wait: str) -> Reply:
    return answer({"error": {"message": "slow"}}, status=429, headers={"retry-after": wait})


WHOLE: Mapping[str, Callable[[bytes], Reply]] = {
    "a byte at a time": lambda body: stream(body).but(chunk_bytes=1),
    "CR LF": lambda body: stream(body.replace(b"\n", b"\r\n")),
    "CR": lambda body: stream(body.replace(b"\n", b"\r")),
    "byte order mark": lambda body: stream(b"\xef\xbb\xbf" + body),
    "comments": lambda body: stream(body.replace(b"\n\n", b"\n\n: still here\n\n")),
    "no blank": lambda body: stream(body.replace(b"data: ", b"data:")),
    "ids": lambda body: stream(body.replace(b"data: ", b"id: 7\nretry: 9\ndata: ")),
    "escapes": lambda body: rewrite(body, lambda data: f"data: {json.dumps(data)}"),
    "several lines": lambda body: rewrite(
        body, lambda data: "data: " + json.dumps(data, indent=1).replace("\n", "\ndata: ")
    ),
    "unknown event": lambda body: stream(b'data: {"type": "future", "x": [1]}\n\n' + body),
    "gzip": lambda body: encoded(gzip.compress(body), "gzip").but(chunk_bytes=11),
    "gzip of two members": lambda body: encoded(
        gzip.compress(body[:99]) + gzip.compress(body[99:]), "gzip"
    ),
    "deflate": lambda body: encoded(zlib.compress(body), "deflate"),
    "a length": lambda body: stream(body).but(framing="length"),
    "until it closes": lambda body: stream(body).but(framing="close"),
    "another type": lambda body: stream(body).but(headers={"content-type": "application/json"}),
    "no type": lambda body: stream(body).but(headers={}),
    "one more end": lambda body: stream(body + b"data: [DONE]\n\n"),
    "a page behind it": lambda body: stream(body + b"<html>oops</html>\n\n"),
    "no last line": lambda body: stream(body.rstrip(b"\n")),
    "an error behind it": lambda body: stream(body + LATE),
}
"""What changes nothing: the reply is taken at the first attempt."""

BROKEN: Mapping[str, Callable[[bytes], Reply]] = {
    "cut": lambda body: stream(body).but(cut_at=len(body) // 2),
    "dropped": lambda body: Reply(drop=True),
    "500": lambda body: answer({"error": {"message": "x"}}, status=500),
    "529": lambda body: answer({"error": {"type": "overloaded_error"}}, status=529),
    "page of a gateway": lambda body: page("<html>bad gateway</html>", status=502),
    "408": lambda body: page("timeout", status=408),
    "wait of nothing": lambda body: limited("0"),
    "wait below nothing": lambda body: limited("-5"),
    "wait that is no number": lambda body: limited("nan"),
    "wait until the past": lambda body: limited("Wed, 21 Oct 2015 07:28:00 GMT"),
    "wait in words": lambda body: limited("soon"),
    "nothing": lambda body: stream(b""),
    "only comments": lambda body: stream(b": ping\n\n" * 3),
    "half an event": lambda body: stream(body[: len(body) // 3] + b'data: {"broken\n\n'),
    "an error before it": lambda body: stream(LATE),
    "gzip that is none": lambda body: encoded(body, "gzip"),
    "204": lambda body: Reply(status=204, framing="length"),
}
"""What passes: one more attempt brings the reply."""

FINAL: Mapping[str, tuple[Reply, ProviderErrorKind, str]] = {
    "400": (
        answer({"error": {"message": "bad thing"}}, status=400),
        ProviderErrorKind.REJECTED,
        "bad thing",
    ),
    "401": (
        answer({"error": {"message": "no"}}, status=401),
        ProviderErrorKind.CREDENTIALS,
        "rejected the API key",
    ),
    "404 with a piece of a page": (
        page("<h1>nope</h1>", status=404),
        ProviderErrorKind.REJECTED,
        "there is no API at this address: received a web page: nope",
    ),
    "403 with a comment first": (
        page("<!-- proxy --><p>Denied", status=403),
        ProviderErrorKind.CREDENTIALS,
        "received a web page",
    ),
    "an hour": (limited("7200"), ProviderErrorKind.RATE_LIMITED, "asks to wait 2 h"),
    "no retry": (
        answer({"error": {"message": "x"}}, status=500, headers={"x-should-retry": "false"}),
        ProviderErrorKind.UNAVAILABLE,
        "x",
    ),
    "another address": (
        Reply(status=301, headers={"location": "http://127.0.0.1:1/x"}, framing="length"),
        ProviderErrorKind.REJECTED,
        "redirects to",
    ),
    "page of a login": (
        page("<html>login</html>", status=200),
        ProviderErrorKind.REJECTED,
        "received a web page",
    ),
}
"""What no further attempt would change."""


async def ask(voice: type[Voice], script: list[Reply]) -> tuple[AssistantMessage, int]:
    asked = MODELS[voice.__name__]
    with Provider([*script]) as provider:
        connection = open_provider(
            asked,
            key=Key(value="sk-test-0123456789", source="test"),
            base_url=provider.base_url,
            environ={},
            retry_policy=RetryPolicy(waits_s=(0.0,)),
        )
        request = Request(
            model=asked.name,
            system="",
            messages=(UserMessage(content=(Text(text="hi"),)),),
            tools=(READ_FILE, BASH),
        )
        try:
            reply = await connection.send(request, lambda delta: None)
        finally:
            await connection.close()
        return reply, len(provider.requests)


def contents(reply: AssistantMessage) -> tuple[str, list[tuple[str, Any]]]:
    text = "".join(block.text for block in reply.content if isinstance(block, Text))
    return text, [(call.name, call.input) for call in reply.tool_calls]


@pytest.mark.parametrize("voice", VOICES)
@pytest.mark.parametrize("calls", [(), (CALL,)], ids=["text", "call"])
def test_reply_is_read_however_it_is_written(
    voice: type[Voice], calls: tuple[tuple[str, dict[str, Any]], ...]
) -> None:
    body = voice().says(1, TEXT, calls).body
    for name, write in WHOLE.items():
        reply, attempts = asyncio.run(ask(voice, [write(body)]))
        assert (contents(reply), attempts) == ((TEXT, list(calls)), 1), name


@pytest.mark.parametrize("voice", VOICES)
def test_attempt_that_breaks_is_made_again(voice: type[Voice]) -> None:
    body = voice().says(1, TEXT, ()).body
    for name, write in BROKEN.items():
        reply, attempts = asyncio.run(ask(voice, [write(body), stream(body)]))
        assert (contents(reply), attempts) == ((TEXT, []), 2), name


@pytest.mark.parametrize("voice", VOICES)
def test_attempt_that_cannot_succeed_is_made_once(voice: type[Voice]) -> None:
    for name, (reply, kind, words) in FINAL.items():
        again = stream(voice().says(1, TEXT, ()).body)
        with pytest.raises(ProviderError) as raised:
            asyncio.run(ask(voice, [reply, again]))
        assert (raised.value.kind, words in str(raised.value)) == (kind, True), name


@pytest.mark.parametrize(
    ("code", "attempts"),
    [("invalid_image", 1), ("invalid_prompt", 1), ("server_error", 2), ("rate_limit_exceeded", 2)],
)
def test_reply_that_failed_is_no_reply(code: str, attempts: int) -> None:
    events = responses_streams.events([])
    failed = {**events[-1]["response"], "status": "failed", "error": {"code": code, "message": "m"}}
    body = sse([*events[:-1], {**events[-1], "type": "response.failed", "response": failed}])
    again = Responses().says(1, TEXT, ())
    if attempts > 1:
        assert contents(asyncio.run(ask(Responses, [stream(body), again]))[0]) == (TEXT, [])
    else:
        with pytest.raises(ProviderError, match="m"):
            asyncio.run(ask(Responses, [stream(body), again]))


@pytest.mark.parametrize("key", ["e", "none", "server", "secret-0123"])
def test_key_is_removed_from_errors_unless_it_is_any_short_word(key: str) -> None:
    said = f"the server refuses {key}."
    with Provider([answer({"error": {"message": said}}, status=400)]) as provider:
        connection = open_provider(
            CHAT, key=Key(value=key, source="test"), base_url=provider.base_url, environ={}
        )
        request = Request(
            model=CHAT.name,
            system="",
            messages=(UserMessage(content=(Text(text="hi"),)),),
            tools=(),
        )
        with pytest.raises(ProviderError) as raised:
            asyncio.run(connection.send(request, lambda delta: None))
    assert "the server refuses" in str(raised.value)
    assert ("secret-0123" in str(raised.value)) is False
