"""The paths of the machine that a command sees, and those that it may change.

The survey is made once per session, before the first command runs. So no command can influence
what the next one sees.
"""

import os
import stat
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import field, replace
from pathlib import Path
from typing import Literal

from agentcli.sandbox.homes import copy_git_settings
from agentcli.sandbox.limits import CommandLimits
from agentcli.system.files import exists, is_directory, is_file
from agentcli.system.reserved import Reserved, find_own_environment
from agentcli.types.fast_dataclass import dataclass
from agentcli.types.grants import Grants

SYSTEM = tuple(
    map(
        Path,
        (
            *("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc"),
            *("/nix/store", "/gnu/store"),
        ),
    )
)
"""World-readable, the same on every machine of its kind, and read-only to commands."""

ETC = Path("/etc")
_OPEN_TO_ALL = stat.S_IROTH | stat.S_IXOTH
"""The mode of a directory that everybody may list and enter."""
_RESOLVER = Path("/etc/resolv.conf")

PROXY_PORT = 61_080
"""Where the proxy of granted hosts listens in a private network. No program uses it by default."""


FindDenied = Callable[[Path, Literal["read", "edit"]], tuple[Path, ...]]
"""Returns the paths below a directory that rules deny commands to read, or to change.

Raises OSError if they are too many."""


ReportLoss = Callable[[Path], None]
"""Takes a path that a command removed or replaced, and that cannot be put back. From any thread."""


def ignore_loss(path: Path) -> None:
    """Do nothing: nobody is there to be warned."""


ReportUndone = Callable[[str], None]
"""Takes a sentence on what the last command left that was removed, when nobody is told of it."""


def ignore_undone(note: str) -> None:
    """Do nothing: nobody is there to be warned."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxScope:
    """The paths and limits of a sandbox."""

    workspace: Path
    private: Path
    """A directory of this session alone; commands get their /tmp in it."""
    home: Path | None = None
    """The HOME of commands, which may last and be shared with other sessions (`homes`). If None,
    it is in the private directory too."""
    readable: tuple[Path, ...] = ()
    """Other paths that commands may read: the session's stored outputs."""
    protected: tuple[Path, ...] = ()
    """agentcli's settings, which stay unchanged if they lie in the workspace."""
    records: tuple[Path, ...] = ()
    """Paths agentcli writes while commands run: held, but not put back over its own writing."""
    unreadable: tuple[Path, ...] = ()
    """Paths that rules deny commands to read."""
    unwritable: tuple[Path, ...] = ()
    """Paths that rules deny commands to change or to create."""
    find_denied: FindDenied | None = None
    """Finds the paths that rules match by now, in the workspace or in a directory of a grant.

    None if no rule denies anything."""
    rejected: Path | None = None
    """The directory for removed content. If None, it is kept only as long as the session."""
    report_loss: ReportLoss = ignore_loss
    report_undone: ReportUndone = ignore_undone
    limits: CommandLimits = field(default_factory=CommandLimits)


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxPaths:
    workspace: Path
    private: Path
    """A directory of this session alone; only `shared` in it is shown to commands."""
    home: Path
    """The HOME of commands, in `shared` or a lasting one elsewhere."""
    readable: tuple[Path, ...]
    """Other paths that the session lets commands read: its stored outputs."""
    system: tuple[Path, ...]
    hidden: tuple[Path, ...]
    """Paths below shown ones that only our user can read, such as keys and passwords."""
    unreadable: frozenset[Path]
    """Those of the hidden paths that rules deny: opening one is an error."""
    protected: tuple[Path, ...]
    """Paths in the workspace that no command may change."""
    unwritable: tuple[Path, ...]
    """The same, but nothing stands in for those that are missing: what appears there is removed."""
    find_denied: FindDenied | None
    own_environment: Path | None
    """The environment in the workspace that agentcli runs from: held, but too large to record."""
    records: tuple[Path, ...]
    """The same, but changed by agentcli itself while commands run."""
    toolchains: tuple[Path, ...]
    variables: Mapping[str, str]
    """Variables that tell a command about these paths."""
    is_home: bool
    """True if the user's home directory is, or lies in, the workspace."""
    rejected: Path
    """Directory for removed content of protected paths, in case the user put it there after all."""
    report_loss: ReportLoss
    report_undone: ReportUndone
    needs_override: bool
    """True if root works in another user's files, as in a container, and needs a right for it."""

    @property
    def shared(self) -> Path:
        """The directory that commands may use and leave files in for the next one."""
        return self.private / "shared"

    @property
    def temporary(self) -> Path:
        return self.shared / "tmp"

    @property
    def shared_memory(self) -> Path:
        """Shown to commands as /dev/shm where that cannot be a file system of its own."""
        return self.shared / "shm"

    def complete_environment(self, env: Mapping[str, str], temporary: Path) -> dict[str, str]:
        """Return the variables of a command, with those that tell it about these paths."""
        names = ("TMPDIR", "TMP", "TEMP")
        return {**env, **self.variables, **dict.fromkeys(names, str(temporary))}

    @property
    def own(self) -> tuple[Path, ...]:
        """The directories outside the workspace that every command may change."""
        return tuple(iter_outermost((self.shared, self.home)))

    @property
    def empty_directory(self) -> Path:
        """An empty directory, mounted over directories to hide."""
        return self.private / "nothing"

    @property
    def empty_file(self) -> Path:
        return self.private / "empty"

    @property
    def denied(self) -> tuple[Path, Path]:
        """A file and a directory that nobody may open, mounted over what rules deny."""
        return self.private / "denied", self.private / "denied-directory"

    def find_cover(self, hidden: Path) -> Path:
        """Return what is shown instead of a hidden path."""
        if hidden in self.unreadable:
            return self.find_denied_cover(hidden)
        return self.empty_directory if is_directory(hidden) else self.empty_file

    def find_denied_cover(self, denied: Path) -> Path:
        """Return what is shown instead of a path that a rule denies: opening it is an error."""
        return self.denied[is_directory(denied)]


