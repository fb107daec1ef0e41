import asyncio
import gzip
import shutil
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import aclosing
from pathlib import Path
from zlib import compress

import pytest

from agentcli.providers.http.direct import LIMIT_ERROR_BYTES, DirectSocket
from agentcli.providers.http.sockets import ConnectionBroken, HttpError, Timeouts
from agentcli.providers.http.sse import Event
from agentcli.types.errors import ProviderErrorKind, SettingsError
from tests.support.certificates import Certificate, made_in
from tests.support.provider import Provider, Reply, answer, page, sse, stream
from tests.support.proxy import Proxy

EVENTS: list[Event] = [{"type": "a", "text": "é\u2028😀"}, {"type": "b"}]
STREAM = stream(sse(EVENTS))
QUICK = Timeouts(connect_s=5, first_byte_s=0.2, stall_s=0.2)


async def exchanged(direct: DirectSocket, body: bytes = b"{}") -> list[Event]:
    events = direct.exchange("/v1/messages", headers={"x-key": "k"}, body=[body])
    return [event async for together in events for event in together]


def ask(provider: Provider, *, times: int = 1, timeouts: Timeouts | None = None) -> list[Event]:
    async def session() -> list[Event]:
        direct = DirectSocket(provider.base_url, environ={}, timeouts=timeouts)
        for _ in range(times - 1):
            await exchanged(direct)
        events = await exchanged(direct)
        await direct.close()
        return events

    return asyncio.run(session())


@pytest.mark.parametrize(
    "reply",
    [
        STREAM,
        STREAM.but(chunk_bytes=1),
        STREAM.but(chunk_bytes=3, framing="length"),
        STREAM.but(chunk_bytes=7, framing="close"),
        STREAM.but(headers={}),
        STREAM.but(headers={"content-type": "application/json"}),
        STREAM.but(body=b"\n\n" + STREAM.body),
    ],
)
def test_events_arrive_however_they_are_sent(reply: Reply) -> None:
    with Provider([reply]) as provider:
        assert ask(provider) == EVENTS


def test_request_is_sent_as_it_should() -> None:
    with Provider([STREAM]) as provider:
        ask(provider)
        request = provider.requests[0]
    assert (request.method, request.path, request.body) == ("POST", "/v1/messages", b"{}")
    assert request.headers["host"] == f"127.0.0.1:{provider.port}"
    assert request.headers["content-type"] == "application/json"
    assert request.headers["accept-encoding"] == "identity"
    assert request.headers["x-key"] == "k"


def test_user_of_the_address_is_sent_unless_there_is_a_key() -> None:
    async def send(address: str) -> None:
        direct = DirectSocket(address, environ={})
        await direct.fetch_document("/v1/models", headers={})
        await direct.fetch_document("/v1/models", headers={"authorization": "Bearer k"})
        await direct.close()

    with Provider([answer({}), answer({})]) as provider:
        asyncio.run(send(f"http://me:p%40ss@127.0.0.1:{provider.port}"))
        sent = [request.headers["authorization"] for request in provider.requests]
    assert sent == ["Basic bWU6cEBzcw==", "Bearer k"]


def test_large_body_arrives() -> None:
    body = b'"' + b"x" * 20_000_000 + b'"'
    with Provider([STREAM]) as provider:
        asyncio.run(exchanged(DirectSocket(provider.base_url, environ={}), body))
        assert provider.requests[0].body == body


def test_connection_is_used_again() -> None:
    with Provider([STREAM, STREAM.but(chunk_bytes=5), STREAM]) as provider:
        assert ask(provider, times=3) == EVENTS
        assert provider.connections == 1


def test_connection_opened_early_is_used() -> None:
    async def session(provider: Provider) -> None:
        direct = DirectSocket(provider.base_url, environ={})
        await direct.prepare()
        await exchanged(direct)

    with Provider([STREAM]) as provider:
        asyncio.run(session(provider))
        assert provider.connections == 1


def test_connection_that_is_closed_is_not_used_again() -> None:
    with Provider([STREAM.but(keep_alive=False), STREAM]) as provider:
        ask(provider, times=2)
        assert provider.connections == 2


