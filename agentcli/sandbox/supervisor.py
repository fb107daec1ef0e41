"""The steps around a command on Linux: limits set, paths recorded, a watch kept, changes undone.

The layers differ in how they confine a command, not in how they supervise it.
"""

import os
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from subprocess import Popen
from threading import Lock

from agentcli.sandbox.contents import Entry
from agentcli.sandbox.git_paths import BARE_NAMES, search_repositories
from agentcli.sandbox.limits import CommandLimits, CommandWatch, limit_processes
from agentcli.sandbox.mounts import MountCheck
from agentcli.sandbox.paths import (
    FindDenied,
    SandboxPaths,
    iter_outermost,
    list_granted,
)
from agentcli.sandbox.protect import ADDRESS_DIRECTORIES, GrantedProtection, GuardedPath
from agentcli.sandbox.restore import GuardedPaths, Snapshot
from agentcli.system.files import is_directory, is_link, read_regular
from agentcli.system.repository import find_common_directory, find_git_directory
from agentcli.system.temporary import TEMPORARY
from agentcli.types.fast_dataclass import dataclass
from agentcli.types.grants import Grants


@dataclass(frozen=True, slots=True)
class _MachineBefore:
    """The machine and the guarded paths before a command."""

    tasks: int
    mount_check: MountCheck | None
    directories: "tuple[tuple[GuardedDirectory, Snapshot], ...]"


class CommandSupervisor:
    def __init__(
        self,
        paths: SandboxPaths,
        *,
        keeper: GuardedPaths,
        granted: GrantedProtection,
        limits: CommandLimits,
    ) -> None:
        self._paths = paths
        self._protection = granted
        self._workspace = GuardedDirectory(
            paths.workspace, keeper, denied=paths.unwritable, paths=paths
        )
        self._granted: dict[Path, GuardedDirectory] = {}
        self._limits = limits
        self._writable = (*paths.own, *TEMPORARY)
        self._watch = CommandWatch(limits)
        self._before: dict[Popen[bytes], _MachineBefore] = {}

    def start(
        self,
        launch: Callable[[], "Popen[bytes]"],
        *,
        grants: Grants,
        mount_check: MountCheck | None = None,
        waits: bool = False,
    ) -> "Popen[bytes]":
        """Launch a process and supervise it. With `waits`, only from the call of `supervise`.

        The user may change the paths of `mount_check`. Once one is stale, the command is stopped.
        """
        if waits:
            limit_processes(self._limits)
            return launch()
        before = self._record(grants, mount_check)
        try:
            process = launch()
        except BaseException:
            for directory, _ in before.directories:
                directory.cancel()
            raise
        self._begin(process, before)
        return process

    def supervise(
        self, process: "Popen[bytes]", *, grants: Grants, mount_check: MountCheck | None = None
    ) -> None:
        self._begin(process, self._record(grants, mount_check))

    def end(self, process: "Popen[bytes]") -> tuple[str, ...]:
        """Return why the command was stopped, if it was, and which of its changes were undone."""
        before = self._before.pop(process, None)
        if before is None:
            return ()
        stopped = self._watch.remove(process)
        undone = (each.end(was, before.mount_check) for each, was in before.directories)
        return (*stopped, *(note for notes in undone for note in notes))

    def close(self) -> None:
        for process in tuple(self._before):
            self.end(process)
        self._watch.close()
        for directory in (self._workspace, *self._granted.values()):
            directory.close()

    def _record(self, grants: Grants, mount_check: MountCheck | None) -> _MachineBefore:
        tasks = limit_processes(self._limits)
        granted = list_granted(grants, self._paths) if grants.writable else ()
        directories = (self._workspace, *map(self._find_granted, granted))
        return _MachineBefore(
            tasks, mount_check, tuple((each, each.begin()) for each in directories)
        )

    def _find_granted(self, path: Path) -> "GuardedDirectory":
        if path not in self._granted:
            paths, protection = self._paths, self._protection.find(path)
            keeper = GuardedPaths(
                (*protection.guarded, *protection.new_repository),
                roots=(path, *protection.writable),
                rejected=paths.rejected,
            )
            denied = paths.find_denied(path, "edit") if paths.find_denied else ()
            self._granted[path] = GuardedDirectory(path, keeper, denied=denied, paths=paths)
        return self._granted[path]

    def _begin(self, process: "Popen[bytes]", before: _MachineBefore) -> None:
        self._before[process] = before
        check = before.mount_check
        self._watch.add(
            process,
            tasks_before=before.tasks,
            find_stale=check.find_stale if check else tuple,
            writable=(*self._writable, *(each.path for each, _ in before.directories)),
        )


# The workspace, or a directory that a grant lets commands write: what is guarded in it stays.


