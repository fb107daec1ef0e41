"""What commands of a session run in: sandbox, environment, private directory, read-only proof.

Everything is made at the first command: the first request needs none of it.
"""

import os
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from agentcli.log.paths import SessionPaths
from agentcli.session.configuration import Configuration
from agentcli.session.context_sources import ReadableFolders, find_readable_folders
from agentcli.session.directories import OwnDirectories, locate_own_directories
from agentcli.system.lazy import Lazy
from agentcli.system.own_process import find_own_program
from agentcli.system.reserved import is_protected
from agentcli.types.errors import SettingsError
from agentcli.types.events import Emit, Warned
from agentcli.types.sandbox import HostLeases, RunProbe, Sandbox, TemporaryFiles
from agentcli.types.tools import WorkingDirectory
from agentcli.types.verdicts import AnswerGit, JudgeHost, JudgeSignature

if TYPE_CHECKING:
    from agentcli.permissions.decide import CommandConditions
    from agentcli.permissions.denied_paths import DeniedPaths
    from agentcli.permissions.readonly import ReadProver
    from agentcli.sandbox.choose import LayerFinding, SandboxScope
    from agentcli.sandbox.homes import CommandHome
    from agentcli.sandbox.proxy import CommandLease, NetworkProxy
    from agentcli.sandbox.proxy_route import UpstreamProxy
    from agentcli.sandbox.proxy_service import ProxyService
    from agentcli.sandbox.ssh_agent import AgentBrokers

SANDBOX_OFF = "the sandbox is off: commands can change all your files and use the network"


def list_guarded(root: Path) -> tuple[Path, ...]:
    """Return what git and Mercurial run below a root, or take settings from, but for their own
    directories: hooks in another place, and settings that are included."""
    from agentcli.sandbox.protect import find_protection

    paths = (one.path for one in find_protection(root).guarded)
    below = (path for path in paths if path.is_relative_to(root))
    return tuple(path for path in below if not is_protected(root, path.relative_to(root).parts))