def survey_paths(scope: SandboxScope, environ: Mapping[str, str]) -> SandboxPaths:
    """Return the paths of a sandbox. Also prepare the private directory and the home."""
    workspace, private = _resolve(scope.workspace), _resolve(scope.private)
    home = _resolve(scope.home) if scope.home else private / "shared" / "home"
    user_home = _resolve(Path(environ.get("HOME") or Path.home()))
    with ThreadPoolExecutor(1, thread_name_prefix="home of commands") as beside:
        prepared = beside.submit(_prepare_home, home, user_home=user_home, workspace=workspace)
        paths = _find_paths(scope, environ, home=home, user_home=user_home)
    prepared.result()
    _prepare_private_directory(paths)
    return paths


def _find_paths(
    scope: SandboxScope, environ: Mapping[str, str], *, home: Path, user_home: Path
) -> SandboxPaths:
    workspace, private = _resolve(scope.workspace), _resolve(scope.private)
    system = tuple(path for path in SYSTEM if exists(path))
    reserved = Reserved(workspace, home=user_home, environment=find_own_environment())
    search_path = environ.get("PATH", "")
    tools = find_toolchains(search_path, home=user_home, workspace=workspace)
    variables = find_tool_variables(find_tool_homes(search_path, user_home), environ)
    unreadable = frozenset(filter(exists, map(_resolve, scope.unreadable))) - {workspace}
    hidden = (*_find_hidden(_resolve(ETC)), *filter(exists, reserved.secrets()), *unreadable)
    return SandboxPaths(
        workspace=workspace,
        private=private,
        home=home,
        readable=tuple(map(_resolve, scope.readable)),
        system=system,
        hidden=tuple(iter_outermost(hidden)),
        unreadable=unreadable,
        protected=(*_iter_inner(workspace, (private, *scope.protected)), *reserved.iter_startup()),
        unwritable=(
            *(path for path in scope.unwritable if workspace in path.parents),
            *reserved.settings(),
        ),
        find_denied=scope.find_denied,
        own_environment=reserved.environment,
        records=tuple(_iter_inner(workspace, scope.records)),
        toolchains=tuple(iter_outermost(tools, outside_of=(*system, workspace))),
        variables=variables | {"HOME": str(home)},
        is_home=user_home.is_relative_to(workspace),
        rejected=scope.rejected or private / "rejected",
        report_loss=scope.report_loss,
        report_undone=scope.report_undone,
        needs_override=os.geteuid() == 0 and workspace.stat().st_uid != 0,
    )


