"""Worktrees: a session or an agent works in its own, and its changes come back by a merge.

A worktree is a linked worktree of git, outside the repository. Its state when it was made is
stored, so that the merge has three sides: that state, the worktree now, and the user's files now.
The user's index, branch and uncommitted edits are never touched by anything else.
"""

import json
import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from itertools import count
from pathlib import Path, PurePath
from tempfile import TemporaryDirectory

from agentcli.log.checkpoint.changes import ChangedFile, describe_changes
from agentcli.log.checkpoint.keep import find_store
from agentcli.log.checkpoint.scan import NEVER, IgnoreScope, WorkspaceScan, WorkspaceTooLarge
from agentcli.log.checkpoint.store import EMPTY_TREE, ObjectStore
from agentcli.log.checkpoint.trees import State, capture_paths, find_differences, write_state
from agentcli.log.checkpoint.undo import (
    PathOutcome,
    StateChange,
    UndoResult,
    render_conflict,
    undo_changes,
)
from agentcli.log.paths import is_worktree, locate_sessions, locate_worktrees
from agentcli.log.rebuild import write_entries
from agentcli.session.project import load_project, revoke_trust
from agentcli.system.files import (
    exists,
    is_directory,
    is_file,
    is_link,
    store_private,
    write_private,
)
from agentcli.system.git import (
    Checkout,
    add_worktree,
    apply_patch,
    find_checkout,
    list_changed_paths,
    list_edited_paths,
    remove_worktree,
    restore_worktree,
    run_git,
)
from agentcli.system.repository import find_git_directory
from agentcli.system.text import to_printable
from agentcli.tools.search.ignore import IgnoreRules
from agentcli.types.errors import SettingsError, UsageError
from agentcli.types.events import PATHS_RECORDED, Checkpointed
from agentcli.types.fast_dataclass import dataclass
from agentcli.types.words import pluralize

NAME_CHARS = 60
RESERVED_NAMES = ("merge", "keep", "discard", "list")
"""The words of the commands about worktrees."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Worktree:
    """A worktree of the user's repository, made from a commit."""

    name: str
    tree: Path
    """Its root."""
    root: Path
    """The root of the user's checkout."""
    checkout: Path
    """The user's directory that it stands for: that root, or a directory in it."""
    commit: str
    branch: str = ""
    """Its branch, or empty if it is on none."""
    base: str = ""
    """The stored state of its files when it was made."""

    @property
    def workspace(self) -> Path:
        """The directory to work in."""
        return self.tree / self.checkout.relative_to(self.root)


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeReport:
    """The outcome of a merge into the user's checkout."""

    result: UndoResult
    before: str = ""
    after: str = ""
    """The states of the changed paths in the checkout; empty if nothing was changed."""

    @property
    def merged(self) -> list[str]:
        """The files that were changed."""
        return [one.path for one in self.result.done if not one.is_directory]

    @property
    def conflicts(self) -> tuple[PathOutcome, ...]:
        return self.result.conflicts


@dataclass(frozen=True, slots=True, kw_only=True)
class WorktreeRemoval:
    """What became of a worktree that was to be removed."""

    commit: str
    """The last commit that was made in it, if any."""
    branches: tuple[str, ...]
    """The branches that have its commits, if these were kept."""
    unmerged: tuple[str, ...] = ()
    """What no merge takes over, and for whose sake it stays."""