def test_kept_connection_that_died_is_replaced_silently() -> None:
    with Provider([STREAM, Reply(drop=True), STREAM]) as provider:
        assert ask(provider, times=2) == EVENTS
        assert [request.connection for request in provider.requests] == [0, 0, 1]


def test_new_connection_that_dies_is_told() -> None:
    with Provider([Reply(drop=True), STREAM]) as provider:
        with pytest.raises(ConnectionBroken) as caught:
            ask(provider)
        assert caught.value.kind is ProviderErrorKind.CUT
        assert len(provider.requests) == 1


@pytest.mark.parametrize("framing", ["chunked", "length"])
@pytest.mark.parametrize("cut_at", [0, 1, 20, len(STREAM.body) - 1])
def test_cut_is_told(framing: str, cut_at: int) -> None:
    with Provider([STREAM.but(framing=framing, cut_at=cut_at)]) as provider:
        with pytest.raises(ConnectionBroken) as caught:
            ask(provider)
        assert caught.value.kind is ProviderErrorKind.CUT


def test_whole_document_is_one_event() -> None:
    with Provider([answer({"a": 1}), answer([{"a": 1}, {"b": 2}])]) as provider:
        assert ask(provider) == [{"a": 1}]
        assert ask(provider) == [{"a": 1}, {"b": 2}]


def test_half_a_document_is_a_cut() -> None:
    with Provider([Reply(body=b'{"a": ', framing="length")]) as provider:
        with pytest.raises(ConnectionBroken, match="not complete JSON") as caught:
            ask(provider)
        assert caught.value.kind is ProviderErrorKind.CUT


def test_page_in_place_of_a_reply_is_told_once() -> None:
    login = page("<!DOCTYPE html><html><title>Sign in</title>", status=200)
    with Provider([login]) as provider:
        with pytest.raises(ConnectionBroken, match="Sign in") as caught:
            ask(provider)
        assert caught.value.max_attempts == 1


@pytest.mark.parametrize(
    ("encoding", "pack"),
    [
        ("gzip", gzip.compress),
        ("X-GZIP", gzip.compress),
        ("deflate", compress),
        ("gzip", lambda body: gzip.compress(body[:9]) + gzip.compress(body[9:])),
        ("gzip", lambda body: gzip.compress(body) + bytes(20)),
    ],
)
@pytest.mark.parametrize("chunk_bytes", [None, 1])
def test_answer_compressed_unasked_is_read(
    encoding: str, pack: Callable[[bytes], bytes], chunk_bytes: int | None
) -> None:
    headers = {"content-encoding": encoding}
    packed = STREAM.but(headers=headers, body=pack(STREAM.body), chunk_bytes=chunk_bytes)
    with Provider([packed]) as provider:
        assert ask(provider) == EVENTS


def test_compressed_error_is_read() -> None:
    reply = answer({}, status=400, headers={"content-encoding": "gzip"})
    packed = reply.but(body=gzip.compress(b'{"error": "no"}'))
    with Provider([packed]) as provider, pytest.raises(HttpError) as caught:
        ask(provider)
    assert caught.value.body == {"error": "no"}


@pytest.mark.parametrize(
    ("encoding", "words"),
    [("br", r"unexpected compression \(br\)"), ("gzip", "compression is broken")],
)
def test_answer_that_cannot_be_unpacked_is_told(encoding: str, words: str) -> None:
    packed = STREAM.but(headers={"content-encoding": encoding})
    with Provider([packed]) as provider, pytest.raises(ConnectionBroken, match=words):
        ask(provider)


@pytest.mark.parametrize("chunk_bytes", [None, 1])
@pytest.mark.parametrize("encoding", ["br", "gzip"])
def test_status_of_an_error_that_cannot_be_unpacked_is_told(
    encoding: str, chunk_bytes: int | None
) -> None:
    packed = answer({"error": "x"}, status=401, headers={"content-encoding": encoding})
    with (
        Provider([packed.but(framing="chunked", chunk_bytes=chunk_bytes)]) as provider,
        pytest.raises(HttpError) as caught,
    ):
        ask(provider)
    assert caught.value.status == 401


