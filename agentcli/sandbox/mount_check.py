"""Whether what a command is kept from is still what was mounted for it.

The kernel drops a mount as soon as its mount point is renamed over or removed, by whomever, and git
writes its settings by renaming. Every place is kept open: as long as it is, no other file can get
its number.
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
    """On places as they are now; it ends with the last command that was started on it."""

    def __init__(self, paths: Iterable[Path]) -> None:
        """OSError where there is nothing."""
        handles: list[int] = []
        weakref.finalize(self, _close, handles)
        self._found: dict[Path, os.stat_result] = {}
        for path in paths:
            handles.append(os.open(path, _PLACE))
            self._found[path] = os.fstat(handles[-1])

    def find_stale(self) -> tuple[Path, ...]:
        """Where another file stands by now, or none."""
        return tuple(path for path, was in self._found.items() if not _is_at(path, was))

    def select_to_undo(self, before: Snapshot, keeper: GuardedPaths) -> Snapshot:
        """What a command can have changed: all that was not held, and what was lost.

        Who replaced a place cannot be told from who then wrote to it. So of what is there instead
        only that stays which can do no harm.
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
    """On all that is held from the commands of a sandbox or hidden from them."""

    def __init__(self, paths: Iterable[Path]) -> None:
        self._paths = tuple(paths)
        self._latest: MountCheck | None = None

    def take(self) -> MountCheck:
        """Before anything is mounted, so that whatever happens from then on shows."""
        latest = self._latest
        if latest is None or latest.find_stale():
            latest = self._latest = MountCheck(self._paths)
        return latest


def _is_harmless(path: Path, before: Entry | None, after: Entry | None) -> bool:
    """To take something away is, and to add settings that have git run nothing."""
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
