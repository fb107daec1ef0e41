"""Logins at MCP servers: in the keyring of the system, else in a file only their owner can read."""

import hashlib
import os
import secrets
import stat
from pathlib import Path
from typing import TYPE_CHECKING

from agentcli.app.keyring import system_keyring
from agentcli.settings import settings_file
from agentcli.types.errors import SettingsError

if TYPE_CHECKING:
    from agentcli.mcp.entries import ServerEntry
    from agentcli.mcp.logins import Login

IN_KEYRING = "in the keyring\n"
"""Stands in the file in the place of a login that the keyring has."""


_HASH_CHARS = 16


class StoredLogins:
    """Of one server: under another address there is another login, or none."""

    def __init__(self, entry: "ServerEntry") -> None:
        self._entry = entry
        whole = hashlib.sha256(entry.url.encode("utf-8", "surrogatepass")).hexdigest()
        told_apart = whole[:_HASH_CHARS]
        self._key = _key(entry.name, told_apart)
        self.path = _directory() / f"{entry.name}-{told_apart}.json"

    def read(self) -> "Login | None":
        """Raises SettingsError where others could have read or written it."""
        from agentcli.mcp.logins import Login

        text = self._file()
        if text == IN_KEYRING:
            ring = system_keyring()
            text = ring.get(self._key) if ring else ""
        login = Login.from_json(text) if text else None
        return login if login is not None and login.url == self._entry.url else None

    def write(self, login: "Login") -> None:
        """Raises SettingsError."""
        text, ring = login.to_json(), system_keyring()
        self._store(IN_KEYRING if ring is not None and ring.put(self._key, text) else text)

    @property
    def where(self) -> str:
        return "the keyring of this system" if self._file() == IN_KEYRING else str(self.path)

    def forget(self) -> bool:
        """Whether there was one. Raises SettingsError."""
        try:
            was_there = self.path.exists()
            if (ring := system_keyring()) is not None:
                ring.drop(self._key)
            self.path.unlink(missing_ok=True)
        except OSError as error:
            raise self._unwritable(error) from error
        return was_there

    def _file(self) -> str:
        try:
            with self.path.open(encoding="utf-8") as file:
                self._must_be_private(os.fstat(file.fileno()))
                return file.read()
        except FileNotFoundError:
            return ""
        except (OSError, UnicodeDecodeError) as error:
            raise SettingsError(f"cannot read {self.path}: {error}") from error

    def _must_be_private(self, found: os.stat_result) -> None:
        if os.name != "posix":
            return
        if found.st_uid != os.geteuid() or stat.S_IMODE(found.st_mode) & 0o077:
            raise SettingsError(
                f"{self.path} can be read or written by others, so the login in it is not used",
                hint=f"agentcli mcp logout {self._entry.name}, then log in again",
            )

    def _store(self, text: str) -> None:
        temporary = self.path.with_name(f".{self.path.name}.{secrets.token_hex(4)}")
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(text)
            temporary.replace(self.path)
        except OSError as error:
            raise self._unwritable(error) from error

    def _unwritable(self, error: OSError) -> SettingsError:
        return SettingsError(f"cannot write {self.path}: {error.strerror}")


def forget_logins(name: str) -> None:
    """Of a server that is not there any more, at whatever address it was. Raises SettingsError."""
    ring = system_keyring()
    try:
        for path in _directory().glob(f"{name}-{'?' * _HASH_CHARS}.json"):
            if ring is not None:
                ring.drop(_key(name, path.stem[-_HASH_CHARS:]))
            path.unlink(missing_ok=True)
    except OSError as error:
        raise SettingsError(f"cannot forget the login at {name}: {error.strerror}") from error


def _directory() -> Path:
    return settings_file().with_name("logins")


def _key(name: str, told_apart: str) -> str:
    return f"mcp {name} {told_apart}"


def logins_of(entry: "ServerEntry") -> StoredLogins | None:
    """None: it is no server elsewhere, or says itself who we are."""
    return StoredLogins(entry) if entry.is_remote and not entry.brings_key else None
