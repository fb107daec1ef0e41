"""Tokens for hidden values: a value has the same token in every process of the user.

A token is a short digest under the user's own key, so a log with tokens reveals nothing about the
values, however short they are. The key is made when the first value is hidden.
"""

import hashlib
import os
import secrets
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from agentcli.types.hidden import make_token

_KEY_BYTES = 32
_DIGEST_BYTES = (4, 16)


class Tokens:
    def __init__(self, key: Callable[[], bytes]) -> None:
        self._load_key = key
        self._key = b""
        self._tokens: dict[str, str] = {}
        self._values: dict[str, str] = {}

    def hide(self, value: str) -> str:
        """Return the token of a value. `reveal` finds the value by it from now on."""
        token = self._tokens.get(value)
        if token is None:
            self._key = self._key or self._load_key()
            token = self._tokens[value] = self._make(value)
        return token

    def _make(self, value: str) -> str:
        """Return a new token. It is longer if another value already has the short one."""
        raw = value.encode("utf-8", "surrogatepass")
        for size in _DIGEST_BYTES:
            digest = hashlib.blake2b(raw, key=self._key, digest_size=size).hexdigest()
            if self._values.setdefault(token := make_token(digest), value) == value:
                break
        return token

    def reveal(self, token: str) -> str | None:
        """Return the value of a token, if this process has hidden it."""
        return self._values.get(token)


class ByteTokens:
    """The same tokens for text in which every character stands for a byte."""

    def __init__(self, tokens: Tokens) -> None:
        self._tokens = tokens

    def hide(self, value: str) -> str:
        text = value.encode("latin-1").decode("utf-8", "surrogateescape")
        return self._tokens.hide(text).encode().decode("latin-1")


def load_key(path: Path) -> bytes:
    """Return the user's key, made at the first call; a key for this process if none can be stored.

    If several processes make it at the same time, one wins, and all use its key."""
    with suppress(OSError):
        return _read_key(path) or _make_key(path)
    return secrets.token_bytes(_KEY_BYTES)


def _read_key(path: Path) -> bytes:
    try:
        key = path.read_bytes()
    except FileNotFoundError:
        return b""
    if len(key) != _KEY_BYTES:
        raise OSError(f"{path} is not a key")
    return key


def _make_key(path: Path) -> bytes:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    fresh = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(secrets.token_bytes(_KEY_BYTES))
        with suppress(FileExistsError):
            path.hardlink_to(fresh)
    finally:
        fresh.unlink()
    return _read_key(path)
