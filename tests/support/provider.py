"""A model provider on loopback: a real HTTP server that plays a script and checks every request.

It is a server of bytes, not of frames: a reply can be cut, stalled or split at any byte. A request
the checker complains about is answered with 400 in the provider's own shape and uses up nothing of
the script.
"""

import json
import select
import socket
import socketserver
import ssl
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Any, Literal, TypeAlias

from tests.support.serving import serve

Framing = Literal["chunked", "length", "close"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """A request as it came."""

    method: str
    path: str
    headers: Mapping[str, str]
    """Names in lower case."""
    body: bytes
    connection: int
    """Which connection brought it, counted from 0."""

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """One answer, with all that can go wrong on its way."""

    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    framing: Framing = "chunked"
    chunk_bytes: int | None = None
    """Written in pieces of this size, each its own chunk and its own write."""
    pause_s: float = 0.0
    """Between two pieces: how fast a model writes."""
    cut_at: int | None = None
    """The connection is closed after so many bytes of the body."""
    stall_at: int | None = None
    """Nothing more is sent after so many bytes of the body until `Provider.release`."""
    stall_before_headers: bool = False
    head_pause_s: float = 0.0
    """Between any two bytes of the headers."""
    endless: bool = False
    """The body is repeated until the client goes away."""
    keep_alive: bool = True
    drop: bool = False
    """The connection is closed without an answer."""

    def but(self, **changes: Any) -> "Reply":
        return replace(self, **changes)


Script: TypeAlias = Sequence[Reply | Callable[[Recorded], Reply]]
Checker: TypeAlias = Callable[[Recorded], str | None]
"""What is wrong with a request, in the provider's words; None when nothing is."""
Complaint: TypeAlias = Callable[[str], Any]
"""The body of a 400."""


def continues(key: str, before: Any, now: Any) -> bool:
    """Whether a part of a request is what it was; tools may be added behind those there were."""
    if key != "tools":
        return bool(before == now)
    known, declared = declared_tools(before), declared_tools(now)
    return declared[: len(known)] == known


def declared_tools(declared: Any) -> list[Any]:
    return [one for part in declared or [] for one in part.get("functionDeclarations", [part])]


def sse(events: Iterable[Any], *, named: bool = True, done: bool = False) -> bytes:
    """Events as a stream; `named` writes an `event:` line from each one's type."""
    lines = []
    for event in events:
        if named:
            lines.append(f"event: {event['type']}\n")
        lines.append(f"data: {json.dumps(event, ensure_ascii=False)}\n\n")
    if done:
        lines.append("data: [DONE]\n\n")
    return "".join(lines).encode()


def stream(body: bytes) -> Reply:
    return Reply(headers={"content-type": "text/event-stream; charset=utf-8"}, body=body)


def answer(body: Any, *, status: int = 200, headers: Mapping[str, str] | None = None) -> Reply:
    """A body of JSON, whole."""
    return Reply(
        status=status,
        headers={"content-type": "application/json", **(headers or {})},
        body=json.dumps(body).encode(),
        framing="length",
    )


def page(text: str, *, status: int) -> Reply:
    """What a gateway answers in place of the provider."""
    return Reply(
        status=status, headers={"content-type": "text/html"}, body=text.encode(), framing="length"
    )


def error_of_anthropic(message: str) -> Any:
    return {"type": "error", "error": {"type": "invalid_request_error", "message": message}}


def error_of_openai(message: str) -> Any:
    error = {"message": message, "type": "invalid_request_error", "param": None, "code": None}
    return {"error": error}


def error_of_gemini(message: str) -> Any:
    return {"error": {"code": 400, "message": message, "status": "INVALID_ARGUMENT"}}


class Provider:
    """Use as a context manager. `requests`, `complaints` and the events may be read meanwhile."""

    def __init__(
        self,
        script: Script,
        *,
        check: Checker | None = None,
        complain: Complaint = error_of_anthropic,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.requests: list[Recorded] = []
        self.complaints: list[str] = []
        self.stalled = threading.Event()
        """Set while a reply waits for `release`."""
        self.client_left = threading.Event()
        """Set when the client closed a connection in the middle of a reply."""
        self._script = list(script)
        self._check = check
        self._complain = complain
        self._released = threading.Event()
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        self._connections = 0
        self._tls = tls
        self._server = _Server(self)
        self._serving = serve(self._server)

    @property
    def base_url(self) -> str:
        host, port = self._server.server_address[:2]
        return f"{'https' if self._tls else 'http'}://{host!s}:{port}"

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    @property
    def bodies(self) -> list[Any]:
        return [request.json for request in self.requests]

    @property
    def connections(self) -> int:
        return self._connections

    def release(self) -> None:
        """Lets every stalled reply go on."""
        self._released.set()

    def __enter__(self) -> "Provider":
        self._serving.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stopping.set()
        self._released.set()
        self._serving.__exit__(kind, error, trace)

    def serve(self, raw: socket.socket) -> None:
        """One connection, until either side closes it."""
        with self._lock:
            number = self._connections
            self._connections += 1
        try:
            raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection = self._tls.wrap_socket(raw, server_side=True) if self._tls else raw
            with connection:
                connection.settimeout(0.05)
                line = _Incoming(connection, self._stopping)
                while (request := line.request(number)) is not None:
                    if not self._answer(connection, request):
                        return
        except OSError:
            self.client_left.set()

    def _answer(self, connection: socket.socket, request: Recorded) -> bool:
        """Whether the connection may carry another request."""
        reply = self._reply_to(request)
        if reply.drop:
            return False
        if reply.stall_before_headers and not self._stall(connection):
            return False
        connection.settimeout(None)
        if not self._send_head(connection, reply):
            return False
        finished = self._send_body(connection, reply)
        connection.settimeout(0.05)
        return finished and reply.keep_alive and reply.framing != "close"

    def _send_head(self, connection: socket.socket, reply: Reply) -> bool:
        """False: the test is over."""
        head = _head(reply)
        if not reply.head_pause_s:
            connection.sendall(head)
            return True
        for byte in head:
            connection.sendall(bytes([byte]))
            if self._stopping.wait(reply.head_pause_s):
                return False
        return True

    def _reply_to(self, request: Recorded) -> Reply:
        with self._lock:
            self.requests.append(request)
            complaint = self._check(request) if self._check else None
            if complaint is not None:
                self.complaints.append(complaint)
                return answer(self._complain(complaint), status=400)
            if not self._script:
                self.complaints.append("the script is over")
                return answer(self._complain("the script is over"), status=400)
            step = self._script.pop(0)
        return step if isinstance(step, Reply) else step(request)

    def _send_body(self, connection: socket.socket, reply: Reply) -> bool:
        end = len(reply.body) if reply.cut_at is None else min(reply.cut_at, len(reply.body))
        while self._send_pieces(connection, reply, end):
            if not reply.endless or self._stopping.is_set():
                break
        else:
            return False
        if reply.stall_at is not None and reply.stall_at >= end and not self._stall(connection):
            return False
        if reply.cut_at is not None:
            return False
        if reply.framing == "chunked":
            connection.sendall(b"0\r\n\r\n")
        return True

    def _send_pieces(self, connection: socket.socket, reply: Reply, end: int) -> bool:
        """False: the client left, or the test is over."""
        for start, piece in _pieces(reply.body[:end], reply):
            if start == reply.stall_at and not self._stall(connection):
                return False
            connection.sendall(_chunk(piece) if reply.framing == "chunked" else piece)
            if reply.pause_s and self._stopping.wait(reply.pause_s):
                return False
        return True

    def _stall(self, connection: socket.socket) -> bool:
        """Waits to be released; False when the client left first."""
        self.stalled.set()
        while not self._released.is_set():
            readable, _, _ = select.select([connection], [], [], 0.01)
            if readable and not connection.recv(1):
                self.client_left.set()
                return False
        return not self._stopping.is_set()


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 64

    def __init__(self, provider: Provider) -> None:
        super().__init__(("127.0.0.1", 0), socketserver.BaseRequestHandler)
        self._provider = provider

    def finish_request(self, request: Any, client_address: Any) -> None:
        self._provider.serve(request)


class _Incoming:
    """Requests off one connection."""

    def __init__(self, connection: socket.socket, stopping: threading.Event) -> None:
        self._connection = connection
        self._stopping = stopping
        self._buffer = b""

    def request(self, connection: int) -> Recorded | None:
        while b"\r\n\r\n" not in self._buffer:
            if not self._more():
                return None
        head, _, self._buffer = self._buffer.partition(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        method, path, _ = first.split(" ", 2)
        pairs = (line.split(":", 1) for line in lines)
        headers = {name.strip().lower(): value.strip() for name, value in pairs}
        size = int(headers.get("content-length", "0"))
        while len(self._buffer) < size:
            if not self._more():
                return None
        body, self._buffer = self._buffer[:size], self._buffer[size:]
        return Recorded(method=method, path=path, headers=headers, body=body, connection=connection)

    def _more(self) -> bool:
        while not self._stopping.is_set():
            try:
                received = self._connection.recv(65536)
            except TimeoutError:
                continue
            self._buffer += received
            return bool(received)
        return False


def _head(reply: Reply) -> bytes:
    headers = dict(reply.headers)
    if reply.framing == "chunked":
        headers["transfer-encoding"] = "chunked"
    elif reply.framing == "length":
        headers.setdefault("content-length", str(len(reply.body)))
    if not reply.keep_alive or reply.framing == "close":
        headers["connection"] = "close"
    lines = [f"HTTP/1.1 {reply.status} Scripted", *(f"{k}: {v}" for k, v in headers.items())]
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


def _pieces(body: bytes, reply: Reply) -> Iterable[tuple[int, bytes]]:
    """Where each piece starts, and the piece; a stall begins a piece of its own."""
    size = reply.chunk_bytes or max(len(body), 1)
    borders = set(range(0, len(body), size))
    if reply.stall_at is not None and reply.stall_at < len(body):
        borders.add(reply.stall_at)
    starts = sorted(borders)
    for start, end in zip(starts, [*starts[1:], len(body)], strict=False):
        yield start, body[start:end]


def _chunk(piece: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(piece), piece)
