"""Login at a remote server: the library's OAuth client, joined to the user and a browser.

The library finds the authorization server, registers, and checks who answers. This module also
checks that no secret goes over an unencrypted connection, and that the server supports PKCE.
"""

import asyncio
import hmac
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from urllib.parse import parse_qs, urlsplit

import httpx2
from mcp.client.auth import (
    OAuthClientProvider,
    OAuthFlowError,
    OAuthRegistrationError,
    OAuthTokenError,
)
from mcp.shared.auth import (
    AuthorizationCodeResult,
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthToken,
)
from mcp_types.version import LATEST_MODERN_VERSION
from pydantic import AnyUrl, ValidationError

from agentcli.features.mcp.entries import ServerEntry
from agentcli.features.mcp.tokens import REFUSED, Login, compute_expiry

# A listener on 127.0.0.1 that a browser is sent back to, for one answer only. It accepts only an
# answer with the `state` that was sent out: anyone else learns only that the port is not for them.


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
            raise WrongRedirect("it does not belong to this login (its state differs)")
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
            return _build_page(400, _NOT_OURS)
        try:
            answer = self.take(self.redirect_uri.removesuffix(PATH) + words[1])
        except WrongRedirect:
            return _build_page(400, _NOT_OURS)
        if self._answer.done():
            return _build_page(400, _NOT_OURS)  # a code is valid for one login
        self._answer.set_result(answer)
        return _build_page(200, (_REFUSED if answer.error else _DONE).format(name=self._name))


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


def _build_page(status: int, text: str) -> bytes:
    body = text.encode()
    reason = "OK" if status == 200 else "Bad Request"
    head = (
        f"HTTP/1.1 {status} {reason}\r\nContent-Type: text/plain; charset=utf-8\r\n"
        f"Content-Length: {len(body)}\r\nCache-Control: no-store\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + body


logging.getLogger("mcp").addHandler(logging.NullHandler())  # we report what it raises

WAIT_S = 600.0
ASKED_S = 30.0
SAID_CHARS = 300
UNSUPPORTED = "the authorization server of {name} does not support PKCE with S256"

_OPEN_HOSTS = ("127.0.0.1", "localhost", "::1")
_QUESTION = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "server/discover",
    "params": {
        "_meta": {
            "io.modelcontextprotocol/protocolVersion": LATEST_MODERN_VERSION,
            "io.modelcontextprotocol/clientCapabilities": {},
        }
    },
}
"""A harmless request that is refused if a login is needed."""


class LoginError(Exception):
    """The login failed. The message is for the user and contains no secret."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginBrowser:
    """The user's way to the authorization server and back."""

    show: Callable[[str], None]
    """Takes the address to open, or the fault of a pasted one."""
    pasted: Callable[[], Awaitable[str | None]]
    """Returns an address copied from a browser on another machine; None if there will be none."""


class _PendingTokens:
    """The data that the library wants to store, held back until it is complete."""

    def __init__(self, client: OAuthClientInformationFull | None) -> None:
        self.client = client
        self.tokens: OAuthToken | None = None

    async def get_tokens(self) -> OAuthToken | None:
        return None

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info


async def log_in(entry: ServerEntry, browser: LoginBrowser) -> Login | None:
    """Log in, and return None if the server needs no login. Raise LoginError if it fails."""
    _require_https(entry.url, f"the server {entry.name}")
    try:
        async with (
            asyncio.timeout(WAIT_S),
            open_redirect_listener(entry.name, port=entry.oauth.callback_port) as listening,
        ):
            return await _log_in_listening(entry, browser, listening=listening)
    except TimeoutError:
        raise LoginError(f"no login within {WAIT_S:g} s") from None
    except OSError as error:
        raise LoginError(f"cannot listen on 127.0.0.1: {error.strerror}") from error


async def _log_in_listening(
    entry: ServerEntry, browser: LoginBrowser, *, listening: RedirectListener
) -> Login | None:
    pending = _PendingTokens(_build_own_client(entry, listening.redirect_uri))

    async def show(address: str) -> None:
        _check_server(provider, entry)
        listening.expect(parse_qs(urlsplit(address).query).get("state", [""])[-1])
        browser.show(address)

    async def answer() -> AuthorizationCodeResult:
        redirected = await _wait_for_redirect(listening, browser)
        if redirected.error:
            raise LoginError(f"the authorization server refused: {redirected.error[:200]}")
        return AuthorizationCodeResult(
            code=redirected.code, state=redirected.state, iss=redirected.issuer
        )

    provider = OAuthClientProvider(
        server_url=entry.url,
        client_metadata=OAuthClientMetadata(
            client_name="agentcli",
            redirect_uris=[AnyUrl(listening.redirect_uri)],
            token_endpoint_auth_method="none",
        ),
        storage=pending,
        redirect_handler=show,
        callback_handler=answer,
    )
    await _ask(entry, provider)
    return _login(entry, provider, pending=pending) if pending.tokens else None


