"""The mounts that bubblewrap makes: a command's whole view of the file system.

They are made for one command, or below a directory of a cached mount namespace, which many
commands then use as their root. A command's own mounts are made last, on top of that.

In a directory that commands can write, no mount point can be replaced by a command. Each directory
on the way to one is a mount itself, and those can neither be renamed nor removed.
"""

import os
import select
import weakref
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cached_property, lru_cache, partial
from pathlib import Path
from threading import Lock

from agentcli.sandbox.paths import (
    SandboxPaths,
    list_granted,
    list_readable,
    list_resolver_files,
)
from agentcli.sandbox.protect import GrantedProtection, Protection, find_pins
from agentcli.system.files import is_link
from agentcli.system.temporary import TEMPORARY
from agentcli.types.fast_dataclass import dataclass
from agentcli.types.grants import Grants

_SINCE_0_7 = (0, 7, 0)
_SINCE_0_8 = (0, 8, 0)

_NAMESPACES = (
    "--unshare-pid",
    "--unshare-ipc",
    "--unshare-uts",
    "--unshare-cgroup-try",
    "--die-with-parent",
    "--new-session",
    "--cap-drop",
    "ALL",
)
_SHARED_MEMORY_BYTES = 2 * 1024**3
_KEPT_VIEWS = 16
_ROOT = Path("/")
_VIEW = Path("/view")
"""Path of the view in a mount namespace, beside the files bubblewrap needs to start there."""

_READ = "--ro-bind"
_CHANGE = "--bind"


@dataclass(frozen=True, slots=True)
class _Mount:
    option: str
    source: str
    at: Path


class MountView:
    """The mounts that stay the same for all commands of a session."""

    def __init__(
        self,
        paths: SandboxPaths,
        *,
        protection: Protection,
        version: tuple[int, ...],
        granted: GrantedProtection | None = None,
        has_private_network: bool = False,
    ) -> None:
        """The paths that `protection` guards must exist whenever a command starts.

        An old `version` of bubblewrap lacks options; the system call filter makes up for them.
        `has_private_network` is true if commands are in one already, unless they may use the whole
        network.
        """
        self.paths = paths
        self.protection = protection
        self.granted = granted or GrantedProtection()
        self.version = version
        self.has_private_network = has_private_network
        self.find_mounts = lru_cache(maxsize=_KEPT_VIEWS)(partial(GrantedMounts, self))
        """Returns the mounts for some grants."""
        mounts = self.find_mounts(Grants()).mounts
        free = tuple(path for path in TEMPORARY if not _is_covered(path, mounts))
        self.temporaries = (*free, paths.temporary)
        """The paths by which commands know the directory of their temporary files."""
        self.temporary = next(
            (path for path in free if not _holds_mounts(path, mounts)), paths.temporary
        )
        """The path for commands' temporary files: nothing else is mounted there."""

    def identify_sources(self, grants: Grants) -> tuple[tuple[int, int], ...]:
        """Return the identity of what is mounted, but for held and hidden paths: see MountCheck."""
        try:
            found = [path.stat() for path in self.find_mounts(grants).sources]
        except FileNotFoundError:  # what was granted, or git's settings in it, may be gone
            self.find_mounts.cache_clear()
            found = [path.stat() for path in self.find_mounts(grants).sources]
        return tuple((one.st_dev, one.st_ino) for one in found)