def _resolve(path: Path) -> Path:
    return Path(os.path.realpath(path))


def iter_outermost(paths: Iterable[Path], *, outside_of: Iterable[Path] = ()) -> Iterator[Path]:
    """Yield the paths that lie in no other of them, and in none of `outside_of`."""
    shown = [path.parts for path in outside_of]
    for path in sorted(paths, key=lambda path: len(path.parts)):
        if not any(path.parts[: len(other)] == other for other in shown):
            shown.append(path.parts)
            yield path


def list_granted(grants: Grants, paths: SandboxPaths) -> tuple[Path, ...]:
    """Return the other paths a command may write. `/` is left out: it would mean no sandbox."""
    usable = filter(is_usable_grant, grants.writable)
    return tuple(iter_outermost(usable, outside_of=(paths.workspace,)))


def is_usable_grant(path: Path) -> bool:
    """Return whether a granted path, which was real, still is: a link may have replaced it."""
    return exists(path) and path != path.parent and _resolve(path) == path


def without_hosts(grants: Grants) -> Grants:
    """Return what a sandbox is made from: which hosts are granted is the proxy's concern."""
    return replace(grants, hosts=())


def list_readable(grants: Grants, paths: SandboxPaths) -> tuple[Path, ...]:
    """Return the other paths a command may read by its grants, but not write."""
    usable = filter(is_usable_grant, grants.readable)
    return tuple(iter_outermost(usable, outside_of=(paths.workspace, *list_granted(grants, paths))))


def _iter_inner(workspace: Path, paths: Iterable[Path]) -> Iterator[Path]:
    return (path for path in map(_resolve, paths) if path.is_relative_to(workspace))


def list_resolver_files(grants: Grants) -> tuple[Path, ...]:
    """Return what a granted network needs outside of /etc: the file that resolv.conf links to."""
    real = Path(os.path.realpath(_RESOLVER))
    is_needed = grants.network and not real.is_relative_to(ETC) and exists(real)
    return (real,) if is_needed else ()


def _find_hidden(top: Path) -> Iterator[Path]:
    """Yield paths that we can read and not everybody may: for root, every key and password."""
    directories = [str(top)]
    while directories:
        try:
            entries = list(os.scandir(directories.pop()))
        except OSError:
            continue
        for entry in entries:
            if entry.is_symlink():
                continue
            found = entry.stat(follow_symlinks=False)
            needed = _OPEN_TO_ALL if entry.is_dir() else stat.S_IROTH
            if found.st_mode & needed != needed:
                if found.st_size and os.access(entry.path, os.R_OK):
                    yield Path(entry.path)
            elif needed == _OPEN_TO_ALL:
                directories.append(entry.path)


def _prepare_private_directory(paths: SandboxPaths) -> None:
    for directory in (paths.temporary, paths.shared_memory, paths.empty_directory):
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    paths.empty_file.touch()
    denied_file, denied_directory = paths.denied
    denied_directory.mkdir(mode=0, exist_ok=True)
    denied_file.touch(mode=0)


def _prepare_home(home: Path, *, user_home: Path, workspace: Path) -> None:
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    copy_git_settings(home, user_home=user_home, workspace=workspace)


# The compilers, interpreters and package caches outside the system's own directories. Only the
# parts of a tool's installation are shown to commands, never a directory that also holds personal
# files. A repository can name a path here, but it cannot make one pass the checks.


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
    *("bin", "sbin", "lib", "lib64", "libexec", "include", "share", "ssl"),
    *("conda-meta", "pyvenv.cfg"),
)
_PROGRAM_DIRECTORIES = ("bin", "sbin")
_DISTRIBUTION = ("/usr/bin", "/usr/sbin", "/bin", "/sbin")
_LINK_LIMIT = 1000
"""Limit of programs in one directory that are checked for links into other installations."""

