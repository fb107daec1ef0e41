"""A check that the paths mounted for a command are still the same files.

The kernel drops a mount as soon as anyone renames over its mount point or removes it, and git
writes its settings by renaming. Every path is kept open: as long as it is, no other file can get
its inode number.
"""

import os
import weakref
from collections.abc import Iterable
from pathlib import Path

from agentcli.sandbox.contents import DirectoryContent, Entry, FileContent
from agentcli.sandbox.git_settings import risky_lines
from agentcli.sandbox.restore import GuardedPaths, Snapshot

_SETTINGS = ("config", "config.worktree")
_PLACE = getattr(os, "O_PATH", os.O_RDONLY) | getattr(os, "O_CLOEXEC", 0)


class MountCheck:
    """A check on paths as they are now. It ends with the last command that was started on it."""

    def __init__(self, paths: Iterable[Path]) -> None:
        """Raise OSError if a path does not exist."""
        handles: list[int] = []
        weakref.finalize(self, _close, handles)
        self._found: dict[Path, os.stat_result] = {}
        for path in paths:
            handles.append(os.open(path, _PLACE))
            self._found[path] = os.fstat(handles[-1])

    def find_stale(self) -> tuple[Path, ...]:
        """Return the paths where there is another file by now, or no file at all."""
        return tuple(path for path, was in self._found.items() if not _is_at(path, was))

    def select_to_undo(self, before: Snapshot, keeper: GuardedPaths) -> Snapshot:
        """Return the part of `before` that a command can have changed: unheld paths and stale ones.

        The one who replaced a path cannot be told from the one who then wrote to it. So a
        replacement stays only if it can do no harm.
        """
        lost = self.find_stale()
        now = keeper.snapshot() if lost else {}
        return {
            one: was
            for one, was in before.items()
            if one.path not in self._found
            or (one.path in lost and not _is_harmless(one.path, was, now.get(one)))
        }


class MountChecks:
    """The checks on all paths that are held from a sandbox's commands or hidden from them."""

    def __init__(self, paths: Iterable[Path]) -> None:
        self._paths = tuple(paths)
        self._latest: MountCheck | None = None

    def take(self) -> MountCheck:
        """Return a current check. Called before anything is mounted, so that later changes show."""
        latest = self._latest
        if latest is None or latest.find_stale():
            latest = self._latest = MountCheck(self._paths)
        return latest


def _is_harmless(path: Path, before: Entry | None, after: Entry | None) -> bool:
    """Return whether it only removes something, or adds settings that make git run nothing."""
    match before, after:
        case _, None:
            return True
        case ((DirectoryContent() | None), DirectoryContent(children=children)):
            known = before.children if isinstance(before, DirectoryContent) else {}
            return children.items() <= known.items()
        case ((FileContent() | None), FileContent(content=content, has_other_names=False)) if (
            path.name in _SETTINGS
        ):
            known_text = _text(before.content) if isinstance(before, FileContent) else ""
            return risky_lines(_text(content)) == risky_lines(known_text)
    return False


def _text(content: bytes) -> str:
    return content.decode("utf-8", "surrogateescape")


def _is_at(path: Path, was: os.stat_result) -> bool:
    try:
        return os.path.samestat(path.stat(), was)
    except OSError:
        return False


def _close(handles: list[int]) -> None:
    for handle in handles:
        os.close(handle)
