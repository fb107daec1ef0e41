"""Placeholders: files created only to be held, known by their time and removed after use.

Several sessions may hold the same path. Each has a lock on it, which the kernel drops when the
session is killed. Only the last holder removes it. What a user has made or used is never touched.

This is also a program of its own, run after a session was killed: it imports nothing of ours.
"""

import os
import stat
import sys
import time
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

if sys.platform != "win32":
    import fcntl

DIRECTORY = "directory"

_MADE_AT_S = 981_173_106
"""A moment in 2001. Anyone who adds something, or creates the path, leaves another time."""
_CAREFULLY = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
_MAKING_S = 0.05
_LOCK_TRIES = 20
_LOCK_PAUSE_S = 0.005


@dataclass(frozen=True, slots=True)
class Placeholder:
    path: Path
    kind: str
    filler: bytes = b""
    """The content of a file."""

    @property
    def words(self) -> tuple[str, str, str]:
        """The placeholder as command-line arguments, safe for any path."""
        return os.fsencode(self.path).hex(), self.kind, f"={self.filler.hex()}"

    @classmethod
    def of_words(cls, path: str, kind: str, filler: str) -> "Placeholder":
        return cls(Path(os.fsdecode(bytes.fromhex(path))), kind, bytes.fromhex(filler[1:]))

    def make(self) -> None:
        """Create the placeholder. Raise FileExistsError if something exists there by now."""
        if self.kind == DIRECTORY:
            self.path.mkdir()
        else:
            handle = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
            try:
                os.write(handle, self.filler)
            finally:
                os.close(handle)
        os.utime(self.path, (_MADE_AT_S, _MADE_AT_S))

    def claim(self) -> int | None:
        """Return a handle whose lock stops others from removing it, or None if it is the user's.

        Raise FileNotFoundError if somebody has just removed it.
        """
        if not self._may_be_ours(self._wait_for_stamp()):
            return None
        with ExitStack() as undo:
            handle = os.open(self.path, _CAREFULLY)
            undo.callback(os.close, handle)
            if not self._is_ours(handle):
                return None
            _lock(handle, fcntl.LOCK_SH, tries=_LOCK_TRIES)
            if not os.path.samestat(self.path.lstat(), os.fstat(handle)):
                raise FileNotFoundError(self.path)
            undo.pop_all()
            return handle

    def _wait_for_stamp(self) -> os.stat_result:
        """Wait if it is very new: another session that created it may not have set its time yet."""
        for _ in range(_LOCK_TRIES):
            found = self.path.lstat()
            if not 0 <= time.time() - found.st_mtime < _MAKING_S:
                break
            time.sleep(_LOCK_PAUSE_S)
        return found

    def give_up(self, handle: int) -> None:
        """Remove it, unless others hold it or somebody has used it."""
        try:
            if _lock(handle, fcntl.LOCK_EX, tries=1) and self._is_still(handle, at=self.path):
                self.path.rmdir() if self.kind == DIRECTORY else self._unlink(handle)
        except OSError:
            return  # it is in use after all
        finally:
            os.close(handle)

    def _unlink(self, handle: int) -> None:
        """Remove the file. A file that somebody puts there at this very moment is put back."""
        aside = self.path.with_name(f"{self.path.name}.{os.urandom(4).hex()}")
        self.path.rename(aside)
        if self._is_still(handle, at=aside):
            aside.unlink()
        else:
            aside.rename(self.path)

    def _is_still(self, handle: int, *, at: Path) -> bool:
        return self._is_ours(handle) and os.path.samestat(at.lstat(), os.fstat(handle))

    def is_untouched(self, name: str, parent: int) -> bool:
        """Return whether the entry of an open directory is unchanged, empty or with its filler."""
        try:
            handle = os.open(name, _CAREFULLY, dir_fd=parent)
        except OSError:
            return False
        try:
            if os.fstat(handle).st_mtime != _MADE_AT_S or not self._is_ours(handle):
                return False
            return self.kind != DIRECTORY or _is_empty(handle)
        finally:
            os.close(handle)

    def _is_ours(self, handle: int) -> bool:
        found = os.fstat(handle)
        return self._may_be_ours(found) and (
            self.kind == DIRECTORY or os.pread(handle, found.st_size, 0) == self.filler
        )

    def _may_be_ours(self, found: os.stat_result) -> bool:
        if self.kind == DIRECTORY:
            return stat.S_ISDIR(found.st_mode) and found.st_mtime == _MADE_AT_S
        if not stat.S_ISREG(found.st_mode) or found.st_size != len(self.filler):
            return False
        # A filler that nobody but us writes there is proof enough.
        return self.filler != b"" or found.st_mtime == _MADE_AT_S


def remove_abandoned(leavings: list[Placeholder]) -> None:
    """Remove the placeholders that a killed session has left."""
    for leaving in leavings:
        with suppress(OSError):
            handle = leaving.claim()
            if handle is not None:
                leaving.give_up(handle)


def _is_empty(directory: int) -> bool:
    with os.scandir(directory) as entries:
        return not any(entries)


def _lock(handle: int, kind: int, *, tries: int) -> bool:
    """Return whether we have the lock. The wait is short: a removal takes only a moment."""
    for _ in range(tries):
        try:
            fcntl.flock(handle, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(_LOCK_PAUSE_S)
        except OSError:
            return True  # a file system without locks: each session is on its own
        else:
            return True
    return False


if __name__ == "__main__":
    words = sys.argv[1:]
    triples = zip(words[::3], words[1::3], words[2::3], strict=True)
    remove_abandoned([Placeholder.of_words(*triple) for triple in triples])
