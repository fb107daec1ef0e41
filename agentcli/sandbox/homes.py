"""The home directory of a workspace's commands, which lasts from one session to the next.

What tools download and build stays, so that nothing is fetched twice. Everything else in it is
removed before a session uses it alone: what a command left there as a setting, such as an alias of
git or an index of pip, must not lead commands of later sessions. It is never the user's own home.

Every session that uses a home holds a shared lock on it, which the kernel releases with the
process. A home is renewed or cleared only under an exclusive lock.
"""

import fcntl
import hashlib
import os
import stat
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from typing import TypeAlias

from agentcli.sandbox.contents import DIRECTORY, remove_entry

UNUSED_DAYS = 30
"""A home that no session used for so long is removed."""
_DAY_S = 24 * 60 * 60

_Lasting: TypeAlias = Mapping[str, "_Lasting"]
_ALL: _Lasting = {}

# The caches of tools, and what they install for themselves. Never a place for settings or for
# programs that are found by name, and no `.local/lib`: Python runs what lies there at every start.
_LASTING: _Lasting = {
    ".bun": {"install": {"cache": _ALL}},
    ".cache": _ALL,  # pip, uv, pre-commit, go, yarn, mypy, ccache and most others
    ".cargo": {"registry": _ALL, "git": _ALL},
    ".gradle": {"caches": _ALL, "wrapper": _ALL},
    ".ivy2": {"cache": _ALL},
    ".local": {"share": {"pnpm": _ALL, "uv": _ALL, "virtualenv": _ALL}},
    ".m2": {"repository": _ALL},
    ".npm": _ALL,
    ".nuget": {"packages": _ALL},
    ".pnpm-store": _ALL,
    ".rustup": _ALL,
    ".yarn": {"berry": _ALL},
    "go": {"pkg": _ALL},
}

_HOME, _LOCK, _WORKSPACE = "home", "lock", "workspace"


class CommandHome:
    """A home in use by this process, until it is closed."""

    def __init__(self, path: Path, lock: int) -> None:
        self.path = path
        self._lock = lock

    def close(self) -> None:
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredHome:
    """A home as it is stored, whether in use or not."""

    directory: Path
    workspace: Path
    used_at: float

    @property
    def path(self) -> Path:
        return self.directory / _HOME

    def measure_bytes(self) -> int:
        """Return the space it takes. A file with several names in it is counted once."""
        seen: set[tuple[int, int]] = set()
        total = 0
        for _, directories, files, handle in os.fwalk(self.path):
            for name in (*directories, *files):
                with suppress(OSError):
                    found = os.stat(name, dir_fd=handle, follow_symlinks=False)
                    if (found.st_dev, found.st_ino) not in seen:
                        seen.add((found.st_dev, found.st_ino))
                        total += found.st_blocks * 512
        return total


def find_homes_directory(sessions: Path) -> Path:
    """Return the directory of all homes, which lies beside that of the sessions."""
    return sessions.parent / "homes"


def open_home(homes: Path, workspace: Path) -> CommandHome:
    """Take the home of a workspace into use. Raise OSError if there cannot be one."""
    directory = _find_directory(homes, workspace)
    (directory / _HOME).mkdir(mode=0o700, parents=True, exist_ok=True)
    lock = os.open(directory / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        if _take_alone(lock):
            (directory / _WORKSPACE).write_bytes(os.fsencode(workspace))
            _renew(directory / _HOME)
        fcntl.flock(lock, fcntl.LOCK_SH)  # waits for another that renews it
        os.utime(lock)
        if not _is_at(directory / _LOCK, lock):
            raise FileNotFoundError(f"{directory} was cleared in this moment")
    except BaseException:
        os.close(lock)
        raise
    Thread(target=remove_unused, args=(homes,), daemon=True, name="unused homes").start()
    return CommandHome(directory / _HOME, lock)


def list_homes(homes: Path) -> tuple[StoredHome, ...]:
    """Return all stored homes, the latest used first."""
    found = sorted(_find_all(homes), key=lambda one: one.used_at, reverse=True)
    return tuple(found)


def find_home(homes: Path, workspace: Path) -> StoredHome | None:
    return _read_home(_find_directory(homes, workspace))


def clear_home(stored: StoredHome) -> bool:
    """Remove a home. Return False if a session uses it."""
    with _hold_alone(stored.directory) as is_alone:
        if is_alone:
            _remove_directory(stored.directory)
        return is_alone


def remove_unused(homes: Path, *, now: float | None = None) -> None:
    """Remove homes that no session used for long, or whose workspace is gone.

    What fails is tried again by another session."""
    oldest = (time.time() if now is None else now) - UNUSED_DAYS * _DAY_S
    for stored in _find_all(homes):
        if stored.used_at < oldest or not stored.workspace.exists():
            with suppress(OSError):
                clear_home(stored)


def _find_directory(homes: Path, workspace: Path) -> Path:
    name = hashlib.sha256(os.fsencode(os.path.realpath(workspace))).hexdigest()[:16]
    return homes / name


def _find_all(homes: Path) -> Iterator[StoredHome]:
    with suppress(OSError):
        for entry in list(os.scandir(homes)):
            if (stored := _read_home(Path(entry.path))) is not None:
                yield stored


def _read_home(directory: Path) -> StoredHome | None:
    try:
        workspace = Path(os.fsdecode((directory / _WORKSPACE).read_bytes()))
        used_at = (directory / _LOCK).stat().st_mtime
    except OSError:
        return None
    return StoredHome(directory=directory, workspace=workspace, used_at=used_at)


@contextmanager
def _hold_alone(directory: Path) -> Iterator[bool]:
    lock = os.open(directory / _LOCK, os.O_RDWR | os.O_CLOEXEC)
    try:
        yield _take_alone(lock)
    finally:
        os.close(lock)


def _take_alone(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_at(path: Path, handle: int) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(handle))
    except OSError:
        return False


def _renew(home: Path) -> None:
    """Remove all that is no cache. Links are not followed: a command may have made them."""
    handle = os.open(home, DIRECTORY)
    try:
        _keep_only(handle, _LASTING)
    finally:
        os.close(handle)


def _keep_only(directory: int, lasting: _Lasting) -> None:
    for name in _list_names(directory):
        below = lasting.get(name)
        if below is None or not _is_real_directory(name, directory):
            remove_entry(name, directory)
        elif below:
            handle = os.open(name, DIRECTORY, dir_fd=directory)
            try:
                _keep_only(handle, below)
            finally:
                os.close(handle)


def _list_names(directory: int) -> list[str]:
    with os.scandir(directory) as entries:
        return [entry.name for entry in entries]


def _is_real_directory(name: str, parent: int) -> bool:
    return stat.S_ISDIR(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode)


def _remove_directory(directory: Path) -> None:
    """Remove a home whole. The lock goes last, so that nobody takes a half removed one for new."""
    handle = os.open(directory, DIRECTORY)
    try:
        for name in sorted(_list_names(handle), key=lambda name: name == _LOCK):
            remove_entry(name, handle)
    finally:
        os.close(handle)
    with suppress(OSError):  # another session began a new one
        directory.rmdir()
