"""Directories with a short path for one session, for sockets: a socket's path has 108 bytes.

A session holds a lock on its directory. After a kill nobody holds it, and the next session that
creates one removes what was left.
"""

import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp

from agentcli.types.fast_dataclass import dataclass

if sys.platform != "win32":
    import fcntl

TEMPORARY = (Path("/tmp"), Path("/var/tmp"))
"""The directories that all programs share for temporary files."""
_PREFIX = "agentcli-run-"
_MOST_TRIES = 5


@dataclass(frozen=True, slots=True)
class ShortDirectory:
    path: Path
    lock: int
    """The open directory, whose lock says that it is in use."""

    def close(self) -> None:
        rmtree(self.path, ignore_errors=True)
        os.close(self.lock)


def create_short_directory(*, workspace: Path) -> ShortDirectory | None:
    """Create a directory that does not lie in `workspace`, or return None if none can be made."""
    for parent in TEMPORARY:
        if parent.is_relative_to(workspace) or not os.access(parent, os.W_OK | os.X_OK):
            continue
        for left in _find_left(parent):
            left.close()
        for _ in range(_MOST_TRIES):
            made = Path(os.path.realpath(mkdtemp(prefix=_PREFIX, dir=parent)))
            if held := _lock(made):
                return held
    return None


def _find_left(parent: Path) -> Iterator[ShortDirectory]:
    """Yield the directories of our user that no session holds."""
    try:
        found = [path for path in parent.iterdir() if path.name.startswith(_PREFIX)]
    except OSError:
        return
    for path in found:
        if left := _lock(path):
            yield left


def _lock(path: Path) -> ShortDirectory | None:
    """Return the directory, locked; None if it is another's, in use, or gone by now."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        found = os.fstat(handle)
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        is_ours = found.st_uid == os.geteuid() and stat.S_IMODE(found.st_mode) & 0o077 == 0
        if is_ours and os.path.samestat(found, path.lstat()):
            return ShortDirectory(path, handle)
    except OSError:
        os.close(handle)
        return None
    os.close(handle)
    return None
