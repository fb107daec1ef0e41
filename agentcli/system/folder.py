"""An open directory: every name in it is reached through its handle, never through a path.

A name is one component, and a symbolic link is never followed. So a walk down from a trusted root
by `enter` stays beneath it, whatever is swapped on the way. If the platform has no directory
handles (Windows), the same calls use paths, after a check that finds no link.
"""

import errno
import os
import stat
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from types import TracebackType

if sys.platform != "win32":
    import fcntl

HAS_HANDLES = os.open in os.supports_dir_fd

# Absent on some platforms: O_PATH opens a directory to pass through, even if we may not list it.
_PASS = getattr(os, "O_PATH", os.O_RDONLY) | getattr(os, "O_DIRECTORY", 0)
_CAREFUL = (
    getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_NONBLOCK", 0)  # opening a FIFO must not wait for its other end
    | getattr(os, "O_NOCTTY", 0)
    | getattr(os, "O_BINARY", 0)
)

_LOCK_TRIES = 100
_LOCK_PAUSE_S = 0.01


class Folder:
    """An open directory. Use it as a context manager, or `close` it."""

    def __init__(self, path: Path, handle: int | None) -> None:
        self.path = path
        self._handle = handle

    @classmethod
    def open(cls, path: Path) -> "Folder":
        """Open a trusted starting point. Its last component must not be a link."""
        if not HAS_HANDLES:
            return cls(path, None)
        return cls(path, os.open(path, _PASS | _CAREFUL))

    def __enter__(self) -> "Folder":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None

    def enter(self, name: str) -> "Folder":
        """Open the directory of that name. Raise NotADirectoryError if it is a link or a file."""
        path = self.path / name
        if HAS_HANDLES:
            return Folder(path, os.open(name, _PASS | _CAREFUL, dir_fd=self._handle))
        if not stat.S_ISDIR(self._stat(name).st_mode):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path))
        return Folder(path, None)

    def make(self, name: str) -> None:
        os.mkdir(self._locate_name(name), 0o777, dir_fd=self._handle)

    def remove(self, name: str) -> None:
        os.rmdir(self._locate_name(name), dir_fd=self._handle)

    def stat(self, name: str) -> os.stat_result | None:
        """Return the status of the name itself, never of a link's target; None if there is none."""
        try:
            return self._stat(name)
        except FileNotFoundError:
            return None

    def open_file(self, name: str, flags: int, *, mode: int = 0o600) -> int:
        return os.open(self._locate_name(name), flags | _CAREFUL, mode, dir_fd=self._handle)

    def may_write(self, name: str) -> bool:
        return os.access(self._locate_name(name), os.W_OK, dir_fd=self._handle)

    def rename(self, source: str, target: str) -> None:
        os.replace(
            self._locate_name(source),
            self._locate_name(target),
            src_dir_fd=self._handle,
            dst_dir_fd=self._handle,
        )

    def unlink(self, name: str) -> None:
        os.unlink(self._locate_name(name), dir_fd=self._handle)

    def link(self, name: str, target: bytes) -> None:
        """Make a symbolic link."""
        os.symlink(target, os.fsencode(self._locate_name(name)), dir_fd=self._handle)

    def target(self, name: str) -> bytes:
        """Return the target of a symbolic link."""
        return os.fsencode(os.readlink(self._locate_name(name), dir_fd=self._handle))

    def set_mode(self, name: str, mode: int) -> None:
        """Set the mode of a file or directory. Does nothing if the platform has no permissions."""
        if hasattr(os, "fchmod"):
            handle = self.open_file(name, os.O_RDONLY)
            try:
                os.fchmod(handle, mode)
            finally:
                os.close(handle)

    @contextmanager
    def scan(self) -> Iterator[Iterator[os.DirEntry[str]]]:
        """Yield the entries, unordered. Do not call methods of them that follow links."""
        if self._handle is None:
            with os.scandir(self.path) as entries:
                yield entries
            return
        listing = self._open_itself()
        try:
            with os.scandir(listing) as entries:
                yield entries
        finally:
            os.close(listing)

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Exclude other processes that use this lock. After a second, go on without it."""
        with ExitStack() as stack:
            if sys.platform != "win32":
                with suppress(OSError):  # it may not be listed, or the file system has no locks
                    handle = self._open_itself()
                    stack.callback(os.close, handle)
                    _lock(handle)
            yield

    def location(self) -> Path | None:
        """Return the current path of the opened directory; None if the system does not know."""
        try:
            return Path(f"/proc/self/fd/{self._handle}").readlink()
        except OSError:
            return None

    def _open_itself(self) -> int:
        """Open it for reading: a handle opened by O_PATH can neither be listed nor locked."""
        return os.open(".", os.O_RDONLY | os.O_DIRECTORY | _CAREFUL, dir_fd=self._handle)

    def _locate_name(self, name: str) -> str:
        return name if self._handle is not None else str(self.path / name)

    def _stat(self, name: str) -> os.stat_result:
        return os.stat(self._locate_name(name), dir_fd=self._handle, follow_symlinks=False)


if sys.platform != "win32":

    def _lock(handle: int) -> None:
        for _ in range(_LOCK_TRIES):
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                time.sleep(_LOCK_PAUSE_S)
            else:
                return


@contextmanager
def descend(path: Path, parts: Sequence[str], *, make: bool = False) -> Iterator[Folder]:
    """Open the folder below a trusted root. With `make`, missing ones are made.

    Those made are removed again on failure.
    """
    made: list[tuple[Folder, str]] = []
    with ExitStack() as stack:
        folder = stack.enter_context(Folder.open(path))
        try:
            for name in parts:
                if make and folder.stat(name) is None:
                    with suppress(FileExistsError):  # another process was faster
                        folder.make(name)
                        made.append((folder, name))
                folder = stack.enter_context(folder.enter(name))
            yield folder
        except BaseException:
            for parent, name in reversed(made):
                with suppress(OSError):  # another process put something in it: it stays
                    parent.remove(name)
            raise
