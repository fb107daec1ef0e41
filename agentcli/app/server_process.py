"""A server's process: started in a sandbox of its own, unless the person says otherwise.

It sees the workspace, its own installation and what its arguments name, in an environment of listed
variables. It may use the network, as most servers must; it gets no key of a provider's, no other
file of the person's, and a home directory of its own.
"""

import errno
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING

from platformdirs import user_cache_path

from agentcli.app.boundary import PermissionGate
from agentcli.guard.sandbox.environment import build_environment
from agentcli.machine import own_process, process, tree
from agentcli.machine.environment import build_child_environment
from agentcli.machine.home import home
from agentcli.mcp.entries import ServerEntry
from agentcli.mcp.stdio import Handles, StartedServer
from agentcli.settings import Settings
from agentcli.types.verdicts import Grants, Sandbox

if TYPE_CHECKING:
    from subprocess import Popen

_UNCONFINED = ("HOME", "SHELL", "TMPDIR", "XDG_RUNTIME_DIR", "DISPLAY", "WAYLAND_DISPLAY")
"""What a process needs besides, where it is not confined."""
_MODULES = "node_modules"
_ROOT_SIGNS = ("package.json", "pyproject.toml", "pyvenv.cfg", "go.mod", "Cargo.toml", ".git")


@dataclass(frozen=True)
class ServerProcess:
    entry: ServerEntry
    settings: Settings
    gate: PermissionGate
    directory: Path
    """Of the servers in this session."""

    def launch(self, handles: Handles) -> StartedServer:
        """Raises OSError, and SettingsError where it cannot be confined."""
        sandbox = self._sandbox if self.entry.is_confined else None
        mark = tree.new_tag(confined=sandbox is not None)
        env = build_child_environment(
            self._build_environ(is_confined=sandbox is not None),
            tag=mark,
            passed=[name for name, _ in self.entry.env] + list(self.settings.pass_env),
        )
        argv = [self._find_program(env), *self.entry.args]
        child = process.start_sandboxed(
            sandbox,
            argv,
            cwd=self._cwd,
            env=env,
            stdin=handles.stdin,
            stdout=handles.stdout,
            stderr=handles.stderr,
            grants=Grants(
                network=self.entry.network,
                writable=(self._cache, *map(Path, self.entry.writable)),
            ),
        )
        finish = partial(_finish, sandbox, child) if sandbox else tuple
        return StartedServer(process=child, tag=mark, finish=finish)

    def close(self) -> None:
        if "_sandbox" in self.__dict__ and self._sandbox is not None:
            self._sandbox.close()
        if "_private" in self.__dict__:
            shutil.rmtree(self._private, ignore_errors=True)

    @property
    def _cwd(self) -> Path:
        return self.settings.workspace / self.entry.cwd

    def _build_environ(self, *, is_confined: bool) -> dict[str, str]:
        passed = build_environment(
            os.environ, workspace=self.settings.workspace, pass_env=self.settings.pass_env
        )
        own = dict(self.entry.env)
        if is_confined:
            # Packages are fetched once, not again in every session's own home directory.
            caches = {
                "XDG_CACHE_HOME": str(self._cache),
                "npm_config_cache": str(self._cache / "npm"),
            }
            return {**passed, **caches, **own}
        more = {name: os.environ[name] for name in _UNCONFINED if name in os.environ}
        return own_process.without_project({**passed, **more}, self.settings.workspace) | own

    def _find_program(self, env: Mapping[str, str]) -> str:
        """By its whole path, so that one that does not exist is told apart from all else."""
        command = self.entry.command
        if os.sep in command:
            command = str(self._cwd / Path(command).expanduser())
        found = shutil.which(command, path=env.get("PATH"))
        if found is None:
            raise FileNotFoundError(errno.ENOENT, "there is no such program", self.entry.command)
        return found

    @cached_property
    def _sandbox(self) -> Sandbox | None:
        self._cache.mkdir(mode=0o700, parents=True, exist_ok=True)
        program = Path(self._find_program(os.environ))
        search_path = os.pathsep.join([str(program.parent), os.environ.get("PATH", "")])
        return self.gate.build_sandbox(
            self._private,
            readable=tuple(self._find_readable_paths(program)),
            environ={**os.environ, "PATH": search_path},
        )

    @cached_property
    def _private(self) -> Path:
        """Its home directory and temporary files: outside of what commands may change."""
        inside = self.directory.is_relative_to(self.settings.workspace)
        parent = None if inside else self.directory
        if parent is not None:
            parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        return Path(tempfile.mkdtemp(prefix="agentcli-mcp-", dir=parent))

    def _find_readable_paths(self, program: Path) -> Iterator[Path]:
        """What the person has named in the command: it is there to be read."""
        for word in (str(program), os.path.realpath(program), *self.entry.args):
            path = Path(word)
            if path.is_absolute() and path.exists():
                named = _find_installation(path)
                if not named.is_relative_to(self.settings.workspace):
                    yield named

    @cached_property
    def _cache(self) -> Path:
        return user_cache_path("agentcli", appauthor=False) / "mcp" / self.entry.name


def _finish(sandbox: Sandbox, child: "Popen[bytes]") -> tuple[str, ...]:
    return sandbox.finish(child)


def _find_installation(path: Path) -> Path:
    """The directory that a program or script was installed in, or only itself where it is loose."""
    if path.is_dir():
        return path
    own = Path(os.path.realpath(home()))
    if _MODULES in path.parts:  # a package needs what was installed beside it
        path = Path(*path.parts[: path.parts.index(_MODULES) + 1])
    for parent in path.parents:
        if parent == own or parent in own.parents:
            break
        if any((parent / sign).exists() for sign in _ROOT_SIGNS):
            return parent
    return path
