"""Parsing an HTTP/1.1 response from bytes, however the bytes are cut.

It only parses: reading and waiting are up to the caller. Sizes are bounded, and a byte counts as
part of the body only if the framing says so.
"""

import re
import zlib
from collections.abc import Callable
from typing import TypeAlias

from agentcli.providers.http.sockets import ConnectionBroken
from agentcli.system.lazy import compile_later
from agentcli.types.errors import ProviderErrorKind
from agentcli.types.fast_dataclass import dataclass

# Decompressing, for servers that compress although they were asked not to


Plain: TypeAlias = Callable[[bytes], bytes]

_WINDOW_BITS = {"gzip": 31, "x-gzip": 31, "deflate": 15}


def build_decompressor(encoding: str) -> Plain:
    """Return a function that decompresses piece by piece.

    Raise ConnectionBroken if the encoding is unknown.
    """
    name = encoding.strip().lower()
    if name in ("", "identity"):
        return bytes
    bits = _WINDOW_BITS.get(name)
    if bits is None:
        raise ConnectionBroken(f"the answer has an unexpected compression ({name})", max_attempts=1)
    return _Inflater(bits).inflate


class _Inflater:
    """Decompresses one member after another. What follows the last of them is ignored."""

    def __init__(self, bits: int) -> None:
        self._bits = bits
        self._member = zlib.decompressobj(bits)
        self._count = 0
        """The number of complete members."""

    def inflate(self, data: bytes) -> bytes:
        plain = bytearray()
        while data:
            try:
                plain += self._member.decompress(data)
            except zlib.error:
                if self._count:
                    break
                raise ConnectionBroken(
                    "the answer's compression is broken", kind=ProviderErrorKind.CUT
                ) from None
            data = self._member.unused_data
            if self._member.eof:
                self._count += 1
                self._member = zlib.decompressobj(self._bits)
        return bytes(plain)


LIMIT_LINE_BYTES = 64 * 1024
LIMIT_HEADERS = 200

_WITHOUT_BODY = (204, 304)

_STATUS_LINE = compile_later(r"HTTP/1\.\d (\d{3})(?: |$)")
_TLS_ALERT = "\x15\x03"
_CHUNK_SIZE = compile_later(r"\s*([0-9A-Fa-f]{1,15})\s*(?:;|$)")


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseHead:
    status: int
    headers: dict[str, str]
    """The headers, with names in lower case. The values of a repeated name are joined by commas."""
    is_http_1_1: bool

    @property
    def is_success(self) -> bool:
        return 200 <= self.status < 300

    @property
    def is_chunked(self) -> bool:
        return "chunked" in self.headers.get("transfer-encoding", "").lower()

    @property
    def length(self) -> int | None:
        if self.status in _WITHOUT_BODY:
            return 0
        lengths = {text.strip() for text in self.headers.get("content-length", "").split(",")}
        text = lengths.pop() if len(lengths) == 1 else ""  # repeated, it must be the same
        return int(text) if re.fullmatch(r"\d{1,15}", text, re.ASCII) else None

    @property
    def keeps_alive(self) -> bool:
        """True if the connection can carry another request once the body is read."""
        is_framed = self.is_chunked or self.length is not None
        is_closing = "close" in self.headers.get("connection", "").lower()
        return is_framed and self.is_http_1_1 and not is_closing


