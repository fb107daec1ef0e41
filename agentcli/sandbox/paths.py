"""The paths of the machine that a command sees, and those that it may change.

The survey is made once per session, before the first command runs. So no command can influence
what the next one sees.
"""

import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from subprocess import TimeoutExpired

from agentcli.sandbox.toolchains import find_toolchains, tool_homes, tool_variables
from agentcli.system import own_process
from agentcli.system.kinds import exists
from agentcli.system.reserved import Reserved
from agentcli.types.verdicts import Grants

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

_ETC = Path("/etc")
_RESOLVER = Path("/etc/resolv.conf")
_GIT_LIMIT_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxPaths:
    workspace: Path
    private: Path
    """A directory of this session alone; only `shared` in it is shown to commands."""
    readable: tuple[Path, ...]
    """Other paths that the session lets commands read: its stored outputs."""
    system: tuple[Path, ...]
    hidden: tuple[Path, ...]
    """Paths below shown ones that only our user can read, such as keys and passwords."""
    protected: tuple[Path, ...]
    """Paths in the workspace that no command may change."""
    records: tuple[Path, ...]
    """The same, but changed by agentcli itself while commands run."""
    toolchains: tuple[Path, ...]
    variables: Mapping[str, str]
    """Variables that tell a command about these paths."""
    is_home: bool
    """True if the user's home directory is, or lies in, the workspace."""
    rejected: Path
    """Directory for removed content of protected paths, in case the user put it there after all."""
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
    def home(self) -> Path:
        return sandbox_home(self.private)

    @property
    def empty_directory(self) -> Path:
        """An empty directory, mounted over directories to hide."""
        return self.private / "nothing"

    @property
    def empty_file(self) -> Path:
        return self.private / "empty"


def sandbox_home(private: Path) -> Path:
    return private / "shared" / "home"


def survey_paths(
    *,
    workspace: Path,
    private: Path,
    readable: Iterable[Path],
    protected: Iterable[Path],
    records: Iterable[Path] = (),
    rejected: Path | None = None,
    environ: Mapping[str, str],
) -> SandboxPaths:
    """Return the paths of a sandbox. Also prepare the private directory."""
    workspace, private = _real(workspace), _real(private)
    person_home = _real(Path(environ.get("HOME") or Path.home()))
    system = tuple(path for path in SYSTEM if exists(path))
    reserved = Reserved(workspace, home=person_home)
    search_path = environ.get("PATH", "")
    tools = find_toolchains(search_path, home=person_home, workspace=workspace)
    variables = tool_variables(tool_homes(search_path, person_home), environ)
    places = SandboxPaths(
        workspace=workspace,
        private=private,
        readable=tuple(map(_real, readable)),
        system=system,
        hidden=(*_find_hidden(_ETC), *filter(exists, reserved.secrets())),
        protected=(
            *_within(workspace, (private, *protected)),
            *reserved.startup(),
        ),
        records=tuple(_within(workspace, records)),
        toolchains=tuple(outermost(tools, beside=(*system, workspace))),
        variables=variables,
        is_home=person_home.is_relative_to(workspace),
        rejected=rejected or private / "rejected",
        needs_override=os.geteuid() == 0 and workspace.stat().st_uid != 0,
    )
    _prepare(places)
    return replace(places, variables=variables | {"HOME": str(places.home)})


def _real(path: Path) -> Path:
    return Path(os.path.realpath(path))


def outermost(paths: Iterable[Path], *, beside: Iterable[Path] = ()) -> Iterator[Path]:
    """Yield the paths that lie in no other of them, and in none of `beside`."""
    shown = list(beside)
    for path in sorted(paths, key=lambda path: len(path.parts)):
        if not any(path.is_relative_to(other) for other in shown):
            shown.append(path)
            yield path


def list_granted(grants: Grants, paths: SandboxPaths) -> tuple[Path, ...]:
    """Return the other paths a command may write. `/` is left out: it would mean no sandbox."""
    given = map(_real, grants.writable)
    usable = (path for path in given if exists(path) and path != path.parent)
    return tuple(outermost(usable, beside=(paths.workspace,)))


def _within(workspace: Path, paths: Iterable[Path]) -> Iterator[Path]:
    return (path for path in map(_real, paths) if path.is_relative_to(workspace))


def resolver_files() -> tuple[Path, ...]:
    """Return the file that resolv.conf links to, if name resolution needs it outside of /etc."""
    real = Path(os.path.realpath(_RESOLVER))
    return () if real.is_relative_to(_ETC) or not exists(real) else (real,)


def _find_hidden(directory: Path) -> Iterator[Path]:
    """Yield paths that we can read and not everybody may: for root, every key and password."""
    try:
        entries = list(os.scandir(directory))
    except OSError:
        return
    for entry in entries:
        if entry.is_symlink():
            continue
        found = entry.stat(follow_symlinks=False)
        mode = found.st_mode
        needed = stat.S_IROTH | stat.S_IXOTH if stat.S_ISDIR(mode) else stat.S_IROTH
        if mode & needed != needed:
            if os.access(entry.path, os.R_OK) and found.st_size:
                yield Path(entry.path)
        elif stat.S_ISDIR(mode):
            yield from _find_hidden(Path(entry.path))


def _prepare(paths: SandboxPaths) -> None:
    for directory in (paths.temporary, paths.home, paths.empty_directory):
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    paths.empty_file.touch()
    config = paths.home / ".gitconfig"
    if not exists(config):
        config.write_text(_git_settings(paths.workspace), encoding="utf-8")


def _git_settings(workspace: Path) -> str:
    """Return git settings with the committer from the user's own settings, and nothing else.

    Git need not check who owns a repository in a sandbox: what its settings run is confined.
    """
    identity = _git_identity(workspace)
    return "\n".join(("[safe]", "\tdirectory = *", "[user]", *identity, ""))


def _git_identity(workspace: Path) -> list[str]:
    wanted = ("--global", "--includes", "--get-regexp", r"^user\.(name|email)$")
    try:
        told = own_process.run(
            ["git", "config", *wanted], beside=workspace, cwd=Path("/"), timeout_s=_GIT_LIMIT_S
        )
    except (OSError, TimeoutExpired):
        return []
    lines = told.stdout.decode("utf-8", "replace").splitlines()
    quoted = str.maketrans({'"': '\\"', "\\": "\\\\"})
    settings = (line.removeprefix("user.").translate(quoted).partition(" ") for line in lines)
    return [f'\t{key} = "{value}"' for key, _, value in settings]
