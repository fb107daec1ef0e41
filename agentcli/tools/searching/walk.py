"""The files of a directory tree in path order, less what ignore rules leave out.

Hidden files are included, links are not followed, and what cannot be read is passed over: the same
files, in the same order, as ripgrep visits. Every directory is entered through the handle of the
one above it, so that nothing swapped on the way leads out.
"""

import errno
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

from agentcli.machine.folder import Folder
from agentcli.tools.searching.ignore import IGNORE_FILES, Rule, excluded_by_git, rules_in, verdict

WITHIN = "AGENTCLI_WITHIN"
"""The variable that names, to the stand-in, the directory it must not leave."""

_GITIGNORE = IGNORE_FILES[0]
_EXCLUDE = "exclude"
_KINDS = (*reversed(IGNORE_FILES), _EXCLUDE)


@dataclass(frozen=True, slots=True)
class Found:
    """A file, which can be opened as long as the walk has not gone on."""

    path: bytes
    """Relative to where the walk began, with slashes."""
    folder: Folder

    @property
    def name(self) -> bytes:
        return self.path.rpartition(b"/")[2]

    def open(self) -> int:
        """A handle for reading. OSError for anything but a regular file."""
        handle = self.folder.open_file(os.fsdecode(self.name), os.O_RDONLY)
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            os.close(handle)
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), self.name)
        return handle


class _Entry(NamedTuple):
    """What a listing says of a name, a link being neither of the two."""

    name: bytes
    is_dir: bool
    is_file: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class _Layer:
    """A directory that is being walked, and its rules."""

    folder: Folder
    prefix: bytes
    """How the paths of its files begin."""
    is_repository: bool
    rules: dict[str, tuple[Rule, ...]]
    entries: Iterator["_Entry"]


class Walk:
    def __init__(
        self,
        *,
        excluded: Sequence[Rule] = (),
        reads_ignore_files: bool = True,
        rules: Sequence[Rule] = (),
    ) -> None:
        """By precedence: `excluded`, then the ignore files found on the way, then `rules`."""
        self._excluded = excluded
        self._reads_ignore_files = reads_ignore_files
        self._rules = rules
        self._layers: list[_Layer] = []

    def files(self, directory: Folder) -> Iterator[Found]:
        """What is in the directory and below; it stays the caller's to close."""
        self._layers = [self._layer(directory, b"")]
        while self._layers:
            layer = self._layers[-1]
            entry = next(layer.entries, None)
            if entry is None:
                self._leave()
                continue
            path = layer.prefix + entry.name
            if self._leaves_out(path, is_dir=entry.is_dir):
                continue
            if entry.is_dir:
                self._enter(layer.folder, entry.name, path + b"/")
            elif entry.is_file:
                yield Found(path, layer.folder)

    def _enter(self, parent: Folder, name: bytes, prefix: bytes) -> None:
        with suppress(OSError):  # it is gone, is something else by now, or not ours to enter
            self._layers.append(self._layer(parent.enter(os.fsdecode(name)), prefix))

    def _leave(self) -> None:
        layer = self._layers.pop()
        if self._layers:
            layer.folder.close()

    def _layer(self, folder: Folder, prefix: bytes) -> _Layer:
        try:
            with folder.scan() as listing:
                entries = sorted(map(_entry, listing))
        except OSError:
            entries = []
        names = {entry.name for entry in entries} if self._reads_ignore_files else set()
        kinds = [kind for kind in IGNORE_FILES if kind.encode() in names]
        rules = {kind: rules_in(folder.path / kind) for kind in kinds}
        is_repository = b".git" in names
        if is_repository:
            rules[_EXCLUDE] = excluded_by_git(folder.path)
        return _Layer(
            folder=folder,
            prefix=prefix,
            is_repository=is_repository,
            rules=rules,
            entries=iter(entries),
        )

    def _leaves_out(self, path: bytes, *, is_dir: bool) -> bool:
        found = verdict(self._excluded, path, is_dir=is_dir)
        for kind in _KINDS:
            if found is None:
                found = self._nearest(kind, path, is_dir=is_dir)
        if found is None:
            found = verdict(self._rules, path, is_dir=is_dir)
        return bool(found)

    def _nearest(self, kind: str, path: bytes, *, is_dir: bool) -> bool | None:
        """The verdict of the deepest directory that has one; git's own stop at its repository."""
        for layer in reversed(self._layers):
            rules = layer.rules.get(kind, ())
            found = verdict(rules, path[len(layer.prefix) :], is_dir=is_dir)
            if found is not None:
                return found
            if layer.is_repository and kind in (_GITIGNORE, _EXCLUDE):
                return None
        return None


def _entry(entry: os.DirEntry[str]) -> _Entry:
    return _Entry(
        os.fsencode(entry.name),
        entry.is_dir(follow_symlinks=False),
        entry.is_file(follow_symlinks=False),
    )
