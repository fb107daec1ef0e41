"""The mounts that bubblewrap makes: a command's whole view of the file system.

They are made for one command, or below a directory of a cached mount namespace, which many
commands then use as their root. A command's own mounts are made last, on top of that.

In a directory that commands can write, no mount point can be replaced by a command. Each directory
on the way to one is a mount itself, and those can neither be renamed nor removed.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TypeAlias

from agentcli.sandbox.paths import SandboxPaths, list_granted, resolver_files
from agentcli.sandbox.protect import Protection, find_pins
from agentcli.system.kinds import is_directory, is_link
from agentcli.types.verdicts import Grants

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
_TEMPORARY = (Path("/tmp"), Path("/var/tmp"))
_SHARED_MEMORY_BYTES = 2 * 1024**3
_KEPT_VIEWS = 16
_ROOT = Path("/")
_VIEW = Path("/view")
"""Path of the view in a mount namespace, beside the files bubblewrap needs to start there."""

MountState: TypeAlias = tuple[tuple[int, ...], ...]

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
        has_private_network: bool = False,
    ) -> None:
        """The paths that `protection` guards must exist whenever a command starts.

        An old `version` of bubblewrap lacks options; the system call filter makes up for them.
        `has_private_network` is true if commands are in one already, unless they may use the whole
        network.
        """
        self.places = paths
        self.protection = protection
        self.version = version
        self.has_private_network = has_private_network
        self.options = lru_cache(maxsize=_KEPT_VIEWS)(self._options)
        self.options_in_room = lru_cache(maxsize=_KEPT_VIEWS)(self._options_in_namespace)
        self.room = lru_cache(maxsize=_KEPT_VIEWS)(self._namespace_options)
        self._mounted = lru_cache(maxsize=_KEPT_VIEWS)(self._list_mounted)
        mounts = self._mounts(Grants())
        free = (path for path in _TEMPORARY if not _is_covered(path, mounts))
        self.temporary = next((path for path in free if not _tops([path], mounts)), paths.temporary)
        """The path for commands' temporary files: nothing else is mounted there."""

    def state(self, grants: Grants) -> MountState:
        """Return the identity of all mounted files: once a source is replaced, its mount is void.

        The inode number of a deleted file may be reused. So for guarded and hidden paths the ctime
        counts, too.
        """
        found = ((path.stat(), counts) for path, counts in self._mounted(grants))
        return tuple(
            (one.st_dev, one.st_ino, one.st_ctime_ns if counts else 0) for one, counts in found
        )

    def _list_mounted(self, grants: Grants) -> tuple[tuple[Path, bool], ...]:
        """Return the mounted paths, each with whether its ctime counts."""
        timed = {*(one.path for one in self.protection.guarded), *self.places.hidden}
        places = (*self.places.system, *(one.at for one in self._mounts(grants)))
        return tuple((path, path in timed) for path in places)

    def _options(self, grants: Grants) -> tuple[str, ...]:
        """Return the options of a command without a cached namespace, except the program to run."""
        return (*self._apart(grants), *self._tree(grants, _ROOT), *self._own())

    def _options_in_namespace(self, grants: Grants) -> tuple[str, ...]:
        """Return the options of a command that starts in a cached namespace for these grants."""
        return (*self._apart(grants), "--dev-bind", str(_VIEW), str(_ROOT), *self._own())

    def _namespace_options(self, grants: Grants) -> tuple[str, ...]:
        """Return the options of a cached namespace. Commands never see more of it than the view."""
        return (
            *self._system(_ROOT),
            *("--dev-bind", "/proc", "/proc"),
            *("--dev-bind", os.devnull, os.devnull),
            *("--dir", "/tmp"),
            *("--tmpfs", str(_VIEW)),
            *self._tree(grants, _VIEW),
        )

    def _apart(self, grants: Grants) -> Iterator[str]:
        """Yield the options for what a command does not share with others."""
        yield from _NAMESPACES
        yield from self._user()
        yield from self._network(grants)

    def _tree(self, grants: Grants, root: Path) -> tuple[str, ...]:
        mounts = self._mounts(grants)
        temporary = [path for path in _TEMPORARY if not _is_covered(path, mounts)]
        tops = _tops(temporary, mounts)
        sealed = (Path("/dev"), *tops, _ROOT)
        return (
            *self._system(root),
            *("--dir", _in(root, "/proc"), "--dev", _in(root, "/dev"), "--dir", _in(root, "/run")),
            *self._temporary(temporary, tops, root),
            *(word for one in mounts for word in (one.option, one.source, _in(root, one.at))),
            *(word for path in sealed for word in ("--remount-ro", _in(root, path))),
        )

    def _own(self) -> Iterator[str]:
        """Yield the mounts for a command's own processes and their shared memory."""
        yield from ("--proc", "/proc", "--remount-ro", "/proc")
        if self.version >= _SINCE_0_7:
            yield from ("--size", str(_SHARED_MEMORY_BYTES))
        yield from ("--tmpfs", "/dev/shm")

    def _network(self, grants: Grants) -> Iterator[str]:
        if not (grants.network or self.has_private_network):
            yield "--unshare-net"

    def _user(self) -> Iterator[str]:
        if self.places.needs_override:
            # A right to the files of others counts only in a namespace that knows those users.
            yield from ("--cap-add", "CAP_DAC_OVERRIDE")
            return
        yield from ("--unshare-user", "--uid", str(os.getuid()), "--gid", str(os.getgid()))
        if self.version >= _SINCE_0_8:
            yield "--disable-userns"

    def _system(self, root: Path) -> Iterator[str]:
        for path in self.places.system:
            if is_link(path):
                yield from ("--symlink", str(path.readlink()), _in(root, path))
            else:
                yield from (_READ, str(path), _in(root, path))

    def _temporary(self, paths: Sequence[Path], tops: Iterable[Path], root: Path) -> Iterator[str]:
        """Yield the mounts of /tmp, which is kept between commands.

        Mounts below it lie in a fresh directory."""
        for path in paths:
            if path in (paths[0], self.temporary):
                yield from (_CHANGE, str(self.places.temporary), _in(root, path))
            else:
                yield from ("--symlink", str(paths[0]), _in(root, path))
        for top in tops:
            yield from ("--tmpfs", _in(root, top))

    def _mounts(self, grants: Grants) -> list[_Mount]:
        places, protection = self.places, self.protection
        writable = (
            *protection.writable,
            *list_granted(grants, places),
            places.workspace,
        )
        read_only = (
            *(resolver_files() if grants.network else ()),
            *places.toolchains,
            *places.readable,
            *protection.readable,
        )
        guarded = tuple(one.path for one in protection.guarded)
        between = find_pins(
            writable, (*read_only, *writable, places.shared, *guarded, *places.hidden)
        )
        held = [path for path in between if any(one in path.parents for one in guarded)]
        layers = (
            (_READ, read_only),
            (_CHANGE, (*writable, places.shared, *between)),
            (_READ, (*guarded, *held)),
        )
        mounts = {
            at: _Mount(option, os.path.realpath(at), at) for option, paths in layers for at in paths
        }
        hidden = {at: _Mount(_READ, self._empty(at), at) for at in places.hidden}
        return sorted((mounts | hidden).values(), key=lambda one: len(one.at.parts))

    def _empty(self, path: Path) -> str:
        places = self.places
        return str(places.empty_directory if is_directory(path) else places.empty_file)


def _in(root: Path, path: Path | str) -> str:
    return str(root / Path(path).relative_to(_ROOT))


def _is_covered(path: Path, mounts: Iterable[_Mount]) -> bool:
    """Return whether the user works there or granted it: no private directory replaces it then."""
    return any(path.is_relative_to(one.at) for one in mounts)


def _tops(temporary: Iterable[Path], mounts: Sequence[_Mount]) -> list[Path]:
    """Return the first directories on the way to mounts below /tmp."""
    return sorted(
        {
            path / one.at.relative_to(path).parts[0]
            for path in temporary
            for one in mounts
            if path in one.at.parent.parents
        }
    )
