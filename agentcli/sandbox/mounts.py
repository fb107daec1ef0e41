"""What bubblewrap is told to mount, and where: a command's whole view of the file system.

It is mounted for one command, or below a directory of a room, which many commands then take for
their root; what a command has for itself is mounted last, over that.

Below a directory that commands can write no mount point lies that a command could have replaced:
each directory on the way to one is a mount itself, and those can neither be renamed nor removed.
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
"""Where it is in a room, beside what bubblewrap itself needs to be started there."""

MountState: TypeAlias = tuple[tuple[int, ...], ...]

_READ = "--ro-bind"
_CHANGE = "--bind"


@dataclass(frozen=True, slots=True)
class _Mount:
    option: str
    source: str
    at: Path


class MountView:
    """What stays the same for all commands of a session."""

    def __init__(
        self,
        paths: SandboxPaths,
        *,
        protection: Protection,
        version: tuple[int, ...],
        has_private_network: bool = False,
    ) -> None:
        """What `protection` guards must exist whenever a command starts.

        A bubblewrap of an old version lacks options that the system call filter makes up for.
        `has_private_network`: commands are in one already, unless they may have the whole.
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
        """Where commands shall put temporary files: nothing else is mounted there."""

    def state(self, grants: Grants) -> MountState:
        """Of all that is mounted: once a source is another one, its mount holds nothing.

        The number of a file that is gone may be given to the next, so of guarded and hidden ones
        the time counts, too.
        """
        found = ((path.stat(), counts) for path, counts in self._mounted(grants))
        return tuple(
            (one.st_dev, one.st_ino, one.st_ctime_ns if counts else 0) for one, counts in found
        )

    def _list_mounted(self, grants: Grants) -> tuple[tuple[Path, bool], ...]:
        """Where something is mounted, and whether the time of what is there counts."""
        timed = {*(one.path for one in self.protection.guarded), *self.places.hidden}
        places = (*self.places.system, *(one.at for one in self._mounts(grants)))
        return tuple((path, path in timed) for path in places)

    def _options(self, grants: Grants) -> tuple[str, ...]:
        """Of a command that is in no room: all but the program to run."""
        return (*self._apart(grants), *self._tree(grants, _ROOT), *self._own())

    def _options_in_namespace(self, grants: Grants) -> tuple[str, ...]:
        """Of a command that is started in a room of that confinement."""
        return (*self._apart(grants), "--dev-bind", str(_VIEW), str(_ROOT), *self._own())

    def _namespace_options(self, grants: Grants) -> tuple[str, ...]:
        """Of a room itself. No command ever sees more of it than the view."""
        return (
            *self._system(_ROOT),
            *("--dev-bind", "/proc", "/proc"),
            *("--dev-bind", os.devnull, os.devnull),
            *("--dir", "/tmp"),
            *("--tmpfs", str(_VIEW)),
            *self._tree(grants, _VIEW),
        )

    def _apart(self, grants: Grants) -> Iterator[str]:
        """What a command does not share with others."""
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
        """Its processes, and the memory that they share."""
        yield from ("--proc", "/proc", "--remount-ro", "/proc")
        if self.version >= _SINCE_0_7:
            yield from ("--size", str(_SHARED_MEMORY_BYTES))
        yield from ("--tmpfs", "/dev/shm")

    def _network(self, grants: Grants) -> Iterator[str]:
        if not (grants.network or self.has_private_network):
            yield "--unshare-net"

    def _user(self) -> Iterator[str]:
        if self.places.needs_override:
            # A right to the files of others counts only where those others are known.
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
        """/tmp is kept between commands; what has to be mounted below it lies in a fresh one."""
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
    """Whether the person works there, or granted it: then it is not replaced by a private one."""
    return any(path.is_relative_to(one.at) for one in mounts)


def _tops(temporary: Iterable[Path], mounts: Sequence[_Mount]) -> list[Path]:
    """The first directories on the way to what is mounted below /tmp."""
    return sorted(
        {
            path / one.at.relative_to(path).parts[0]
            for path in temporary
            for one in mounts
            if path in one.at.parent.parents
        }
    )
