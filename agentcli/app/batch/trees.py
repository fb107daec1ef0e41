"""A directory of its own for each task: a git worktree of one commit, or a copy without git.

They are in the cache directory, since a worktree inside the repository would be searched with it.
"""

import hashlib
import os
import shutil
from contextlib import suppress
from pathlib import Path

from platformdirs import user_cache_path

from agentcli.machine.git import NOT_INTO_OTHERS, add_worktree, run_git
from agentcli.types.errors import SettingsError


class TaskTrees:
    def __init__(self, workspace: Path, *, out: Path) -> None:
        self._workspace = workspace
        self._out = out
        key = hashlib.sha256(os.fsencode(out)).hexdigest()[:12]
        self._directory = user_cache_path("agentcli", appauthor=False) / "trees" / key
        self._root, self.commit = _find_repository(workspace)

    @property
    def lacks_changes(self) -> bool:
        """Whether what the person has not committed is in none of them."""
        return bool(
            self.commit
            and run_git("status", "--porcelain", NOT_INTO_OTHERS, cwd=self._workspace).strip()
        )

    def make(self, name: str) -> Path:
        """A fresh one; what an earlier attempt left is removed. Raises SettingsError."""
        self.remove(name)
        tree = self._directory / name
        try:
            tree.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            if self.commit:
                add_worktree(tree, self.commit, root=self._root)
            else:
                shutil.copytree(self._workspace, tree, symlinks=True, ignore=self._ignore_names)
        except (OSError, shutil.Error) as error:
            raise SettingsError(f"cannot make {tree}: {error}", hint="free some space") from error
        return tree / self._workspace.relative_to(self._root)

    def remove(self, name: str) -> None:
        tree = self._directory / name
        if not tree.exists():
            return
        if self.commit:
            with suppress(SettingsError):  # one that was made halfway: it goes as a directory does
                run_git("worktree", "remove", "--force", "--force", str(tree), cwd=self._root)
        shutil.rmtree(tree, ignore_errors=True)
        if self.commit:
            run_git("worktree", "prune", cwd=self._root)

    def _ignore_names(self, directory: str, names: list[str]) -> list[str]:
        """What the batch itself writes, and what can be read by nobody: sockets and pipes."""
        places = {name: Path(directory, name) for name in names}
        return [
            name
            for name, place in places.items()
            if place == self._out
            or place == self._directory
            or not (place.is_symlink() or place.is_dir() or place.is_file())
        ]


def _find_repository(workspace: Path) -> tuple[Path, str]:
    """Its root and its commit; the workspace and nothing where there is no commit to start from."""
    try:
        root = Path(run_git("rev-parse", "--show-toplevel", cwd=workspace).rstrip("\n")).resolve()
        commit = run_git("rev-parse", "--verify", "HEAD^{commit}", cwd=workspace).strip()
        if workspace != root:
            run_git("ls-tree", "-d", f"{commit}:{workspace.relative_to(root).as_posix()}", cwd=root)
    except (SettingsError, ValueError):
        return workspace, ""
    return root, commit
