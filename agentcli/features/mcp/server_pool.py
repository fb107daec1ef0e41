"""The connections of a session to its servers: opened when needed, closed with the session."""

import asyncio
import errno
import os
import shutil
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx2
from mcp.client.streamable_http import streamable_http_client
from platformdirs import user_cache_path

from agentcli.features.mcp.connection import Transport
from agentcli.features.mcp.entries import ServerEntry
from agentcli.features.mcp.faults import SAID, FaultContext
from agentcli.features.mcp.stdio import (
    Handles,
    Launch,
    ServerEnd,
    StartedServer,
    open_stdio_transport,
)
from agentcli.features.mcp.tokens import REFUSED, StoredLogin, find_logins
from agentcli.sandbox.contents import remove_directory
from agentcli.sandbox.environment import build_environment
from agentcli.session.permission_gate import PermissionGate
from agentcli.system import own_process, process, process_tree
from agentcli.system.environment import build_child_environment
from agentcli.system.files import exists, expand_home, is_directory, locate_home
from agentcli.system.lazy import Lazy
from agentcli.system.output import BoundedOutput, FilteredSink, OutputFilter
from agentcli.system.process import Sink, name_death_signal
from agentcli.types.forms import FormAnswer, ServerForm
from agentcli.types.grants import Grants
from agentcli.types.sandbox import HostLeases, Sandbox
from agentcli.types.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Awaitable
    from subprocess import Popen

    from agentcli.features.mcp.connection import ServerConnection
    from agentcli.features.mcp.host import Sample
    from agentcli.features.mcp.session_sampling import ServerSampling


class ServerConnections:
    def __init__(
        self,
        settings: Settings,
        *,
        gate: PermissionGate,
        directory: Path,
        fill_in: "Callable[[ServerForm], Awaitable[FormAnswer]]",
        sampling: "ServerSampling | None" = None,
        keeps_logs: bool = True,
    ) -> None:
        """`directory` is for the other output of servers. `fill_in` asks the user for a server.
        `sampling` asks the model for servers; None outside a session. `keeps_logs` is false if
        the directory is deleted when the user is told about a fault."""
        self._settings = settings
        self._gate = gate
        self._directory = directory
        self._fill_in = fill_in
        self._connections: dict[str, ServerConnection] = {}
        self._locals: dict[str, LocalMcpServer] = {}
        self._processes: list[ServerProcess] = []
        self._sampling = sampling
        self._keeps_logs = keeps_logs

    def connect(self, entry: "ServerEntry") -> "ServerConnection":
        if entry.name not in self._connections:
            self._connections[entry.name] = self._build_connection(entry)
        return self._connections[entry.name]

    def find(self, entry: "ServerEntry") -> "ServerConnection | None":
        """Return the connection to a server, or None if it was not needed yet."""
        return self._connections.get(entry.name)

    def read_stderr(self, entry: "ServerEntry") -> str:
        """Return the last lines of its stderr, for the user."""
        return self._locals[entry.name].said if entry.name in self._locals else ""

    async def close(self) -> None:
        await asyncio.gather(*(link.close() for link in self._connections.values()))
        for one in self._processes:
            one.close()

    def _build_connection(self, entry: "ServerEntry") -> "ServerConnection":
        from agentcli.features.mcp.connection import ServerConnection

        new = partial(
            ServerConnection,
            entry,
            workspace=self._settings.workspace,
            fill_in=self._fill_in,
            sample=self._build_sampler(entry),
        )
        if entry.is_remote:
            remote = RemoteServer(entry, self._find_login(entry))
            return new(open_transport=remote.open_transport, witness=remote.witness)
        local = self._locals[entry.name] = self._build_local(entry)
        return new(open_transport=local.open_transport, witness=local.witness)

    def _build_local(self, entry: "ServerEntry") -> "LocalMcpServer":
        process = ServerProcess(entry, self._settings, gate=self._gate)
        self._processes.append(process)
        return LocalMcpServer(
            process.launch,
            log_path=self._directory / f"{entry.name}.log",
            clean=self._gate.redactor.open_bytes_stream,
            keeps_log=self._keeps_logs,
        )

    def _find_login(self, entry: "ServerEntry") -> "StoredLogin | None":
        store = find_logins(entry)
        return StoredLogin(store, conceal=self._gate.redactor.learn) if store else None

    def _build_sampler(self, entry: "ServerEntry") -> "Sample | None":
        sampling = self._sampling
        if sampling is None or not entry.may_sample:
            return None
        return lambda params: sampling.answer_request(
            entry.name, self.connect(entry).running, params=params
        )


