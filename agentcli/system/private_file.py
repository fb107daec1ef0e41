"""A small private file of the user: nobody else can read it, and it is never half written."""

import errno
import json
import os
import secrets
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from agentcli.types.errors import SettingsError

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def write_private(path: Path, text: str) -> None:
    """Write the file, all or nothing. Raise SettingsError."""
    fresh = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8", errors="surrogateescape") as file:
            file.write(text)
            file.flush()
            os.fsync(handle)
        fresh.replace(path)
    except OSError as error:
        with suppress(OSError):  # the first error is the one to report
            fresh.unlink()
        raise build_unwritable_error(path, error) from error


def write_private_json(path: Path, value: Mapping[str, Any]) -> None:
    """Write the value to the file, all or nothing. Raise SettingsError."""
    write_private(path, json.dumps(value, ensure_ascii=False, indent=2) + "\n")


def remove_private(path: Path) -> None:
    """Remove the file, if it is there. Raise SettingsError."""
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise build_unwritable_error(path, error) from error


def build_unwritable_error(path: Path, error: OSError) -> SettingsError:
    look = "df -h" if error.errno in _FULL else "ls -ld"
    return SettingsError(f"cannot write {path}: {error.strerror}", hint=f"{look} {path.parent}")
