"""A web of hosts on loopback: every name and address leads to one server that sends exact bytes.

`fetch` fetches a page through the real client. Names are resolved by a table, and every address
that is dialled is noted and led to the server.
"""

import asyncio
import ssl
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from agentcli.features.web.client import FetchLimits, WebClient
from agentcli.features.web.web_fetch import WebFetch
from agentcli.types.events import Event, HostJudged
from agentcli.types.tools import Output, ToolContext
from agentcli.types.verdicts import Verdict

PUBLIC = "93.184.216.34"
OTHER = "151.101.1.195"
ADDRESSES: Mapping[str, Sequence[str]] = {
    "good.example": [PUBLIC],
    "other.example": [OTHER],
    "loops.example": ["127.0.0.1"],
    "inside.example": ["10.0.0.5"],
    "metadata.example": ["169.254.169.254"],
    "mixed.example": ["10.0.0.5", PUBLIC, "127.0.0.1"],
    "mapped.example": ["::ffff:127.0.0.1"],
}

Handler = Callable[[str], bytes | Sequence[bytes]]
"""Takes the request's head. Returns all bytes to send, or pieces, of which None would be none."""


def page(
    body: bytes | str, media: str = "text/plain", *, status: str = "200 OK", **headers: str
) -> bytes:
    data = body.encode() if isinstance(body, str) else body
    more = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
    head = (
        f"HTTP/1.1 {status}\r\nContent-Type: {media}\r\nContent-Length: {len(data)}\r\n{more}\r\n"
    )
    return head.encode("utf-8") + data


def redirect(location: str, status: str = "302 Found") -> bytes:
    return f"HTTP/1.1 {status}\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n".encode()


@dataclass
class Web:
    """What the pages are, and what was asked and dialled."""

    pages: Mapping[str, bytes | Handler]
    """By path; a handler gets the head of the request."""
    directory: Path
    allowed: Sequence[str] = ()
    """The hosts that are allowed besides the one of the call."""
    limits: FetchLimits | None = None
    endless: bool = False
    """True if a page is repeated until the client goes away."""
    stalls: bool = False
    """True if the connection stays open after a page."""
    takes_images: bool = True
    clean: Callable[[str], str] = str
    requests: list[str] = field(default_factory=list)
    dialled: list[str] = field(default_factory=list)
    resolved: list[str] = field(default_factory=list)
    judged: list[HostJudged] = field(default_factory=list)
    now_s: float = 0.0

    def fetch(self, *urls: str) -> list[Output]:
        """Return the outputs of calls, one after another, of one session."""
        return asyncio.run(self._fetch_all(urls))

    async def _fetch_all(self, urls: Sequence[str]) -> list[Output]:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]

        async def dial(
            address: str, asked_port: int
        ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
            self.dialled.append(address)
            return await asyncio.open_connection("127.0.0.1", port)

        client = WebClient(
            judge=self._judge,
            emit=self._note,
            tls=self._no_tls,
            resolve=self._resolve,
            dial=dial,
            limits=self.limits,
        )
        tool = WebFetch(
            client,
            directory=self.directory,
            takes_images=lambda: self.takes_images,
            clean=self.clean,
            clock=lambda: self.now_s,
        )
        try:
            context = ToolContext(call_id="c1", workspace=self.directory, progress=print)
            return [await tool.run(tool.parse({"url": url}), context) for url in urls]
        finally:
            server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            self.requests.append(head)
            found = self.pages.get(head.split(" ")[1], page("no such page", status="404 Not Found"))
            answer = found(head) if callable(found) else found
            for piece in [answer] if isinstance(answer, bytes) else answer:
                writer.write(piece)
                await writer.drain()
            while self.endless:
                writer.write(b"x" * 65536)
                await writer.drain()
            if self.stalls:
                await reader.read()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def _resolve(self, host: str, port: int) -> Sequence[str]:
        self.resolved.append(host)
        return ADDRESSES.get(host, ())

    async def _judge(self, call_id: str, host: str, port: int) -> Verdict:
        if host in self.allowed:
            return Verdict(decision="allow", by="rule", reason="allowed")
        remedy = f"--allow 'web({host})'"
        return Verdict(decision="deny", by="nobody", reason="no rule allows it", remedy=remedy)

    def _note(self, event: Event) -> None:
        assert isinstance(event, HostJudged)
        self.judged.append(event)

    @staticmethod
    def _no_tls() -> ssl.SSLContext:
        return ssl.create_default_context()
