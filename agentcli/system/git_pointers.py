"""Git's pointer files, read to the byte as git reads them.

A `.git` that is a file, and `commondir`, name a directory, relative to where they lie. Git drops
the line ends after the path and nothing else: blanks belong to it. If we read another path than git
does, a repository could show us a harmless directory and give git a dangerous one.
"""

import os
from pathlib import Path

from agentcli.system.kinds import is_directory, is_file
from agentcli.system.regular_file import read_regular

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


def find_common_directory(git: Path) -> Path:
    """Return the directory with the settings: for a linked worktree, that of its repository."""
    return Path(os.path.realpath(git / os.fsdecode(_read(git / "commondir"))))


def _read(path: Path) -> bytes:
    """Return the path in a small regular file; empty for anything else."""
    try:
        content = read_regular(path, _MOST_BYTES)
    except OSError:
        return b""
    # In C a string ends at a NUL. Git looks for line ends before that.
    return content.rstrip(b"\r\n").partition(b"\0")[0]