# The process of a server: in a sandbox of its own, unless the user turns that off


_UNCONFINED = ("HOME", "SHELL", "TMPDIR", "XDG_RUNTIME_DIR", "DISPLAY", "WAYLAND_DISPLAY")
"""Further variables for a process that is not in the sandbox."""
_MODULES = "node_modules"
_ROOT_SIGNS = ("package.json", "pyproject.toml", "pyvenv.cfg", "go.mod", "Cargo.toml", ".git")


class ServerProcess:
    def __init__(self, entry: ServerEntry, settings: Settings, *, gate: PermissionGate) -> None:
        self.entry = entry
        self.settings = settings
        self._gate = gate
        self._host = gate.host
        self._cache = user_cache_path("agentcli", appauthor=False) / "mcp" / entry.name
        self._sandbox = Lazy(self._build_sandbox)
        self._private = Lazy(gate.host.create_private_directory)
        self._leases: HostLeases | None = None

    async def launch(self, handles: Handles) -> StartedServer:
        """Start the process. Raise OSError, or SettingsError if it cannot be put in the sandbox."""
        sandbox = await asyncio.to_thread(self._sandbox.get) if self.entry.is_confined else None
        leases = self._open_leases(sandbox)
        if leases is None:
            return await asyncio.to_thread(self._start, handles, sandbox, {})
        token = leases.create_token()
        channels = leases.open(token, self._grants)
        leases.begin(token, call_id="", grants=self._grants)
        try:
            started = await asyncio.to_thread(self._start, handles, sandbox, channels.variables)
        except BaseException:
            leases.end(token)
            raise
        return replace(started, end_lease=partial(leases.end, token))

    def _open_leases(self, sandbox: Sandbox | None) -> HostLeases | None:
        """Return the way to the hosts that it may reach; None if it reaches all or none."""
        if sandbox is None or not self._grants.hosts:
            return None
        if self._leases is None:
            self._leases = self._host.open_proxy(
                sandbox, judge_host=self._gate.judge_server_host, server=self.entry.name
            )
        self._leases.prepare(self._grants)
        return self._leases

    @property
    def _grants(self) -> Grants:
        return Grants(
            network=self.entry.network is True,
            hosts=self.entry.hosts,
            writable=(Path(os.path.realpath(self._cache)), *self._writable),
        )

    def _start(
        self, handles: Handles, sandbox: Sandbox | None, variables: Mapping[str, str]
    ) -> StartedServer:
        tag = process_tree.make_tag(confined=sandbox is not None)
        env = build_child_environment(
            self._build_environ(is_confined=sandbox is not None),
            tag=tag,
            passed=[name for name, _ in self.entry.env] + list(self.settings.pass_env),
        )
        env |= variables
        argv = [self._find_program(env), *self.entry.args]
        child = process.start_sandboxed(
            sandbox,
            argv,
            cwd=self._cwd,
            env=env,
            stdin=handles.stdin,
            stdout=handles.stdout,
            stderr=handles.stderr,
            grants=self._grants,
        )
        finish = partial(_finish, sandbox, child) if sandbox else tuple
        return StartedServer(process=child, tag=tag, finish=finish)

    def close(self) -> None:
        if self._leases is not None:
            self._leases.close()
        if self._sandbox.made is not None:
            self._sandbox.made.close()
        if self._private.made is not None:
            with suppress(OSError):
                remove_directory(self._private.made)

    @property
    def _writable(self) -> tuple[Path, ...]:
        return tuple(Path(os.path.realpath(expand_home(path))) for path in self.entry.writable)

    @property
    def _cwd(self) -> Path:
        return self.settings.workspace / self.entry.cwd

    def _build_environ(self, *, is_confined: bool) -> dict[str, str]:
        passed = build_environment(
            os.environ, workspace=self.settings.workspace, pass_env=self.settings.pass_env
        )
        own = dict(self.entry.env)
        if is_confined:
            # Fetch packages once, not again into the home directory of every session.
            caches = {
                "XDG_CACHE_HOME": str(self._cache),
                "npm_config_cache": str(self._cache / "npm"),
            }
            return {**passed, **caches, **own}
        more = {name: os.environ[name] for name in _UNCONFINED if name in os.environ}
        return own_process.without_project({**passed, **more}, self.settings.workspace) | own

    def _find_program(self, env: Mapping[str, str]) -> str:
        """Return the full path, so that a missing program can be told from other errors."""
        command = self.entry.command
        if os.sep in command:
            command = str(self._cwd / expand_home(command))
        found = shutil.which(command, path=env.get("PATH"))
        if found is None:
            raise FileNotFoundError(errno.ENOENT, "program not found", self.entry.command)
        return found

    def _build_sandbox(self) -> Sandbox | None:
        self._cache.mkdir(mode=0o700, parents=True, exist_ok=True)
        program = Path(self._find_program(os.environ))
        search_path = os.pathsep.join([str(program.parent), os.environ.get("PATH", "")])
        return self._host.build_sandbox(
            self._private.get(),
            readable=tuple(self._find_readable_paths(program)),
            environ={**os.environ, "PATH": search_path},
        )

    def _find_readable_paths(self, program: Path) -> Iterator[Path]:
        """Yield the paths that the user has named in the command: it needs to read them.

        What it may write is left out: there, the right to read would take the other away."""
        others = (self.settings.workspace, *self._writable)
        if self.entry.root:
            yield Path(self.entry.root)
        for word in (str(program), os.path.realpath(program), *self.entry.args):
            path = Path(word)
            if path.is_absolute() and exists(path):
                named = _find_installation(path)
                if not any(named.is_relative_to(one) for one in others):
                    yield named