def test_error_comes_with_its_body() -> None:
    reply = answer({"error": {"message": "no"}}, status=429, headers={"Retry-After": "3"})
    with Provider([reply]) as provider, pytest.raises(HttpError) as caught:
        ask(provider)
    assert (caught.value.status, caught.value.body) == (429, {"error": {"message": "no"}})
    assert caught.value.headers["retry-after"] == "3"


@pytest.mark.parametrize("framing", ["chunked", "length", "close"])
def test_endless_error_is_bounded(framing: str) -> None:
    huge = page("x" * 10_000_000, status=502).but(framing=framing)
    with Provider([huge]) as provider, pytest.raises(HttpError) as caught:
        ask(provider)
    assert caught.value.body == "x" * LIMIT_ERROR_BYTES


def test_cut_error_is_told_as_far_as_it_came() -> None:
    with (
        Provider([page("half a pa", status=500).but(cut_at=4)]) as provider,
        pytest.raises(HttpError) as caught,
    ):
        ask(provider)
    assert caught.value.body == "half"


def test_redirect_is_told_not_followed() -> None:
    moved = Reply(status=308, headers={"location": "https://elsewhere.example/v1"})
    with Provider([moved, STREAM]) as provider:
        with pytest.raises(
            ConnectionBroken, match=r"redirects to https://elsewhere\.example"
        ) as caught:
            ask(provider)
        assert (caught.value.max_attempts, len(provider.requests)) == (1, 1)


def test_silence_before_the_answer_is_told() -> None:
    with (
        Provider([STREAM.but(stall_before_headers=True)]) as provider,
        pytest.raises(ConnectionBroken, match="does not answer"),
    ):
        ask(provider, timeouts=QUICK)


def test_silence_in_the_answer_is_told() -> None:
    with (
        Provider([STREAM.but(stall_at=20)]) as provider,
        pytest.raises(ConnectionBroken, match=r"sent nothing for 0.2 s"),
    ):
        ask(provider, timeouts=QUICK)


def test_quiet_server_is_told_by_no_events() -> None:
    async def first_three(provider: Provider) -> list[Sequence[Event]]:
        direct = DirectSocket(provider.base_url, environ={})
        events = direct.exchange("/v1/messages", headers={}, body=[b"{}"])
        async with aclosing(events):
            return [await anext(events), await anext(events), await anext(events)]

    end_of_first = STREAM.body.index(b"\n\n") + 2
    with Provider([STREAM.but(stall_at=end_of_first)]) as provider:
        assert asyncio.run(first_three(provider)) == [(), [EVENTS[0]], []]
        assert provider.client_left.wait(5)


def test_nothing_listens_there() -> None:
    with Provider([]) as provider:
        url = provider.base_url
    with pytest.raises(
        ConnectionBroken, match=r"cannot reach 127.0.0.1:\d+ \(connection refused\)"
    ) as caught:
        asyncio.run(exchanged(DirectSocket(url, environ={})))
    assert caught.value.hint.endswith("is running")


def test_name_that_does_not_exist_is_told_once() -> None:
    with pytest.raises(
        ConnectionBroken, match=r"cannot reach nowhere.invalid \(name not resolved\)"
    ) as caught:
        asyncio.run(exchanged(DirectSocket("http://nowhere.invalid", environ={})))
    assert caught.value.kind is ProviderErrorKind.UNAVAILABLE


def test_name_no_host_can_have_is_told() -> None:
    with pytest.raises(ConnectionBroken, match="name not resolved"):
        asyncio.run(exchanged(DirectSocket(f"http://{'x' * 70}.example", environ={})))


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    if shutil.which("openssl") is None:
        pytest.skip("needs the openssl command")
    return made_in(tmp_path_factory.mktemp("tls"), "api.example.test")


@pytest.mark.parametrize("variable", ["SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"])
def test_certificate_from_the_environment_is_trusted(
    certificate: Certificate, variable: str
) -> None:
    with Provider([STREAM, STREAM], tls=certificate.server_context()) as provider:
        direct = DirectSocket(provider.base_url, environ={variable: str(certificate.path)})
        assert asyncio.run(exchanged(direct)) == EVENTS


