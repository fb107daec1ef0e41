"""A scan for repositories that commands create below the workspace root, run in the background.

What was there before is held, or put back at once. What is new belongs to the command, except what
git would run for the user: hooks, and settings that are not known to be harmless. These are
removed. Changes between commands belong to the user.
"""

import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from agentcli.sandbox.git_paths import find_repositories, git_directory
from agentcli.sandbox.protect import GuardedPath
from agentcli.sandbox.restore import GuardedPaths, OriginalState
from agentcli.system.kinds import is_directory, is_link

_OF_LINKED_WORKTREE = "../.."
_GUARDED = {"hooks": "directory", "config": "file", "config.worktree": "file", "commondir": "file"}


class NewRepositoryScan:
    def __init__(self, workspace: Path, *, original: OriginalState, rejected: Path) -> None:
        self._workspace = workspace
        self._original = original
        self._since = time.time()
        self._rejected = rejected
        self._known = {git_directory(root / ".git") for root in find_repositories(workspace)}
        self._looker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="new repositories")
        self._latest: Future[tuple[str, ...]] | None = None

    def look(self) -> None:
        """Start a scan. `take_notes` returns its results later."""
        if self._latest is None:
            self._latest = self._looker.submit(self._sweep)

    def take_notes(self) -> tuple[str, ...]:
        """Wait for a started scan. Return a sentence for each path that was cleared."""
        latest, self._latest = self._latest, None
        return latest.result() if latest else ()

    def close(self) -> None:
        self.take_notes()
        self._looker.shutdown()

    def _sweep(self) -> tuple[str, ...]:
        sentences: list[str] = []
        for root in find_repositories(self._workspace):
            git = git_directory(root / ".git")
            if git is None or git in self._known:
                continue
            # A `.git` that leads out of the workspace leads to where nothing can be guarded.
            is_inside = git.is_relative_to(self._workspace)
            places = _guards(git) if is_inside else (GuardedPath(root / ".git", "file"),)
            guarded = [one for one in places if self._is_of_command(one.path)]
            keeper = GuardedPaths(guarded, roots=(self._workspace,), rejected=self._rejected)
            sentences += keeper.undo(dict.fromkeys(guarded))
        return tuple(sentences)

    def _is_of_command(self, path: Path) -> bool:
        """Return whether a command changed the path or its entries. Nobody can set back a ctime.

        A path older than the first scan, which did not find it, was moved here. The ctime does not
        say by whom, so it counts as the command's.
        """
        try:
            times = [one.lstat().st_ctime for one in (path, *_children(path))]
        except FileNotFoundError:
            return False
        except PermissionError:  # git can still run it from there
            return True
        return any(at < self._since or self._original.saw_command_at(at) for at in times)


def _children(path: Path) -> Iterator[Path]:
    return path.iterdir() if is_directory(path) and not is_link(path) else iter(())


def _guards(git: Path) -> Iterator[GuardedPath]:
    for name, kind in _GUARDED.items():
        if name != "commondir" or not _is_of_linked_worktree(git):
            yield GuardedPath(git / name, "directory" if kind == "directory" else "file")


def _is_of_linked_worktree(git: Path) -> bool:
    """Return whether `commondir` is exactly what `git worktree add` writes."""
    pointer = git / "commondir"
    if git.parent.name != "worktrees" or not pointer.is_file():
        return False
    return pointer.read_bytes()[:100].strip() == _OF_LINKED_WORKTREE.encode()
