"""The secrets of a session: the keys of providers, and what is hidden in all texts.

A key is in a variable, in the keyring of the system, or in a private file. A variable that is set
wins over a stored key. Stored keys never enter the environment, so that no child process can
inherit them. All secrets are removed from what the model, the user or the log sees.
"""

import json
import os
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

from platformdirs import user_state_path

from agentcli.permissions.secrets import Redactor, load_key
from agentcli.providers.catalog import PROVIDERS, Key, Provider, find_key
from agentcli.settings import get_user_directory
from agentcli.system.files import read_regular, shorten_home, write_private
from agentcli.tools.contracts import DELEGATE
from agentcli.types.errors import SettingsError, ToolError
from agentcli.types.events import CallFinished, Compacted, Fact, ResultsTrimmed
from agentcli.types.hidden import BEGIN, NOTE, find_tokens
from agentcli.types.messages import ToolCall
from agentcli.types.own_tools import BUILT_IN
from agentcli.types.settings import Settings
from agentcli.types.tools import ErrorKind, ToolResult

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
    return get_user_directory() / "keys.toml"


def find_user_key(provider: Provider, environ: Mapping[str, str] = os.environ) -> Key | None:
    """Return the key from the environment, or else the stored one. Raise SettingsError."""
    return find_key(provider, environ) or find_stored_key(provider)


def find_stored_key(provider: Provider) -> Key | None:
    """Return the key that the user stored for the provider. Raise SettingsError."""
    stored = _read_keys()
    for variable in provider.key_env:
        if variable in stored and (value := _reveal(variable, stored[variable]).strip()):
            where = _describe_location(stored[variable])
            return Key(value=value, source=where, fix=f"agentcli login {provider.name}")
    return None


def list_stored_providers() -> list[str]:
    """Return the built-in providers with a stored key. Raise SettingsError."""
    stored = _read_keys()
    return [name for name, one in PROVIDERS.items() if any(env in stored for env in one.key_env)]


def read_stored_values() -> list[str]:
    """Return all stored keys, so that they can be hidden. Raise SettingsError."""
    return [_reveal(variable, value) for variable, value in _read_keys().items()]


def store_key(variable: str, key: str) -> str:
    """Store a key. Return its location, worded for the user. Raise SettingsError."""
    ring = open_system_keyring()
    stored = _read_keys()
    stored[variable] = IN_KEYRING if ring is not None and ring.put(variable, key) else key
    _write_keys(stored)
    _read_keyring.cache_clear()
    return _describe_location(stored[variable])


def drop_key(variable: str) -> str:
    """Remove a stored key. Return where it was, or "" if there was none. Raise SettingsError."""
    stored = _read_keys()
    value = stored.pop(variable, "")
    if not value:
        return ""
    if value == IN_KEYRING and (ring := open_system_keyring()) is not None:
        ring.drop(variable)
    _write_keys(stored)
    _read_keyring.cache_clear()
    return _describe_location(value)


def _describe_location(value: str) -> str:
    return "the system keyring" if value == IN_KEYRING else shorten_home(get_keys_file())


def _reveal(variable: str, value: str) -> str:
    return _read_keyring(variable) if value == IN_KEYRING else value


def _read_keys() -> dict[str, str]:
    if not get_keys_file().exists():
        return {}
    import tomllib

    try:
        found = tomllib.loads(read_regular(get_keys_file()).decode("utf-8-sig"))
    except (OSError, ValueError) as error:
        raise SettingsError(
            f"cannot read {get_keys_file()}: {error}", hint=f"edit {get_keys_file()}"
        ) from error
    return {name: value for name, value in found.items() if isinstance(value, str)}


def _write_keys(stored: dict[str, str]) -> None:
    text = "".join(f"{name} = {json.dumps(value)}\n" for name, value in stored.items())
    write_private(get_keys_file(), text)


@cache  # the keyring may be slow, and it is asked at every start of a model
def _read_keyring(variable: str) -> str:
    ring = open_system_keyring()
    return ring.get(variable) if ring else ""


# The masking of secrets: they are removed from all that the model, the user or the log sees.


_TAKE_TOKENS = frozenset((*BUILT_IN, DELEGATE, "apply_patch", "search_tools", "answer")) - {"bash"}
"""Tools that put values back or only read. Any other tool would act on the token itself."""


def build_redactor(settings: Settings | None = None) -> Redactor:
    """Return what masks the secrets of the environment, of stored keys and of the settings.

    Without settings, as for a session that is only looked at, those that are named there stay."""
    keys = read_stored_values()
    if settings is None:
        return Redactor(environ=os.environ, values=keys, key=_load_key)
    keys += [os.environ.get(named.key_env, "") for named in settings.providers]
    return Redactor(environ=os.environ, values=keys, names=settings.mask, key=_load_key)


class TokenNote:
    """A note on what a token is, for the first result that has one; again after it was dropped."""

    def __init__(self, facts: Sequence[Fact]) -> None:
        """`facts` are the session's, and grow."""
        self._facts = facts

    def __call__(self, result: ToolResult) -> str:
        """Return the note, or "" if none is needed."""
        if not _has_token(result):
            return ""
        for fact in reversed(self._facts):
            if isinstance(fact, CallFinished) and _has_token(fact.result):
                return ""
            if isinstance(fact, Compacted | ResultsTrimmed):
                break
        return NOTE


def refuse_tokens(call: ToolCall) -> None:
    """Raise ToolError if the call passes a token to a tool that cannot put hidden values back."""
    if call.name in _TAKE_TOKENS:
        return
    text = json.dumps(call.input, ensure_ascii=False)
    if BEGIN in text and (tokens := find_tokens(text)):
        raise ToolError(
            f"Not run: {tokens[0]} stands for a value that is hidden from you, and {call.name} "
            "would get the token itself. Name the file or variable that holds the value, for "
            'example "$API_KEY", or search for it with grep.',
            kind=ErrorKind.INVALID_INPUT,
        )


def _has_token(result: ToolResult) -> bool:
    return BEGIN in result.text


def _load_key() -> bytes:
    return load_key(user_state_path("agentcli", appauthor=False) / "secret-tokens.key")
