"""The only module that starts our own helpers: git, an editor, a clipboard, a decoder.

They run outside any sandbox, so nothing that a repository or a sandboxed command left behind may
decide what runs. A program is found by its absolute path, outside the project. Its environment
holds listed variables, and none that leads into the project.
"""

import errno
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from agentcli.system import files
from agentcli.system.environment import is_secret_name

SYSTEM_DIRECTORIES = (
    *("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"),
    *("/opt/homebrew/bin", "/opt/local/bin"),
    *("/run/current-system/sw/bin", "/nix/var/nix/profiles/default/bin"),
)
"""Searched first: no command in a sandbox can write there."""

_LISTED = frozenset(
    {
        "USER",
        "LOGNAME",
        "LANG",
        "LANGUAGE",
        "TZ",
        "LD_LIBRARY_PATH",
        "GIT_CONFIG_GLOBAL",
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
"""Variables that programs load code from. A relative entry means the directory they run in."""

_HOMES = ("HOME", "PWD", "XDG_CONFIG_HOME", "XDG_RUNTIME_DIR", "TMPDIR")
"""Passed on wherever they lead: these directories are the user's, and protected."""

_SYSTEM = tuple(map(Path, ("/usr", "/bin", "/sbin", "/opt", "/nix", "/run/current-system")))

_VIRTUAL_ENVIRONMENT = "pyvenv.cfg"
_NODE_PROGRAMS = ("node_modules", ".bin")

_RUN_PYTHON = (
    "import runpy, sys; sys.path[:] = {path!r}; runpy.run_path({program!r}, run_name='__main__')"
)


def list_own_modules() -> Sequence[Path]:
    """Return the directories that our own modules are loaded from."""
    return [Path(entry) for entry in sys.path if Path(entry).is_absolute()]


def find_own_program(name: str) -> Path:
    """Return the path of a program that is installed with us, if it is.

    It is where `sysconfig` has scripts, which takes longer to load than to look at both places."""
    usual = Path(sys.prefix, "bin", name)
    return usual if usual.exists() else Path(sys.prefix, "local", "bin", name)


def build_python_command(program: Path) -> Sequence[str]:
    """Return the command that runs a program with our own modules.

    Its directory and its environment have no influence on what is loaded."""
    path = list(map(str, list_own_modules()))
    return (sys.executable, "-I", "-c", _RUN_PYTHON.format(path=path, program=str(program)))


def run(
    argv: Sequence[str | Path],
    *,
    workspace: Path | None,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    given: bytes | None = None,
    timeout_s: float | None = None,
) -> "subprocess.CompletedProcess[bytes]":
    """Run a program and return its result. Raise OSError if there is none, or TimeoutExpired.

    Nothing in the workspace has an influence on what runs. Without one, only the system is
    searched. `env` is the whole environment; None for `build_least_environment`.
    """
    env = build_least_environment(workspace) if env is None else env
    return subprocess.run(
        _resolve_argv(argv, env, workspace=workspace),
        cwd=cwd,
        env=env,
        input=given,
        stdin=subprocess.DEVNULL if given is None else None,
        capture_output=True,
        timeout=timeout_s,
    )


def start(
    argv: Sequence[str | Path],
    *,
    workspace: Path | None,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    stdin: int | None = subprocess.DEVNULL,
    stdout: int | None = subprocess.DEVNULL,
    stderr: int | None = subprocess.DEVNULL,
    process_group: int | None = None,
    start_new_session: bool = False,
) -> "subprocess.Popen[bytes]":
    """Start a program as `run` does, without waiting. A stream that is None is our terminal."""
    env = build_least_environment(workspace) if env is None else env
    return subprocess.Popen(
        _resolve_argv(argv, env, workspace=workspace),
        cwd=cwd,
        env=env,
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
        process_group=process_group,
        start_new_session=start_new_session,
    )


def find_program(name: str, *, workspace: Path | None, path: str | None = None) -> str | None:
    """Return the program's absolute path; None if only the project has one, or nobody.

    `path` is where to look; by default `build_system_path`.
    """
    return next(find_programs(name, workspace=workspace, path=path), None)


def find_programs(name: str, *, workspace: Path | None, path: str | None = None) -> Iterator[str]:
    """Yield all programs of that name, in the order of the search."""
    project = _find_project(workspace)
    directories = (build_system_path(workspace) if path is None else path).split(os.pathsep)
    candidates = [name] if os.sep in name else [f"{one}{os.sep}{name}" for one in directories]
    return filter(None, (_resolve_usable(Path(one), project) for one in candidates))


def build_system_path(workspace: Path | None, environ: Mapping[str, str] = os.environ) -> str:
    """Return the directories of the system, then those of PATH that no project can fill."""
    return os.pathsep.join(
        dict.fromkeys((*_iter_system_directories(), *_filter_path(workspace, environ)))
    )


def build_user_path(workspace: Path | None, environ: Mapping[str, str] = os.environ) -> str:
    """Return the same in the user's order, for programs that are the user's choice."""
    return os.pathsep.join(
        dict.fromkeys((*_filter_path(workspace, environ), *_iter_system_directories()))
    )


def build_least_environment(workspace: Path | None) -> dict[str, str]:
    """Return the environment for programs that need only home directory and language."""
    project = _find_project(workspace)
    kept = {
        name: value
        for name, value in os.environ.items()
        if (name in _LISTED or name.startswith("LC_"))
        and not _leads_into(project, name, value=value)
    }
    return (
        kept
        | {name: os.environ[name] for name in _HOMES if name in os.environ}
        | {"PATH": build_system_path(workspace)}
    )


def build_user_environment(workspace: Path | None) -> dict[str, str]:
    """Return the user's environment without secrets, for an editor or a browser."""
    known = {name: value for name, value in os.environ.items() if not is_secret_name(name)}
    return without_project(known, workspace)


def without_project(environ: Mapping[str, str], workspace: Path | None) -> dict[str, str]:
    """Return an environment without the variables that lead into the project."""
    project = _find_project(workspace)
    kept = {
        name: value
        for name, value in environ.items()
        if name in _HOMES or not _leads_into(project, name, value=value)
    }
    return kept | {"PATH": build_user_path(workspace, environ)}


def find_project(folder: Path) -> Path:
    """Return the root of the repository around the folder, else the folder itself.

    An earlier session may have had the whole repository as its workspace.
    """
    real = Path(os.path.realpath(folder))
    above = (parent for parent in (real, *real.parents) if files.exists(parent / ".git"))
    return next(above, real)


def _find_project(workspace: Path | None) -> Path | None:
    return find_project(workspace) if workspace else None


def _resolve_argv(
    argv: Sequence[str | Path], env: Mapping[str, str], *, workspace: Path | None
) -> list[str]:
    name, *words = map(str, argv)
    is_ours = name == sys.executable
    program = name if is_ours else find_program(name, workspace=workspace, path=env.get("PATH", ""))
    if program is None:
        raise FileNotFoundError(errno.ENOENT, "program not found", name)
    return [program, *words]


def _resolve_usable(program: Path, project: Path | None) -> str | None:
    if not program.is_absolute() or not os.access(program, os.X_OK) or files.is_directory(program):
        return None
    # A link in a directory of the system may lead into the project as well.
    real = Path(os.path.realpath(program))
    return None if _is_in(project, program) or _is_in(project, real) else str(program)


def _iter_system_directories() -> Iterator[str]:
    return (directory for directory in SYSTEM_DIRECTORIES if files.is_directory(Path(directory)))


def _filter_path(workspace: Path | None, environ: Mapping[str, str]) -> Iterator[str]:
    if workspace is None:
        return iter(())
    project = _find_project(workspace)
    entries = environ.get("PATH", "").split(os.pathsep)
    return (entry for entry in entries if _is_kept(entry, project))


def _is_kept(entry: str, project: Path | None) -> bool:
    folder = Path(entry)
    if not folder.is_absolute() or not files.is_directory(folder):
        return False
    real = Path(os.path.realpath(folder))
    is_local = (
        files.exists(folder.parent / _VIRTUAL_ENVIRONMENT) or real.parts[-2:] == _NODE_PROGRAMS
    )
    return not is_local and not _is_in(project, folder) and not _is_in(project, real)


def _is_in(project: Path | None, path: Path) -> bool:
    """Return whether the project controls the path.

    If the project is the root directory, the system's directories are not part of it.
    """
    if project is None or not path.is_relative_to(project):
        return False
    return not any(path.is_relative_to(own) for own in _SYSTEM if project in own.parents)


def _leads_into(project: Path | None, name: str, *, value: str) -> bool:
    """Return whether an entry of the value is in the project, or would be if run there."""
    return any(_is_inside(project, name, entry=entry) for entry in value.split(os.pathsep))


def _is_inside(project: Path | None, name: str, *, entry: str) -> bool:
    if Path(entry).is_absolute():
        return _is_in(project, Path(entry)) or _is_in(project, Path(os.path.realpath(entry)))
    return name in _LOADED_FROM and bool(entry)
