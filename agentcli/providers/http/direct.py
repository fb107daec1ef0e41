"""The lean socket: one HTTP/1.1 client with event streams, for every dialect.

A request is silently sent again in one case only: a reused connection turns out to be dead before
the first byte of an answer. Redirects are reported, not followed.

A connection has TLS, and goes through a proxy, if the route says so. Every failure is a
`ConnectionBroken` with a clause that names the host. Cancelling at any moment closes the connection
at once and waits for nothing.
"""

import asyncio
import json
import os
import socket
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from ssl import SSLContext

from agentcli import __version__
from agentcli.providers.errors import find_request_id, summarize_body
from agentcli.providers.http.http1 import Plain, ResponseHead, ResponseReader, build_decompressor
from agentcli.providers.http.route import (
    Endpoint,
    Proxy,
    Route,
    build_tls_context,
    is_loopback,
)
from agentcli.providers.http.sockets import (
    ACCEPTED,
    ATTEMPTS,
    Body,
    ConnectionBroken,
    HttpError,
    OnSent,
    Timeouts,
    make_redirect_error,
    make_stall_error,
)
from agentcli.providers.http.sse import Event, EventStream
from agentcli.system.resolver import resolve
from agentcli.types.errors import ProviderError, ProviderErrorKind, SettingsError
from agentcli.types.fast_dataclass import dataclass
from agentcli.types.messages import Json

PIECE_BYTES = 64 * 1024
FIRST_ADDRESSES_S = 3.0
"""The limit for each address of a host but the last. A dead one must not use up all the time."""

_REFUSED_ATTEMPTS = 3
"""Enough for a server that is just starting, and few for one that is not there."""


@dataclass(slots=True, kw_only=True)
class HttpConnection:
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    loop: asyncio.AbstractEventLoop
    endpoint: Endpoint

    @property
    def is_usable(self) -> bool:
        """True if not known to be dead: its loop still runs and the other side has not closed."""
        is_alive = self.loop is asyncio.get_running_loop() and not self.writer.is_closing()
        return is_alive and not self.reader.at_eof()

    def send(self, head: bytes, body: Body = ()) -> None:
        """Send without waiting: an answer may come before all is sent, and say why."""
        if sum(map(len, body)) < PIECE_BYTES:
            self.writer.write(b"".join((head, *body)))
            return
        opening, *rest = body
        self.writer.write(head + opening)
        for piece in rest:  # one by one: joining long pieces would take longer than sending them
            self.writer.write(piece)

    async def read(self, patience_s: float) -> bytes | None:
        """Return the bytes read, b"" if the connection is over, or None if none came in time."""
        try:
            async with asyncio.timeout(patience_s):
                return await self.reader.read(PIECE_BYTES)
        except TimeoutError:
            return None
        except OSError:  # reset, or TLS broken off: either way nothing more comes
            return b""

    def drop(self) -> None:
        if not self.loop.is_closed():
            self.writer.transport.abort()


async def connect(
    endpoint: Endpoint,
    *,
    proxy: Proxy | None,
    tls: Callable[[], ssl.SSLContext],
    limit_s: float,
) -> HttpConnection:
    """Open a connection. Raise ConnectionBroken on failure.

    `tls` is called only if a context is needed.
    """
    nearest = proxy.endpoint if proxy else endpoint
    try:
        async with asyncio.timeout(limit_s):
            link = await _open(nearest, tls=tls)
            if not proxy or not endpoint.tls:
                return link
            try:
                await _open_tunnel(link, endpoint, proxy=proxy, context=tls())
            except BaseException:
                link.drop()
                raise
            return link
    except TimeoutError:
        where = f"the proxy {nearest} (from {proxy.source})" if proxy else str(nearest)
        raise ConnectionBroken(f"{where} did not answer within {limit_s:g} s") from None
    except ssl.SSLCertVerificationError as error:
        raise _build_certificate_error(endpoint, error) from None
    except (OSError, ssl.SSLError) as error:
        raise _build_unreachable_error(nearest, error, proxy=proxy) from None