class GrantedMounts:
    """The mounts for one set of grants. The options for them are made when they are needed."""

    def __init__(self, view: MountView, grants: Grants) -> None:
        self._view = view
        self._paths = view.paths
        self._grants = grants
        self.mounts = _list_mounts(view, grants)

    @cached_property
    def sources(self) -> tuple[Path, ...]:
        """The paths that are mounted, but for held and hidden ones."""
        guarded = self._view.protection.guarded
        checked = {*(one.path for one in guarded), *self._paths.hidden}
        mounted = (*self._paths.system, *(one.at for one in self.mounts))
        return tuple(path for path in mounted if path not in checked)

    @cached_property
    def options(self) -> tuple[str, ...]:
        """The options of a command without a cached namespace, except the program to run."""
        return (
            *self._iter_unshared_options(),
            *self._list_tree_options(_ROOT),
            *self._iter_own_options(),
        )

    @cached_property
    def options_kept(self) -> tuple[str, ...]:
        """The options of a command that starts in a cached namespace for these grants."""
        return (
            *self._iter_unshared_options(),
            "--dev-bind",
            str(_VIEW),
            str(_ROOT),
            *self._iter_own_options(),
        )

    @cached_property
    def namespace_options(self) -> tuple[str, ...]:
        """The options of a cached namespace. Commands never see more of it than the view."""
        return (
            *self._iter_system_options(_ROOT),
            *("--dev-bind", "/proc", "/proc"),
            *("--dev-bind", os.devnull, os.devnull),
            *("--dir", "/tmp"),
            *("--tmpfs", str(_VIEW)),
            *self._list_tree_options(_VIEW),
        )

    def _iter_unshared_options(self) -> Iterator[str]:
        """Yield the options for what a command does not share with others."""
        yield from _NAMESPACES
        yield from self._iter_user_options()
        if not (self._grants.network or self._view.has_private_network):
            yield "--unshare-net"

    def _list_tree_options(self, root: Path) -> tuple[str, ...]:
        mounts = self.mounts
        temporary = [path for path in TEMPORARY if not _is_covered(path, mounts)]
        tops = _list_tops(temporary, mounts)
        sealed = (Path("/dev"), *tops, _ROOT)
        return (
            *self._iter_system_options(root),
            *(
                "--dir",
                _place_path(root, "/proc"),
                "--dev",
                _place_path(root, "/dev"),
                "--dir",
                _place_path(root, "/run"),
            ),
            *self._iter_temporary_options(temporary, tops, root=root),
            *(
                word
                for one in mounts
                for word in (one.option, one.source, _place_path(root, one.at))
            ),
            *(word for path in sealed for word in ("--remount-ro", _place_path(root, path))),
        )

    def _iter_own_options(self) -> Iterator[str]:
        """Yield the mounts for a command's own processes and their shared memory."""
        yield from ("--proc", "/proc", "--remount-ro", "/proc")
        if self._view.version >= _SINCE_0_7:
            yield from ("--size", str(_SHARED_MEMORY_BYTES))
        yield from ("--tmpfs", "/dev/shm")

    def _iter_user_options(self) -> Iterator[str]:
        if self._paths.needs_override:
            # A right to the files of others counts only in a namespace that knows those users.
            yield from ("--cap-add", "CAP_DAC_OVERRIDE")
            return
        yield from ("--unshare-user", "--uid", str(os.getuid()), "--gid", str(os.getgid()))
        if self._view.version >= _SINCE_0_8:
            yield "--disable-userns"

    def _iter_system_options(self, root: Path) -> Iterator[str]:
        for path in self._paths.system:
            if is_link(path):
                yield from ("--symlink", str(path.readlink()), _place_path(root, path))
            else:
                yield from (_READ, str(path), _place_path(root, path))

    def _iter_temporary_options(
        self, paths: Sequence[Path], tops: Iterable[Path], *, root: Path
    ) -> Iterator[str]:
        """Yield the mounts of /tmp, which is kept between commands.

        Mounts further below it lie in a fresh directory."""
        for path in paths:
            if path in (paths[0], self._view.temporary) or _holds_mounts(path, self.mounts):
                yield from (_CHANGE, str(self._paths.temporary), _place_path(root, path))
            else:
                yield from ("--symlink", str(paths[0]), _place_path(root, path))
        for top in tops:
            yield from ("--tmpfs", _place_path(root, top))


def _list_mounts(view: MountView, grants: Grants) -> Sequence[_Mount]:
    """Return the mounts from the top down, each after the ones that it lies in."""
    paths, protection = view.paths, view.protection
    directories = list_granted(grants, paths)
    granted = view.granted.find_mountable(directories)
    opened = list_readable(grants, paths)
    denied = view.granted.find_hidden(writable=directories, readable=opened)
    writable = (*protection.writable, *granted.writable, *directories, paths.workspace)
    read_only = (
        *opened,
        *list_resolver_files(grants),
        *granted.readable,
        *paths.toolchains,
        *paths.readable,
        *protection.readable,
    )
    own = (paths.own_environment,) if paths.own_environment else ()
    guarded = (*own, *(one.path for one in (*protection.guarded, *granted.guarded)))
    between = find_pins(
        writable, (*read_only, *writable, *paths.own, *guarded, *paths.hidden, *denied)
    )
    held = [path for path in between if any(one in path.parents for one in guarded)]
    layers = (
        (_READ, read_only),
        (_CHANGE, (*writable, *paths.own, *between)),
        (_READ, (*guarded, *held)),
    )
    mounts = {
        at: _Mount(option, os.path.realpath(at), at) for option, paths in layers for at in paths
    }
    covers = {at: paths.find_cover(at) for at in paths.hidden}
    covers |= {at: paths.find_denied_cover(at) for at in denied}
    hidden = {at: _Mount(_READ, str(cover), at) for at, cover in covers.items()}
    shown = (one for one in (mounts | hidden).values() if hidden.keys().isdisjoint(one.at.parents))
    return sorted(shown, key=lambda one: len(one.at.parts))