class Worktrees:
    """The worktrees that were made from the repository around a directory."""

    def __init__(self, workspace: Path, *, sessions: Path | None = None) -> None:
        """Raise SettingsError if there is no repository, or no commit."""
        self._sessions = sessions or locate_sessions()
        self._checkout = find_checkout(workspace)
        self._directory = locate_worktrees(self._checkout.root)

    @property
    def checkout(self) -> Checkout:
        return self._checkout

    def list_all(self) -> list[Worktree]:
        """Return the worktrees of the repository, by name."""
        return [one for one in self._list_records() if one.tree.is_dir()]

    def list_lost(self) -> list[Worktree]:
        """Return those whose directory was removed by hand, while their branch is there."""
        return [
            one
            for one in self._list_records()
            if not one.tree.is_dir() and one.branch and self._has_branch(one.branch)
        ]

    def _list_records(self) -> list[Worktree]:
        found = (_read(path) for path in sorted(self._directory.glob("*.json")))
        return [one for one in found if one is not None]

    def _has_branch(self, branch: str) -> bool:
        try:
            run_git("rev-parse", "--verify", "--quiet", f"refs/heads/{branch}", cwd=self.root)
        except SettingsError:
            return False
        return True

    def find(self, name: str) -> Worktree:
        """Return the worktree with this name. Raise UsageError if there is none."""
        known = self.list_all()
        for one in known:
            if one.name == name:
                return one
        names = ", ".join(one.name for one in known) or "there are none"
        raise UsageError(
            f"no worktree {to_printable(name)} ({names})", hint="agentcli worktree list"
        )

    def open(self, name: str = "") -> Worktree:
        """Return the worktree with this name, made on a branch of its own if there is none.

        One whose directory was removed is made again from its branch. Raise UsageError if the
        branch is none of ours."""
        name = name or self._find_free_name()
        _check_name(name)
        with suppress(UsageError):
            return self.find(name)
        for lost in self.list_lost():
            if lost.name == name:
                return self._restore(lost)
        branch = f"agentcli/{name}"
        if not (self._directory / name).exists() and self._has_branch(branch):
            raise UsageError(
                f"the branch {branch} exists, but belongs to no worktree of agentcli",
                hint=f"git -C {self.root} branch -m {branch} {name}",
            )
        return self.make(name, branch=branch)

    def _restore(self, lost: Worktree) -> Worktree:
        try:
            restore_worktree(lost.tree, lost.branch, root=lost.root)
        except OSError as error:
            raise _build_unmade_error(lost, error) from error
        _carry_trust(lost)
        return lost

    def make(self, name: str, *, branch: str = "", carries_changes: bool = False) -> Worktree:
        """Make a worktree at the last commit. With `carries_changes`, copy uncommitted ones."""
        made = Worktree(
            name=name,
            tree=self._directory / name,
            root=self._checkout.root,
            checkout=self._checkout.workspace,
            commit=self._checkout.commit,
            branch=branch,
        )
        try:
            self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            if made.tree.exists():  # a process was killed while it made this
                remove_worktree(made.tree, root=made.root)
                _delete_branch(made)
            add_worktree(made.tree, made.commit, root=made.root, branch=branch)
            if carries_changes:
                self._copy_changes(made)
            _carry_trust(made)
            made = replace(made, base=self.capture(made))
            write_private(self._directory / f"{name}.json", json.dumps(_to_json(made)))
        except OSError as error:
            raise _build_unmade_error(made, error) from error
        return made

    def describe_surprises(self, worktree: Worktree) -> list[str]:
        """Return what the user may not expect to find, or not to find, in a new worktree."""
        found = []
        count = len(list_changed_paths(self._checkout.workspace))
        if count:
            found.append(
                f"{pluralize(count, 'uncommitted change')} in {worktree.checkout} "
                f"{'is' if count == 1 else 'are'} not in the worktree"
            )
        if not run_git("branch", "--show-current", cwd=self._checkout.workspace).strip():
            found.append(f"HEAD is detached: the worktree begins at {worktree.commit[:12]}")
        if exists(worktree.tree / ".gitmodules"):
            found.append(
                "submodules are empty in the worktree: run git submodule update --init there"
            )
        return found

    def capture(self, worktree: Worktree) -> str:
        """Store the state of a worktree's files now. Return its id. Raise SettingsError."""
        store = self._find_store(worktree)
        try:
            with store.batch_writes():
                scan = WorkspaceScan(
                    store,
                    worktree.workspace,
                    scope=IgnoreRules.for_workspace(worktree.workspace),
                    outside=(),
                    known={},
                )
                try:
                    state = scan.store_tree()
                finally:
                    scan.close()
                state = _add_hidden(store, state, worktree=worktree)
            store.keep_reference(_name_reference(worktree), state)
        except (OSError, WorkspaceTooLarge) as error:
            raise SettingsError(
                f"cannot keep the state of {worktree.workspace}: {error}",
                hint=f"merge it by git: git -C {worktree.root} merge {worktree.branch}",
            ) from error
        return state

    def find_changes(self, worktree: Worktree, *, after: str = "") -> tuple[ChangedFile, ...]:
        """Return what differs from the state in which it was made."""
        store = self._find_store(worktree)
        after = after or self.capture(worktree)
        return describe_changes(store, find_differences(store, worktree.base, after=after))

    def merge(
        self,
        worktree: Worktree,
        *,
        record: Callable[[Checkpointed], None],
        session: str,
        after: str = "",
        base: str = "",
        root: str | None = None,
    ) -> MergeReport:
        """Merge the changes into the user's files; a conflict leaves a file as the user has it.

        `record` gets the fact by which it can be undone, before the first file is touched.
        `session` is the one that keeps the states. `after` is the state to merge, if not today's,
        and `base` the one it began with, if not that of the worktree.
        `root` is the checkout's name in the fact: empty if it is the session's workspace.
        """
        store = self._find_store(worktree)
        after = after or self.capture(worktree)
        states: list[str] = []

        def announce(before: str, planned: str) -> None:
            states.extend((before, planned))
            for state in states:
                store.keep_reference(session, state)
            changed = [
                to_printable_path(one.path)
                for one in find_differences(store, before, after=planned)
            ]
            record(
                Checkpointed(
                    call_id=f"worktree-{worktree.name}",
                    before=before,
                    after=planned,
                    paths=tuple(changed[:PATHS_RECORDED]),
                    paths_total=len(changed),
                    root=str(worktree.checkout) if root is None else root,
                )
            )

        # To undo the way from the new state back to the base is to apply it.
        change = StateChange(before=after, after=base or worktree.base)
        result = undo_changes(store, worktree.checkout, changes=[change], announce=announce)
        return MergeReport(result=result, **_name_states(states))

    def edit_state(
        self, worktree: Worktree, patch: str, *, paths: Sequence[bytes]
    ) -> tuple[str, str]:
        """Return states of these paths: as the worktree began, and with a patch applied to that.

        Raise SettingsError if the patch cannot be applied."""
        store = self._find_store(worktree)
        with TemporaryDirectory(prefix="agentcli-patch-") as directory, store.batch_writes():
            scratch = Path(directory)
            began = _read_state(store, worktree.base)
            write_entries({path: began.get(path) for path in paths}, store, root=scratch)
            before = write_state(store, capture_paths(store, tuple(paths), root=scratch))
            apply_patch(patch, scratch)
            after = write_state(store, capture_paths(store, tuple(paths), root=scratch))
        return before, after

    def list_paths(self, worktree: Worktree, after: str) -> list[bytes]:
        """Return the paths that differ between the beginning of a worktree and a later state."""
        store = self._find_store(worktree)
        return [one.path for one in find_differences(store, worktree.base, after=after)]

    def save_conflicts(self, worktree: Worktree, report: MergeReport, *, directory: Path) -> Path:
        """Write each conflict into a directory, with markers around what differs. Return it."""
        store = self._find_store(worktree)
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        for number, one in enumerate(report.conflicts, start=1):
            name = re.sub(r"[^\w.-]+", "-", one.path)[-NAME_CHARS:]
            text = render_conflict(store, one, theirs=worktree.name)
            elsewhere = f"No text to compare. The other version: {worktree.workspace / one.path}\n"
            store_private(directory / f"{number}-{name}", text or elsewhere.encode())
        return directory

    def has_commits(self, worktree: Worktree) -> bool:
        return any(_find_new(worktree, name) for name in ("HEAD", worktree.branch))

    def find_unmerged(self, worktree: Worktree) -> tuple[str, ...]:
        """Return what no merge takes over and nothing else has: files and repositories."""
        tree = worktree.tree
        if not tree.is_dir():
            return ()
        repositories = (f"the repository {name}" for name in find_repositories(tree))
        closed = (f"the unreadable directory {name}" for name in _find_closed(tree))
        return (*repositories, *closed, *find_unstored(tree))

    def remove(self, worktree: Worktree, *, keeps_commits: bool) -> WorktreeRemoval:
        """Remove a worktree.

        With `keeps_commits`, branches have all commits made in it, and it stays if it has what
        no merge takes over."""
        commit = _find_new(worktree, "HEAD") or _find_new(worktree, worktree.branch)
        branches = _keep_commits(worktree) if keeps_commits else ()
        unmerged = self.find_unmerged(worktree) if keeps_commits else ()
        if unmerged:
            return WorktreeRemoval(commit=commit, branches=branches, unmerged=unmerged)
        remove_worktree(worktree.tree, root=worktree.root)
        if worktree.branch not in branches:
            _delete_branch(worktree)
        with suppress(SettingsError):
            revoke_trust(worktree.tree)
        (self._directory / f"{worktree.name}.json").unlink(missing_ok=True)
        self._find_store(worktree).forget(_name_reference(worktree))
        return WorktreeRemoval(commit=commit, branches=branches)

    def _find_free_name(self) -> str:
        taken = {path.stem for path in self._directory.glob("*")}
        branches = run_git(
            "for-each-ref", "--format=%(refname:lstrip=3)", "refs/heads/agentcli", cwd=self.root
        ).split()
        number = 1
        while f"work-{number}" in {*taken, *branches}:
            number += 1
        return f"work-{number}"

    @property
    def root(self) -> Path:
        return self._checkout.root

    def _copy_changes(self, worktree: Worktree) -> None:
        """Copy what the user has not committed into a new worktree."""
        workspace, store = self._checkout.workspace, self._find_store(worktree)
        paths = tuple(path.encode("utf-8", "surrogateescape") for path in self._list_changed())
        with store.batch_writes():
            found = capture_paths(store, paths, root=workspace)
        write_entries({path: found.get(path) for path in paths}, store, root=worktree.workspace)

    def _list_changed(self) -> list[str]:
        return list_changed_paths(self._checkout.workspace)

    def _find_store(self, worktree: Worktree) -> ObjectStore:
        return find_store(worktree.checkout, self._sessions)


