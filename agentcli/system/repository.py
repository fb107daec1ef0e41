"""A repository of git: its branch and its pointers, read from its files, and its changes.

The branch costs a few reads of small files. git runs in the background and is never waited for,
and nothing that the repository configures for it is run.
"""

import os
import stat
import subprocess
import threading
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

from agentcli.system import own_process
from agentcli.system.files import exists, is_directory, is_file, read_regular
from agentcli.system.git import prepare_git
from agentcli.system.lazy import compile_later
from agentcli.system.plain_text import abbreviate
from agentcli.types.errors import SettingsError

PATIENCE_S = 5.0
HEAD_BYTES = 4096

_STATUS = ("status", "--porcelain", "-z", "--no-renames", "--ignore-submodules=all")
_ON_BRANCH = compile_later(r"ref: refs/heads/(.+)")
_COMMIT = compile_later(r"[0-9a-f]{40,64}")


def find_branch(folder: Path) -> str:
    """Return `branch main` or `commit 1a2b3c4d5e6f`, to be read; empty if there is no repository.

    A long name is shortened."""
    head = next(
        (head for head in map(_read_head, _list_repository_paths(folder)) if head is not None), ""
    )
    if on_branch := _ON_BRANCH.fullmatch(head):
        return f"branch {abbreviate(on_branch[1])}"
    return f"commit {head[:12]}" if _COMMIT.fullmatch(head) else ""


@lru_cache(maxsize=4)
def _list_repository_paths(folder: Path) -> tuple[Path, ...]:
    """Return where its repository may be. Cached: it is asked before every request of a session."""
    return tuple(directory / ".git" for directory in (folder, *folder.parents))


def _read_head(git: Path) -> str | None:
    """Return the line in HEAD; None if there is no such directory, nor a file that names one."""
    try:
        if not stat.S_ISDIR(git.stat().st_mode):
            git = git.parent / _read_first_line(git).removeprefix("gitdir: ")
        return _read_first_line(git / "HEAD")
    except (OSError, ValueError):
        return None


def _read_first_line(path: Path) -> str:
    return read_regular(path, HEAD_BYTES).decode("utf-8", "replace").partition("\n")[0]


class UncommittedChanges:
    """The paths that differ from the last commit, known some time after they were requested."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._thread: threading.Thread | None = None
        self._is_closed = False
        self.known: tuple[str, ...] | None = None
        """None if not known yet, or never. Each path follows its two letters: `?? new.py`."""

    def request(self) -> None:
        self._thread = threading.Thread(target=self.load, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End git, and start none from now on."""
        with self._lock:
            self._is_closed = True
            if self._process is not None:
                self._process.kill()

    def close(self) -> None:
        """Stop, and wait until no temporary directory is left."""
        self.stop()
        if self._thread is not None:
            self._thread.join(PATIENCE_S)

    def load(self) -> None:
        """Set `known`. Takes as long as git does."""
        with (
            suppress(OSError, SettingsError, subprocess.TimeoutExpired),
            prepare_git(*_STATUS, cwd=self._folder, timeout_s=PATIENCE_S) as (command, env),
        ):
            process = self._start(command, env)
            if process is not None:
                self._follow(process)

    def _follow(self, process: "subprocess.Popen[bytes]") -> None:
        """Wait for git and set `known`. Raise TimeoutExpired, and leave nothing running."""
        try:
            output, _ = process.communicate(timeout=PATIENCE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            raise
        if process.returncode == 0:
            self.known = tuple(filter(None, output.decode("utf-8", "replace").split("\0")))

    def _start(self, command: list[str], env: dict[str, str]) -> "subprocess.Popen[bytes] | None":
        with self._lock:
            if self._is_closed:
                return None
            self._process = own_process.start(
                command,
                workspace=self._folder,
                cwd=self._folder,
                env=env,
                stdout=subprocess.PIPE,
            )
            return self._process


# Git's pointer files, read to the byte as git reads them.
#
# A `.git` that is a file, and `commondir`, name a directory, relative to where they lie. Git drops
# the line ends after the path and nothing else: blanks belong to it. If we read another path than
# git does, a repository could show us a harmless directory and give git a dangerous one.


_POINTER = b"gitdir: "
_MOST_BYTES = 64 * 1024
"""Far more than the longest path, with what line ends may follow it."""


def find_git_directory(git: Path) -> Path | None:
    """Return the directory of a `.git`: itself, or the one that it leads to; None if none is there.

    A link may also lead to a pointer file. What that names is relative to the link."""
    named = read_pointer(git) if is_file(git) else git
    real = Path(os.path.realpath(named)) if named else None
    return real if real and is_directory(real) else None


def read_pointer(git: Path) -> Path | None:
    """Return the path that a `.git` file names, whether it exists; None if git would refuse it."""
    content = _read(git)
    named = content.removeprefix(_POINTER)
    return git.parent / os.fsdecode(named) if named and named != content else None


PARTS = frozenset(
    (
        *("head", "config", "config.worktree", "commondir", "packed-refs", "index", "description"),
        *("hooks", "objects", "refs", "reftable", "info", "logs", "worktrees", "modules"),
    )
)
"""What git keeps in a git directory, in lower case."""


def list_bare_parts(directory: Path) -> tuple[Path, ...]:
    """Return where git keeps what is its own in a bare repository; nothing if it is none."""
    if not is_repository(directory):
        return ()
    return (directory / "HEAD", *(directory / name for name in PARTS))


def is_repository(directory: Path) -> bool:
    """Return whether it is a git directory by its content: that of a work tree, or a bare one."""
    has_parts = is_directory(directory / "objects") and is_directory(directory / "refs")
    return has_parts and is_file(directory / "HEAD")


def find_common_directory(git: Path) -> Path:
    """Return the directory with the settings: for a linked worktree, that of its repository."""
    return Path(os.path.realpath(git / os.fsdecode(_read(git / "commondir"))))


def find_main_worktree(directory: Path) -> tuple[Path, Path] | None:
    """Return the top of the linked worktree around a directory, and that of its main worktree.

    None if it is in no linked one."""
    top = next((one for one in (directory, *directory.parents) if exists(one / ".git")), None)
    git = find_git_directory(top / ".git") if top and is_file(top / ".git") else None
    common = find_common_directory(git) if git else None
    if top is None or common is None or common == git or common.name != ".git":
        return None
    return top, common.parent


def _read(path: Path) -> bytes:
    """Return the path in a small regular file; empty for anything else."""
    try:
        content = read_regular(path, _MOST_BYTES)
    except OSError:
        return b""
    # In C a string ends at a NUL. Git looks for line ends before that.
    return content.rstrip(b"\r\n").partition(b"\0")[0]