async def _open(endpoint: Endpoint, *, tls: Callable[[], ssl.SSLContext]) -> HttpConnection:
    host = endpoint.host
    addresses = [host] if endpoint.is_numeric else await resolve(host, endpoint.port)
    for address in addresses[:-1]:
        try:
            async with asyncio.timeout(FIRST_ADDRESSES_S):
                return await _open_at(address, endpoint, tls=tls)
        except ssl.SSLCertVerificationError:
            raise
        except OSError:
            continue
    return await _open_at(addresses[-1], endpoint, tls=tls)


async def _open_at(
    address: str, endpoint: Endpoint, *, tls: Callable[[], ssl.SSLContext]
) -> HttpConnection:
    reader, writer = await asyncio.open_connection(
        address,
        endpoint.port,
        ssl=tls() if endpoint.tls else None,
        server_hostname=endpoint.host if endpoint.tls else None,
        limit=PIECE_BYTES * 4,
    )
    return HttpConnection(
        reader=reader, writer=writer, loop=asyncio.get_running_loop(), endpoint=endpoint
    )


async def _open_tunnel(
    link: HttpConnection, endpoint: Endpoint, *, proxy: Proxy, context: ssl.SSLContext
) -> None:
    """Ask the proxy for a connection to the endpoint, and start TLS inside it."""
    target = f"{endpoint.authority.removesuffix(f':{endpoint.port}')}:{endpoint.port}"
    lines = [f"CONNECT {target} HTTP/1.1", f"Host: {target}"]
    if proxy.credentials:
        lines.append(f"Proxy-Authorization: {proxy.credentials}")
    link.send("\r\n".join([*lines, "", ""]).encode("latin-1"))
    response = ResponseReader()
    while response.head is None:
        # One byte at a time: what follows the head belongs to TLS.
        data = await link.reader.read(1)
        if not data:
            raise ConnectionBroken(f"the proxy {proxy.endpoint} closed the connection")
        response.feed(data)
    status = response.head.status
    if not 200 <= status < 300:
        raise ConnectionBroken(
            f"the proxy {proxy.endpoint} (from {proxy.source}) refuses to connect to {endpoint}:"
            f" HTTP {status}",
            hint=f"export {proxy.source}=http://user:password@host:port" if status == 407 else "",
            max_attempts=1 if status < 500 else ATTEMPTS,
        )
    await link.writer.start_tls(context, server_hostname=endpoint.host)
    link.endpoint = endpoint


_WRONG_NAME = (62, 64)
"""OpenSSL's codes for a certificate of another host or of another address."""
_NO_TLS = ("WRONG_VERSION_NUMBER", "PACKET_LENGTH_TOO_LONG", "RECORD_LAYER_FAILURE", "HTTP_REQUEST")
"""OpenSSL's reasons if what answers does not speak TLS."""


def _build_certificate_error(
    endpoint: Endpoint, error: ssl.SSLCertVerificationError
) -> ConnectionBroken:
    if error.verify_code in _WRONG_NAME:
        return ConnectionBroken(
            f"the certificate that {endpoint} shows is not for {endpoint.host}"
            f" ({error.verify_message})",
            hint="check the base URL: use the host name in the certificate",
            max_attempts=1,
        )
    return ConnectionBroken(
        f"the certificate of {endpoint.host} is not trusted ({error.verify_message})",
        hint="export SSL_CERT_FILE=/path/to/your/ca.pem",
        max_attempts=1,
    )


def _build_unreachable_error(
    endpoint: Endpoint, error: OSError, *, proxy: Proxy | None
) -> ConnectionBroken:
    where = f"the proxy {endpoint} (from {proxy.source})" if proxy else str(endpoint)
    match error:
        case ssl.SSLError(reason=str(reason)) if reason in _NO_TLS:
            return ConnectionBroken(
                f"{where} does not speak TLS, and its address begins with https",
                hint=f"if you trust the network, use http://{endpoint}",
                max_attempts=1,
            )
        case socket.gaierror():
            is_final = error.errno == socket.EAI_NONAME
            return ConnectionBroken(
                f"cannot reach {endpoint.host} (name not resolved)",
                hint="check your network connection and the address",
                max_attempts=1 if is_final else ATTEMPTS,
            )
        case ConnectionRefusedError():
            hint = (
                f"check that the server on port {endpoint.port} is running"
                if is_loopback(endpoint.host)
                else ""
            )
            return ConnectionBroken(
                f"cannot reach {where} (connection refused)",
                hint=hint,
                max_attempts=_REFUSED_ATTEMPTS,
            )
        case _:
            return ConnectionBroken(f"cannot reach {where} ({_describe_error(error)})")