# Tools that find their installation through HOME, which is another directory for commands. Their
# caches (CARGO_HOME, GOMODCACHE) are in that one, where commands can write.
_HOME_VARIABLES = {"PYTHONUSERBASE": ".local", "RUSTUP_HOME": ".rustup"}
_GO_MODULES = "go/pkg/mod/cache/download"
_GO_PROXIES = ("https://proxy.golang.org", "direct")


def find_tool_homes(search_path: str, home: Path) -> tuple[Path, ...]:
    """Return the homes of version managers: the home directory, and owners of programs on PATH."""
    on_path = (
        parent.parent
        for entry in search_path.split(os.pathsep)
        for parent in (Path(entry), *Path(entry).parents)
        if parent.is_absolute() and parent.name in _IN_HOME and parent.name.startswith(".")
    )
    return tuple(dict.fromkeys((home, *on_path)))


def find_tool_variables(homes: Iterable[Path], environ: Mapping[str, str]) -> dict[str, str]:
    """Return variables that tell tools where the user's things are, since HOME is elsewhere."""
    found: dict[str, str] = {}
    for name, at in _HOME_VARIABLES.items():
        given = environ.get(name)
        candidates = [Path(given)] if given else [home / at for home in homes]
        existing = next(filter(is_directory, candidates), None)
        if existing:
            found[name] = str(existing)
    fetched = next(filter(is_directory, (home / _GO_MODULES for home in homes)), None)
    if fetched:
        # What the user's go has fetched already is no request to a host.
        found["GOPROXY"] = ",".join((fetched.as_uri(), *_GO_PROXIES))
    return found


def find_toolchains(search_path: str, *, home: Path, workspace: Path) -> tuple[Path, ...]:
    """Return the paths that the user's tools need to run: as named, and as resolved."""
    homes = find_tool_homes(search_path, home)
    personal = {one for home in homes for one in (home, home / ".local")}
    found: set[str] = set()
    for one in homes:
        if not one.is_relative_to(workspace):
            found |= set(_iter_home_installations(one))
    directories = set(_iter_program_directories(search_path, workspace))
    linked = {
        program.parent for directory in directories for program in _find_linked_programs(directory)
    }
    interpreters = {program.parent for program in _iter_interpreters(workspace)}
    for directory in directories | linked | interpreters:
        found |= set(_iter_installation(directory, personal))
    return tuple(sorted(map(Path, found)))


def _iter_home_installations(home: Path) -> Iterator[str]:
    for name, parts in _IN_HOME.items():
        root = f"{home}/{name}"
        yield from _filter_existing([f"{root}/{part}" for part in parts] if parts else [root])


def _iter_program_directories(search_path: str, workspace: Path) -> Iterator[Path]:
    for entry in dict.fromkeys(filter(None, search_path.split(os.pathsep))):
        directory = Path(entry)
        inside = Path(os.path.realpath(entry)).is_relative_to(workspace)
        if directory.is_absolute() and is_directory(directory) and not inside:
            yield directory


def _iter_installation(directory: Path, personal: Container[Path]) -> Iterator[str]:
    """Yield the parts of the prefix that a directory of programs belongs to, if it is one.

    No part of a personal directory is one."""
    prefix = directory.parent
    is_prefix = prefix not in personal and len(prefix.parts) > 1
    if directory.name in _PROGRAM_DIRECTORIES and is_prefix:
        yield from _filter_existing(f"{prefix}/{part}" for part in _IN_PREFIX)
    else:
        yield from _filter_existing([str(directory)])


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


def _iter_interpreters(workspace: Path) -> Iterator[Path]:
    """Yield the Pythons that virtual environments in the workspace were made from.

    A link in a repository may lead anywhere, so its target must really be an interpreter with a
    standard library beside it.
    """
    for config in workspace.glob("*/pyvenv.cfg"):
        target = Path(os.path.realpath(config.parent / "bin" / "python"))
        libraries = target.parent.parent.glob("lib/python3*/os.py")
        if target.name.startswith("python") and is_file(target) and any(libraries):
            yield target


def _filter_existing(paths: Iterable[str]) -> Iterator[str]:
    """Yield those that exist, as named and as resolved. Most do not: they stay plain text."""
    for path in filter(os.path.exists, paths):
        real = os.path.realpath(path)
        if real.count(os.sep) > 1:
            yield path
            yield real