class SandboxHost:
    def __init__(
        self,
        configuration: Configuration,
        paths: SessionPaths,
        *,
        emit: Emit,
    ) -> None:
        """The scripts of a trusted project run outside the sandbox. What rules deny of paths is
        held from commands, too."""
        self.paths = paths
        self.scripts = configuration.scripts
        self.directory = WorkingDirectory(configuration.settings.workspace)
        """The directory of the next command, which relative paths in it start from."""
        self.failure: SettingsError | None = None
        """The reason if no sandbox works here, known after the first command."""
        self._settings = configuration.settings
        self._emit = emit
        self._rules = configuration.rules
        self._plugins = configuration.plugins
        self._sandbox = Lazy(self._choose_sandbox)
        self._private = Lazy(self.create_private_directory)
        self._home = Lazy(self._open_home)
        self._prover = Lazy(self._build_prover)
        self._ripgrep: tuple[Path, ...] = ()
        """A directory for PATH with a link to our own ripgrep, and its target, if needed."""
        self._proxies: list[NetworkProxy] = []
        self._warnings: deque[Warned] = deque()
        """Warnings of what was made ahead, until it is needed."""
        self._is_needed = False

    def prepare(self, run_probe: RunProbe) -> Sandbox | None:
        """Make the sandbox and the proof of reading ahead, perhaps in another thread.

        Warnings are held back until it is needed.
        `run_probe` runs the proof, if it is not made yet."""
        sandbox = self._sandbox.get(partial(self._choose_sandbox, run_probe))
        self._prover.get()
        return sandbox

    @property
    def sandbox(self) -> Sandbox | None:
        """None if the user turned it off, or if no layer works here and every command asks."""
        sandbox = self._sandbox.get()
        self.report()
        return sandbox

    def report(self) -> None:
        """Emit the warnings of what was made, which is needed now."""
        self._is_needed = True
        while self._warnings:
            self._emit(self._warnings.popleft())

    @property
    def temporary(self) -> TemporaryFiles | None:
        """The temporary files of commands; None if they have none of their own."""
        return self.sandbox.temporary if self.sandbox is not None else None

    @property
    def may_run_commands(self) -> bool:
        """False if no sandbox works here, unless the user turned it off: they accepted that."""
        return self.sandbox is not None or self._settings.sandbox == "off"

    def _build_prover(self) -> "ReadProver":
        from agentcli.permissions.readonly import ReadProver, build_path_lookup

        sandbox = self._sandbox.get()
        environ = os.environ if sandbox is None else self.build_confined_environ()
        return ReadProver(
            workspace=self._settings.workspace,
            resolve=build_path_lookup(environ.get("PATH", "")),
            cwd=lambda: self.directory.path,
            home=self._find_home() if sandbox else None,
        )

    def open_proxy(
        self,
        sandbox: Sandbox,
        *,
        judge_host: JudgeHost,
        answer_git: AnswerGit | None = None,
        judge_signature: JudgeSignature | None = None,
        server: str = "",
        emit: Emit | None = None,
    ) -> HostLeases:
        """Return the leases of one sandbox on hosts, which are closed with the session.

        If `answer_git` is None, git gets no credentials, and if `judge_signature` is None, no
        command may use the user's ssh agent. `server` is the MCP server in the sandbox. `emit` is
        the session's if it is None."""
        from agentcli.sandbox.proxy import NetworkProxy

        proxy = NetworkProxy(
            sandbox.listen,
            build_service=partial(
                _build_service,
                emit=emit or self._emit,
                judge_host=judge_host,
                answer_git=answer_git,
                server=server,
            ),
            build_agents=partial(self._build_agents, sandbox, judge_signature),
        )
        self._proxies.append(proxy)
        return proxy

    def _build_agents(
        self, sandbox: Sandbox, judge_signature: JudgeSignature | None
    ) -> "AgentBrokers | None":
        if judge_signature is None:
            return None
        from agentcli.sandbox.ssh_agent import AgentBrokers
        from agentcli.session.credentials import find_ssh_agent

        return AgentBrokers(
            find_agent=find_ssh_agent,
            judge=judge_signature,
            emit=self._emit,
            workspace=self._settings.workspace,
            can_connect=sandbox.reaches_sockets,
        )

    @cached_property
    def own(self) -> OwnDirectories:
        return locate_own_directories(self.paths.sessions)

    @cached_property
    def readable(self) -> ReadableFolders:
        """The folders outside the workspace, found when the first call needs them."""
        return find_readable_folders(self._settings, self._plugins, out=self.paths.out)

    def find_conditions(self) -> "CommandConditions":
        """Return how commands run here."""
        from agentcli.permissions.decide import CommandConditions

        return CommandConditions(
            prover=self._prover.get(),
            is_confined=self.may_run_commands,
            has_sandbox=self.sandbox is not None,
        )

    def proves_read(self, command: str) -> bool:
        return self.may_run_commands and self._prover.get().reads(command)

    def build_sandbox(
        self,
        private: Path,
        *,
        readable: Sequence[Path],
        home: Path | None = None,
        environ: Mapping[str, str] = os.environ,
        workspace: Path | None = None,
        run_probe: RunProbe | None = None,
    ) -> Sandbox | None:
        """Build a sandbox, or return None if the user turned it off.

        `private` is a directory that nobody else uses, with the home in it if none is given.
        `environ` says where programs are. `workspace` is a directory to work in instead of the
        session's workspace. `run_probe` runs the proof; if None, a process of its own does.
        Raise SettingsError if no sandbox works here."""
        if self._settings.sandbox == "off":
            return None
        from agentcli.sandbox.choose import SandboxScope, choose_sandbox, run_probe_alone
        from agentcli.sandbox.limits import CommandLimits

        own = self.own
        workspace = workspace or self._settings.workspace
        scope = SandboxScope(
            workspace=workspace,
            private=private,
            home=home,
            readable=tuple(readable),
            protected=(own.settings, own.trust, *self.scripts),
            records=own.records,
            rejected=self.paths.directory / "rejected",
            report_loss=self._warn_loss,
            report_undone=self._warn_undone,
            limits=CommandLimits(
                processes=self._settings.command_processes,
                memory_bytes=self._settings.command_memory,
                disk_bytes=self._settings.command_disk,
            ),
        )
        if self._rules:
            scope = self._deny_paths(scope)
        for path in (own.settings, own.trust, *own.records):
            if path.is_relative_to(workspace):
                path.mkdir(mode=0o700, parents=True, exist_ok=True)  # only what exists can be held
        only = None if self._settings.sandbox == "auto" else self._settings.sandbox
        return choose_sandbox(
            scope,
            only=only,
            environ=environ,
            run_probe=run_probe or run_probe_alone,
            broken=self._warn_weaker_sandbox,
        )

    def _deny_paths(self, scope: "SandboxScope") -> "SandboxScope":
        """Return the scope without the paths that rules deny."""
        from agentcli.permissions.denied_paths import DeniedPaths

        denied = DeniedPaths(self._rules, scope.workspace)
        return replace(
            scope,
            unreadable=denied.find_unreadable(),
            unwritable=denied.find_below(scope.workspace, "edit"),
            find_denied=partial(_find_denied, denied),
        )

    def build_environ(self) -> Mapping[str, str]:
        """Return the part of our environment that a command inherits."""
        return os.environ if self.sandbox is None else self.build_confined_environ()

    def build_confined_environ(self) -> Mapping[str, str]:
        """Return the part of our environment that a command in a sandbox inherits."""
        from agentcli.sandbox.environment import build_environment

        built = build_environment(
            os.environ, workspace=self._settings.workspace, pass_env=self._settings.pass_env
        )
        entries = (built["PATH"], *map(str, self._ripgrep[:1]))
        return {**built, "PATH": os.pathsep.join(entries)}

    def close(self) -> None:
        for proxy in self._proxies:
            proxy.close()
        if self._sandbox.made is not None:
            self._sandbox.made.close()
        if self._is_needed:
            self.report()  # what threads found
        if self._home.made is not None:
            self._home.made.close(is_unused=not self._is_needed)
        if self._private.made is not None:
            from agentcli.sandbox.contents import remove_directory

            with suppress(OSError):  # `agentcli sessions delete` tries again
                remove_directory(self._private.made)

    def _choose_sandbox(self, run_probe: RunProbe | None = None) -> Sandbox | None:
        from agentcli.session.preparation import switch_often

        self._warn_own_environment()
        if self._settings.sandbox == "off":
            return None
        try:
            private = self._private.get()
            self._ripgrep = self._link_ripgrep(private / "bin")
            readable = (*self._ripgrep, *self.readable.by_commands)
            home = self._find_home()
            with switch_often():
                return self.build_sandbox(
                    private, readable=readable, home=home, run_probe=run_probe
                )
        except SettingsError as error:
            self.failure = error
            return None

    def _link_ripgrep(self, directory: Path) -> tuple[Path, ...]:
        """Link our own ripgrep for commands, unless PATH has one. No command can replace it."""
        from shutil import which

        from agentcli.sandbox.environment import clean_path

        workspace = Path(os.path.realpath(self._settings.workspace))
        own = Path(os.path.realpath(find_own_program("rg")))
        is_usable = os.access(own, os.X_OK) and not own.is_relative_to(workspace)
        if not is_usable or which(own.name, path=clean_path(os.environ, workspace)):
            return ()
        directory.mkdir(exist_ok=True)
        with suppress(FileExistsError):  # of an attempt before, which lacked memory
            (directory / own.name).symlink_to(own)
        return (directory, own)

    def _warn_own_environment(self) -> None:
        from agentcli.system.reserved import find_reserved

        if own := find_reserved(Path(os.path.realpath(self._settings.workspace))).environment:
            warning = f"agentcli runs from {own}, so commands cannot install anything there"
            self._warnings.append(Warned(code="sandbox.own-environment", message=warning))

    def _warn_weaker_sandbox(self, broken: "LayerFinding") -> None:
        fault = broken.reason if broken.works else f"{broken.layer} fails ({broken.reason})"
        weaker = f"commands run in a weaker sandbox: {fault}"
        self._warnings.append(Warned(code="sandbox.reduced", message=weaker))

    def _warn_loss(self, path: Path) -> None:
        """Warn of what a command destroyed: at once, or from a thread with the next command."""
        import asyncio

        lost = f"a command removed or replaced all or part of {path}, which cannot be put back"
        self._warnings.append(Warned(code="sandbox.lost", message=lost))
        self._is_needed = True
        with suppress(RuntimeError):  # the journal belongs to the thread of the loop
            asyncio.get_running_loop()
            self.report()

    def _warn_undone(self, note: str) -> None:
        """Warn of what the last command left: no result of a later one says so."""
        self._warnings.append(Warned(code="sandbox.undone", message=note))
        self._is_needed = True

    def create_private_directory(self) -> Path:
        """Create a temporary directory for processes, outside what commands may change."""
        from tempfile import mkdtemp

        inside = self.paths.directory.is_relative_to(self._settings.workspace)
        parent = None if inside else self.paths.directory
        return Path(mkdtemp(prefix="agentcli-", dir=parent))

    def _find_home(self) -> Path:
        lasting = self._home.get()
        return lasting.path if lasting else self._private.get() / "shared" / "home"

    def _open_home(self) -> "CommandHome | None":
        """Return the commands' HOME, or None if none can last: then it is this session's own."""
        from agentcli.sandbox.homes import find_homes_directory, open_home

        try:
            homes = find_homes_directory(self.paths.sessions)
            return open_home(homes, self._settings.workspace)
        except OSError as error:
            lost = f"what commands download is not kept after this session: {error}"
            self._warnings.append(Warned(code="sandbox.home", message=lost))
            return None


