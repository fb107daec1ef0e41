"""A directory for each task: a git worktree of one commit, or a copy without git.

What they are made from can be packed, and unpacked on a node of a cluster.
"""

import hashlib
import io
import os
import shutil
import tarfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Lock

from platformdirs import user_cache_path

from agentcli.system.files import remove_tree
from agentcli.system.git import (
    NOT_INTO_OTHERS,
    Checkout,
    PackedCommit,
    add_worktree,
    find_checkout,
    pack_commit,
    remove_worktree,
    run_git,
    unpack_commit,
)
from agentcli.types.errors import SettingsError


class TaskTrees:
    """The directories of tasks. Made and removed one at a time: git prunes those half made."""

    _one_at_a_time = Lock()

    def __init__(self, workspace: Path, *, out: Path, checkout: Checkout | None = None) -> None:
        """`checkout` is its repository, if that is known."""
        self._workspace = workspace
        self._out = out
        key = hashlib.sha256(os.fsencode(out)).hexdigest()[:12]
        self._directory = user_cache_path("agentcli", appauthor=False) / "trees" / key
        self._checkout = checkout or _find_checkout(workspace)
        self.commit = self._checkout.commit

    def with_output(self, out: Path) -> "TaskTrees":
        """Return trees of the same source, in directories of their own."""
        return TaskTrees(self._workspace, out=out, checkout=self._checkout)

    @property
    def lacks_changes(self) -> bool:
        """True if the user has uncommitted changes, which are in none of the directories."""
        return bool(
            self.commit
            and run_git("status", "--porcelain", NOT_INTO_OTHERS, cwd=self._workspace).strip()
        )

    def make(self, name: str) -> Path:
        """Make a fresh directory, removing what an earlier attempt left.

        Raise SettingsError on failure.
        """
        tree = self._directory / name
        with self._one_at_a_time:
            self._remove(tree)
            self._create(tree)
        return self.get_workspace(name)

    def remove(self, name: str) -> None:
        with self._one_at_a_time:
            self._remove(self._directory / name)
        with suppress(OSError):  # other tasks have theirs in it
            self._directory.rmdir()

    def get_workspace(self, name: str) -> Path:
        """Return the path, in the directory of this name, of the workspace."""
        return self._directory / name / self._checkout.relative

    def find_own_commit(self, name: str) -> str:
        """Return the last commit of a directory that no branch has; empty if there is none."""
        tree = self._directory / name
        if not self.commit or not tree.is_dir():
            return ""
        try:
            new = ("rev-list", "--max-count=1", "HEAD", "--not", self.commit, "--branches")
            return run_git(*new, cwd=tree).strip()
        except SettingsError:  # it has no HEAD, so no commit either
            return ""

    def find_repositories(self, name: str) -> list[str]:
        """Return the repositories that were made in a directory, or got commits there."""
        from agentcli.session.worktrees import find_repositories

        tree = self._directory / name
        if not tree.is_dir():
            return []
        if self.commit:
            return find_repositories(tree)
        source = self._workspace  # a copy has those of what it was copied from
        own = ["."] if (tree / ".git").is_dir() else []
        found = (*own, *find_repositories(tree))
        return [path for path in found if not (source / path / ".git").exists()]

    def find_unstored(self, name: str) -> list[str]:
        """Return the tracked files that were changed in a directory, and that no patch has."""
        from agentcli.session.worktrees import find_unstored

        tree = self._directory / name
        return find_unstored(tree) if self.commit and tree.is_dir() else []

    def pack(self) -> "PackedSource":
        """Pack what the directories are made from. Raise SettingsError on failure."""
        subdirectory = str(self._checkout.relative)
        if self.commit:
            packed = pack_commit(self.commit, cwd=self._checkout.root)
            key = hashlib.sha256(packed.pack).hexdigest()
            return PackedSource(key=key, subdirectory=subdirectory, content=packed)
        archive = io.BytesIO()
        try:
            with tarfile.open(fileobj=archive, mode="w") as tar:
                tar.add(self._workspace, arcname=".", filter=self._leave_out)
        except OSError as error:
            raise SettingsError(f"cannot read {self._workspace}: {error}") from error
        content = archive.getvalue()
        key = hashlib.sha256(content).hexdigest()
        return PackedSource(key=key, subdirectory=subdirectory, content=content)

    def _create(self, tree: Path) -> None:
        try:
            tree.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            if self.commit:
                add_worktree(tree, self.commit, root=self._checkout.root)
            else:
                shutil.copytree(self._workspace, tree, symlinks=True, ignore=self._ignore_names)
        except (OSError, shutil.Error) as error:
            raise SettingsError(f"cannot create {tree}: {error}", hint="free some space") from error

    def _remove(self, tree: Path) -> None:
        if self.commit:
            remove_worktree(tree, root=self._checkout.root)
        else:
            remove_tree(tree)

    def _ignore_names(self, directory: str, names: list[str]) -> list[str]:
        return [name for name in names if self._is_left_out(Path(directory, name))]

    def _leave_out(self, entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
        return None if self._is_left_out(self._workspace / entry.name) else entry

    def _is_left_out(self, path: Path) -> bool:
        """Return whether it is the batch's own output, a socket or a pipe."""
        is_own = path in (self._out, self._directory)
        return is_own or not (path.is_symlink() or path.is_dir() or path.is_file())


class _OwnArchive(tarfile.TarFile):
    """An archive of ours: links are unpacked as they were, on every version of Python."""

    @staticmethod
    def extraction_filter(member: tarfile.TarInfo, path: str) -> tarfile.TarInfo:
        return member


@dataclass(frozen=True, slots=True, kw_only=True)
class PackedSource:
    """The source of the directories, to unpack on another machine."""

    key: str
    """The same for the same content."""
    subdirectory: str
    content: PackedCommit | bytes
    """A commit, or an archive of a directory without git."""

    def unpack(self, root: Path) -> None:
        """Raise SettingsError or OSError."""
        root.mkdir(parents=True)
        if isinstance(self.content, PackedCommit):
            unpack_commit(self.content, root)
        else:
            with _OwnArchive(fileobj=io.BytesIO(self.content)) as tar:
                tar.extractall(root)
        (root / self.subdirectory).mkdir(parents=True, exist_ok=True)


def _find_checkout(workspace: Path) -> Checkout:
    """Return the repository around the workspace; without a commit, the workspace alone."""
    try:
        return find_checkout(workspace)
    except SettingsError:
        return Checkout(root=workspace, commit="", workspace=workspace)
