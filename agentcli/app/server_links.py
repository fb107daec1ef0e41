"""The connections of a session to its servers: each made when it is needed, and ended with it."""

import asyncio
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from agentcli.app.boundary import PermissionGate
from agentcli.settings import Settings
from agentcli.types.forms import FormAnswer, ServerForm

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from agentcli.app.server_process import ServerProcess
    from agentcli.app.server_sampling import ServerSampling
    from agentcli.mcp.entries import ServerEntry
    from agentcli.mcp.host import Sample
    from agentcli.mcp.link import ServerConnection
    from agentcli.mcp.local import LocalMcpServer
    from agentcli.mcp.logins import StoredLogin


class ServerConnections:
    def __init__(
        self,
        settings: Settings,
        *,
        gate: PermissionGate,
        directory: Path,
        fill_in: "Callable[[ServerForm], Awaitable[FormAnswer]]",
    ) -> None:
        """`directory`: for what servers say besides. `fill_in`: asks the person for a server."""
        self._settings = settings
        self._gate = gate
        self._directory = directory
        self._fill_in = fill_in
        self._connections: dict[str, ServerConnection] = {}
        self._locals: dict[str, LocalMcpServer] = {}
        self._processes: list[ServerProcess] = []
        self.sampling: ServerSampling | None = None
        """Asks the model for servers; None: outside of a session."""

    def connect(self, entry: "ServerEntry") -> "ServerConnection":
        if entry.name not in self._connections:
            self._connections[entry.name] = self._build_connection(entry)
        return self._connections[entry.name]

    def find(self, entry: "ServerEntry") -> "ServerConnection | None":
        """None: nobody has needed it yet."""
        return self._connections.get(entry.name)

    def read_stderr(self, entry: "ServerEntry") -> str:
        """The last lines of its stderr, for people."""
        return self._locals[entry.name].said if entry.name in self._locals else ""

    def get_log_path(self, entry: "ServerEntry") -> Path:
        return self._directory / f"{entry.name}.log"

    async def close(self) -> None:
        await asyncio.gather(*(link.close() for link in self._connections.values()))
        for one in self._processes:
            one.close()

    def _build_connection(self, entry: "ServerEntry") -> "ServerConnection":
        from agentcli.mcp.link import ServerConnection

        new = partial(
            ServerConnection,
            entry,
            workspace=self._settings.workspace,
            fill_in=self._fill_in,
            sample=self._build_sampler(entry),
        )
        if entry.is_remote:
            from agentcli.mcp.remote import RemoteServer

            remote = RemoteServer(entry, self._find_login(entry))
            return new(open_transport=remote.transport, witness=remote.witness)
        local = self._locals[entry.name] = self._build_local(entry)
        return new(open_transport=local.transport, witness=local.witness)

    def _build_local(self, entry: "ServerEntry") -> "LocalMcpServer":
        from agentcli.app.server_process import ServerProcess
        from agentcli.mcp.local import LocalMcpServer

        process = ServerProcess(
            entry=entry,
            settings=self._settings,
            gate=self._gate,
            directory=self._directory,
        )
        self._processes.append(process)
        return LocalMcpServer(
            process.launch,
            log_path=self.get_log_path(entry),
            clean=self._gate.secret_masking.build_output_filter,
        )

    def _find_login(self, entry: "ServerEntry") -> "StoredLogin | None":
        from agentcli.app.server_logins import find_logins
        from agentcli.mcp.logins import StoredLogin

        store = find_logins(entry)
        return StoredLogin(store, conceal=self._gate.secret_masking.conceal) if store else None

    def _build_sampler(self, entry: "ServerEntry") -> "Sample | None":
        sampling = self.sampling
        if sampling is None or not entry.may_sample:
            return None
        return lambda params: sampling.answer_request(
            entry.name, self.connect(entry).running, params
        )
