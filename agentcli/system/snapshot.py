"""A snapshot of a workspace in a git directory of our own, and the changes since then.

The repository's own git directory is only read: its index, objects, hooks and settings are not
touched, and none of its settings can make git run anything.
"""

import shutil
from contextlib import suppress
from pathlib import Path

from agentcli.system.git import PLAIN_DIFF, git_in
from agentcli.types.errors import SettingsError

_BYTES_AS_THEY_ARE = "* -text -ident !filter !diff !merge !working-tree-encoding\n"
_REPOSITORY = b"160000 "


class WorkspaceSnapshot:
    def __init__(self, workspace: Path, directory: Path) -> None:
        """Make `directory`, which holds what the comparison needs. Raise SettingsError."""
        self._workspace = workspace
        self._directory = directory
        try:
            self._prepare()
            self._before = self._tree()
        except OSError as error:
            raise SettingsError(
                f"cannot save the workspace state: {error}", hint=f"ls -ld {directory}"
            ) from error

    def patch(self) -> str:
        """Return all changes since then, as `git apply` takes them. Raise SettingsError."""
        patch = self._git("diff", *PLAIN_DIFF, "--binary", self._before, self._tree())
        return patch.decode("utf-8", "replace")

    def close(self) -> None:
        shutil.rmtree(self._directory, ignore_errors=True)

    def _prepare(self) -> None:
        self._git("init", "--quiet")
        (self._directory / "info").mkdir(exist_ok=True)
        (self._directory / "info/attributes").write_text(_BYTES_AS_THEY_ARE)
        (self._directory / "info/exclude").write_text(_read_ignore_rules(self._workspace))
        own = self._workspace / ".git"
        if not own.is_dir():
            return
        # What the repository has already need not be read and written again.
        with suppress(OSError):
            shutil.copyfile(own / "index", self._directory / "index")
        (self._directory / "objects/info/alternates").write_text(f"{own / 'objects'}\n")

    def _tree(self) -> str:
        try:
            self._add_all()
        except SettingsError:
            # The index may be of a kind we cannot continue. Files that are unreadable are left out.
            (self._directory / "index").unlink(missing_ok=True)
            with suppress(SettingsError):
                self._add_all()
        return self._git("write-tree", "--missing-ok").decode().strip()

    def _add_all(self) -> None:
        self._forget_repositories()
        self._git("add", "--all", "--ignore-errors", ".")

    def _forget_repositories(self) -> None:
        """Remove inner repositories from the index: git would follow their settings."""
        listed = self._git("ls-files", "--stage", "-z").split(b"\0")
        inner = [entry.partition(b"\t")[2] for entry in listed if entry.startswith(_REPOSITORY)]
        if inner:
            self._git("update-index", "--force-remove", "-z", "--stdin", given=b"\0".join(inner))

    def _git(self, *arguments: str, given: bytes | None = None) -> bytes:
        return git_in(self._directory, *arguments, work_tree=self._workspace, given=given)


def _read_ignore_rules(workspace: Path) -> str:
    """Return what a repository around the workspace ignores at any depth, beside its own list."""
    lines: list[str] = []
    for folder in (workspace, *workspace.parents):
        # Below the workspace git finds the lists by itself.
        above = () if folder == workspace else (folder / ".gitignore",)
        for file in (*above, folder / ".git/info/exclude"):
            with suppress(OSError):
                lines += file.read_text(encoding="utf-8", errors="replace").splitlines()
        if (folder / ".git").exists():
            return "".join(f"{line}\n" for line in lines if "/" not in line.strip().rstrip("/"))
    return ""
