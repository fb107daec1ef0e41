"""One process per session: a lock that the kernel releases when its holder dies.

The file holds the holder's pid for the user. A lock file without a living holder is no lock.
"""

import os
import sys
from pathlib import Path

from agentcli.types.errors import SettingsError

if sys.platform == "win32":
    import msvcrt

    _BEYOND_THE_PID = 1 << 30  # others cannot read a locked byte, but must read the pid

    def _take(fd: int) -> None:
        os.lseek(fd, _BEYOND_THE_PID, os.SEEK_SET)
        msvcrt.locking(fd, msvcrt.LK_NBLCK, 1)

else:
    import fcntl

    def _take(fd: int) -> None:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)


class SessionInUse(SettingsError):
    """Another process has the session."""


class SessionLock:
    """A lock held from its creation until `release`, or until the process dies."""

    def __init__(self, directory: Path) -> None:
        """Take the lock. Raise SessionInUse if another process has it, else SettingsError."""
        try:
            self._fd = os.open(directory / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise SettingsError(
                f"cannot write to the session {directory}: {error.strerror}",
                hint=f"make it writable, or work on a copy: agentcli fork {directory.name}",
            ) from error
        if not _try_lock(self._fd):
            holder = _read_pid(self._fd) or "unknown"
            os.close(self._fd)
            raise SessionInUse(
                f"the session {directory.name} is in use by another process (pid {holder})",
                hint=f"work on a copy of it: agentcli fork {directory.name}",
            )
        try:
            _write_pid(self._fd)
        except OSError as error:  # a write does not name its file
            raise OSError(error.errno, error.strerror, str(directory / "lock")) from error

    def release(self) -> None:
        os.close(self._fd)


def lock_output(out: Path, what: str) -> SessionLock:
    """Make a directory for results, and lock it. `what` is the kind of work that writes there.

    Raise SettingsError if that is not possible."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        (out / ".gitignore").write_text("*\n", encoding="utf-8")
        return SessionLock(out)
    except SessionInUse as error:
        raise SettingsError(
            f"another {what} is writing to {out}", hint="wait for it, or use another --out"
        ) from error
    except OSError as error:
        raise SettingsError(f"cannot write to {out}: {error.strerror}", hint="--out DIR") from error


def is_held(directory: Path) -> bool:
    """Return whether a process has the session now."""
    try:
        fd = os.open(directory / "lock", os.O_RDWR)
    except OSError:
        return False
    try:
        return not _try_lock(fd)
    finally:
        os.close(fd)


def _try_lock(fd: int) -> bool:
    try:
        _take(fd)
    except (BlockingIOError, PermissionError):
        return False
    except OSError:  # a file system without locks: fall back to the pid
        return not _is_alive(_read_pid(fd))
    return True


def _is_alive(pid: str) -> bool:
    if not pid.isdecimal() or int(pid) == os.getpid():
        return False
    try:
        os.kill(int(pid), 0)
    except OSError as error:
        return isinstance(error, PermissionError)
    return True


def _read_pid(fd: int) -> str:
    os.lseek(fd, 0, os.SEEK_SET)
    return os.read(fd, 32).decode("ascii", "replace").strip()


def _write_pid(fd: int) -> None:
    os.ftruncate(fd, 0)
    os.lseek(fd, 0, os.SEEK_SET)
    os.write(fd, f"{os.getpid()}\n".encode())
