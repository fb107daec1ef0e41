"""Placeholders: guarded paths made to exist while commands run, so that a mount can hold them.

Only what exists can be mounted over, in a mount namespace of its own, too. A missing path is
created, empty or with content that changes nothing for git, and known by its time. It is removed
when no command runs any more, of this session or another: removed earlier, it would be open to the
others. Each session has a lock on it, which the kernel drops when the session is killed. Then a
process outside removes it, or else the next session here. What a user has made or used is never
touched.
"""

import os
import shlex
import stat
import sys
import time
from collections.abc import Iterable
from contextlib import ExitStack, suppress
from pathlib import Path
from threading import Lock

from agentcli.sandbox.protect import GuardedPath
from agentcli.system.process_table import run_if_killed
from agentcli.types.fast_dataclass import dataclass

if sys.platform != "win32":
    import fcntl

_MADE_AT_S = 981_173_106
"""A moment in 2001. Anyone who adds something, or creates the path, leaves another time."""
_CAREFULLY = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
_MAKING_S = 0.25
"""The longest time between creating a placeholder and setting its time, on a busy machine."""
_TRIES = 50
_LOCK_TRIES = 20
_LOCK_PAUSE_S = 0.005

# Commands of the killed session are gone after that time. `flock` fails if another session has it.
# It gets an open file: a path that is removed at this moment it would create, as a file.
_REMOVE = (
    "sleep 2; for word in {words}; do path=$(printf '%b.' \"$word\"); path=${{path%.}}; "
    '[ "$(stat -c %Y "$path")" = {made_at_s} ] || continue; '
    '( exec 9<"$path" && flock -nx 9 && [ "$path" -ef /dev/fd/9 ] || exit; '
    'if [ -d "$path" ]; then rmdir "$path"; else rm "$path"; fi ); done'
)