def find_unstored(root: Path) -> list[str]:
    """Return the tracked files below a root that were changed, and that no stored state has.

    They are in directories such as `node_modules`, which few repositories track."""
    try:
        edited = list_edited_paths(root)
    except SettingsError:  # it is in no repository, or has no commit
        return []
    never = {os.fsdecode(name) for name in NEVER}
    return [to_printable(path) for path in edited if not never.isdisjoint(PurePath(path).parts)]


def find_repositories(root: Path) -> list[str]:
    """Return the directories below a root that would lose commits with it, but for ignored ones.

    These are repositories of their own, and submodules with commits that no remote has."""
    home = find_git_directory(root / ".git")
    found = (path for path in _iter_directories(root) if _has_own_commits(path / ".git", home))
    return sorted(to_printable(str(path.relative_to(root))) for path in found)


def _find_closed(root: Path) -> list[str]:
    """Return the directories below a root of which nobody knows what is in them."""
    found = (one for one in _iter_directories(root) if not os.access(one, os.R_OK | os.X_OK))
    return sorted(to_printable(str(path.relative_to(root))) for path in found)


def _iter_directories(root: Path) -> Iterator[Path]:
    """Yield the directories below, but for those that are never stored."""
    waiting: list[tuple[Path, IgnoreScope]] = [(root, IgnoreRules.for_workspace(root))]
    while waiting:
        path, rules = waiting.pop()
        with suppress(OSError), os.scandir(path) as entries:
            for entry in entries:
                name = os.fsencode(entry.name)
                is_left_out = name in NEVER or not entry.is_dir(follow_symlinks=False)
                if not is_left_out and not rules.ignores(name, is_dir=True):
                    yield Path(entry.path)
                    waiting.append((Path(entry.path), rules.enter(name)))


