"""The compilers, interpreters and package caches outside the system's own directories.

Only the parts of a tool's installation are shown to commands, never a directory that also holds
personal files. A repository can name a path here, but it cannot make one pass the checks.
"""

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from agentcli.system.kinds import exists, is_directory, is_file

# The parts of a version manager or compiler in the home directory; () for all of it.
_IN_HOME: dict[str, tuple[str, ...]] = {
    ".asdf": (),
    ".bun": ("bin", "install"),
    ".cargo": ("bin", "registry", "git"),  # not its credentials
    ".deno": ("bin",),
    ".dotnet": (),
    ".elan": (),
    ".ghcup": (),
    ".goenv": (),
    ".juliaup": (),
    ".local": ("bin", "lib"),
    ".local/share/fnm": (),
    ".local/share/mise": (),
    ".local/share/pipx": (),
    ".local/share/pnpm": (),
    ".local/share/uv": ("python", "tools"),
    ".local/pipx": (),
    ".nodenv": (),
    ".nvm": (),
    ".opam": (),
    ".pyenv": (),
    ".rbenv": (),
    ".rustup": (),
    ".rvm": (),
    ".sdkman": (),
    ".volta": ("bin", "tools"),
    "go": ("bin", "pkg"),
}

# The parts of an installation prefix by convention, so that nothing else beside it is shown.
_IN_PREFIX = (
    "bin",
    "sbin",
    "lib",
    "lib64",
    "libexec",
    "include",
    "share",
    "ssl",
    "conda-meta",
    "pyvenv.cfg",
)
_PROGRAM_DIRECTORIES = ("bin", "sbin")
_DISTRIBUTION = ("/usr/bin", "/usr/sbin", "/bin", "/sbin")
_LINK_LIMIT = 1000
"""Limit of programs in one directory that are checked for links into other installations."""

# Tools that find their data through HOME, which is another directory for commands.
_HOME_VARIABLES = {
    "CARGO_HOME": ".cargo",
    "GOMODCACHE": "go/pkg/mod",
    "PYTHONUSERBASE": ".local",
    "RUSTUP_HOME": ".rustup",
}


def tool_homes(search_path: str, home: Path) -> tuple[Path, ...]:
    """Return the homes of version managers: the home directory, and owners of programs on PATH."""
    on_path = (
        parent.parent
        for entry in search_path.split(os.pathsep)
        for parent in (Path(entry), *Path(entry).parents)
        if parent.is_absolute() and parent.name in _IN_HOME and parent.name.startswith(".")
    )
    return tuple(dict.fromkeys((home, *on_path)))


def tool_variables(homes: Iterable[Path], environ: Mapping[str, str]) -> dict[str, str]:
    """Return variables that tell tools where their installation is, since HOME is elsewhere."""
    found: dict[str, str] = {}
    for name, at in _HOME_VARIABLES.items():
        given = environ.get(name)
        candidates = [Path(given)] if given else [home / at for home in homes]
        existing = next(filter(is_directory, candidates), None)
        if existing:
            found[name] = str(existing)
    return found


def find_toolchains(search_path: str, *, home: Path, workspace: Path) -> tuple[Path, ...]:
    """Return the paths that the user's tools need to run: as named, and as resolved."""
    homes = tool_homes(search_path, home)
    found: set[Path] = set()
    for one in homes:
        if not one.is_relative_to(workspace):
            found |= set(_home_installations(one))
    directories = set(_program_directories(search_path, workspace))
    linked = {
        program.parent for directory in directories for program in _find_linked_programs(directory)
    }
    interpreters = {program.parent for program in _workspace_interpreters(workspace)}
    for directory in directories | linked | interpreters:
        found |= set(_installation(directory, homes))
    return tuple(sorted(found))


def _home_installations(home: Path) -> Iterator[Path]:
    for name, parts in _IN_HOME.items():
        root = home / name
        yield from _filter_existing((root,) if not parts else (root / part for part in parts))


def _program_directories(search_path: str, workspace: Path) -> Iterator[Path]:
    for entry in dict.fromkeys(filter(None, search_path.split(os.pathsep))):
        directory = Path(entry)
        inside = Path(os.path.realpath(entry)).is_relative_to(workspace)
        if directory.is_absolute() and is_directory(directory) and not inside:
            yield directory


def _installation(directory: Path, homes: Iterable[Path]) -> Iterator[Path]:
    """Yield the parts of the prefix that a directory of programs belongs to, if it is one."""
    prefix = directory.parent
    is_home = any(prefix in (home, home / ".local") for home in homes)
    if directory.name in _PROGRAM_DIRECTORIES and not is_home and len(prefix.parts) > 1:
        yield from _filter_existing(prefix / part for part in _IN_PREFIX)
    else:
        yield from _filter_existing((directory,))


def _find_linked_programs(directory: Path) -> Iterator[Path]:
    """Yield programs that lie elsewhere: pipx, uv and manual links in a directory of PATH."""
    if os.path.realpath(directory) in _DISTRIBUTION:
        return  # its links lead to paths that are already shown
    try:
        with os.scandir(directory) as entries:
            links = [entry.path for entry in entries if entry.is_symlink()]
    except OSError:
        return
    for link in links[:_LINK_LIMIT]:
        target = Path(os.path.realpath(link))
        if target.parent.name in _PROGRAM_DIRECTORIES and os.access(target, os.X_OK):
            yield target


def _workspace_interpreters(workspace: Path) -> Iterator[Path]:
    """Yield the Pythons that virtual environments in the workspace were made from.

    A link in a repository may lead anywhere, so its target must really be an interpreter with a
    standard library beside it.
    """
    for config in workspace.glob("*/pyvenv.cfg"):
        target = Path(os.path.realpath(config.parent / "bin" / "python"))
        libraries = target.parent.parent.glob("lib/python3*/os.py")
        if target.name.startswith("python") and is_file(target) and any(libraries):
            yield target


def _filter_existing(paths: Iterable[Path]) -> Iterator[Path]:
    for path in paths:
        real = Path(os.path.realpath(path))
        if exists(real) and len(real.parts) > 2:
            yield path
            yield real
