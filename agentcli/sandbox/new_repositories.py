"""Repositories that commands make below the root of the workspace, looked at while nobody waits.

What was there before is held or put back at once. What is new is the command's own, but what it
would have git run for the person is taken away: hooks, and settings that are not known to be
harmless. What changed between commands is the person's.
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
        """Begins to look. What comes of it is told later."""
        if self._latest is None:
            self._latest = self._looker.submit(self._sweep)

    def take_notes(self) -> tuple[str, ...]:
        """Waits for a look that was begun; a sentence for each place that was cleared."""
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
            # One that leads out of the workspace leads to where nothing can be looked after.
            is_inside = git.is_relative_to(self._workspace)
            places = _guards(git) if is_inside else (GuardedPath(root / ".git", "file"),)
            guarded = [one for one in places if self._is_of_command(one.path)]
            keeper = GuardedPaths(guarded, roots=(self._workspace,), rejected=self._rejected)
            sentences += keeper.undo(dict.fromkeys(guarded))
        return tuple(sentences)

    def _is_of_command(self, path: Path) -> bool:
        """By the times at which the place and what is in it changed: nobody can set these back.

        What is older than the first look, at which it was not here, was moved: by whom, it does
        not tell.
        """
        try:
            times = [one.lstat().st_ctime for one in (path, *_children(path))]
        except FileNotFoundError:
            return False
        except PermissionError:  # it can be run from there all the same
            return True
        return any(at < self._since or self._original.saw_command_at(at) for at in times)


def _children(path: Path) -> Iterator[Path]:
    return path.iterdir() if is_directory(path) and not is_link(path) else iter(())


def _guards(git: Path) -> Iterator[GuardedPath]:
    for name, kind in _GUARDED.items():
        if name != "commondir" or not _is_of_linked_worktree(git):
            yield GuardedPath(git / name, "directory" if kind == "directory" else "file")


def _is_of_linked_worktree(git: Path) -> bool:
    """`git worktree add` makes one that says just this."""
    pointer = git / "commondir"
    if git.parent.name != "worktrees" or not pointer.is_file():
        return False
    return pointer.read_bytes()[:100].strip() == _OF_LINKED_WORKTREE.encode()