def _describe_error(error: OSError) -> str:
    match error:
        case ConnectionResetError():
            return "the connection was reset"
        case ssl.SSLError():
            return f"TLS failed: {error.reason or error}"
        case _:
            return os.strerror(error.errno).lower() if error.errno else str(error)


IDLE_S = 1.0
"""The silence after which the consumer of the events gets an empty batch."""

LIMIT_REPLY_BYTES = 48 * 1024 * 1024
"""Today's longest replies, sent one token at a time, are shorter."""
LIMIT_ERROR_BYTES = 256 * 1024
ERROR_PATIENCE_S = 5.0
KEPT_LINKS = 4


class DirectSocket:
    def __init__(
        self, base_url: str, *, environ: Mapping[str, str], timeouts: Timeouts | None = None
    ) -> None:
        self._environ = environ
        self._timeouts = timeouts or Timeouts()
        self._route = Route(base_url, environ)
        self._endpoint = self._route.endpoint
        self._context: SSLContext | None = None
        self._kept: list[HttpConnection] = []

    async def prepare(self) -> None:
        """Open a connection for the first request to use. A failure is ignored."""
        try:
            self._kept.append(await self._connect())
        except (ConnectionBroken, SettingsError):
            return

    async def exchange(
        self,
        path: str,
        *,
        headers: Mapping[str, str],
        body: Body,
        on_sent: OnSent = lambda: None,
    ) -> AsyncGenerator[Sequence[Event], None]:
        answer = await self._request("POST", path, headers=headers, body=body, on_sent=on_sent)
        try:
            request_id = find_request_id(answer.head.headers)
            yield ({"type": ACCEPTED, "request_id": request_id},) if request_id else ()
            async for events in _iter_events(self._iter_pieces(answer)):
                yield events
        finally:
            self._release(answer)

    async def fetch_document(
        self, path: str, *, headers: Mapping[str, str], body: bytes = b""
    ) -> Json:
        """Return one JSON document, such as a list of models. POST if there is a body, else GET."""
        answer = await self._request("POST" if body else "GET", path, headers=headers, body=(body,))
        limit_s = self._timeouts.content_s
        try:
            async with asyncio.timeout(limit_s):
                return _parse_document(
                    b"".join([piece async for piece in self._iter_pieces(answer)])
                )
        except TimeoutError:
            raise make_stall_error(
                self._endpoint, f"sent no complete answer within {limit_s:g} s"
            ) from None
        finally:
            self._release(answer)

    async def close(self) -> None:
        for link in self._kept:
            link.drop()
        self._kept.clear()
        await asyncio.sleep(0)  # the loop closes dropped connections in its next round

    async def _request(
        self,
        method: str,
        path: str,
        *,
        headers: Mapping[str, str],
        body: Body,
        on_sent: OnSent = lambda: None,
    ) -> "_HttpAnswer":
        """Send a request and wait for the head of its answer. Raise if it is not a success."""
        head = self._build_head(method, path, headers=headers, body_bytes=sum(map(len, body)))
        connection = self._reuse()
        answer = (
            await self._send_on(connection, head, body=body, on_sent=on_sent)
            if connection
            else None
        )
        if answer is None:
            answer = await self._send_on(await self._connect(), head, body=body, on_sent=on_sent)
        if answer is None:
            raise ConnectionBroken(
                f"{self._endpoint} closed the connection without an answer",
                hint="" if self._endpoint.tls else "does the server expect https in the base URL?",
                kind=ProviderErrorKind.CUT,
            )
        try:
            if not answer.head.is_success:
                raise await self._build_failure(answer)
        except BaseException:
            answer.link.drop()
            raise
        return answer

    async def _send_on(
        self, link: HttpConnection, head: bytes, *, body: Body, on_sent: OnSent
    ) -> "_HttpAnswer | None":
        """Return the answer, or None if the connection closed before its first byte."""
        response = ResponseReader()
        try:
            link.send(head, body)
            on_sent()
            data = await link.read(self._timeouts.first_byte_s)
            if data == b"":
                link.drop()
                return None
            deadline = link.loop.time() + self._timeouts.head_s
            while True:
                if data is None:
                    raise make_stall_error(self._endpoint, "does not answer")
                first = response.feed(data)
                if response.head is not None:
                    return _build_answer(link, response, head=response.head, first=first)
                if data == b"":
                    response.end()
                data = await link.read(min(self._timeouts.stall_s, deadline - link.loop.time()))
        except BaseException:
            link.drop()
            raise

    async def _iter_pieces(self, answer: "_HttpAnswer") -> AsyncIterator[bytes]:
        """Yield the body as it comes, and an empty piece after each `IDLE_S` of silence."""
        if answer.first:
            yield answer.first
        stall_s = self._timeouts.stall_s
        size_bytes, silent_s = 0, 0.0
        while answer.expects_more():
            data = await answer.link.read(min(IDLE_S, stall_s))
            if data is None:
                silent_s += IDLE_S
                if silent_s >= stall_s:
                    raise make_stall_error(self._endpoint, f"sent nothing for {stall_s:g} s")
                yield b""
                continue
            if not data:
                answer.response.end()
            silent_s = 0.0
            piece = answer.read_body(data)
            size_bytes += max(len(data), len(piece))
            if size_bytes > LIMIT_REPLY_BYTES:
                raise ConnectionBroken(
                    "the answer does not end", kind=ProviderErrorKind.REJECTED, max_attempts=1
                )
            if piece:
                yield piece

    async def _build_failure(self, answer: "_HttpAnswer") -> HttpError | ConnectionBroken:
        """Return the error for an answer that is not a success. Read only the start of its body."""
        head = answer.head
        if 300 <= head.status < 400:
            return make_redirect_error(self._endpoint, head.headers.get("location"))
        body = bytearray(answer.first)
        deadline = answer.link.loop.time() + ERROR_PATIENCE_S
        response = answer.response
        while not response.finished and not response.fault and len(body) < LIMIT_ERROR_BYTES:
            data = await answer.link.read(deadline - answer.link.loop.time())
            if not data:
                break
            try:
                body += answer.read_body(data)
            except ConnectionBroken:  # its status counts, although its body is broken
                break
        text = body[:LIMIT_ERROR_BYTES].decode("utf-8", "replace")
        try:
            return HttpError(head.status, head.headers, body=json.loads(text))
        except (ValueError, RecursionError):
            return HttpError(head.status, head.headers, body=text)

    def _build_head(
        self, method: str, path: str, *, headers: Mapping[str, str], body_bytes: int
    ) -> bytes:
        target, host = self._route.locate(path)
        fields = {
            "Host": host,
            "User-Agent": f"agentcli/{__version__}",
            "Accept": "text/event-stream, application/json",
            "Accept-Encoding": "identity",
            **headers,
        }
        if self._route.credentials and "authorization" not in map(str.lower, headers):
            fields["Authorization"] = self._route.credentials
        if body_bytes:
            fields |= {"Content-Type": "application/json", "Content-Length": str(body_bytes)}
        proxy = self._route.proxy
        if proxy and proxy.credentials and not self._endpoint.tls:
            fields["Proxy-Authorization"] = proxy.credentials
        lines = [f"{method} {target} HTTP/1.1", *(f"{k}: {v}" for k, v in fields.items()), "", ""]
        return "\r\n".join(lines).encode("latin-1")

    async def _connect(self) -> HttpConnection:
        return await connect(
            self._endpoint,
            proxy=self._route.proxy,
            tls=self._load_tls,
            limit_s=self._timeouts.connect_s,
        )

    def _load_tls(self) -> SSLContext:
        if self._context is None:
            self._context = build_tls_context(self._environ)
        return self._context

    def _reuse(self) -> HttpConnection | None:
        """Return an idle connection that is not known to be dead, or None."""
        while self._kept:
            link = self._kept.pop()
            if link.is_usable:
                return link
            link.drop()
        return None

    def _release(self, answer: "_HttpAnswer") -> None:
        is_reusable = answer.response.finished and answer.head.keeps_alive
        if is_reusable and answer.link.is_usable and len(self._kept) < KEPT_LINKS:
            self._kept.append(answer.link)
        else:
            answer.link.drop()


