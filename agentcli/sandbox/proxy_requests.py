"""The requests of programs to the proxy, by HTTP and SOCKS5, and the first bytes of a tunnel.

Nothing here is trusted. Each part has a limit, and what is not understood is refused.
"""

import asyncio
import base64
import binascii
import re
from collections.abc import Iterable
from ipaddress import ip_address
from typing import Protocol

from agentcli.system.byte_fields import ByteFields
from agentcli.system.hosts import parse_host, split_port
from agentcli.system.lazy import compile_later
from agentcli.types.fast_dataclass import dataclass

HEAD_BYTES = 64 * 1024
"""The limit of a request's head, and of a ClientHello."""
PIECE_BYTES = 256 * 1024


@dataclass(frozen=True, slots=True)
class Refusal:
    """A kind of refusal, in the words of HTTP and of SOCKS5."""

    status: str
    code: int


MALFORMED = Refusal("400 Bad Request", 1)
DENIED = Refusal("403 Forbidden", 2)
UNKNOWN = Refusal("407 Proxy Authentication Required", 2)
UNREACHABLE = Refusal("502 Bad Gateway", 4)
BUSY = Refusal("503 Service Unavailable", 1)


class RequestRefused(Exception):
    def __init__(
        self, refusal: Refusal, reason: str, *, advice: str = "", alert: bytes = b""
    ) -> None:
        """`advice` is for the model; empty if nothing can be done. `alert` says the same in a
        tunnel of TLS."""
        super().__init__(reason)
        self.refusal = refusal
        self.reason = reason
        self.advice = advice
        self.alert = alert


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainRequest:
    """A request of plain HTTP, to send on to its host."""

    method: str
    path: str
    version: str
    fields: tuple[str, ...]
    """The header lines, without those between the client and us."""
    is_websocket: bool = False
    """True if the connection may go on as one of websockets."""

    @property
    def size_bytes(self) -> int | None:
        """The length of the body; None if it is not given as one number."""
        sizes = _list_values(self.fields, _SIZE_FIELD)
        is_plain = len(sizes) == 1 and _SIZE.fullmatch(sizes[0])
        return int(sizes[0]) if is_plain else None

    def encode(self, authority: str, *, prefix: str = "", more: tuple[str, ...] = ()) -> bytes:
        """Return the head as it is sent on: for this host alone, and for one request.

        A proxy wants the scheme and the host as the `prefix` of the path, and `more` fields.
        """
        line = f"{self.method} {prefix}{self.path} {self.version}"
        ends = ["Upgrade: websocket", "Connection: Upgrade, close"]
        return join_head(
            (
                *(line, f"Host: {authority}", *more, *self.fields),
                *(ends if self.is_websocket else ["Connection: close"]),
            )
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxyRequest:
    host: str
    """In the form that `parse_host` returns."""
    port: int
    token: str
    """Empty if there was none."""
    plain: PlainRequest | None = None
    """None for a tunnel."""


class ProxyClient(Protocol):
    """A program that connected, in the protocol that it chose."""

    async def read_request(self) -> ProxyRequest:
        """Raise RequestRefused if it is not understood, EOFError or OSError if it is not whole."""
        ...

    def accept(self) -> None:
        """Say that a tunnel is open."""
        ...

    def refuse(self, refused: RequestRefused) -> None: ...


async def detect_protocol(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> ProxyClient:
    """Return the client in the protocol that its first byte belongs to."""
    first = await reader.readexactly(1)
    if first == _SOCKS_VERSION:
        return SocksClient(reader, writer)
    return HttpClient(reader, writer, first=first)


def join_head(lines: tuple[str, ...]) -> bytes:
    return "\r\n".join((*lines, "", "")).encode("latin-1")


# HTTP: CONNECT opens a tunnel, other methods name the whole address.


HTTP_PORT = 80
_SCHEME = "http://"
_REQUEST_LINE = compile_later(r"([A-Z]{1,20}) ([!-~]+) (HTTP/1\.[01])")
_FIELD = compile_later(r"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[^\r\n\0]*")
_AUTHORITY_END = compile_later(r"[/?#]|$")
_BETWEEN_US = frozenset(
    {"host", "connection", "keep-alive", "proxy-connection", "proxy-authorization", "upgrade"}
)


class HttpClient:
    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, first: bytes
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._first = first
        self._is_tunnel = False

    async def read_request(self) -> ProxyRequest:
        try:
            head = self._first + await self._reader.readuntil(b"\r\n\r\n")
        except asyncio.LimitOverrunError:
            raise RequestRefused(MALFORMED, "the head of the request is too long") from None
        method, target, version, fields = _parse_head(head)
        self._is_tunnel = method == "CONNECT"
        if self._is_tunnel:
            host, port = _parse_authority(target, None)
            return ProxyRequest(host=host, port=port, token=_find_token(fields))
        if not target.lower().startswith(_SCHEME):
            raise RequestRefused(MALFORMED, "a proxy needs http:// and a host, or CONNECT")
        host, port, path = _split_target(target)
        plain = PlainRequest(
            method=method, path=path, version=version, fields=_without_ours(fields)
        )
        return ProxyRequest(host=host, port=port, token=_find_token(fields), plain=plain)

    def accept(self) -> None:
        if self._is_tunnel:
            self._writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")

    def refuse(self, refused: RequestRefused) -> None:
        self._writer.write(join_refusal(refused))


def join_refusal(refused: RequestRefused) -> bytes:
    """Return a refusal as a response of HTTP."""
    body = f"agentcli: {refused.reason}\n".encode()
    asks = ['Proxy-Authenticate: Basic realm="agentcli"'] if refused.refusal is UNKNOWN else []
    lines = (
        f"HTTP/1.1 {refused.refusal.status}",
        *asks,
        "Content-Type: text/plain; charset=utf-8",
        f"Content-Length: {len(body)}",
        "Connection: close",
    )
    return join_head(lines) + body


def _parse_head(head: bytes) -> tuple[str, str, str, list[str]]:
    """Return method, target, version and header lines. Raise RequestRefused if it is malformed."""
    line, *fields = head.decode("latin-1").removesuffix("\r\n\r\n").split("\r\n")
    matched = _REQUEST_LINE.fullmatch(line)
    if not matched or not all(map(_FIELD.fullmatch, fields)):
        raise RequestRefused(MALFORMED, "not a request of HTTP/1.1")
    method, target, version = matched.groups()
    return method, target, version, fields


def _split_target(target: str) -> tuple[str, int, str]:
    """Return the host, port and path of an address that begins with http://."""
    rest = target[len(_SCHEME) :]
    end = _AUTHORITY_END.search(rest)
    cut = end.start() if end else len(rest)
    path = rest[cut:].partition("#")[0]
    return *_parse_authority(rest[:cut], HTTP_PORT), path if path.startswith("/") else f"/{path}"


def _without_ours(fields: list[str]) -> tuple[str, ...]:
    return tuple(one for one in fields if _read_name(one) not in _BETWEEN_US)


def _parse_authority(text: str, usual_port: int | None) -> tuple[str, int]:
    try:
        host, port = split_port(text)
        port = port or usual_port
        if port is None:
            raise ValueError(f"{text}: the port is missing")
        return parse_host(host), port
    except ValueError as error:
        raise RequestRefused(MALFORMED, str(error)) from None


def _read_name(field: str) -> str:
    return field.partition(":")[0].lower()


def _list_values(fields: Iterable[str], name: str) -> list[str]:
    return [one.partition(":")[2].strip() for one in fields if _read_name(one) == name]


def _find_token(fields: list[str]) -> str:
    values = _list_values(fields, _LOGIN_FIELD)
    kind, _, login = values[0].partition(" ") if len(values) == 1 else ("", "", "")
    if kind.lower() != "basic":
        return ""
    try:
        return base64.b64decode(login, validate=True).decode("latin-1").partition(":")[2]
    except binascii.Error:
        return ""


_LOGIN_FIELD = "proxy-authorization"
_SIZE_FIELD = "content-length"
_SIZE = compile_later(r"[0-9]{1,15}", re.ASCII)


# SOCKS5 (RFC 1928) with a password (RFC 1929). Only CONNECT, to a name or to an address.


_SOCKS_VERSION = b"\x05"
_WITH_PASSWORD = 2
_NO_METHOD = 0xFF
_CONNECT = 1
_IPV4, _NAME, _IPV6 = 1, 3, 4
_ADDRESS_BYTES = {_IPV4: 4, _IPV6: 16}
_REPLY_REST = b"\x00\x01\x00\x00\x00\x00\x00\x00"
"""No address of ours: programs do not look at it."""


class SocksClient:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def read_request(self) -> ProxyRequest:
        methods = await self._read_counted()
        if _WITH_PASSWORD not in methods:
            self._writer.write(bytes((5, _NO_METHOD)))
            raise EOFError
        self._writer.write(bytes((5, _WITH_PASSWORD)))
        await self._reader.readexactly(1)
        await self._read_counted()
        token = (await self._read_counted()).decode("latin-1")
        # Every password is accepted here: a wrong one is refused like everything else.
        self._writer.write(b"\x01\x00")
        _, command, _, kind = await self._reader.readexactly(4)
        host = await self._read_host(kind)
        port = int.from_bytes(await self._reader.readexactly(2), "big")
        if command != _CONNECT or not port:
            raise RequestRefused(MALFORMED, "only CONNECT is possible")
        try:
            return ProxyRequest(host=parse_host(host), port=port, token=token)
        except ValueError as error:
            raise RequestRefused(MALFORMED, str(error)) from None

    def accept(self) -> None:
        self._writer.write(b"\x05\x00" + _REPLY_REST)

    def refuse(self, refused: RequestRefused) -> None:
        self._writer.write(bytes((5, refused.refusal.code)) + _REPLY_REST)

    async def _read_counted(self) -> bytes:
        (count,) = await self._reader.readexactly(1)
        return await self._reader.readexactly(count)

    async def _read_host(self, kind: int) -> str:
        if kind == _NAME:
            return (await self._read_counted()).decode("latin-1")
        if kind not in _ADDRESS_BYTES:
            raise RequestRefused(MALFORMED, "unknown kind of address")
        return str(ip_address(await self._reader.readexactly(_ADDRESS_BYTES[kind])))


# The first bytes of a tunnel. TLS names the server that it wants, and so does HTTP.


_HANDSHAKE = 0x16
_RECORD_HEAD = 5
_MESSAGE_HEAD = 4
_CLIENT_HELLO = 1
_SERVER_NAME = 0
WRONG_NAME_ALERT = b"\x15\x03\x03\x00\x02\x02\x70"
"""The alert by which a server of TLS says that it does not know the name."""
_PLAIN_LINE = compile_later(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+(?:[ \t][\t\r -~\x80-\xff]*)?(?:\n|\Z)")
"""A line that is a request of HTTP, or may become one: a method, and what else can be read."""
_HTTP = b"HTTP/"


@dataclass(frozen=True, slots=True)
class TunnelOpening:
    data: bytes
    """The first bytes, after the head of a request. They are to be sent on as they are."""
    protocol: str = ""
    """TLS or HTTP; empty for all others."""
    server_name: str = ""
    """The server that the client names; empty if it names none."""
    plain: PlainRequest | None = None
    """For HTTP, the request. It is the only one of its connection."""


async def read_opening(reader: asyncio.StreamReader) -> TunnelOpening:
    """Read the first bytes of a tunnel: for TLS the ClientHello, for HTTP the head of a request.

    Raise RequestRefused if it begins like one of them and is not valid.
    """
    data = await reader.read(PIECE_BYTES)
    if data[:1] != bytes((_HANDSHAKE,)):
        return await _read_plain_opening(reader, data)
    try:
        return await _read_hello(reader, data)
    except ValueError as error:
        reason = f"TLS that is not understood: {error}"
        raise RequestRefused(MALFORMED, reason, alert=WRONG_NAME_ALERT) from None


async def _read_plain_opening(reader: asyncio.StreamReader, data: bytes) -> TunnelOpening:
    """Read on while it can become HTTP. Servers skip empty lines and blanks before a request."""
    while (start := data.lstrip()) == b"" or _PLAIN_LINE.match(start):
        line, is_whole, _ = start.partition(b"\n")
        is_http = _HTTP in line.upper()
        if is_whole and not is_http:
            break
        head, is_read, rest = start.partition(b"\r\n\r\n")
        if is_read:
            return _open_http(head, rest)
        if len(data) > HEAD_BYTES:
            raise RequestRefused(MALFORMED, "the head of the request is too long")
        more = await reader.read(PIECE_BYTES)
        if not more and is_http:
            # Servers may take lines that end otherwise, and name another site.
            raise RequestRefused(MALFORMED, "the head of the request is not whole")
        if not more:
            break
        data += more
    return TunnelOpening(data)


def _open_http(head: bytes, rest: bytes) -> TunnelOpening:
    method, path, version, fields = _parse_head(head)
    names = {_parse_authority(one, HTTP_PORT)[0] for one in _list_values(fields, "host")}
    if path.lower().startswith(_SCHEME):
        host, _, path = _split_target(path)
        names.add(host)
    if len(names) > 1 or not (path == "*" or path.startswith("/")):
        raise RequestRefused(MALFORMED, "HTTP in a tunnel must name one server")
    upgrades = [one.lower() for one in _list_values(fields, "upgrade")]
    plain = PlainRequest(
        method=method,
        path=path,
        version=version,
        fields=_without_ours(fields),
        is_websocket=upgrades == ["websocket"],
    )
    return TunnelOpening(rest, "HTTP", names.pop() if names else "", plain)


async def _read_hello(reader: asyncio.StreamReader, data: bytes) -> TunnelOpening:
    while (hello := _join_records(data)) is None:
        more = await reader.read(PIECE_BYTES)
        data += more
        if not more or len(data) > HEAD_BYTES:
            raise ValueError("no whole ClientHello")
    return TunnelOpening(data, "TLS", _find_server_name(hello))


def _join_records(data: bytes) -> bytes | None:
    """Return the first message of the handshake, or None if it is not whole yet."""
    message = b""
    at = 0
    while len(data) >= at + _RECORD_HEAD:
        if data[at] != _HANDSHAKE:
            raise ValueError("not a handshake of TLS")
        size = int.from_bytes(data[at + 3 : at + _RECORD_HEAD], "big")
        message += data[at + _RECORD_HEAD : at + _RECORD_HEAD + size]
        if len(message) >= _MESSAGE_HEAD:
            needed = _MESSAGE_HEAD + int.from_bytes(message[1:_MESSAGE_HEAD], "big")
            if needed > HEAD_BYTES or message[0] != _CLIENT_HELLO:
                raise ValueError("not a ClientHello")
            if len(message) >= needed:
                return message[_MESSAGE_HEAD:needed]
        at += _RECORD_HEAD + size
    return None


def _find_server_name(hello: bytes) -> str:
    fields = ByteFields(hello)
    fields.take(2 + 32)  # version and random
    fields.take_counted(1)  # session id
    fields.take_counted(2)  # ciphers
    fields.take_counted(1)  # compression
    extensions = ByteFields(fields.take_counted(2) if fields else b"")
    names: list[str] = []
    while extensions:
        kind, content = extensions.take_number(2), extensions.take_counted(2)
        if kind == _SERVER_NAME:
            names += _list_names(ByteFields(ByteFields(content).take_counted(2)))
    if len(names) > 1:
        raise ValueError("more than one server name")
    return parse_host(names[0]) if names else ""


def _list_names(entries: ByteFields) -> list[str]:
    names = []
    while entries:
        entries.take(1)  # its kind: there is only one
        names.append(entries.take_counted(2).decode("latin-1"))
    return names
