"""The session's log: one fact per line, appended; each line has a hash and that of the last line.

A line is written whole and at once. So a crash can only leave an unfinished last line, which has
no newline and is not part of the log. `docs/reference/log.md` describes the format.
"""

import errno
import hashlib
import json
import os
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, TypeAlias, TypeVar, cast

from agentcli.system.files import build_unwritable_error
from agentcli.types.errors import RecordError
from agentcli.types.events import CallFinished, CallJudged, Entry, Fact, SessionEnded, TurnEnded
from agentcli.types.tools import Effect

T = TypeVar("T")

VERSION = 2
FIRST_PREV = "0" * 64
"""The value in the first line in place of the previous hash."""

LINE_LIMIT_BYTES = 256 * 1024 * 1024
"""No record comes near it. A larger line is not a log, and is not read into memory."""

_READ_BYTES = 128 * 1024

_JSON = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
_PLAIN = frozenset((str, int, float, bool, type(None)))
_BINARY = getattr(os, "O_BINARY", 0)  # otherwise Windows writes a newline as two characters
_SEAL_KEY = b',"hash":"'
SEAL_BYTES = len(_SEAL_KEY) + 64 + len(b'"}')
"""The length of the hash at the end of a line, with its key."""


PutAway: TypeAlias = Callable[[], None]


class _LogFile:
    """The open file of a log. It is closed when nobody needs it."""

    def __init__(self, path: Path) -> None:
        self.fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | _BINARY, 0o600)
        self.latest: tuple[StoredLine | None, Any] = (None, None)
        """The line that was read last, and what was made of it."""

    def __del__(self) -> None:
        if hasattr(self, "fd"):  # otherwise it could not be opened
            os.close(self.fd)


class StoredLine:
    """A line of a log that is open. It can be read even if its file has been removed."""

    __slots__ = ("_file", "_offset", "_size_bytes")

    def __init__(self, file: _LogFile, offset: int, *, size_bytes: int) -> None:
        self._file = file
        self._offset = offset
        self._size_bytes = size_bytes

    def read(self, parse: Callable[[bytes], T]) -> T:
        """Return what `parse` makes of the line. Fields are often asked for one after another."""
        line, parsed = self._file.latest
        if line is not self:
            parsed = parse(os.pread(self._file.fd, self._size_bytes, self._offset))
            self._file.latest = (self, parsed)
        return cast("T", parsed)


class LogWriter:
    """Appends entries. Raises RecordError if the disk does not take them."""

    def __init__(self, path: Path, *, prev: str = FIRST_PREV) -> None:
        """`prev` is the hash of the last line, if an existing log is continued."""
        self.path = path
        self._prev = prev
        self._unsynced_calls: set[str] = set()
        try:
            self._file: _LogFile | None = _LogFile(path)
        except OSError as error:
            raise _write_error(path, error) from error

    @property
    def head(self) -> str:
        """The hash of the last line."""
        return self._prev

    def append(self, entry: Entry) -> PutAway | None:
        """Return what lets the fact be read from the log from now on, to take less memory.

        None if the line does not say all that the fact does."""
        assert self._file is not None, "the log is closed"
        line, sealed, is_exact = _encode_line(entry, self._prev)
        try:
            offset = _write_whole(self._file.fd, line + b"\n")
            if self._must_sync(entry.fact):
                os.fsync(self._file.fd)
        except OSError as error:
            raise _write_error(self.path, error) from error
        self._prev = sealed
        stored = StoredLine(self._file, offset, size_bytes=len(line))
        return partial(_put_away, entry.fact, stored) if is_exact else None

    def close(self) -> None:
        """Close the file, as soon as no fact is read from it any more."""
        self._file = None

    def _must_sync(self, fact: Fact) -> bool:
        """Return whether the line must be on disk: a verdict before its call changes anything.

        After the call its result must be, too.
        """
        match fact:
            case TurnEnded() | SessionEnded():
                return True
            case CallJudged(call=call, effect=effect, verdict=verdict):
                if effect is Effect.READ or verdict.decision == "deny":
                    return False
                self._unsynced_calls.add(call.id)
                return True
            case CallFinished(result=result) if result.call_id in self._unsynced_calls:
                self._unsynced_calls.discard(result.call_id)
                return True
            case _:
                return False


def read_lines(path: Path) -> Iterator[bytes]:
    """Yield the whole lines of a log, without their newlines; skip an unfinished last one."""
    with path.open("rb", buffering=_READ_BYTES) as file:
        while (line := file.readline(LINE_LIMIT_BYTES)).endswith(b"\n"):
            yield line[:-1]


def strip_seal(line: bytes) -> bytes:
    """Return a line without its hash: the bytes that the hash was computed from."""
    return line[:-SEAL_BYTES] + b"}"


def verify_seal(line: bytes) -> str | None:
    """Return the hash in a line; None if it is not the hash of the rest of the line."""
    hashed = hashlib.sha256(line[:-SEAL_BYTES])
    hashed.update(b"}")
    computed = hashed.hexdigest()
    return computed if line[-SEAL_BYTES:] == b'%b%b"}' % (_SEAL_KEY, computed.encode()) else None


def _encode_line(entry: Entry, prev: str) -> tuple[bytes, str, bool]:
    """Return the line, its hash, and whether all of its text could be written."""
    record = {
        "v": VERSION,
        "seq": entry.seq,
        "at": entry.at,
        "session": entry.session,
        "parent": entry.parent,
        "prev": prev,
        "fact": to_json(entry.fact),
    }
    text = _JSON.encode(record)
    is_exact = True
    try:
        body = text.encode()
    except UnicodeEncodeError:  # half a surrogate pair
        body, is_exact = text.encode("utf-8", "replace"), False
    sealed = _hash_bytes(body)
    return body[:-1] + _SEAL_KEY + sealed.encode() + b'"}', sealed, is_exact


def _hash_bytes(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def to_json(value: Any) -> Any:
    """Return a fact as plain JSON data. Fields at their default are omitted: readers know them."""
    kind: type = type(value)
    if kind in _PLAIN:
        return value
    if fields_of := _list_fields(kind):
        return {
            name: item if type(item) in _PLAIN else to_json(item)
            for name, default in fields_of
            if ((item := getattr(value, name)) is not default and item != default) or name == "type"
        }
    if isinstance(value, tuple | list):
        return [to_json(item) for item in value]
    if isinstance(value, dict):
        return {key: to_json(item) for key, item in value.items()}
    return str(value) if isinstance(value, Path) else value


@cache
def _list_fields(of: type) -> tuple[tuple[str, Any], ...]:
    """Return the names and defaults of a dataclass; empty for any other type."""
    if not is_dataclass(of):
        return ()
    return tuple((field.name, field.default) for field in fields(of))


def _put_away(fact: Fact, line: StoredLine) -> None:
    from agentcli.log.reopen import put_away  # not before the first request

    put_away(fact, line)


def _write_whole(fd: int, data: bytes) -> int:
    """Write everything, normally at once. Continue a short write; undo a failed one.

    Return the offset."""
    found = os.fstat(fd)
    if found.st_nlink == 0:
        raise FileNotFoundError(errno.ENOENT, "it was removed")
    try:
        while data:
            data = data[os.write(fd, data) :]
    except OSError:
        os.ftruncate(fd, found.st_size)
        raise
    return found.st_size


def _write_error(path: Path, error: OSError) -> RecordError:
    why = build_unwritable_error(path, error)
    return RecordError(str(why), hint=why.hint)
