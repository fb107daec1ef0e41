"""A login at a remote server: the tokens, and how each request carries them.

A login belongs to one address. Its tokens are sent there and to the authorization server that
issued them. They are never shown: not to the model, not on the screen, not in the log.
"""

import asyncio
import hashlib
import json
import os
import stat
import time
from collections.abc import AsyncGenerator, Callable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import quote

import httpx2

from agentcli.session.secrets import open_system_keyring
from agentcli.settings import get_user_directory
from agentcli.system.files import remove_private, write_private
from agentcli.types.errors import SettingsError

if TYPE_CHECKING:
    from agentcli.features.mcp.entries import ServerEntry


EARLY_S = 30.0
"""The time before its expiry at which a token is exchanged, because a request takes time."""
GRANTED = 200
REFUSED = 401


@dataclass(frozen=True, slots=True, kw_only=True)
class Login:
    url: str
    """The address of the server at login."""
    issuer: str
    """The issuer of the tokens; empty if the server does not say."""
    token_endpoint: str
    client_id: str
    access_token: str = field(repr=False)
    refresh_token: str = field(default="", repr=False)
    client_secret: str = field(default="", repr=False)
    secret_goes_in: str = "none"
    """The OAuth name of the method: client_secret_post, client_secret_basic, or none."""
    resource: str = ""
    scope: str = ""
    expires_at: float | None = None
    """None if the server does not say."""

    @property
    def is_stale(self) -> bool:
        return self.expires_at is not None and time.time() > self.expires_at - EARLY_S

    @property
    def secrets(self) -> tuple[str, ...]:
        return tuple(filter(None, (self.access_token, self.refresh_token, self.client_secret)))

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @staticmethod
    def from_json(text: str) -> "Login | None":
        """Return the login, or None if the text was not written by us."""
        try:
            return Login(**json.loads(text))
        except (ValueError, TypeError):
            return None


class LoginStore(Protocol):
    """The store for the login at one server."""

    def read(self) -> Login | None: ...

    def write(self, login: Login) -> None: ...


class StoredLogin(httpx2.Auth):
    """Adds the token to each request, and exchanges it for a new one when it has expired.

    A token that cannot be exchanged is sent unchanged: the server's refusal explains the rest."""

    def __init__(
        self, store: LoginStore, *, conceal: Callable[[str], None] = lambda secret: None
    ) -> None:
        """`conceal` gets every secret before it can appear anywhere."""
        self._store = store
        self._conceal = conceal
        self._one_at_a_time = asyncio.Lock()
        self._login: Login | None = None

    def load(self) -> bool:
        """Load the login and return whether there is one. Raise what the store raises."""
        self._login = self._store.read()
        for secret in self._login.secrets if self._login else ():
            self._conceal(secret)
        return self._login is not None

    async def async_auth_flow(
        self, request: httpx2.Request
    ) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        if self._login is None:
            yield request
            return
        if self._login.is_stale:
            async with self._one_at_a_time:
                if refresh := self._build_refresh(self._login):
                    await self._renew((yield refresh))
        sent = self._login
        response = yield _with_token(request, sent)
        if response.status_code != REFUSED:
            return
        async with self._one_at_a_time:
            if refresh := self._build_refresh(sent):
                await self._renew((yield refresh))
        if self._login.access_token != sent.access_token:
            yield _with_token(request, self._login)

    def _build_refresh(self, sent: Login) -> httpx2.Request | None:
        """Return the refresh request.

        None if another request or process was quicker, or if there is no refresh token."""
        self.load()
        self._login = self._login or sent
        is_old = self._login.access_token == sent.access_token
        return _refresh(self._login) if is_old and self._login.refresh_token else None

    async def _renew(self, response: httpx2.Response) -> None:
        """Store the new tokens. If the response has none, change nothing."""
        await response.aread()
        granted = _parse_grant(response)
        if granted is None or self._login is None:
            return
        self._login = replace(
            self._login,
            access_token=granted["access_token"],
            refresh_token=granted.get("refresh_token") or self._login.refresh_token,
            expires_at=compute_expiry(granted.get("expires_in")),
        )
        for secret in self._login.secrets:
            self._conceal(secret)
        self._store.write(self._login)


def compute_expiry(expires_in: Any) -> float | None:
    """Return the time of expiry by our own clock, or None if it is unknown."""
    if isinstance(expires_in, bool) or not isinstance(expires_in, int | float):
        return None
    return time.time() + expires_in


