"""An internet on loopback: names, addresses and servers of a test, and clients of the proxy.

Addresses are only looked up here: whoever dials one is connected to a server of the test.
"""

import asyncio
import base64
import socket
import ssl
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TypeVar

from agentcli.sandbox.proxy import NetworkProxy
from agentcli.sandbox.proxy_route import FindUpstream
from agentcli.sandbox.proxy_service import ProxyService, judge_by_grants, refuse_git
from agentcli.types.events import Event, HostJudged
from agentcli.types.grants import Grants
from agentcli.types.verdicts import AnswerGit, JudgeHost
from tests.support.serving import serve

T = TypeVar("T")

DOCS, DOCS_AT = "docs.example.org", "93.184.215.14"
OTHER, OTHER_AT = "other.example.net", "93.184.215.99"
PRIVATE_AT = "10.0.0.5"

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@dataclass
class Internet:
    names: dict[str, list[str]] = field(
        default_factory=lambda: {DOCS: [DOCS_AT], OTHER: [OTHER_AT]}
    )
    servers: dict[tuple[str, int], int] = field(default_factory=dict)
    """The loopback port behind an address and port."""
    dialed: list[tuple[str, int]] = field(default_factory=list)
    resolved: list[str] = field(default_factory=list)

    async def resolve(self, host: str, port: int) -> list[str]:
        self.resolved.append(host)
        if host not in self.names:
            raise socket.gaierror(socket.EAI_NONAME, "no such name")
        return self.names[host]

    async def dial(self, address: str, port: int) -> Streams:
        self.dialed.append((address, port))
        if (address, port) not in self.servers:
            raise ConnectionRefusedError(111, "Connection refused")
        return await asyncio.open_connection("127.0.0.1", self.servers[address, port])

    @contextmanager
    def serve_files(self, directory: Path, address: str, port: int = 80) -> Iterator[None]:
        """Serve the files of a directory."""
        handler = partial(_QuietHandler, directory=str(directory))
        with serve(ThreadingHTTPServer(("127.0.0.1", 0), handler)) as server:
            self.servers[address, port] = server.server_address[1]
            yield


class _QuietHandler(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@dataclass
class WebServer:
    """Answers every request with its name; `received` is all that reached it."""

    name: str
    port: int
    server: asyncio.Server
    received: bytearray
    location: str = ""
    """Where it redirects to, if anywhere."""

    @classmethod
    async def start(cls, name: str, *, location: str = "") -> "WebServer":
        received = bytearray()

        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            while data := await reader.read(65536):
                received.extend(data)
                if b"\r\n\r\n" in received:
                    lines = [f"Location: {location}"] if location else []
                    status = f"HTTP/1.1 {302 if location else 200} X"
                    head = [status, *lines, "Connection: keep-alive"]  # and closes all the same
                    body = f"hello from {name}"
                    size = f"Content-Length: {len(body)}"
                    writer.write("\r\n".join([*head, size, "", body]).encode())
                    await writer.drain()
                    break
            writer.close()

        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        return cls(name, server.sockets[0].getsockname()[1], server, received, location)


@dataclass
class Trial:
    """A proxy that listens, with the internet behind it and what it recorded."""

    proxy: NetworkProxy
    port: int
    internet: Internet
    events: list[Event]

    @property
    def judged(self) -> list[tuple[str, int, str]]:
        facts = [one for one in self.events if isinstance(one, HostJudged)]
        return [(one.host, one.port, one.verdict.decision) for one in facts]

    def lease(self, *hosts: str) -> str:
        token = self.proxy.create_token()
        self.proxy.begin(token, call_id="c1", grants=Grants(hosts=hosts))
        return token

    async def serve(self, name: str, address: str, port: int = 80, *, to: str = "") -> WebServer:
        server = await WebServer.start(name, location=to)
        self.internet.servers[address, port] = server.port
        return server

    async def connect(self) -> Streams:
        return await asyncio.open_connection("127.0.0.1", self.port)

    async def get(self, url: str, token: str | None, *more: str, body: str = "") -> str:
        """Return the whole answer to a plain request."""
        reader, writer = await self.connect()
        lines = (f"GET {url} HTTP/1.1", "Host: wrong.example", *_login(token), *more)
        writer.write("\r\n".join((*lines, "", body)).encode("latin-1"))
        answer = await reader.read()
        writer.close()
        return answer.decode("latin-1")

    async def tunnel(self, target: str, token: str | None) -> tuple[str, Streams]:
        """Return the head of the answer to CONNECT, and the tunnel."""
        reader, writer = await self.connect()
        lines = (f"CONNECT {target} HTTP/1.1", f"Host: {target}", *_login(token))
        writer.write("\r\n".join((*lines, "", "")).encode("latin-1"))
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        return head, (reader, writer)

    async def socks(self, target: bytes, port: int, token: str) -> tuple[int, Streams]:
        """Return the reply to CONNECT of SOCKS5, and the tunnel. `target` has its kind in front."""
        reader, writer = await self.connect()
        writer.write(b"\x05\x02\x00\x02")
        assert await reader.readexactly(2) == b"\x05\x02"
        writer.write(b"\x01\x08agentcli" + bytes((len(token),)) + token.encode())
        assert await reader.readexactly(2) == b"\x01\x00"
        writer.write(b"\x05\x01\x00" + target + port.to_bytes(2, "big"))
        reply = await reader.readexactly(10)
        return reply[1], (reader, writer)


def _login(token: str | None) -> tuple[str, ...]:
    if token is None:
        return ()
    login = base64.b64encode(f"agentcli:{token}".encode()).decode()
    return (f"Proxy-Authorization: Basic {login}",)


def name_socks(host: str) -> bytes:
    return bytes((3, len(host))) + host.encode()


async def ask(streams: Streams, host: str) -> str:
    """Return the whole answer to a request within a tunnel."""
    reader, writer = streams
    writer.write(f"GET / HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
    answer = await reader.read()
    writer.close()
    return answer.decode("latin-1")


def greet_tls(server_name: str | None) -> bytes:
    """Return what a client of TLS says first."""
    context = ssl.create_default_context()
    context.check_hostname = False
    outgoing = ssl.MemoryBIO()
    client = context.wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname=server_name)
    with suppress(ssl.SSLWantReadError):
        client.do_handshake()
    return outgoing.read()


def try_proxy(
    scenario: Callable[[Trial], Awaitable[T]],
    *,
    judge_host: JudgeHost = judge_by_grants,
    find_upstream: FindUpstream = lambda host, port, is_plain: None,
    answer_git: AnswerGit = refuse_git,
) -> T:
    async def main() -> T:
        internet, events = Internet(), list[Event]()
        listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        proxy = NetworkProxy(
            lambda: listener,
            build_service=partial(
                ProxyService,
                emit=events.append,
                judge_host=judge_host,
                resolve=internet.resolve,
                dial=internet.dial,
                find_upstream=find_upstream,
                answer_git=answer_git,
            ),
        )
        proxy.prepare()
        try:
            return await scenario(Trial(proxy, listener.getsockname()[1], internet, events))
        finally:
            proxy.close()

    return asyncio.run(main())