class ResponseReader:
    """The parser of one response. `feed` takes the bytes read and returns the body bytes in them.

    A response is a status line, header lines, then the body. The body is one run of known or
    unknown length, or chunks, each of a size line, a run and an empty line.
    """

    def __init__(self) -> None:
        self.head: ResponseHead | None = None
        self.finished = False
        self.fault: ConnectionBroken | None = None
        """Set if the framing is broken after some bytes of the body. Those are still returned."""
        self._buffer = bytearray()
        self._lines: list[str] = []
        self._read_part = self._read_head
        self._run_bytes = 0
        """The number of bytes of the current run that are still to come."""

    def feed(self, data: bytes) -> bytes:
        self._buffer += data
        body = bytearray()
        try:
            while not self.finished and self._read_part(body):
                pass
        except ConnectionBroken as fault:
            if not body:
                raise
            self.fault = fault
        return bytes(body)

    def end(self) -> None:
        """Note that the connection was closed. Raise ConnectionBroken if that was too early."""
        if self.head is not None and self._read_part == self._read_until_closed:
            self.finished = True
        if not self.finished:
            if self.head is None and self._buffer.startswith(_TLS_ALERT.encode("latin-1")):
                _parse_status(_TLS_ALERT)
            nothing = self.head is None and not self._buffer and not self._lines
            where = "without an answer" if nothing else "in the middle of the answer"
            raise ConnectionBroken(f"the connection was closed {where}", kind=ProviderErrorKind.CUT)

    def _read_head(self, body: bytearray) -> bool:
        line = self._take_line()
        if line is None:
            return False
        if line:
            self._lines.append(line)
            _parse_status(self._lines[0])
            if len(self._lines) > LIMIT_HEADERS:
                raise ConnectionBroken(
                    f"the answer has more than {LIMIT_HEADERS} headers", max_attempts=1
                )
            return True
        head = _parse_head(self._lines)
        self._lines.clear()
        if head.status >= 200:  # below 200 are interim answers, which carry nothing
            self.head = head
            self._begin_body(head)
        return True

    def _begin_body(self, head: ResponseHead) -> None:
        if head.is_chunked:
            self._read_part = self._read_chunk_size
        elif head.length is not None:
            self._run_bytes = head.length
            self.finished = head.length == 0
            self._read_part = self._read_run
        else:
            self._read_part = self._read_until_closed

    def _read_run(self, body: bytearray) -> bool:
        self._take_run(body)
        self.finished = self._run_bytes == 0
        return False

    def _read_until_closed(self, body: bytearray) -> bool:
        body += self._buffer
        self._buffer.clear()
        return False

    def _read_chunk_size(self, body: bytearray) -> bool:
        line = self._take_line()
        if line is None:
            return False
        size = _CHUNK_SIZE.match(line)
        if size is None:
            raise ConnectionBroken(
                f"the answer is badly framed: {line[:40]!r}", kind=ProviderErrorKind.CUT
            )
        self._run_bytes = int(size[1], 16)
        self._read_part = self._read_chunk if self._run_bytes else self._read_trailer
        return True

    def _read_chunk(self, body: bytearray) -> bool:
        self._take_run(body)
        if self._run_bytes or self._take_line() is None:
            return False
        self._read_part = self._read_chunk_size
        return True

    def _read_trailer(self, body: bytearray) -> bool:
        line = self._take_line()
        self.finished = line == ""
        return line is not None

    def _take_run(self, body: bytearray) -> None:
        taken = self._buffer[: self._run_bytes]
        del self._buffer[: self._run_bytes]
        body += taken
        self._run_bytes -= len(taken)

    def _take_line(self) -> str | None:
        """Return the next line without its line end, or None while it is incomplete."""
        end = self._buffer.find(b"\n", 0, LIMIT_LINE_BYTES)
        if end < 0:
            if len(self._buffer) >= LIMIT_LINE_BYTES:
                raise ConnectionBroken("the answer has a line that never ends", max_attempts=1)
            return None
        line = self._buffer[:end].rstrip(b"\r").decode("latin-1")
        del self._buffer[: end + 1]
        return line


def _parse_head(lines: list[str]) -> ResponseHead:
    first, *rest = lines or [""]
    headers: dict[str, str] = {}
    for line in rest:
        name, _, value = line.partition(":")
        key = name.strip().lower()
        headers[key] = f"{headers[key]}, {value.strip()}" if key in headers else value.strip()
    return ResponseHead(
        status=_parse_status(first), headers=headers, is_http_1_1=first.startswith("HTTP/1.1")
    )


def _parse_status(line: str) -> int:
    status = _STATUS_LINE.match(line)
    if status is None and line.startswith(_TLS_ALERT):
        raise ConnectionBroken(
            "what answers there speaks TLS, and its address begins with http",
            hint="use https in the base URL",
            max_attempts=1,
        )
    if status is None:
        raise ConnectionBroken(
            f"what answers there does not speak HTTP/1.1: {line[:60]!r}", max_attempts=1
        )
    return int(status[1])