def test_certificate_nobody_knows_is_told_with_a_way_out(certificate: Certificate) -> None:
    with (
        Provider([STREAM], tls=certificate.server_context()) as provider,
        pytest.raises(
            ConnectionBroken, match=r"certificate of 127\.0\.0\.1 is not trusted"
        ) as caught,
    ):
        asyncio.run(exchanged(DirectSocket(provider.base_url, environ={})))
    assert caught.value.max_attempts == 1
    assert caught.value.hint == "export SSL_CERT_FILE=/path/to/your/ca.pem"


def test_certificate_of_another_name_is_told_with_a_way_out(certificate: Certificate) -> None:
    with Provider([STREAM], tls=certificate.server_context()) as provider:
        address = f"https://localhost:{provider.port}"
        direct = DirectSocket(address, environ={"SSL_CERT_FILE": str(certificate.path)})
        with pytest.raises(ConnectionBroken, match="is not for localhost") as caught:
            asyncio.run(exchanged(direct))
    assert caught.value.max_attempts == 1
    assert caught.value.hint.startswith("check the base URL")


def test_http_to_a_server_with_tls_gets_a_hint(certificate: Certificate) -> None:
    with Provider([], tls=certificate.server_context()) as provider:
        direct = DirectSocket(f"http://127.0.0.1:{provider.port}", environ={})
        with pytest.raises(ConnectionBroken) as caught:
            asyncio.run(exchanged(direct))
    assert "https in the base URL" in caught.value.hint