class GuardedDirectory:
    def __init__(
        self,
        path: Path,
        keeper: GuardedPaths,
        *,
        denied: Iterable[Path],
        paths: SandboxPaths,
    ) -> None:
        """Rules deny changes of the paths in `denied` already."""
        self.path = path
        self._keeper = keeper
        self._report_loss = paths.report_loss
        self._report_undone = paths.report_undone
        self._original = find_original(path)
        roots, bare = search_repositories(path)
        self._repositories = CompleteRepositories(roots[:_MOST_CHECKED])
        self._scan = NewRepositoryScan(
            path, known=roots, known_bare=bare, original=self._original, rejected=paths.rejected
        )
        self._denied: NewDeniedPaths | None = None
        """None if no rule denies anything."""
        if paths.find_denied is not None:
            self._denied = NewDeniedPaths(
                path,
                denied,
                find_denied=paths.find_denied,
                original=self._original,
                rejected=paths.rejected,
            )

    def begin(self) -> Snapshot:
        """Record the state before a command. `end` or `cancel` must be called once for each."""
        self._repositories.begin()
        return self._original.begin(self._keeper)

    def cancel(self) -> None:
        self._repositories.end()
        self._original.end()

    def end(self, before: Snapshot, mount_check: MountCheck | None) -> tuple[str, ...]:
        """Return which changes of the command were undone. What a mount held need not be.

        Report what it removed or replaced, and what cannot be put back."""
        broken = self._repositories.end()
        try:
            held = mount_check.paths if mount_check else ()
            stale = mount_check.find_stale() if mount_check else ()
            undone = self._keeper.restore(before, held=held, stale=stale)
            removed = self._denied.remove() if self._denied else ()
        finally:
            self._original.end()
        if losses := {*undone.lost, *broken}:
            for path in iter_outermost(sorted(losses)):
                self._report_loss(path)
        found = self._scan.take_notes()
        self._scan.look()
        destroyed = map(self._describe_broken, broken - undone.lost)
        return (*undone.notes, *removed, *destroyed, *found)

    def close(self) -> None:
        for note in self._scan.close():
            self._report_undone(note)

    def _describe_broken(self, git: Path) -> str:
        shown = git.relative_to(self.path) if git.is_relative_to(self.path) else git
        return f"{shown} is no repository any more: the command removed HEAD or the objects"


# The guarded paths before the first of the running commands, and the times commands ran.


_TICK_S = 0.1
"""The delay of file times: their clock moves in steps, and may be that much behind."""


class OriginalState:
    def __init__(self) -> None:
        self._lock = Lock()
        self._running = 0
        self._began_at = 0.0
        self._spans: list[tuple[float, float]] = []
        self._entries: dict[GuardedPath, Entry | None] = {}

    def begin(self, keeper: GuardedPaths) -> Snapshot:
        """Record the state before a command starts. `end` must be called once for each."""
        with self._lock:
            seen = keeper.take_snapshot()
            if self._running == 0:
                self._entries.clear()
                self._began_at = time.time() - _TICK_S
            self._running += 1
            # What another sandbox guards as another kind was replaced before this one existed.
            known = {one.path for one in self._entries}
            self._entries |= {one: entry for one, entry in seen.items() if one.path not in known}
            return {one: self._entries[one] for one in seen if one in self._entries}

    def end(self) -> None:
        with self._lock:
            self._running -= 1
            if self._running == 0:
                self._spans.append((self._began_at, time.time()))

    def saw_command_at(self, at: float) -> bool:
        """Return whether a command ran at that time, in seconds since the epoch."""
        with self._lock:
            runs_since_then = self._running > 0 and at >= self._began_at
            return runs_since_then or any(start <= at <= end for start, end in self._spans)


_ORIGINALS: dict[Path, OriginalState] = {}


def find_original(workspace: Path) -> OriginalState:
    return _ORIGINALS.setdefault(workspace, OriginalState())


# The repositories that are complete before a command, to notice that it destroyed one. Commands may
# write objects and branches, and nothing records them.


_MOST_CHECKED = 64


class CompleteRepositories:
    def __init__(self, roots: Iterable[Path]) -> None:
        self._roots = tuple(roots)
        self._lock = Lock()
        self._running = 0
        self._complete: dict[Path, Path] = {}
        """The git directories, with the top of the worktree of each."""

    def begin(self) -> None:
        """Record which are complete before a command. `end` must be called once for each."""
        with self._lock:
            if self._running == 0:
                there = [root for root in self._roots if os.path.lexists(root / ".git")]
                found = ((find_git_directory(root / ".git"), root) for root in there)
                self._complete = {git: root for git, root in found if git and _is_complete(git)}
            self._running += 1

    def end(self) -> frozenset[Path]:
        """Return the git directories that are complete no more, each only once.

        One whose worktree is gone as a whole is left out: it need not be a command's doing."""
        with self._lock:
            self._running -= 1
            broken = [git for git in self._complete if not _is_complete(git)]
            tops = {git: self._complete.pop(git) for git in broken}
            return frozenset(git for git, top in tops.items() if is_directory(top))