@dataclass(frozen=True, slots=True, kw_only=True)
class _HttpAnswer:
    link: HttpConnection
    response: ResponseReader
    head: ResponseHead
    plain: Plain
    first: bytes
    """The part of the body that came together with the head."""

    def expects_more(self) -> bool:
        """Return whether more of the body is to come. Raise ConnectionBroken if it is broken."""
        if self.response.fault:
            raise self.response.fault
        return not self.response.finished

    def read_body(self, data: bytes) -> bytes:
        """Return the part of the body in these bytes of the connection."""
        return self.plain(self.response.feed(data))


def _build_answer(
    link: HttpConnection, response: ResponseReader, *, head: ResponseHead, first: bytes
) -> _HttpAnswer:
    try:
        plain = build_decompressor(head.headers.get("content-encoding", ""))
        first = plain(first)
    except ConnectionBroken:
        if head.is_success:
            raise
        plain, first = _discard, b""  # the status says enough
    return _HttpAnswer(link=link, response=response, head=head, plain=plain, first=first)


def _discard(data: bytes) -> bytes:
    return b""


async def _iter_events(pieces: AsyncIterator[bytes]) -> AsyncIterator[Sequence[Event]]:
    """Yield the events of an event stream or of one document; raise ConnectionBroken for HTML.

    The first character tells them apart.
    """
    opening = b""
    async for piece in pieces:
        opening = piece.lstrip()
        if opening:
            break
        yield ()
    match opening[:1]:
        case b"<":
            page = summarize_body(opening.decode("utf-8", "replace"))
            raise ConnectionBroken(
                f"no reply: {page}",
                hint="check the base URL, and that no login page is in between",
                kind=ProviderErrorKind.REJECTED,
                max_attempts=1,
            )
        case b"{" | b"[":
            rest = [piece async for piece in pieces]
            yield _as_events(_parse_document(opening + b"".join(rest)))
        case _:
            async for events in _stream_events(opening, pieces):
                yield events


