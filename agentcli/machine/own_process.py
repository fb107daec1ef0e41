"""The one place that starts our own helpers: git, an editor, a clipboard, a decoder.

They run outside of any sandbox, so nothing that a repository or a sandboxed command could have
left behind may decide what runs. A program is found by its absolute path, outside of the project;
its environment holds listed variables, and none that leads into the project.
"""

import errno
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

from agentcli.machine.environment import SECRET_NAME

SYSTEM_DIRECTORIES = (
    *("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"),
    *("/opt/homebrew/bin", "/opt/local/bin"),
    *("/run/current-system/sw/bin", "/nix/var/nix/profiles/default/bin"),
)
"""Searched first: no command in a sandbox can write there."""

_LISTED = frozenset(
    {
        "HOME",
        "USER",
        "LOGNAME",
        "LANG",
        "LANGUAGE",
        "TZ",
        "TMPDIR",
        "XDG_CONFIG_HOME",
        "SYSTEMROOT",
        "USERPROFILE",
    }
)
_LOADED_FROM = frozenset(
    {
        "PATH",
        "LD_LIBRARY_PATH",
        "LD_PRELOAD",
        "LD_AUDIT",
        "DYLD_LIBRARY_PATH",
        "DYLD_INSERT_LIBRARIES",
        "PYTHONPATH",
        "PYTHONHOME",
        "PYTHONSTARTUP",
        "NODE_PATH",
        "NODE_OPTIONS",
        "PERL5LIB",
        "PERLLIB",
        "RUBYLIB",
        "GEM_PATH",
        "GEM_HOME",
    }
)
"""What programs load code from: a relative entry means whatever directory they run in."""

_VIRTUAL_ENVIRONMENT = "pyvenv.cfg"
_NODE_PROGRAMS = ("node_modules", ".bin")


def run(
    argv: Sequence[str | Path],
    *,
    beside: Path,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    given: bytes | None = None,
    timeout_s: float | None = None,
) -> "subprocess.CompletedProcess[bytes]":
    """What came of it. Raises OSError where there is no such program, and TimeoutExpired.

    `beside`: the workspace, of which it must get nothing. `env`: all of it; None: the least.
    """
    return subprocess.run(
        _absolute(argv, beside),
        cwd=cwd,
        env=least_environment(beside) if env is None else env,
        input=given,
        stdin=subprocess.DEVNULL if given is None else None,
        capture_output=True,
        timeout=timeout_s,
    )


def start(
    argv: Sequence[str | Path],
    *,
    beside: Path,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    stdin: int | IO[bytes] | None = subprocess.DEVNULL,
    stdout: int | IO[bytes] | None = subprocess.DEVNULL,
    stderr: int | IO[bytes] | None = subprocess.DEVNULL,
    process_group: int | None = None,
) -> "subprocess.Popen[bytes]":
    """As `run`, for whoever follows it. None as a stream: ours, the terminal."""
    return subprocess.Popen(
        _absolute(argv, beside),
        cwd=cwd,
        env=least_environment(beside) if env is None else env,
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
        process_group=process_group,
    )


def find_program(name: str, *, beside: Path) -> str | None:
    """Its absolute path; None: there is none, or only one that the project brings."""
    project = project_around(beside)
    if os.sep in name:
        return _usable(Path(name), project)
    directories = search_path(beside).split(os.pathsep)
    found = (_usable(Path(directory, name), project) for directory in directories)
    return next(filter(None, found), None)


def search_path(beside: Path) -> str:
    """The directories of the system, then those of PATH that no project can fill."""
    project = project_around(beside)
    given = os.environ.get("PATH", "").split(os.pathsep)
    system = (directory for directory in SYSTEM_DIRECTORIES if Path(directory).is_dir())
    kept = (entry for entry in given if _is_kept(entry, project))
    return os.pathsep.join(dict.fromkeys((*system, *kept)))


def least_environment(beside: Path) -> dict[str, str]:
    """For what needs to know where home is, and what language to speak."""
    project = project_around(beside)
    kept = {
        name: value
        for name, value in os.environ.items()
        if name in _LISTED or name.startswith("LC_")
    }
    libraries = os.environ.get("LD_LIBRARY_PATH", "")
    if libraries and not _leads_into(project, "LD_LIBRARY_PATH", libraries):
        kept["LD_LIBRARY_PATH"] = libraries
    return kept | {"PATH": search_path(beside)}


def user_environment(beside: Path) -> dict[str, str]:
    """For what the user works with, an editor or a browser: theirs, without secrets."""
    project = project_around(beside)
    kept = {
        name: value
        for name, value in os.environ.items()
        if not SECRET_NAME.search(name) and not _leads_into(project, name, value)
    }
    return kept | {"PATH": search_path(beside)}


def project_around(folder: Path) -> Path:
    """The root of the repository around it, else itself: an earlier session may have had it all."""
    real = Path(os.path.realpath(folder))
    above = (parent for parent in (real, *real.parents) if (parent / ".git").exists())
    return next(above, real)


def _absolute(argv: Sequence[str | Path], beside: Path) -> list[str]:
    name, *words = map(str, argv)
    own = name if name == sys.executable else find_program(name, beside=beside)
    if own is None:
        raise FileNotFoundError(errno.ENOENT, "there is no such program", name)
    return [own, *words]


def _usable(program: Path, project: Path) -> str | None:
    is_system = str(program.parent) in SYSTEM_DIRECTORIES
    if not program.is_absolute() or not os.access(program, os.X_OK) or program.is_dir():
        return None
    is_brought = not is_system and _is_in(project, program)
    # A link in a directory of the system may lead into the project as well.
    real = Path(os.path.realpath(program))
    return None if is_brought or _is_in(project, real) else str(program)


def _is_in(project: Path, path: Path) -> bool:
    """Whether the project has a say in it. With the root as project, the system is its own."""
    if project == project.parent:
        return not any(
            path.is_relative_to(one) for one in ("/usr", "/bin", "/sbin", "/opt", "/nix")
        )
    return path.is_relative_to(project)


def _is_kept(entry: str, project: Path) -> bool:
    folder = Path(entry)
    if not entry or not folder.is_absolute() or not folder.is_dir():
        return False
    real = Path(os.path.realpath(folder))
    is_local = (folder.parent / _VIRTUAL_ENVIRONMENT).exists() or real.parts[-2:] == _NODE_PROGRAMS
    return not is_local and not _is_in(project, folder) and not _is_in(project, real)


def _leads_into(project: Path, name: str, value: str) -> bool:
    """Whether one of its entries is in the project, or would be where it is run there."""
    return any(_is_inside(project, name, entry) for entry in value.split(os.pathsep))


def _is_inside(project: Path, name: str, entry: str) -> bool:
    if Path(entry).is_absolute():
        return _is_in(project, Path(entry)) or _is_in(project, Path(os.path.realpath(entry)))
    return name in _LOADED_FROM