def _finish(sandbox: Sandbox, child: "Popen[bytes]") -> tuple[str, ...]:
    return sandbox.finish(child)


def _find_installation(path: Path) -> Path:
    """Return the directory a program or script was installed in, or its own path if it is loose."""
    if is_directory(path):
        return path
    own = Path(os.path.realpath(locate_home()))
    if _MODULES in path.parts:  # a package needs what was installed beside it
        path = Path(*path.parts[: path.parts.index(_MODULES) + 1])
    for parent in path.parents:
        if parent == own or parent in own.parents:
            break
        if any(exists(parent / sign) for sign in _ROOT_SIGNS):
            return parent
    return path


# The transports to servers. A local one is our process: its stderr is kept, and how it ended.


LAST_LINES = 8
LAST_WORDS_CHARS = 200


class LocalMcpServer:
    def __init__(
        self,
        launch: Launch,
        *,
        log_path: Path,
        clean: Callable[[], OutputFilter],
        keeps_log: bool = True,
    ) -> None:
        """`clean` removes from its output what may not be stored."""
        self._keeps_log = keeps_log
        self._launch = launch
        self._log_path = log_path
        self._clean = clean
        self._end = ServerEnd()
        self._said: BoundedOutput | None = None
        self._words: _NotedSink | None = None

    def open_transport(self) -> Transport:
        self._end = ServerEnd()
        self._log_path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle = os.open(self._log_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._said = BoundedOutput(self._log_path, handle)
        self._words = _NotedSink(FilteredSink(self._said, self._clean()))
        return open_stdio_transport(self._launch, log=self._words, end=self._end)

    @property
    def witness(self) -> FaultContext:
        return FaultContext(
            last_words=self.describe_end, forget_words=self.forget_words, is_lost=self.is_lost
        )

    def is_lost(self) -> bool:
        return self._end.is_silent

    def forget_words(self) -> None:
        """Let no fault quote what it has said until now."""
        if self._words is not None:
            self._words.has_words = False

    def describe_end(self) -> str:
        """Return how it ended and where its stderr is, to follow a sentence."""
        code = self._end.returncode
        if self._end.ran_on:
            how = " (it closed its stdout, ran on and was stopped)"
        elif code is None:
            how = ""
        elif signal := name_death_signal(code):
            how = f" (killed by {signal})"
        else:
            how = f" (exit code {code})"
        remarks = "".join(f"; {remark.rstrip('.')}" for remark in self._end.remarks)
        return f"{how}{remarks}{self._on_stderr()}"

    def _on_stderr(self) -> str:
        if self._words is None or not self._words.has_words:
            return ""
        last = self.said.rstrip().rpartition("\n")[2].strip()[:LAST_WORDS_CHARS]
        rest = f", all of it is in {self._log_path}" if self._keeps_log else ""
        return f"; {SAID}{last!r}{rest}"

    @property
    def said(self) -> str:
        """Return the last lines of its stderr, for the user."""
        return self._said.read_last_lines(LAST_LINES) if self._said else ""


class _NotedSink:
    """A sink that feeds another one, and knows whether there were any words lately."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self.has_words = False

    def feed(self, chunk: bytes) -> None:
        self.has_words |= bool(chunk.strip())
        self._sink.feed(chunk)

    def close(self) -> None:
        self._sink.close()


# A remote server over Streamable HTTP, and its last refusal


EVENT_BYTES = 32 * 1024 * 1024
SILENCE_S = 300.0

_SINCE = {
    403: "the credentials do not permit that",
    404: "there is nothing at this address",
}


class RemoteServer:
    def __init__(self, entry: ServerEntry, login: StoredLogin | None = None) -> None:
        self._entry = entry
        self._login = login
        self._has_login = False
        self._refused = 0

    @asynccontextmanager
    async def open_transport(self) -> AsyncIterator[Any]:
        self._refused = 0
        self._has_login = self._login is not None and self._login.load()
        timeout = httpx2.Timeout(self._entry.start_timeout_s, read=SILENCE_S)
        async with (
            httpx2.AsyncClient(
                headers=dict(self._entry.headers),
                auth=self._login if self._has_login else None,
                timeout=timeout,
                event_hooks={"response": [self._note]},
            ) as client,
            streamable_http_client(
                self._entry.url, http_client=client, max_sse_event_size=EVENT_BYTES
            ) as streams,
        ):
            yield streams

    @property
    def witness(self) -> FaultContext:
        return FaultContext(last_words=self._describe_end, refusal=self._describe_refusal)

    def _describe_end(self) -> str:
        """Return the status of its last answer if that was a refusal, to follow a sentence."""
        if not self._refused:
            return ""
        since = f": {_SINCE[self._refused]}" if self._refused in _SINCE else ""
        return f" (HTTP status {self._refused}{since})"

    def _describe_refusal(self) -> str:
        """Return what the user can do about it, as a sentence. Empty if it is not about a login."""
        if self._refused != REFUSED:
            return ""
        name = self._entry.name
        if self._entry.brings_key:
            return f"The MCP server {name} rejected the Authorization header."
        again = " again (your login expired)" if self._has_login else ""
        return f"The MCP server {name} needs you to log in{again}: agentcli mcp login {name}"

    async def _note(self, response: httpx2.Response) -> None:
        is_message = "text/event-stream" in response.request.headers.get("Accept", "")
        if response.request.method == "POST" and is_message:  # and not for a login itself
            self._refused = response.status_code if response.is_error else 0
