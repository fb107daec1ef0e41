"""The way from the proxy to a host: checked addresses, the user's own proxy, and the relay.

A connection is made to the very address that was checked. Nothing resolves the name again.
"""

import asyncio
import errno
import ssl
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import field

from agentcli.sandbox.proxy_requests import (
    DENIED,
    HEAD_BYTES,
    HTTP_PORT,
    PIECE_BYTES,
    UNREACHABLE,
    WRONG_NAME_ALERT,
    ProxyRequest,
    RequestRefused,
    TunnelOpening,
    join_head,
    read_opening,
)
from agentcli.system.hosts import (
    PRIVATE,
    USUAL_PORTS,
    is_localhost,
    join_port,
    parse_address,
    parse_host,
    why_unreachable,
)
from agentcli.types.fast_dataclass import dataclass
from agentcli.types.verdicts import Verdict

CONNECT_S = 20.0
_FIRST_ADDRESSES_S = 3.0
"""The limit for each address but the last: a dead one must not use up all the time."""
_MOST_ADDRESSES = 6
IDLE_S = 600.0
_IDLE_STEP_S = 1.0
OWN_ADDRESSES = ("127.0.0.1", "::1")

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
"""Returns the addresses of a host; raises OSError if it has none."""
JudgeReached = Callable[[str, int], Awaitable[Verdict]]
"""Judges an address and a port that a name led to."""
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Dial = Callable[[str, int], Awaitable[Streams]]
"""Connects to an address and a port; raises OSError if that fails."""

_OF_CONNECTIONS = (b"connection", b"keep-alive", b"proxy-connection")


@dataclass(frozen=True, slots=True, kw_only=True)
class UpstreamProxy:
    """The proxy that the user has set for all programs."""

    host: str
    port: int
    login: str = field(default="", repr=False)
    """The value of a Proxy-Authorization header; empty if it needs none."""
    tls: ssl.SSLContext | None = None
    """For a proxy that is itself reached by TLS."""


FindUpstream = Callable[[str, int, bool], UpstreamProxy | None]
"""Returns the user's own proxy for a host, a port, and whether it is plain HTTP.

Raises ValueError if there is one that cannot be used."""


@dataclass(frozen=True, slots=True)
class Link:
    """A connection to a host."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    def drop(self) -> None:
        self.writer.transport.abort()


async def resolve_host(resolve: Resolve, host: str, *, port: int) -> tuple[str, ...]:
    """Return the addresses of a host. Raise RequestRefused if there are none."""
    try:
        async with asyncio.timeout(CONNECT_S):
            found = await resolve(host, port)
    except (OSError, TimeoutError):
        found = ()
    addresses = []
    for address in found:
        with suppress(ValueError):  # one with the name of an interface
            addresses.append(parse_host(address))
    if not addresses:
        raise RequestRefused(UNREACHABLE, f"the name {host} was not resolved")
    return tuple(addresses[:_MOST_ADDRESSES])


async def find_addresses(
    host: str, port: int, *, resolve: Resolve, judge: JudgeReached
) -> tuple[str, ...]:
    """Return the addresses that a granted host may lead to. Raise RequestRefused if there is none.

    A granted name leads to the public internet. A private address needs its own grant, and what
    is next to this machine is reached by its own name alone: names of others can be changed.
    """
    if parse_address(host):
        return (host,)
    if is_localhost(host):
        return OWN_ADDRESSES
    addresses = await resolve_host(resolve, host, port=port)
    if public := tuple(one for one in addresses if not why_unreachable(one)):
        return public
    advice = ""
    for address in addresses:
        if why_unreachable(address) == PRIVATE:
            verdict = await judge(address, port)
            if verdict.decision == "allow":
                return (address,)
            advice = advice or advise(verdict, address, port=port)
    address = addresses[0]
    reason = f"it is at {address}, {why_unreachable(address)}"
    raise RequestRefused(DENIED, reason, advice=advice)


def advise(verdict: Verdict, host: str, *, port: int) -> str:
    """Return who can grant a refused host, and how. Empty if a rule or the user said no."""
    if verdict.by != "nobody":
        return ""
    name = host if port in USUAL_PORTS else join_port(host, port)
    if verdict.remedy:
        return f"the user can permit it with {verdict.remedy}"
    return f"ask with needs network:{name}"


async def dial_directly(address: str, port: int) -> Streams:
    """Connect to an address. Raise OSError also if it is a public one of this machine itself.

    A name of others may lead there, and a firewall before the machine does not see it."""
    reader, writer = await asyncio.open_connection(address, port, limit=HEAD_BYTES)
    ends = [writer.get_extra_info(name)[0] for name in ("sockname", "peername")]
    if ends[0] == ends[1] and not why_unreachable(address):
        writer.transport.abort()
        raise OSError(errno.EACCES, f"{address} is this machine; grant localhost:{port} instead")
    return reader, writer


async def _dial_first(dial: Dial, addresses: Sequence[str], *, port: int, name: str) -> Link:
    """Connect to the first address that answers. Raise RequestRefused if none does."""
    error: Exception = OSError("no address")
    for number, address in enumerate(addresses, 1):
        limit_s = CONNECT_S if number == len(addresses) else _FIRST_ADDRESSES_S
        try:
            async with asyncio.timeout(limit_s):
                return Link(*await dial(address, port))
        except (OSError, TimeoutError) as failure:
            error = failure
    words = error.strerror if isinstance(error, OSError) and error.strerror else "no answer in time"
    raise RequestRefused(UNREACHABLE, f"{join_port(name, port)} cannot be reached ({words})")


async def open_link(dial: Dial, addresses: Sequence[str], *, request: ProxyRequest) -> Link:
    """Connect to a host itself, and send it the head of a plain request."""
    link = await _dial_first(dial, addresses, port=request.port, name=request.host)
    if request.plain:
        link.writer.write(request.plain.encode(_join_authority(request)))
    return link


def _join_authority(request: ProxyRequest) -> str:
    """Return the host as its own server knows it."""
    joined = join_port(request.host, request.port)
    return joined.removesuffix(f":{HTTP_PORT}") if request.port == HTTP_PORT else joined


async def open_link_upstream(upstream: UpstreamProxy, request: ProxyRequest) -> Link:
    """Connect through the user's own proxy. Raise RequestRefused if it does not let us."""
    target = join_port(request.host, request.port)
    login = (f"Proxy-Authorization: {upstream.login}",) if upstream.login else ()
    try:
        async with asyncio.timeout(CONNECT_S):
            link = Link(
                *await asyncio.open_connection(
                    upstream.host,
                    upstream.port,
                    ssl=upstream.tls,
                    server_hostname=upstream.host if upstream.tls else None,
                    limit=HEAD_BYTES,
                )
            )
            if request.plain:
                link.writer.write(
                    request.plain.encode(target, prefix=f"http://{target}", more=login)
                )
                return link
            link.writer.write(join_head((f"CONNECT {target} HTTP/1.1", f"Host: {target}", *login)))
            head = await link.reader.readuntil(b"\r\n\r\n")
    except (OSError, TimeoutError, EOFError, asyncio.LimitOverrunError, ssl.SSLError) as error:
        where = join_port(upstream.host, upstream.port)
        raise RequestRefused(
            UNREACHABLE, f"your proxy {where} cannot be used ({type(error).__name__})"
        ) from None
    status = head.decode("latin-1").split(" ", 2)[1:2]
    if not status or not status[0].startswith("2"):
        link.drop()
        answer = status[0] if status else "nothing"
        raise RequestRefused(UNREACHABLE, f"your own proxy refused {target} (HTTP {answer})")
    return link