def _has_own_commits(git: Path, home: Path | None) -> bool:
    """Return whether a `.git` is a repository, or that of a submodule with commits of its own.

    `home` is the directory of the repository around it, where those of its submodules are."""
    if is_directory(git) and not is_link(git):
        return True
    leads_to = find_git_directory(git) if home and is_file(git) else None
    if leads_to is None or home is None or not leads_to.is_relative_to(home):
        return False
    try:
        new = ("rev-list", "--max-count=1", "HEAD", "--branches", "--not", "--remotes")
        return bool(run_git(*new, cwd=git.parent).strip())
    except SettingsError:  # it has no commit
        return False


def find_worktree(workspace: Path) -> Worktree | None:
    """Return the worktree that a directory is in, if it is one of ours."""
    if not is_worktree(workspace):
        return None
    for tree in (workspace, *workspace.parents):
        found = _read(tree.with_name(f"{tree.name}.json"))
        if found is not None and found.tree.is_dir():
            return found
    return None


def open_worktrees(workspace: Path, *, sessions: Path | None = None) -> Worktrees:
    """Return the worktrees of the user's checkout, also from within one of them."""
    within = find_worktree(workspace)
    return Worktrees(within.checkout if within else workspace, sessions=sessions)


def enter_worktree(
    workspace: Path, name: str, *, sessions: Path | None = None
) -> tuple[Worktree, list[str]]:
    """Return the worktree with this name, and what the user should know of it if it is new.

    An empty name is a new one. Raise SettingsError or UsageError."""
    trees = open_worktrees(workspace, sessions=sessions)
    known, lost = ({one.name for one in found} for found in (trees.list_all(), trees.list_lost()))
    opened = trees.open(name)
    if opened.name in lost:
        return opened, [
            f"its directory was removed: made again from the branch {opened.branch}, "
            "without what was not committed"
        ]
    return opened, [] if opened.name in known else trees.describe_surprises(opened)