def test_https_to_a_server_without_tls_is_told() -> None:
    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(65536)
        writer.write(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
        await writer.drain()
        writer.close()

    async def session() -> str:
        async with await asyncio.start_server(refuse, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            with pytest.raises(ConnectionBroken, match="does not speak TLS") as caught:
                await exchanged(DirectSocket(f"https://127.0.0.1:{port}", environ={}))
        assert caught.value.max_attempts == 1
        return caught.value.hint.replace(str(port), "PORT")

    assert asyncio.run(session()) == "if you trust the network, use http://127.0.0.1:PORT"


def test_proxy_that_does_not_answer_is_named_with_its_variable() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        environ = {"HTTPS_PROXY": f"http://127.0.0.1:{silent.getsockname()[1]}"}
        timeouts = Timeouts(connect_s=0.2)
        direct = DirectSocket("https://api.example.test", environ=environ, timeouts=timeouts)
        words = r"the proxy 127\.0\.0\.1:\d+ \(from HTTPS_PROXY\) did not answer within 0\.2 s"
        with pytest.raises(ConnectionBroken, match=words):
            asyncio.run(exchanged(direct))


@pytest.mark.parametrize("content", [None, "not a certificate"])
def test_certificates_that_are_none_are_a_setting_to_fix(
    tmp_path: Path, content: str | None
) -> None:
    path = tmp_path / "ca.pem"
    if content is not None:
        path.write_text(content)
    direct = DirectSocket("https://127.0.0.1:1", environ={"SSL_CERT_FILE": str(path)})
    with pytest.raises(SettingsError, match="SSL_CERT_FILE") as caught:
        asyncio.run(exchanged(direct))
    assert caught.value.hint == "unset SSL_CERT_FILE"


def test_proxy_gets_the_whole_address() -> None:
    with Provider([STREAM]) as provider, Proxy(provider.port) as proxy:
        environ = {"HTTP_PROXY": f"http://me:se%20cret@{proxy.address}"}
        direct = DirectSocket("http://api.example.test/base", environ=environ)
        assert asyncio.run(exchanged(direct)) == EVENTS
        first, *fields = proxy.heads[0].split("\r\n")
    assert first == "POST http://api.example.test/base/v1/messages HTTP/1.1"
    assert "Proxy-Authorization: Basic bWU6c2UgY3JldA==" in fields
    assert "Host: api.example.test" in fields


def test_proxy_tunnels_tls(certificate: Certificate) -> None:
    context = certificate.server_context()
    with Provider([STREAM, STREAM], tls=context) as provider, Proxy(provider.port) as proxy:
        environ = {"https_proxy": proxy.address, "SSL_CERT_FILE": str(certificate.path)}

        async def session() -> list[Event]:
            direct = DirectSocket("https://api.example.test", environ=environ)
            await exchanged(direct)
            return await exchanged(direct)

        assert asyncio.run(session()) == EVENTS
        assert [head.split("\r\n")[0] for head in proxy.heads] == [
            "CONNECT api.example.test:443 HTTP/1.1"
        ]
        assert provider.requests[0].headers["host"] == "api.example.test"


def test_proxy_that_wants_a_password_is_told() -> None:
    with Proxy(1, refuses_with=407) as proxy:
        environ = {"ALL_PROXY": f"http://{proxy.address}"}
        with pytest.raises(
            ConnectionBroken, match=r"refuses to connect to api\.example\.test:443: HTTP 407"
        ):
            asyncio.run(exchanged(DirectSocket("https://api.example.test", environ=environ)))


def test_proxy_that_is_gone_is_named_with_its_variable() -> None:
    with Proxy(1) as proxy:
        environ = {"ALL_PROXY": f"http://{proxy.address}"}
    with pytest.raises(ConnectionBroken, match=r"cannot reach the proxy .* \(from ALL_PROXY\)"):
        asyncio.run(exchanged(DirectSocket("https://api.example.test", environ=environ)))


async def cancelled_while(
    waiting: Callable[[], Awaitable[object]], task: "asyncio.Task[object]"
) -> float:
    """How long the task takes to end once it is cancelled."""
    await waiting()
    loop = asyncio.get_running_loop()
    start = loop.time()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    return loop.time() - start


@pytest.mark.parametrize("reply", [STREAM.but(stall_at=30), STREAM.but(stall_before_headers=True)])
def test_cancel_closes_the_connection_at_once(reply: Reply) -> None:
    async def session(provider: Provider) -> float:
        task: asyncio.Task[object] = asyncio.create_task(
            exchanged(DirectSocket(provider.base_url, environ={}))
        )
        return await cancelled_while(lambda: asyncio.to_thread(provider.stalled.wait, 10), task)

    with Provider([reply]) as provider:
        assert asyncio.run(session(provider)) < 1
        assert provider.client_left.wait(5)


@pytest.fixture
def deaf_port() -> Iterator[int]:
    """A port whose connections are accepted by nobody, with its queue full."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen(0)
        port = server.getsockname()[1]
        with socket.socket() as first, socket.socket() as second:
            for client in (first, second):
                client.setblocking(False)
                client.connect_ex(("127.0.0.1", port))
            yield port


def test_cancel_while_connecting_ends_at_once(deaf_port: int) -> None:
    async def session() -> float:
        task: asyncio.Task[object] = asyncio.create_task(
            exchanged(DirectSocket(f"http://127.0.0.1:{deaf_port}", environ={}))
        )
        return await cancelled_while(lambda: asyncio.sleep(0), task)

    assert asyncio.run(session()) < 1


def test_connection_that_takes_too_long_is_told(deaf_port: int) -> None:
    direct = DirectSocket(
        f"http://127.0.0.1:{deaf_port}", environ={}, timeouts=Timeouts(connect_s=0.1)
    )
    with pytest.raises(ConnectionBroken, match=r"did not answer within 0.1 s"):
        asyncio.run(exchanged(direct))


def test_get_gives_a_document() -> None:
    with Provider([answer({"data": []}), answer({}, status=404)]) as provider:
        direct = DirectSocket(provider.base_url, environ={})

        async def session() -> AsyncIterator[object]:
            yield await direct.fetch_document("/v1/models?limit=5", headers={"x-key": "k"})
            yield await direct.fetch_document("/v1/models", headers={})

        async def collect() -> list[object]:
            return [document async for document in session()]

        with pytest.raises(HttpError):
            asyncio.run(collect())
        request = provider.requests[0]
    assert (request.method, request.path, request.body) == ("GET", "/v1/models?limit=5", b"")