async def relay(client: Link, link: Link, *, request: ProxyRequest) -> None:
    """Pass bytes both ways until the host has no more, or nothing passes for long.

    No more is read than the other side takes, so memory stays the same for any amount. If the
    client of a tunnel speaks TLS or HTTP, it must name the server that it asked us for. Otherwise
    raise RequestRefused, and nothing has reached the host.
    """
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(IDLE_S) as idle:

        def note_activity() -> None:
            until = loop.time() + IDLE_S
            if until - (idle.when() or 0) > _IDLE_STEP_S:
                idle.reschedule(until)

        # The host may speak first, so nothing waits for the client.
        exchange = _Exchange(is_http=request.plain is not None)
        sending = loop.create_task(_send(client, link, request, exchange, note_activity))
        receiving = loop.create_task(_receive(client, link, exchange, note_activity))
        try:
            await asyncio.wait((sending, receiving), return_when=asyncio.FIRST_COMPLETED)
            if not receiving.done():
                sending.result()
            await receiving
        finally:
            sending.cancel()
            receiving.cancel()
            await asyncio.gather(sending, receiving, return_exceptions=True)


@dataclass(slots=True, kw_only=True)
class _Exchange:
    is_http: bool
    """True once it is known that the client asks by plain HTTP."""


async def _send(
    client: Link,
    link: Link,
    request: ProxyRequest,
    exchange: _Exchange,
    note_activity: Callable[[], None],
) -> None:
    # An address is granted itself, whoever is behind it.
    if not request.plain and not parse_address(request.host):
        opening = await read_opening(client.reader)
        exchange.is_http = opening.plain is not None
        link.writer.write(_check_opening(opening, request))
    await _pump(client.reader, link.writer, note_activity=note_activity)


async def _receive(
    client: Link, link: Link, exchange: _Exchange, note_activity: Callable[[], None]
) -> None:
    first = await link.reader.read(1)
    if first and exchange.is_http:
        first = _announce_close(first + await _read_head(link.reader))
    client.writer.write(first)
    await _pump(link.reader, client.writer, note_activity=note_activity)


async def _read_head(reader: asyncio.StreamReader) -> bytes:
    """Read the head of a reply; what there is of it if it is cut off, nothing if it is too long."""
    try:
        return await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError as cut:
        return cut.partial
    except asyncio.LimitOverrunError:
        return b""


def _check_opening(opening: TunnelOpening, request: ProxyRequest) -> bytes:
    """Return what is sent on. Raise RequestRefused if it is meant for another server."""
    if opening.protocol and opening.server_name != request.host:
        shown = opening.server_name or "no server"
        reason = f"{opening.protocol} named {shown} instead of {request.host}"
        raise RequestRefused(DENIED, reason, alert=b"" if opening.plain else WRONG_NAME_ALERT)
    head = opening.plain.encode(_join_authority(request)) if opening.plain else b""
    return head + opening.data


async def _pump(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, note_activity: Callable[[], None]
) -> None:
    while data := await reader.read(PIECE_BYTES):
        note_activity()
        writer.write(data)
        await writer.drain()
    if writer.can_write_eof():
        writer.write_eof()


def _announce_close(head: bytes) -> bytes:
    """Return the head of a reply, which says that no other reply follows on this connection.

    Not every server says so, and a client may send its next request just before it is closed."""
    line, *fields = head.split(b"\r\n")
    is_last = not line.partition(b" ")[2].startswith(b"1")  # 101 goes on as another protocol
    if not is_last or not head.endswith(b"\r\n\r\n"):
        return head
    kept = [one for one in fields if one.partition(b":")[0].strip().lower() not in _OF_CONNECTIONS]
    return b"\r\n".join((line, b"Connection: close", *kept))
