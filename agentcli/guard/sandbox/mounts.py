"""What bubblewrap is told to mount, and where: a command's whole view of the file system.

Below a directory that commands can write no mount point lies that a command could have replaced:
each directory on the way to one is a mount itself, and those can neither be renamed nor removed.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TypeAlias

from agentcli.guard.sandbox.kinds import is_directory, is_link
from agentcli.guard.sandbox.places import Places, granted, resolver_files
from agentcli.guard.sandbox.protect import Protection, pins
from agentcli.types.verdicts import Confinement

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

MountState: TypeAlias = tuple[tuple[int, ...], ...]

_READ = "--ro-bind"
_CHANGE = "--bind"


@dataclass(frozen=True, slots=True)
class _Mount:
    option: str
    source: str
    at: Path


class View:
    """What stays the same for all commands of a session."""

    def __init__(
        self,
        places: Places,
        *,
        protection: Protection,
        version: tuple[int, ...],
        has_private_network: bool = False,
    ) -> None:
        """What `protection` guards must exist whenever a command starts.

        A bubblewrap of an old version lacks options that the system call filter makes up for.
        `has_private_network`: commands are in one already, unless they may have the whole.
        """
        self.places = places
        self.protection = protection
        self.version = version
        self.has_private_network = has_private_network
        self.options = lru_cache(maxsize=_KEPT_VIEWS)(self._options)
        self._mounted = lru_cache(maxsize=_KEPT_VIEWS)(self._places)
        mounts = self._mounts(Confinement())
        free = (path for path in _TEMPORARY if not _is_covered(path, mounts))
        self.temporary = next(
            (path for path in free if not _tops([path], mounts)), places.temporary
        )
        """Where commands shall put temporary files: nothing else is mounted there."""

    def state(self, confinement: Confinement) -> MountState:
        """Of all that is mounted: once a source is another one, its mount holds nothing.

        The number of a file that is gone may be given to the next, so of guarded ones the time
        counts, too.
        """
        guarded = {one.path for one in self.protection.guarded}
        return tuple(
            (found.st_dev, found.st_ino, found.st_ctime_ns if path in guarded else 0)
            for path, found in ((path, path.stat()) for path in self._mounted(confinement))
        )

    def _places(self, confinement: Confinement) -> tuple[Path, ...]:
        return (*self.places.system, *(one.at for one in self._mounts(confinement)))

    def _options(self, confinement: Confinement) -> tuple[str, ...]:
        """All but the program to run."""
        mounts = self._mounts(confinement)
        temporary = [path for path in _TEMPORARY if not _is_covered(path, mounts)]
        tops = _tops(temporary, mounts)
        sealed = (Path("/proc"), Path("/dev"), *tops, Path("/"))
        return (
            *_NAMESPACES,
            *self._user(),
            *self._network(confinement),
            *self._system(),
            *self._devices(),
            *self._temporary(temporary, tops),
            *(word for one in mounts for word in (one.option, one.source, str(one.at))),
            *(word for path in sealed for word in ("--remount-ro", str(path))),
        )

    def _network(self, confinement: Confinement) -> Iterator[str]:
        if not (confinement.network or self.has_private_network):
            yield "--unshare-net"

    def _user(self) -> Iterator[str]:
        if self.places.needs_override:
            # A right to the files of others counts only where those others are known.
            yield from ("--cap-add", "CAP_DAC_OVERRIDE")
            return
        yield "--unshare-user"
        if self.version >= _SINCE_0_8:
            yield "--disable-userns"

    def _system(self) -> Iterator[str]:
        for path in self.places.system:
            if is_link(path):
                yield from ("--symlink", str(path.readlink()), str(path))
            else:
                yield from (_READ, str(path), str(path))

    def _devices(self) -> Iterator[str]:
        yield from ("--proc", "/proc", "--dev", "/dev", "--dir", "/run")
        if self.version >= _SINCE_0_7:
            yield from ("--size", str(_SHARED_MEMORY_BYTES))
        yield from ("--tmpfs", "/dev/shm")

    def _temporary(self, paths: Sequence[Path], tops: Iterable[Path]) -> Iterator[str]:
        """/tmp is kept between commands; what has to be mounted below it lies in a fresh one."""
        for path in paths:
            if path in (paths[0], self.temporary):
                yield from (_CHANGE, str(self.places.temporary), str(path))
            else:
                yield from ("--symlink", str(paths[0]), str(path))
        for top in tops:
            yield from ("--tmpfs", str(top))

    def _mounts(self, confinement: Confinement) -> list[_Mount]:
        places, protection = self.places, self.protection
        writable = (
            *protection.writable,
            *granted(confinement, places),
            places.workspace,
        )
        read_only = (
            *(resolver_files() if confinement.network else ()),
            *places.toolchains,
            *places.readable,
            *protection.readable,
        )
        guarded = tuple(one.path for one in protection.guarded)
        between = pins(writable, (*read_only, *writable, places.shared, *guarded, *places.hidden))
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
