"""A listener on this machine that a browser is sent back to, for one answer only.

It listens on 127.0.0.1 alone. It accepts only an answer with the `state` that was sent out: anyone
else who finds the port learns only that it is not for them.
"""

import asyncio
import hmac
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from urllib.parse import parse_qs, urlsplit

HOST = "127.0.0.1"
PATH = "/callback"
REQUEST_BYTES = 16_384
READ_S = 10.0

_DONE = "You are logged in to {name}. This page can be closed."
_REFUSED = "The login to {name} was refused. This page can be closed."
_NOT_OURS = "This is not the expected answer."


class WrongRedirect(ValueError):
    """An address that the server did not send a browser back to. The message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RedirectResult:
    """The answer of an authorization server."""

    code: str = ""
    state: str = ""
    issuer: str | None = None
    error: str = ""
    """The server's own reason why there is no code."""


class RedirectListener:
    def __init__(self, name: str, port: int) -> None:
        """`name` is the server's name, for the page that the user sees."""
        self.redirect_uri = f"http://{HOST}:{port}{PATH}"
        self._name = name
        self._state: str | None = None
        self._answer: asyncio.Future[RedirectResult] = asyncio.get_running_loop().create_future()

    def expect(self, state: str) -> None:
        self._state = state

    async def wait_for_redirect(self) -> RedirectResult:
        return await self._answer

    def take(self, address: str) -> RedirectResult:
        """Return what an address says that a browser was sent to or the user has pasted.

        Raise WrongRedirect if it is not the answer to this login."""
        parts = urlsplit(address.strip())
        if f"{parts.scheme}://{parts.netloc}{parts.path}" != self.redirect_uri:
            raise WrongRedirect(f"the address must begin with {self.redirect_uri}?")
        given = {key: values[-1] for key, values in parse_qs(parts.query).items()}
        state = given.get("state", "")
        if self._state is None or not hmac.compare_digest(state.encode(), self._state.encode()):
            raise WrongRedirect("it belongs to another login (its state differs)")
        if not given.get("code") and not given.get("error"):
            raise WrongRedirect("it has no code")
        return RedirectResult(
            code=given.get("code", ""),
            state=state,
            issuer=given.get("iss"),
            error=" ".join(filter(None, (given.get("error"), given.get("error_description")))),
        )

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(READ_S):
                head = await reader.readuntil(b"\r\n\r\n")
                writer.write(self._reply(head))
                await writer.drain()
        except (TimeoutError, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            return  # the client did not wait for an answer
        finally:
            writer.close()

    def _reply(self, head: bytes) -> bytes:
        words = head.split(b"\r\n", 1)[0].decode("latin-1").split(" ")
        if len(words) != 3 or words[0] != "GET" or not words[1].startswith("/"):
            return _page(400, _NOT_OURS)
        try:
            answer = self.take(self.redirect_uri.removesuffix(PATH) + words[1])
        except WrongRedirect:
            return _page(400, _NOT_OURS)
        if self._answer.done():
            return _page(400, _NOT_OURS)  # a code is valid for one login
        self._answer.set_result(answer)
        return _page(200, (_REFUSED if answer.error else _DONE).format(name=self._name))


@asynccontextmanager
async def open_redirect_listener(name: str, *, port: int = 0) -> AsyncIterator[RedirectListener]:
    """Listen while the body runs. `port` 0 is any free one. Raise OSError if it cannot listen."""
    waiting: RedirectListener | None = None

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert waiting is not None
        await waiting.serve(reader, writer)

    server = await asyncio.start_server(serve, HOST, port, limit=REQUEST_BYTES)
    async with server:
        waiting = RedirectListener(name, server.sockets[0].getsockname()[1])
        yield waiting


def _page(status: int, text: str) -> bytes:
    body = text.encode()
    reason = "OK" if status == 200 else "Bad Request"
    head = (
        f"HTTP/1.1 {status} {reason}\r\nContent-Type: text/plain; charset=utf-8\r\n"
        f"Content-Length: {len(body)}\r\nCache-Control: no-store\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + body