async def _stream_events(
    opening: bytes, pieces: AsyncIterator[bytes]
) -> AsyncIterator[Sequence[Event]]:
    stream = EventStream()
    if events := _feed(stream, opening):
        yield events
    async for piece in pieces:
        if not piece and stream.done:
            return
        events = _feed(stream, piece)
        if events or not piece:
            yield events
    _feed(stream, b"")
    if events := stream.end():
        yield events


def _feed(stream: EventStream, piece: bytes) -> Sequence[Event]:
    """Return the events of the piece. Raise ConnectionBroken once the stream is at fault."""
    try:
        if stream.fault:
            raise stream.fault
        return stream.feed(piece)
    except ProviderError as fault:
        max_attempts = ATTEMPTS if fault.kind is ProviderErrorKind.CUT else 1
        raise ConnectionBroken(str(fault), kind=fault.kind, max_attempts=max_attempts) from None


def _parse_document(text: bytes) -> Json:
    try:
        document: Json = json.loads(text)
    except (ValueError, RecursionError):
        raise ConnectionBroken(
            "the answer is not complete JSON", kind=ProviderErrorKind.CUT
        ) from None
    return document


def _as_events(document: Json) -> Sequence[Event]:
    items = document if isinstance(document, list) else [document]
    return [item for item in items if isinstance(item, dict)]