def _place_path(root: Path, path: Path | str) -> str:
    """Return an absolute path below a root. There are many, so they stay plain text."""
    return str(path) if root == _ROOT else f"{root}{path}".removesuffix("/")


def _is_covered(path: Path, mounts: Iterable[_Mount]) -> bool:
    """Return whether the user works there or granted it: no private directory replaces it then."""
    around = {path, *path.parents}
    return any(one.at in around for one in mounts)


def _holds_mounts(path: Path, mounts: Iterable[_Mount]) -> bool:
    below = f"{path}/"
    return any(str(one.at).startswith(below) for one in mounts)


def _list_tops(temporary: Iterable[Path], mounts: Sequence[_Mount]) -> list[Path]:
    """Return the first directories on the way to mounts below /tmp, but for mounts themselves."""
    tops = {
        path / one.at.relative_to(path).parts[0]
        for path in temporary
        for one in mounts
        if one.at.parent != path and _holds_mounts(path, (one,))
    }
    return sorted(tops - {one.at for one in mounts})


# The check that mounts still hold. The kernel drops a mount as soon as anyone renames over its
# mount point or removes it, and git writes its settings by renaming. Every path is kept open: as
# long as it is, no other file can get its inode number.


_OPEN_AS_PATH = getattr(os, "O_PATH", os.O_RDONLY) | getattr(os, "O_CLOEXEC", 0)


class MountCheck:
    """A check on paths as they are now. It ends with the last command that was started on it."""

    def __init__(self, paths: Iterable[Path]) -> None:
        """Raise OSError if a path does not exist."""
        handles: list[int] = []
        weakref.finalize(self, _close, handles)
        self._found: dict[Path, os.stat_result] = {}
        for path in paths:
            handles.append(os.open(path, _OPEN_AS_PATH))
            self._found[path] = os.fstat(handles[-1])
        self.paths: Collection[Path] = self._found.keys()

    def find_stale(self) -> tuple[Path, ...]:
        """Return the paths where there is another file by now, or no file at all."""
        return tuple(path for path, was in self._found.items() if not _is_at(path, was))

    def is_untouched(self) -> bool:
        """Return whether nothing changed at all: a file may be removed and then linked again."""
        return all(_is_at(path, was, as_it_was=True) for path, was in self._found.items())


class MountChecks:
    """The checks on all paths that are held from a sandbox's commands or hidden from them."""

    def __init__(self, paths: Iterable[Path]) -> None:
        self._paths = tuple(paths)
        self._latest: MountCheck | None = None

    def take(self) -> MountCheck:
        """Return a current check. Called before anything is mounted, so that later changes show."""
        latest = self._latest
        if latest is None or not latest.is_untouched():
            latest = self._latest = MountCheck(self._paths)
        return latest


@dataclass(frozen=True, slots=True)
class MountState:
    """What mounts were made of. As long as it is equal, they show and hold what they should."""

    mount_changes: int
    check: MountCheck
    sources: tuple[tuple[int, int], ...]


_TABLE = "/proc/self/mountinfo"


class MountTable:
    """A counter of mount changes. It may be used from any thread."""

    def __init__(self) -> None:
        self._handle = os.open(_TABLE, os.O_RDONLY | os.O_CLOEXEC)
        self._news = select.poll()
        self._news.register(self._handle, select.POLLPRI | select.POLLERR)
        self._changes = 0
        self._lock = Lock()

    def count_changes(self) -> int:
        """Return how often a mount or unmount was noticed so far."""
        with self._lock:
            self._changes += len(self._news.poll(0))
            return self._changes

    def close(self) -> None:
        os.close(self._handle)


class MountStates:
    """Reads what the mounts of a view are made of. It may be used from any thread."""

    def __init__(self, view: MountView) -> None:
        held = (one.path for one in view.protection.guarded)
        self._view = view
        self._checks = MountChecks((*held, *view.paths.hidden))
        self._table = MountTable()

    def read(self, grants: Grants) -> MountState:
        """Return the state before anything is mounted, so that later changes show."""
        check = self._checks.take()
        return MountState(self._table.count_changes(), check, self._view.identify_sources(grants))

    def close(self) -> None:
        self._table.close()


def _is_at(path: Path, was: os.stat_result, *, as_it_was: bool = False) -> bool:
    try:
        now = path.stat()
    except OSError:
        return False
    return os.path.samestat(now, was) and (not as_it_was or now.st_ctime_ns == was.st_ctime_ns)


def _close(handles: list[int]) -> None:
    for handle in handles:
        os.close(handle)