def _build_service(
    leases: "Mapping[str, CommandLease]",
    *,
    emit: Emit,
    judge_host: JudgeHost,
    answer_git: AnswerGit | None,
    server: str,
) -> "ProxyService":
    """Build the part of a proxy that answers, with the user's own proxies behind it."""
    from agentcli.sandbox.proxy_service import ProxyService, refuse_git

    return ProxyService(
        leases,
        emit=emit,
        judge_host=judge_host,
        find_upstream=find_upstream,
        answer_git=answer_git or refuse_git,
        server=server,
    )


def find_upstream(host: str, port: int, is_plain: bool) -> "UpstreamProxy | None":
    """Return the proxy that the user's environment names for a host.

    Raise ValueError if it is none that we can use."""
    from agentcli.providers.http.route import Endpoint, build_tls_context, find_proxy
    from agentcli.sandbox.proxy_route import UpstreamProxy

    try:
        found = find_proxy(Endpoint(host=host, port=port, tls=not is_plain), os.environ)
        if found is None:
            return None
        return UpstreamProxy(
            host=found.endpoint.host,
            port=found.endpoint.port,
            login=found.credentials or "",
            tls=build_tls_context(os.environ) if found.endpoint.tls else None,
        )
    except SettingsError as error:
        raise ValueError(str(error)) from None


def _find_denied(
    denied: "DeniedPaths", directory: Path, action: Literal["read", "edit"]
) -> tuple[Path, ...]:
    """Return what rules deny below a directory. Raise OSError if that is too much to hold."""
    try:
        return denied.find_below(directory, action)
    except SettingsError as error:
        raise OSError(str(error)) from error
