"""The keyring of the system, where the package `keyring` is installed and has a store behind it.

A keyring that is locked, full or broken is as good as none: whoever asks has another place.
"""

from collections.abc import Callable
from importlib import import_module
from typing import Any, TypeVar

SERVICE = "agentcli"

T = TypeVar("T")


class SystemKeyring:
    def __init__(self, ring: Any, errors: tuple[type[Exception], ...]) -> None:
        self._ring = ring
        self._errors = errors

    def get(self, name: str) -> str:
        """Empty: there is none, or it cannot be had."""
        return self._try(lambda: self._ring.get_password(SERVICE, name)) or ""

    def put(self, name: str, value: str) -> bool:
        """Whether it is kept now."""

        def put() -> bool:
            self._ring.set_password(SERVICE, name, value)
            return True

        return self._try(put) or False

    def drop(self, name: str) -> None:
        """What is not there any more is not missed."""
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