@dataclass(frozen=True, slots=True)
class Placeholder:
    path: Path
    is_directory: bool
    filler: bytes = b""
    """The content of a file."""

    @classmethod
    def from_guarded(cls, one: GuardedPath) -> "Placeholder":
        return cls(one.path, one.kind == "directory", one.filler)

    @property
    def word(self) -> str:
        """The path as `printf %b` reads it, safe for any bytes."""
        return "".join(f"\\0{byte:03o}" for byte in os.fsencode(self.path))

    def is_missing(self) -> bool:
        """Return whether nothing is there. Raise OSError if it is something else by now."""
        try:
            mode = self.path.lstat().st_mode
        except FileNotFoundError:
            return True
        if not (stat.S_ISDIR(mode) if self.is_directory else stat.S_ISREG(mode)):
            kind = "directory" if self.is_directory else "file"
            raise OSError(f"{self.path} is no {kind} any more, so it cannot be protected")
        return False

    def make(self) -> None:
        """Create the placeholder. Raise FileExistsError if something exists there by now."""
        if self.is_directory:
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

        Raise FileNotFoundError if somebody has removed it, BlockingIOError if somebody is about to.
        """
        if not self._may_be_ours(self._wait_for_stamp()):
            return None
        with ExitStack() as undo:
            handle = os.open(self.path, _CAREFULLY)
            undo.callback(os.close, handle)
            if not self._is_ours(handle):
                return None
            if not _lock(handle, fcntl.LOCK_SH, tries=_LOCK_TRIES):
                raise BlockingIOError(self.path)
            if not os.path.samestat(self.path.lstat(), os.fstat(handle)):
                raise FileNotFoundError(self.path)
            undo.pop_all()
            return handle

    def _wait_for_stamp(self) -> os.stat_result:
        """Wait if it is very new: another session that created it may not have set its time yet."""
        found = self.path.lstat()
        while self._may_be_new(found):
            time.sleep(_LOCK_PAUSE_S)
            found = self.path.lstat()
        return found

    def _may_be_new(self, found: os.stat_result) -> bool:
        """Return whether it looks like a placeholder but for its time, which is very recent."""
        if not 0 <= time.time() - found.st_mtime < _MAKING_S:
            return False
        if self.is_directory:
            return stat.S_ISDIR(found.st_mode) and not any(self.path.iterdir())
        return stat.S_ISREG(found.st_mode) and found.st_size in (0, len(self.filler))

    def give_up(self, handle: int) -> None:
        """Remove it, unless others hold it or somebody has used it."""
        try:
            if _lock(handle, fcntl.LOCK_EX, tries=1) and self._is_still(handle, at=self.path):
                self.path.rmdir() if self.is_directory else self._unlink(handle)
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

    def is_untouched(self, name: str, parent: int) -> bool:
        """Return whether the entry of an open directory is unchanged, empty or with its filler."""
        try:
            handle = os.open(name, _CAREFULLY, dir_fd=parent)
        except OSError:
            return False
        try:
            return os.fstat(handle).st_mtime == _MADE_AT_S and self._is_ours(handle)
        finally:
            os.close(handle)

    def _is_still(self, handle: int, *, at: Path) -> bool:
        return self._is_ours(handle) and os.path.samestat(at.lstat(), os.fstat(handle))

    def _is_ours(self, handle: int) -> bool:
        found = os.fstat(handle)
        if not self._may_be_ours(found):
            return False
        if self.is_directory:
            return not os.listdir(handle)
        return os.pread(handle, found.st_size, 0) == self.filler

    def _may_be_ours(self, found: os.stat_result) -> bool:
        if self.is_directory:
            return stat.S_ISDIR(found.st_mode) and found.st_mtime == _MADE_AT_S
        if not stat.S_ISREG(found.st_mode) or found.st_size != len(self.filler):
            return False
        # A filler that nobody but us writes there is proof enough.
        return self.filler != b"" or found.st_mtime == _MADE_AT_S


class PlaceholderHolder:
    def __init__(self, guarded: Iterable[GuardedPath]) -> None:
        self._placeholders = tuple(map(Placeholder.from_guarded, guarded))
        self._claims: dict[Placeholder, int] = {}
        self._has_reaper = False
        self._holders = 0
        self._lock = Lock()

    def take(self) -> None:
        """Hold every path. Raise OSError if one cannot be held as what it is."""
        with self._lock:
            self._holders += 1
            try:
                for one in self._placeholders:
                    self._hold(one)
                if self._claims and not self._has_reaper:
                    self._arm_reaper()
            except BaseException:
                self._leave()
                raise

    def release(self) -> None:
        with self._lock:
            self._leave()

    def _hold(self, one: Placeholder) -> None:
        for _ in range(_TRIES):
            try:
                if one.is_missing():
                    self._forget(one)
                    one.make()
                if one not in self._claims and (handle := one.claim()) is not None:
                    self._claims[one] = handle
            except (BlockingIOError, FileExistsError, FileNotFoundError):
                continue  # another session creates or removes it
            else:
                return
        raise OSError(f"{one.path} can neither be made nor held, so it cannot be protected")

    def _leave(self) -> None:
        self._holders -= 1
        while self._claims and not self._holders:
            one, handle = self._claims.popitem()
            one.give_up(handle)

    def _arm_reaper(self) -> None:
        """Register all paths with the reaper. It leaves missing ones and the user's alone."""
        self._has_reaper = True
        with suppress(OSError):  # there is none, or somebody has ended it
            run_if_killed(build_removal(self._placeholders))

    def _forget(self, one: Placeholder) -> None:
        """Drop the claim on a placeholder that somebody has removed, whoever held it."""
        handle = self._claims.pop(one, None)
        if handle is not None:
            os.close(handle)


def build_removal(placeholders: Iterable[Placeholder]) -> str:
    """Return a line of shell that removes those of them that nobody holds or has used."""
    words = shlex.join(one.word for one in placeholders)
    return _REMOVE.format(words=words, made_at_s=_MADE_AT_S)


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
