"""Logins at MCP servers: in the system keyring, or else in a file only its owner can read."""

import hashlib
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING

from agentcli.session.keys import open_system_keyring
from agentcli.settings import get_user_directory
from agentcli.system.private_file import remove_private, write_private
from agentcli.types.errors import SettingsError

if TYPE_CHECKING:
    from agentcli.features.mcp.entries import ServerEntry
    from agentcli.features.mcp.tokens import Login

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
        from agentcli.features.mcp.tokens import Login

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
