"""The session's log: one fact per line, appended, each line carrying the hash of the one before.

A line is written whole and at once, so a crash can only leave an unfinished last line, which has
no newline and is not part of the log. `docs/reference/log.md` is the format's description.
"""

import hashlib
import json
import os
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import Any

from agentcli.types.errors import SettingsError
from agentcli.types.events import Entry, SessionEnded, TurnEnded

VERSION = 1
FIRST_PREV = "0" * 64
"""What the first line carries in place of a hash."""


class Log:
    """Appends entries. Raises SettingsError when the disk does not take them."""

    def __init__(self, path: Path, *, prev: str = FIRST_PREV) -> None:
        """`prev`: the hash of the last line, when an existing log is continued."""
        self.path = path
        self._prev = prev
        try:
            self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise _unwritable(path, error) from error

    def append(self, entry: Entry) -> None:
        line = _line(entry, self._prev)
        try:
            _write_whole(self._fd, line + b"\n")
            if isinstance(entry.fact, TurnEnded | SessionEnded):
                os.fsync(self._fd)
        except OSError as error:
            raise _unwritable(self.path, error) from error
        self._prev = line_hash(line)

    def close(self) -> None:
        os.close(self._fd)


def line_hash(line: bytes) -> str:
    """Of a line's bytes without the newline: what the next line carries as `prev`."""
    return hashlib.sha256(line).hexdigest()


def lines(path: Path) -> Iterator[bytes]:
    """The whole lines of a log, without their newlines; an unfinished last one is left out."""
    with path.open("rb") as file:
        for line in file:
            if line.endswith(b"\n"):
                yield line[:-1]


def _line(entry: Entry, prev: str) -> bytes:
    record = {
        "v": VERSION,
        "seq": entry.seq,
        "at": entry.at,
        "session": entry.session,
        "parent": entry.parent,
        "prev": prev,
        "fact": as_json(entry.fact),
    }
    text = json.dumps(record, ensure_ascii=False, separators=(",", ":"))
    return text.encode("utf-8", "replace")


def as_json(value: Any) -> Any:
    """A fact as plain JSON data. Fields at their default are left out: readers know them too."""
    if is_dataclass(value) and not isinstance(value, type):
        return {
            name: as_json(getattr(value, name))
            for name, default in _defaults(type(value))
            if name == "type" or getattr(value, name) != default
        }
    if isinstance(value, tuple | list):
        return [as_json(item) for item in value]
    if isinstance(value, dict):
        return {key: as_json(item) for key, item in value.items()}
    return value


@cache
def _defaults(of: type) -> tuple[tuple[str, Any], ...]:
    return tuple((field.name, field.default) for field in fields(of))


def _write_whole(fd: int, data: bytes) -> None:
    """One write, as a rule. What a short write left out follows; a failure takes the part back."""
    start = os.lseek(fd, 0, os.SEEK_END)
    try:
        while data:
            data = data[os.write(fd, data) :]
    except OSError:
        os.ftruncate(fd, start)
        raise


def _unwritable(path: Path, error: OSError) -> SettingsError:
    return SettingsError(
        f"cannot write the session log {path}: {error.strerror}",
        hint="free some space, or set XDG_STATE_HOME to a directory that can be written",
    )
