"""Keys the user has pasted: in the keyring of the system, or in a file only they can read.

They are added to the environment variables of this process, where keys are looked up. A variable
that is already set is never overwritten.
"""

import json
import os
import tomllib
from collections.abc import Callable, MutableMapping
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

from agentcli.settings import get_settings_file
from agentcli.system.private_file import write_private
from agentcli.types.errors import SettingsError

# The keyring of the system, if the package `keyring` is installed and has a backend.


SERVICE = "agentcli"

T = TypeVar("T")


class SystemKeyring:
    def __init__(self, ring: Any, errors: tuple[type[Exception], ...]) -> None:
        self._ring = ring
        self._errors = errors

    def get(self, name: str) -> str:
        """Return the key, or "" if there is none or it cannot be read."""
        return self._try(lambda: self._ring.get_password(SERVICE, name)) or ""

    def put(self, name: str, value: str) -> bool:
        """Store the key. Return whether it is stored now."""

        def put() -> bool:
            self._ring.set_password(SERVICE, name, value)
            return True

        return self._try(put) or False

    def drop(self, name: str) -> None:
        """Remove the key. A key that does not exist is no error."""
        self._try(lambda: self._ring.delete_password(SERVICE, name))

    def _try(self, use: Callable[[], T]) -> T | None:
        try:
            return use()
        except self._errors:
            return None


def open_system_keyring() -> SystemKeyring | None:
    try:
        ring: Any = import_module("keyring")
        backend = ring.get_keyring()
    except (ImportError, RuntimeError):
        return None
    if getattr(backend, "priority", 0) < 1:
        return None
    return SystemKeyring(ring, (RuntimeError, *_load_error_types()))


def _load_error_types() -> tuple[type[Exception], ...]:
    try:
        return (import_module("keyring.errors").KeyringError,)
    except (ImportError, AttributeError):
        return ()


IN_KEYRING = "in the keyring"
"""The value in the file that stands for a key in the keyring."""


def get_keys_file() -> Path:
    return get_settings_file().with_name("keys.toml")


def export_keys(environ: MutableMapping[str, str] = os.environ) -> list[str]:
    """Set a variable for each stored key. Return the variables that were set."""
    set_now = []
    for variable, value in _read_keys().items():
        if environ.get(variable):
            continue
        key = _read_keyring(variable) if value == IN_KEYRING else value
        if key:
            environ[variable] = key
            set_now.append(variable)
    return set_now


def store_key(variable: str, key: str) -> str:
    """Store a key. Return its location, worded for the user. Raise SettingsError."""
    ring = open_system_keyring()
    stored = _read_keys()
    if ring is not None and ring.put(variable, key):
        stored[variable], where = IN_KEYRING, "the system keyring"
    else:
        stored[variable], where = key, str(get_keys_file())
    _write_keys(stored)
    return where


def _read_keys() -> dict[str, str]:
    try:
        found = tomllib.loads(get_keys_file().read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(
            f"cannot read {get_keys_file()}: {error}", hint=f"edit {get_keys_file()}"
        ) from error
    return {name: value for name, value in found.items() if isinstance(value, str)}


def _write_keys(stored: dict[str, str]) -> None:
    text = "".join(f"{name} = {json.dumps(value)}\n" for name, value in stored.items())
    write_private(get_keys_file(), text)


def _read_keyring(variable: str) -> str:
    ring = open_system_keyring()
    return ring.get(variable) if ring else ""