def _is_complete(git: Path) -> bool:
    """Return whether it has what no git does without. A linked worktree shares the objects."""
    has_head = os.path.lexists(git / "HEAD")
    return has_head and is_directory(find_common_directory(git) / "objects")


# The scan for repositories that commands create below the workspace root, in the background. What
# was there before is held, or put back at once. What is new belongs to the command, except what git
# would run for the user: hooks, and settings that are not known to be harmless. These are removed.
# Changes between commands belong to the user.


_OF_LINKED_WORKTREE = "../.."
_GUARDED = {
    **dict.fromkeys(("hooks", *ADDRESS_DIRECTORIES), "directory"),
    **dict.fromkeys(("config", "config.worktree", "commondir"), "file"),
}


class NewRepositoryScan:
    def __init__(
        self,
        workspace: Path,
        *,
        known: Iterable[Path],
        known_bare: Iterable[Path] = (),
        original: OriginalState,
        rejected: Path,
    ) -> None:
        """`known` are the tops of the repositories that were there before. `known_bare` are those
        without a `.git`."""
        self._workspace = workspace
        self._original = original
        self._since = time.time()
        self._rejected = rejected
        self._known = {*(find_git_directory(root / ".git") for root in known), *known_bare}
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

    def close(self) -> tuple[str, ...]:
        """Return a sentence for each path that was cleared after the last command."""
        notes = self.take_notes()
        self._looker.shutdown()
        return notes

    def _sweep(self) -> tuple[str, ...]:
        sentences: list[str] = []
        roots, bare = search_repositories(self._workspace)
        for root in roots:
            git = find_git_directory(root / ".git")
            if git is None or git in self._known:
                continue
            # A `.git` that leads out of the workspace leads to where nothing can be guarded.
            is_inside = git.is_relative_to(self._workspace)
            paths = _iter_guards(git) if is_inside else (GuardedPath(root / ".git", "file"),)
            sentences += self._clear(one for one in paths if self._is_of_command(one.path))
        for git in bare:
            if git not in self._known:
                # What was a plain file before, of a tool perhaps, has become a setting.
                is_made = any(self._is_of_command(git / name) for name in BARE_NAMES)
                paths = _iter_guards(git)
                sentences += self._clear(
                    one for one in paths if is_made or self._is_of_command(one.path)
                )
        return tuple(sentences)

    def _is_of_command(self, path: Path) -> bool:
        return _is_of_command(path, self._original, since=self._since)

    def _clear(self, paths: Iterable[GuardedPath]) -> tuple[str, ...]:
        """Remove what can run a program. Return a sentence for each path."""
        guarded = tuple(paths)
        keeper = GuardedPaths(guarded, roots=(self._workspace,), rejected=self._rejected)
        return keeper.undo(dict.fromkeys(guarded))


def _is_of_command(path: Path, original: OriginalState, *, since: float) -> bool:
    """Return whether a command changed the path or its entries. Nobody can set back a ctime.

    A path older than the first scan, which did not find it, was moved here. The ctime does not
    say by whom, so it counts as the command's.
    """
    try:
        times = [one.lstat().st_ctime for one in (path, *_iter_children(path))]
    except FileNotFoundError:
        return False
    except PermissionError:  # git can still run it from there
        return True
    return any(at < since or original.saw_command_at(at) for at in times)


def _iter_children(path: Path) -> Iterator[Path]:
    return path.iterdir() if is_directory(path) and not is_link(path) else iter(())


def _iter_guards(git: Path) -> Iterator[GuardedPath]:
    for name, kind in _GUARDED.items():
        if name != "commondir" or not _is_of_linked_worktree(git):
            yield GuardedPath(git / name, "directory" if kind == "directory" else "file")


def _is_of_linked_worktree(git: Path) -> bool:
    """Return whether `commondir` is exactly what `git worktree add` writes."""
    pointer = git / "commondir"
    if git.parent.name != "worktrees" or not pointer.is_file():
        return False
    return read_regular(pointer, 100).strip() == _OF_LINKED_WORKTREE.encode()


# The paths that rules with wildcards deny, and that a command created: no mount can hold them.


class NewDeniedPaths:
    def __init__(
        self,
        root: Path,
        known: Iterable[Path],
        *,
        find_denied: FindDenied,
        original: OriginalState,
        rejected: Path,
    ) -> None:
        """`known` were there before the first command."""
        self._root = root
        self._find_denied = find_denied
        self._original = original
        self._rejected = rejected
        self._since = time.time()
        self._known = frozenset(known)

    def remove(self) -> tuple[str, ...]:
        """Remove what commands created. Return a sentence for each path."""
        try:
            found = self._find_denied(self._root, "edit")
        except OSError as error:
            return (str(error),)
        guarded = [
            GuardedPath(path, "file")
            for path in found
            if path not in self._known and _is_of_command(path, self._original, since=self._since)
        ]
        if not guarded:
            return ()
        keeper = GuardedPaths(guarded, roots=(self._root,), rejected=self._rejected)
        return keeper.undo(dict.fromkeys(guarded))
