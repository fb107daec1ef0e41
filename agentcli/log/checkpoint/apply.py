"""Applying an undo: each path is set to its wanted state at once, and only if still as it was seen.

Every path is opened from the root's handle, and no link is followed. Removals come first, the
deepest first; a directory that contains anything else stays.
"""

import errno
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import repeat
from pathlib import Path
from stat import S_IMODE, S_IWUSR
from typing import TypeAlias

from agentcli.log.checkpoint.store import ObjectStore
from agentcli.log.checkpoint.trees import StoredEntry
from agentcli.system.folder import Folder, descend
from agentcli.system.replace_file import replace_file
from agentcli.system.text import to_printable
from agentcli.types.errors import ToolError


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoStep:
    path: bytes
    now: StoredEntry | None
    wanted: StoredEntry | None

    @property
    def name(self) -> str:
        return os.fsdecode(self.path.rpartition(b"/")[2])

    @property
    def parents(self) -> list[str]:
        return os.fsdecode(self.path).split("/")[:-1]

    @property
    def depth(self) -> int:
        return self.path.count(b"/")

    @property
    def stays_directory(self) -> bool:
        return bool(self.now and self.wanted and self.now.is_dir and self.wanted.is_dir)

    @property
    def opens_directory(self) -> bool:
        """True if something may have to be written in it that could not be before."""
        return self.stays_directory and self.wanted is not None and bool(self.wanted.mode & S_IWUSR)

    @property
    def stays_file(self) -> bool:
        both = (self.now, self.wanted)
        return all(entry is not None and not entry.is_dir and not entry.is_link for entry in both)

    @property
    def goes(self) -> bool:
        """True if what is there now has to be removed first."""
        return self.now is not None and not self.stays_file and not self.stays_directory


_OF_THE_MACHINE = frozenset(
    {
        *(errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EPERM),
        *(errno.EIO, errno.EBUSY, errno.ETXTBSY, errno.ENOMEM, errno.EMFILE, errno.ENFILE),
    }
)
"""Errors that say nothing about what the user did to a file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepFailure:
    reason: str
    is_of_machine: bool
    """True if it may succeed later, without another state of the file."""


def apply_steps(
    store: ObjectStore, root: Path, steps: Mapping[bytes, UndoStep]
) -> dict[bytes, StepFailure]:
    """Apply the steps. Return what could not be done, by path."""
    failed: dict[bytes, StepFailure] = {}
    for act, step in _order_steps(store, list(steps.values())):
        if step.path in failed:
            continue
        try:
            with descend(root, step.parents, make=step.wanted is not None) as folder:
                act(folder, step)
        except (ToolError, OSError) as error:
            failed[step.path] = _describe_failure(error)
    return failed


Act: TypeAlias = Callable[[Folder, UndoStep], None]


def _order_steps(store: ObjectStore, steps: list[UndoStep]) -> Iterator[tuple[Act, UndoStep]]:
    top_first = sorted(steps, key=lambda step: step.depth)
    opened = [step for step in top_first if step.opens_directory]
    going = [step for step in reversed(top_first) if step.goes]
    coming = [step for step in top_first if step.wanted and not step.stays_directory]
    directories = [step for step in reversed(top_first) if step.wanted and step.wanted.is_dir]
    yield from zip(repeat(_set_mode), opened, strict=False)
    yield from zip(repeat(_Remove(store)), going, strict=False)
    yield from zip(repeat(_Write(store)), coming, strict=False)
    yield from zip(repeat(_set_mode), directories, strict=False)


def _set_mode(folder: Folder, step: UndoStep) -> None:
    assert step.wanted is not None
    folder.set_mode(step.name, S_IMODE(step.wanted.mode))


@dataclass(frozen=True, slots=True)
class _Remove:
    store: ObjectStore

    def __call__(self, folder: Folder, step: UndoStep) -> None:
        assert step.now is not None
        if step.now.is_dir:
            self._remove_directory(folder, step)
            return
        if not _is_as_seen(folder, step, self.store):
            raise ToolError("changed meanwhile")
        folder.unlink(step.name)

    def _remove_directory(self, folder: Folder, step: UndoStep) -> None:
        try:
            folder.remove(step.name)
        except OSError as error:
            # It is not empty. That matters only if its name is needed.
            if step.wanted is not None or error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise


@dataclass(frozen=True, slots=True)
class _Write:
    store: ObjectStore

    def __call__(self, folder: Folder, step: UndoStep) -> None:
        wanted = step.wanted
        assert wanted is not None
        if wanted.is_dir:
            if folder.stat(step.name) is None:
                folder.make(step.name)
            return
        data = self.store.get("blob", wanted.id)
        if wanted.is_link:
            folder.link(step.name, data)
            return
        self._write_file(folder, step, data)
        folder.set_mode(step.name, S_IMODE(wanted.mode))

    def _write_file(self, folder: Folder, step: UndoStep, data: bytes) -> None:
        shown = to_printable(os.fsdecode(step.path))
        if step.now is None or not step.stays_file:
            replace_file(folder, step.name, data, expected=None, shown=shown)
            return
        if not _is_as_seen(folder, step, self.store):
            raise ToolError("changed meanwhile")
        if step.wanted is not None and step.now.id == step.wanted.id:
            return  # only the permissions change
        folder.set_mode(step.name, S_IMODE(step.now.mode) | S_IWUSR)
        expected = self.store.get("blob", step.now.id)
        replace_file(folder, step.name, data, expected=expected, shown=shown)


def _is_as_seen(folder: Folder, step: UndoStep, store: ObjectStore) -> bool:
    assert step.now is not None
    seen = store.get("blob", step.now.id)
    if step.now.is_link:
        return folder.target(step.name) == seen
    with os.fdopen(folder.open_file(step.name, os.O_RDONLY), "rb") as file:
        return file.read(len(seen) + 1) == seen


def _describe_failure(error: ToolError | OSError) -> StepFailure:
    words = str(error) if isinstance(error, ToolError) else (error.strerror or str(error)).lower()
    return StepFailure(
        reason=f"could not be written: {words}",
        is_of_machine=isinstance(error, OSError) and error.errno in _OF_THE_MACHINE,
    )