def _with_token(request: httpx2.Request, login: Login) -> httpx2.Request:
    request.headers["Authorization"] = f"Bearer {login.access_token}"
    return request


def _refresh(login: Login) -> httpx2.Request:
    form = {
        "grant_type": "refresh_token",
        "refresh_token": login.refresh_token,
        "client_id": login.client_id,
    }
    if login.resource:
        form["resource"] = login.resource
    auth: httpx2.BasicAuth | None = None
    if login.secret_goes_in == "client_secret_post":
        form["client_secret"] = login.client_secret
    elif login.secret_goes_in == "client_secret_basic":
        auth = httpx2.BasicAuth(
            quote(login.client_id, safe=""), quote(login.client_secret, safe="")
        )
    request = httpx2.Request("POST", login.token_endpoint, data=form)
    return next(auth.auth_flow(request)) if auth else request


def _parse_grant(response: httpx2.Response) -> dict[str, Any] | None:
    if response.status_code != GRANTED:
        return None
    try:
        granted = response.json()
    except ValueError:
        return None
    has_token = isinstance(granted, dict) and isinstance(granted.get("access_token"), str)
    return granted if has_token and granted["access_token"] else None


# Logins at MCP servers: in the system keyring, or else in a file only its owner can read.


IN_KEYRING = "in the keyring\n"
"""The text of the file if the keyring holds the login."""


_HASH_CHARS = 16


class ServerLoginStore:
    """The login at one server. Another address has another login, or none."""

    def __init__(self, entry: "ServerEntry") -> None:
        self._entry = entry
        whole = hashlib.sha256(entry.url.encode("utf-8", "surrogatepass")).hexdigest()
        told_apart = whole[:_HASH_CHARS]
        self._key = _build_key(entry.name, told_apart)
        self.path = _get_directory() / f"{entry.name}-{told_apart}.json"

    def read(self) -> "Login | None":
        """Return the login. Raise SettingsError if others could have read or written the file."""

        text = self._read_file()
        if text == IN_KEYRING:
            ring = open_system_keyring()
            text = ring.get(self._key) if ring else ""
        login = Login.from_json(text) if text else None
        return login if login is not None and login.url == self._entry.url else None

    def write(self, login: "Login") -> None:
        """Store the login. Raise SettingsError if that fails."""
        text, ring = login.to_json(), open_system_keyring()
        is_there = ring is not None and ring.put(self._key, text)
        write_private(self.path, IN_KEYRING if is_there else text)

    @property
    def location(self) -> str:
        return "the system keyring" if self._read_file() == IN_KEYRING else str(self.path)

    def forget(self) -> bool:
        """Delete the login and return whether there was one. Raise SettingsError if that fails."""
        was_there = self.path.exists()
        if (ring := open_system_keyring()) is not None:
            ring.drop(self._key)
        remove_private(self.path)
        return was_there

    def _read_file(self) -> str:
        try:
            with self.path.open(encoding="utf-8") as file:
                self._require_private(os.fstat(file.fileno()))
                return file.read()
        except FileNotFoundError:
            return ""
        except (OSError, UnicodeDecodeError) as error:
            raise SettingsError(
                f"cannot read {self.path}: {error}", hint=f"agentcli mcp login {self._entry.name}"
            ) from error

    def _require_private(self, found: os.stat_result) -> None:
        if os.name != "posix":
            return
        if found.st_uid != os.geteuid() or stat.S_IMODE(found.st_mode) & 0o077:
            raise SettingsError(
                f"{self.path} is accessible to other users, so its login is not used",
                hint=f"agentcli mcp logout {self._entry.name}, then log in again",
            )


def forget_logins(name: str) -> None:
    """Delete the logins of a removed server, at all its addresses.

    Raise SettingsError if that fails."""
    ring = open_system_keyring()
    for path in _get_directory().glob(f"{name}-{'?' * _HASH_CHARS}.json"):
        if ring is not None:
            ring.drop(_build_key(name, path.stem[-_HASH_CHARS:]))
        remove_private(path)


def _get_directory() -> Path:
    return get_user_directory() / "logins"


def _build_key(name: str, url_hash: str) -> str:
    return f"mcp {name} {url_hash}"


def find_logins(entry: "ServerEntry") -> ServerLoginStore | None:
    """Return the login store. None if the server is not remote, or its headers authenticate us."""
    return ServerLoginStore(entry) if entry.is_remote and not entry.brings_key else None
