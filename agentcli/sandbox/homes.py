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
from contextlib import suppress
from pathlib import Path
from threading import Thread
from typing import TypeAlias

from agentcli.sandbox.contents import (
    DIRECTORY,
    DirectoryContent,
    Entry,
    FileContent,
    remove_entry,
    write_entry,
)
from agentcli.system.files import exists, is_file, is_link, read_regular
from agentcli.system.git import list_user_settings
from agentcli.types.errors import SettingsError
from agentcli.types.fast_dataclass import dataclass

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

    def __init__(self, path: Path, lock: int, *, is_new: bool = False) -> None:
        self.path = path
        self._lock = lock
        self._is_new = is_new

    def close(self, *, is_unused: bool = False) -> None:
        """Give it up. Remove it if it was made for commands that never came."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1
            if is_unused and self._is_new:
                with suppress(OSError):
                    _clear(self.path.parent)  # unless another session has it by now


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
    is_new = not directory.exists()
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
    return CommandHome(directory / _HOME, lock, is_new=is_new)


def list_homes(homes: Path) -> tuple[StoredHome, ...]:
    """Return all stored homes, the latest used first."""
    found = sorted(_find_all(homes), key=lambda one: one.used_at, reverse=True)
    return tuple(found)


def find_home(homes: Path, workspace: Path) -> StoredHome | None:
    return _read_home(_find_directory(homes, workspace))


def clear_home(stored: StoredHome) -> bool:
    """Remove a home. Return False if a session uses it."""
    return _clear(stored.directory)


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


def _clear(directory: Path) -> bool:
    lock = os.open(directory / _LOCK, os.O_RDWR | os.O_CLOEXEC)
    try:
        is_alone = _take_alone(lock)
        if is_alone:
            _remove_directory(directory)
        return is_alone
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


# The settings of git in a home.


_GIT_FILES = {"core.excludesfile": "ignore", "core.attributesfile": "attributes"}
"""Settings that name a file, and the name under which git finds it without a setting."""
_QUOTED = str.maketrans({'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t"})
_GIT_SETTINGS = ".gitconfig"
_PRIVATE = 0o600
_PRIVATE_DIRECTORY = 0o700
_LARGEST_BYTES = 256_000
_MOST_LINKS = 40


def copy_git_settings(home: Path, *, user_home: Path, workspace: Path) -> None:
    """Give a command's git the user's own settings that name no program, and what it leaves out.

    Settings that are there stay. Git need not check who owns a repository in a sandbox: what its
    settings run is confined.
    """
    if exists(home / _GIT_SETTINGS):
        return
    try:
        settings = list_user_settings(workspace) if _may_have_settings(user_home) else {}
    except SettingsError:
        settings = {}  # without git, no command needs them
    files: dict[str, Entry] = {}
    for key, name in _GIT_FILES.items():
        given = settings.pop(key, None)
        path = (
            _expand(given, user_home)
            if given is not None
            else _locate_git_directory(user_home) / name
        )
        if path is not None and not _is_led_by(workspace, path):
            files |= _read_small(path, name)
    lines = ["[safe]", "\tdirectory = *"]
    for key, value in settings.items():
        section, _, name = key.partition(".")
        lines += [f"[{section}]", f'\t{name} = "{value.translate(_QUOTED)}"']
    text = "\n".join((*lines, ""))
    _create_git_settings(home, text.encode("utf-8", "surrogateescape"), files=files)


def _create_git_settings(home: Path, settings: bytes, *, files: Mapping[str, Entry]) -> None:
    """Write the files, but not over or through what a command of another session put there."""
    entries: dict[str, Entry] = {_GIT_SETTINGS: FileContent(_PRIVATE, settings)}
    if files:
        below = DirectoryContent(_PRIVATE_DIRECTORY, files)
        entries[".config"] = DirectoryContent(_PRIVATE_DIRECTORY, {"git": below})
    handle = os.open(home, DIRECTORY)
    try:
        for name, entry in entries.items():
            with suppress(FileExistsError):
                write_entry(name, handle, entry=entry)
    finally:
        os.close(handle)


def _may_have_settings(user_home: Path) -> bool:
    """Return whether one of the user's files is there, which name all others."""
    files = (user_home / ".gitconfig", _locate_git_directory(user_home) / "config")
    return "GIT_CONFIG_GLOBAL" in os.environ or any(map(exists, files))


def _locate_git_directory(user_home: Path) -> Path:
    return Path(os.environ.get("XDG_CONFIG_HOME") or user_home / ".config", "git")


def _expand(given: str, user_home: Path) -> Path | None:
    """Return the path that git's settings name, or None if it depends on where git runs."""
    path = user_home / given[2:] if given.startswith("~/") else Path(given)
    return path if path.is_absolute() else None


def _is_led_by(workspace: Path, path: Path) -> bool:
    """Return whether a link in the workspace, which a command may have made, leads to the file."""
    for _ in range(_MOST_LINKS):
        if not is_link(path):
            return False
        parent = Path(os.path.realpath(path.parent))
        if parent.is_relative_to(workspace):
            return True
        path = parent / path.readlink()
    return True


def _read_small(source: Path, name: str) -> dict[str, Entry]:
    if is_file(source) and os.access(source, os.R_OK) and source.stat().st_size <= _LARGEST_BYTES:
        return {name: FileContent(_PRIVATE, read_regular(source))}
    return {}
