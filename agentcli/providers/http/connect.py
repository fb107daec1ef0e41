"""One TCP connection to a provider, with TLS and through a proxy if the route says so.

Every failure is a `ConnectionBroken` with a clause that names the host. Cancelling at any moment
closes the connection at once and waits for nothing.
"""

import asyncio
import os
import socket
import ssl
from collections.abc import Callable

from agentcli.providers.http.http1 import ResponseReader
from agentcli.providers.http.route import Endpoint, Proxy, is_loopback
from agentcli.providers.http.sockets import ATTEMPTS, Body, ConnectionBroken
from agentcli.system.resolver import resolve
from agentcli.types.fast_dataclass import dataclass

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
    addresses = await resolve(endpoint.host, endpoint.port)
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