async def _ask(entry: ServerEntry, provider: OAuthClientProvider) -> None:
    headers = {
        **dict(entry.headers),
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": LATEST_MODERN_VERSION,
        "Mcp-Method": "server/discover",
    }
    try:
        async with (
            httpx2.AsyncClient(auth=provider, timeout=ASKED_S) as client,
            client.stream("POST", entry.url, json=_QUESTION, headers=headers) as answer,
        ):
            if answer.status_code == REFUSED:
                raise LoginError("the server rejects the token from its own login")
    except OAuthFlowError as error:
        raise LoginError(_without_secrets(error)) from None
    except httpx2.HTTPError as error:
        raise LoginError(f"cannot be reached ({type(error).__name__}: {error})") from error
    except ValidationError:
        raise LoginError("the authorization server sent an invalid answer") from None


async def _wait_for_redirect(listening: RedirectListener, browser: LoginBrowser) -> RedirectResult:
    """Return the answer from the browser here or from a paste, whichever comes first."""
    tasks = {
        asyncio.ensure_future(listening.wait_for_redirect()),
        asyncio.ensure_future(_wait_for_paste(listening, browser)),
    }
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        return next(iter(done)).result()
    finally:
        for task in tasks:
            task.cancel()
        with suppress(asyncio.CancelledError):
            await asyncio.wait(tasks)


async def _wait_for_paste(listening: RedirectListener, browser: LoginBrowser) -> RedirectResult:
    while (line := await browser.pasted()) is not None:
        try:
            return listening.take(line)
        except WrongRedirect as error:
            browser.show(f"that address does not work: {error}")
    nobody: asyncio.Future[RedirectResult] = asyncio.get_running_loop().create_future()
    return await nobody


def _check_server(provider: OAuthClientProvider, entry: ServerEntry) -> None:
    """Check the authorization server before the user is sent to it."""
    metadata = provider.context.oauth_metadata
    if metadata is None:
        return  # an old server: its endpoints are on its own address, already checked
    if "S256" not in (metadata.code_challenge_methods_supported or ()):
        raise LoginError(UNSUPPORTED.format(name=entry.name))
    for endpoint in (metadata.authorization_endpoint, metadata.token_endpoint):
        _require_https(str(endpoint), "the authorization server")


def _require_https(url: str, whose: str) -> None:
    parts = urlsplit(url)
    if parts.scheme != "https" and parts.hostname not in _OPEN_HOSTS:
        raise LoginError(f"{whose} does not use https, so no secret is sent to it: {url}")


def _build_own_client(entry: ServerEntry, redirect_uri: str) -> OAuthClientInformationFull | None:
    """Return the client that the user has registered, or None if we register ourselves."""
    if not entry.oauth.client_id:
        return None
    return OAuthClientInformationFull(
        client_id=entry.oauth.client_id,
        client_secret=entry.oauth.client_secret or None,
        token_endpoint_auth_method="client_secret_post" if entry.oauth.client_secret else "none",
        redirect_uris=[AnyUrl(redirect_uri)],
    )


def _login(entry: ServerEntry, provider: OAuthClientProvider, *, pending: _PendingTokens) -> Login:
    assert pending.tokens is not None
    assert pending.client is not None
    context, tokens = provider.context, pending.tokens
    metadata = context.oauth_metadata
    origin = urlsplit(entry.url)
    return Login(
        url=entry.url,
        issuer=str(metadata.issuer) if metadata else "",
        token_endpoint=(
            str(metadata.token_endpoint) if metadata else f"{origin.scheme}://{origin.netloc}/token"
        ),
        client_id=pending.client.client_id,
        client_secret=pending.client.client_secret or "",
        secret_goes_in=pending.client.token_endpoint_auth_method or "none",
        access_token=tokens.access_token,
        refresh_token=tokens.refresh_token or "",
        resource=context.get_resource_url(),
        scope=tokens.scope or "",
        expires_at=compute_expiry(tokens.expires_in),
    )


def _without_secrets(error: OAuthFlowError) -> str:
    """Describe an error. Leave out an answer that may hold a token or a client secret."""
    message = str(error)
    is_refused_client = message.startswith("Registration failed")
    if isinstance(error, OAuthTokenError | OAuthRegistrationError) and not is_refused_client:
        message = message.partition(":")[0]
    return message[:SAID_CHARS]
