"""One page over HTTP: every host is judged, every address checked, size and time are bounded.

A connection is made to the very address that was checked. Nothing is sent but the address itself:
no cookies, no credentials, no referrer.
"""

import asyncio
import ssl
import zlib
from collections.abc import Awaitable, Callable, Mapping
from functools import partial

from agentcli import __version__
from agentcli.providers.http.http1 import ResponseHead, ResponseReader
from agentcli.providers.http.sockets import ConnectionBroken
from agentcli.sandbox.proxy_requests import (
    DENIED,
    PlainRequest,
    ProxyRequest,
    RequestRefused,
    join_head,
)
from agentcli.sandbox.proxy_route import (
    Dial,
    FindUpstream,
    Link,
    Resolve,
    dial_directly,
    find_addresses,
    open_link,
    open_link_upstream,
)
from agentcli.system.hosts import USUAL_PORTS, WebAddress
from agentcli.system.resolver import resolve as resolve_by_system
from agentcli.types.errors import ToolError
from agentcli.types.events import Emit, HostJudged
from agentcli.types.fast_dataclass import dataclass
from agentcli.types.tools import ErrorKind
from agentcli.types.verdicts import Verdict

REDIRECTS_MAX = 10
PIECE_BYTES = 64 * 1024
_REDIRECTS = (301, 302, 303, 307, 308)
_WINDOW_BITS = {"gzip": 31, "x-gzip": 31, "deflate": 15}
_FIELDS = (
    f"User-Agent: agentcli/{__version__}",
    "Accept: text/markdown, text/html, application/json;q=0.9, text/*;q=0.9, */*;q=0.5",
    "Accept-Encoding: gzip, deflate",
    "Accept-Language: en, *;q=0.5",
)

JudgeWebHost = Callable[[str, str, int], Awaitable[Verdict]]
"""Judges a host that a call leads to: takes the id of the call, the host and the port."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchLimits:
    size_bytes: int = 10_000_000
    """The most bytes of a page, as sent and as decompressed."""
    head_s: float = 30.0
    """From the connection to the end of the headers."""
    body_s: float = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchedPage:
    address: WebAddress
    """Where it came from in the end."""
    status: int
    headers: Mapping[str, str]
    """Names in lower case."""
    body: bytes
    is_cut: bool
    """True if the page is longer than the limit, or broke off."""
    hops: tuple[WebAddress, ...] = ()
    """The addresses that redirected to it."""


class WebClient:
    def __init__(
        self,
        *,
        judge: JudgeWebHost,
        emit: Emit,
        tls: Callable[[], ssl.SSLContext],
        find_upstream: FindUpstream = lambda host, port, is_plain: None,
        resolve: Resolve = resolve_by_system,
        dial: Dial = dial_directly,
        limits: FetchLimits | None = None,
    ) -> None:
        """`judge` is asked about every host but the one that the call names."""
        self._judge_host = judge
        self._emit = emit
        self._tls = tls
        self._find_upstream = find_upstream
        self._resolve = resolve
        self._dial = dial
        self._limits = limits or FetchLimits()

    async def fetch(self, address: WebAddress, call_id: str) -> FetchedPage:
        """Return the page at an address whose host was judged. Raise ToolError.

        A redirect to another host is judged like a call of its own."""
        hops: list[WebAddress] = []
        while True:
            page = await self._fetch_once(address, call_id)
            location = page.headers.get("location", "")
            if page.status not in _REDIRECTS or not location:
                return FetchedPage(
                    address=address,
                    status=page.status,
                    headers=page.headers,
                    body=page.body,
                    is_cut=page.is_cut,
                    hops=tuple(hops),
                )
            hops.append(address)
            if len(hops) > REDIRECTS_MAX:
                raise ToolError(f"{hops[0]} redirects more than {REDIRECTS_MAX} times.")
            address = await self.follow(address, location, call_id=call_id)

    async def follow(self, address: WebAddress, location: str, *, call_id: str) -> WebAddress:
        """Return where a redirect leads, if that may be fetched. Raise ToolError."""
        try:
            target = address.join(location)
        except ValueError as error:
            raise ToolError(f"{address} redirects to {location[:200]!r}: {error}.") from None
        if address.is_secure and not target.is_secure:
            raise ToolError(f"{address} redirects to {target}, which is not encrypted.")
        if not _is_same_host(address, target):
            verdict = await self._judge(call_id, target.host, port=target.port)
            if verdict.decision != "allow":
                raise ToolError(
                    f"{address} redirects to {target}, and {_describe_refusal(verdict)}",
                    kind=ErrorKind.DENIED,
                )
        return target

    async def _judge(self, call_id: str, host: str, port: int) -> Verdict:
        verdict = await self._judge_host(call_id, host, port)
        self._emit(HostJudged(call_id=call_id, host=host, port=port, verdict=verdict))
        return verdict

    async def _fetch_once(self, address: WebAddress, call_id: str) -> FetchedPage:
        link = await self._connect(address, call_id)
        try:
            return await self._exchange(link, address)
        except ConnectionBroken as error:
            raise ToolError(f"{address} could not be fetched: {error}.") from None
        except TimeoutError:
            raise ToolError(
                f"{address} did not answer within {self._limits.head_s:g} s.",
                kind=ErrorKind.TIMEOUT,
            ) from None
        except OSError as error:
            words = error.strerror or type(error).__name__
            raise ToolError(f"{address} could not be fetched: {words.lower()}.") from None
        finally:
            link.drop()

    async def _connect(self, address: WebAddress, call_id: str) -> Link:
        """Connect to the host, or to the user's own proxy. Raise ToolError."""
        plain = PlainRequest(method="GET", path=address.target, version="HTTP/1.1", fields=_FIELDS)
        request = ProxyRequest(
            host=address.host,
            port=address.port,
            token="",
            plain=None if address.is_secure else plain,
        )
        try:
            return await self._open(request, call_id)
        except (RequestRefused, ValueError) as error:
            advice = error.advice if isinstance(error, RequestRefused) else ""
            is_denied = isinstance(error, RequestRefused) and error.refusal is DENIED
            more = f"; {advice}" if advice else ""
            raise ToolError(
                f"{address.location} was {'refused' if is_denied else 'not reached'}:"
                f" {error}{more}.",
                kind=ErrorKind.DENIED if is_denied else ErrorKind.FAILED,
            ) from None

    async def _open(self, request: ProxyRequest, call_id: str) -> Link:
        is_plain = request.plain is not None
        upstream = self._find_upstream(request.host, request.port, is_plain)
        try:
            addresses = await find_addresses(
                request.host,
                request.port,
                resolve=self._resolve,
                judge=partial(self._judge, call_id),
            )
        except RequestRefused as refused:
            # Behind a proxy, a machine may know no names: then the proxy resolves them.
            if upstream is None or refused.refusal is DENIED:
                raise
        if upstream is not None:
            return await open_link_upstream(upstream, request)
        return await open_link(self._dial, addresses, request=request)

    async def _exchange(self, link: Link, address: WebAddress) -> FetchedPage:
        async with asyncio.timeout(self._limits.head_s):
            if address.is_secure:
                await _start_tls(link, self._tls(), address=address)
                head = (f"GET {address.target} HTTP/1.1", f"Host: {address.authority}", *_FIELDS)
                link.writer.write(join_head((*head, "Connection: close")))
            response = ResponseReader()
            first = b""
            while response.head is None:
                data = await link.reader.read(PIECE_BYTES)
                first = response.feed(data)
                if not data:
                    response.end()
        body = _PageBody(response, response.head, limit_bytes=self._limits.size_bytes)
        body.add(first)
        try:
            async with asyncio.timeout(self._limits.body_s):
                while body.expects_more():
                    await body.read(link)
        except (TimeoutError, OSError):
            body.is_cut = True
        return FetchedPage(
            address=address,
            status=response.head.status,
            headers=response.head.headers,
            body=bytes(body.data),
            is_cut=body.is_cut,
        )


