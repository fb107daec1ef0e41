"""Keys the person has pasted: in the keyring of the system, else in a file only they can read.

They are put among the variables of this process, where keys are looked for, and never over one
that is set already.
"""

import json
import os
import tomllib
from collections.abc import MutableMapping
from pathlib import Path

from agentcli.app.keyring import open_system_keyring
from agentcli.machine.private_file import write_private
from agentcli.settings import get_settings_file
from agentcli.types.errors import SettingsError

IN_KEYRING = "in the keyring"
"""Stands in the file in the place of a key that the keyring has."""


def get_keys_file() -> Path:
    return get_settings_file().with_name("keys.toml")


def export_keys(environ: MutableMapping[str, str] = os.environ) -> list[str]:
    """Makes the stored keys known; returns the variables that were set by it."""
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
    """Returns where it is kept, for people. Raises SettingsError."""
    ring = open_system_keyring()
    stored = _read_keys()
    if ring is not None and ring.put(variable, key):
        stored[variable], where = IN_KEYRING, "the keyring of this system"
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
            f"cannot read {get_keys_file()}: {error}", hint=f"correct it, or rm {get_keys_file()}"
        ) from error
    return {name: value for name, value in found.items() if isinstance(value, str)}


def _write_keys(stored: dict[str, str]) -> None:
    text = "".join(f"{name} = {json.dumps(value)}\n" for name, value in stored.items())
    write_private(get_keys_file(), text)


def _read_keyring(variable: str) -> str:
    ring = open_system_keyring()
    return ring.get(variable) if ring else ""