def to_printable_path(path: bytes) -> str:
    return to_printable(path.decode("utf-8", "surrogateescape"))


def _check_name(name: str) -> None:
    is_name = re.fullmatch(r"[A-Za-z0-9][\w.-]*", name, re.ASCII) and len(name) <= NAME_CHARS
    if not is_name or name.endswith((".", ".lock")) or ".." in name:
        raise UsageError(
            f"{to_printable(name)!r} cannot name a worktree",
            hint=f"use up to {NAME_CHARS} letters, digits, dots, - and _",
        )
    if name in RESERVED_NAMES:
        raise UsageError(
            f"{name!r} cannot name a worktree: it is a command", hint="use another name"
        )


def _name_states(states: list[str]) -> dict[str, str]:
    return {"before": states[0], "after": states[1]} if states else {}


def _find_new(worktree: Worktree, name: str) -> str:
    """Return the last commit of HEAD or a branch that a worktree did not begin with, if any."""
    cwd = worktree.tree if worktree.tree.is_dir() else worktree.root
    if not name or (name == "HEAD" and cwd == worktree.root):
        return ""
    ref = name if name == "HEAD" else f"refs/heads/{name}"
    try:
        return run_git("rev-list", "--max-count=1", ref, "--not", worktree.commit, cwd=cwd).strip()
    except SettingsError:  # there is no such branch, or no commit on it
        return ""


def _keep_commits(worktree: Worktree) -> tuple[str, ...]:
    """Let branches have all commits made in a worktree. Return these. Raise SettingsError."""
    found = [worktree.branch] if _find_new(worktree, worktree.branch) else []
    if head := _find_new(worktree, "HEAD"):
        current = run_git("branch", "--show-current", cwd=worktree.tree).strip()
        found.append(current or _hold_commit(worktree, head))
    return tuple(dict.fromkeys(found))