class _PageBody:
    """The body of a page while it arrives, decompressed and never longer than the limit."""

    def __init__(self, response: ResponseReader, head: ResponseHead, *, limit_bytes: int) -> None:
        encoding = head.headers.get("content-encoding", "").strip().lower()
        bits = _WINDOW_BITS.get(encoding)
        if bits is None and encoding not in ("", "identity"):
            raise ConnectionBroken(f"the answer has an unexpected compression ({encoding[:40]})")
        self.data = bytearray()
        self.is_cut = False
        self._response = response
        self._inflater = None if bits is None else zlib.decompressobj(bits)
        self._received = 0
        self._limit_bytes = limit_bytes

    def expects_more(self) -> bool:
        if self._response.fault:
            self.is_cut = True
        return not (self._response.finished or self.is_cut)

    async def read(self, link: Link) -> None:
        data = await link.reader.read(PIECE_BYTES)
        if data:
            self.add(self._response.feed(data))
            return
        try:
            self._response.end()
        except ConnectionBroken:
            self.is_cut = True

    def add(self, piece: bytes) -> None:
        self._received += len(piece)
        room = self._limit_bytes - len(self.data)
        if self._inflater is None:
            self.data += piece[:room]
            self.is_cut = self.is_cut or len(piece) > room
        elif piece:
            try:
                self.data += self._inflater.decompress(piece, room + 1)
            except zlib.error:
                self.is_cut = True
        if len(self.data) > self._limit_bytes or self._received > self._limit_bytes:
            del self.data[self._limit_bytes :]
            self.is_cut = True


async def _start_tls(link: Link, context: ssl.SSLContext, *, address: WebAddress) -> None:
    try:
        await link.writer.start_tls(context, server_hostname=address.host)
    except ssl.SSLCertVerificationError as error:
        raise ConnectionBroken(
            f"the certificate of {address.host} is not trusted ({error.verify_message})"
        ) from None
    except ssl.SSLError as error:
        raise ConnectionBroken(f"TLS failed ({error.reason or 'broken off'})") from None


def _is_same_host(one: WebAddress, other: WebAddress) -> bool:
    """Return whether a verdict on one holds for the other: a rule covers all usual ports."""
    are_usual = one.port in USUAL_PORTS and other.port in USUAL_PORTS
    return one.host == other.host and (are_usual or one.port == other.port)


def _describe_refusal(verdict: Verdict) -> str:
    remedy = f". To permit it: {verdict.remedy}" if verdict.remedy else ""
    return f"that was denied: {verdict.reason}{remedy}"