def _hold_commit(worktree: Worktree, commit: str) -> str:
    """Return a branch that has a commit: one that exists, ours moved forward, or a new one."""
    listing = ("for-each-ref", "--format=%(refname:lstrip=2)", "refs/heads")
    holding = run_git(*listing, f"--contains={commit}", cwd=worktree.root).splitlines()
    if holding:
        return worktree.branch if worktree.branch in holding else holding[0]
    known = set(run_git(*listing, cwd=worktree.root).splitlines())
    before = set(run_git(*listing, f"--merged={commit}", cwd=worktree.root).splitlines())
    ours = worktree.branch or f"agentcli/{worktree.name}"
    free = (f"{ours}-{number}" for number in count(2))
    is_movable = ours in before and ours not in _list_used_branches(worktree)
    branch = (
        ours if ours not in known or is_movable else next(one for one in free if one not in known)
    )
    run_git("update-ref", f"refs/heads/{branch}", commit, cwd=worktree.root)
    return branch


def _list_used_branches(worktree: Worktree) -> set[str]:
    """Return the branches that the user's checkout and other worktrees are on."""
    listed = run_git("worktree", "list", "--porcelain", cwd=worktree.root).split("\n\n")
    rows = (entry.split("\n") for entry in listed if entry)
    others = (row for row in rows if row[0] != f"worktree {worktree.tree}")
    branches = {line.removeprefix("branch refs/heads/") for row in others for line in row}
    return {run_git("branch", "--show-current", cwd=worktree.root).strip(), *branches}


def _add_hidden(store: ObjectStore, state: str, *, worktree: Worktree) -> str:
    """Return the state with what it lacks only because a new ignore rule leaves it out.

    What was there at the beginning and still is was not deleted. Raise OSError."""
    changes = find_differences(store, worktree.base, after=state) if worktree.base else []
    gone = {one.path: one.before for one in changes if one.before and not one.after}
    found = capture_paths(store, tuple(gone), root=worktree.workspace)
    # A directory in the place of a file, or the reverse, is something else.
    hidden = {
        path: found[path]
        for path, before in gone.items()
        if path in found and found[path].is_dir == before.is_dir
    }
    return write_state(store, {**hidden, **_read_state(store, state)}) if hidden else state


def _read_state(store: ObjectStore, state: str) -> State:
    """Return all that a stored state holds."""
    entries = find_differences(store, EMPTY_TREE, after=state)
    return {one.path: one.after for one in entries if one.after}


def _build_unmade_error(worktree: Worktree, error: OSError) -> SettingsError:
    return SettingsError(
        f"cannot make the worktree {worktree.tree}: {error}", hint="free some space"
    )


def _name_reference(worktree: Worktree) -> str:
    return f"worktree-{worktree.name}"


def _delete_branch(worktree: Worktree) -> None:
    """Delete the branch of a worktree, unless the user has checked it out elsewhere."""
    if worktree.branch:
        with suppress(SettingsError):  # it may be gone
            if worktree.branch in _list_used_branches(worktree):
                return
            run_git("update-ref", "-d", f"refs/heads/{worktree.branch}", cwd=worktree.root)


def _carry_trust(worktree: Worktree) -> None:
    """Trust the files for agents in a worktree if they are those that the user trusts."""
    own, there = load_project(worktree.checkout), load_project(worktree.workspace)
    if own is None or there is None or not own.is_trusted:
        return
    if own.files.fingerprint == there.files.fingerprint:
        there.trust()


def _to_json(worktree: Worktree) -> dict[str, str]:
    return {key: str(value) for key, value in asdict(worktree).items()}


def _read(path: Path) -> Worktree | None:
    """Return the worktree that a file describes; None if it does not."""
    try:
        known = json.loads(path.read_text(encoding="utf-8", errors="surrogateescape"))
        return Worktree(
            name=known["name"],
            tree=Path(known["tree"]),
            root=Path(known["root"]),
            checkout=Path(known["checkout"]),
            commit=known["commit"],
            branch=known["branch"],
            base=known["base"],
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
