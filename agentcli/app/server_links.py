"""The connections of a session to its servers: each made when it is needed, and ended with it."""

import asyncio
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from agentcli.app.boundary import Boundary
from agentcli.settings import Settings
from agentcli.types.forms import Form, FormAnswer

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from agentcli.app.server_process import ServerProcess
    from agentcli.app.server_sampling import ServerSampling
    from agentcli.mcp.entries import ServerEntry
    from agentcli.mcp.host import Sample
    from agentcli.mcp.link import Link
    from agentcli.mcp.local import LocalServer
    from agentcli.mcp.logins import StoredLogin


class ServerLinks:
    def __init__(
        self,
        settings: Settings,
        *,
        boundary: Boundary,
        directory: Path,
        fill_in: "Callable[[Form], Awaitable[FormAnswer]]",
    ) -> None:
        """`directory`: for what servers say besides. `fill_in`: asks the person for a server."""
        self._settings = settings
        self._boundary = boundary
        self._directory = directory
        self._fill_in = fill_in
        self._links: dict[str, Link] = {}
        self._locals: dict[str, LocalServer] = {}
        self._processes: list[ServerProcess] = []
        self.sampling: ServerSampling | None = None
        """Asks the model for servers; None: outside of a session."""

    def to(self, entry: "ServerEntry") -> "Link":
        if entry.name not in self._links:
            self._links[entry.name] = self._new(entry)
        return self._links[entry.name]

    def made(self, entry: "ServerEntry") -> "Link | None":
        """None: nobody has needed it yet."""
        return self._links.get(entry.name)

    def said(self, entry: "ServerEntry") -> str:
        """The last lines of its stderr, for people."""
        return self._locals[entry.name].said if entry.name in self._locals else ""

    def log_path(self, entry: "ServerEntry") -> Path:
        return self._directory / f"{entry.name}.log"

    async def close(self) -> None:
        await asyncio.gather(*(link.close() for link in self._links.values()))
        for one in self._processes:
            one.close()

    def _new(self, entry: "ServerEntry") -> "Link":
        from agentcli.mcp.link import Link

        new = partial(
            Link,
            entry,
            workspace=self._settings.workspace,
            fill_in=self._fill_in,
            sample=self._sample(entry),
        )
        if entry.is_remote:
            from agentcli.mcp.remote import RemoteServer

            remote = RemoteServer(entry, self._login(entry))
            return new(open_transport=remote.transport, witness=remote.witness)
        local = self._locals[entry.name] = self._local(entry)
        return new(open_transport=local.transport, witness=local.witness)

    def _local(self, entry: "ServerEntry") -> "LocalServer":
        from agentcli.app.server_process import ServerProcess
        from agentcli.mcp.local import LocalServer

        process = ServerProcess(
            entry=entry,
            settings=self._settings,
            boundary=self._boundary,
            directory=self._directory,
        )
        self._processes.append(process)
        return LocalServer(
            process.launch, log_path=self.log_path(entry), clean=self._boundary.secrecy.clean_output
        )

    def _login(self, entry: "ServerEntry") -> "StoredLogin | None":
        from agentcli.app.server_logins import logins_of
        from agentcli.mcp.logins import StoredLogin

        store = logins_of(entry)
        return StoredLogin(store, conceal=self._boundary.secrecy.conceal) if store else None

    def _sample(self, entry: "ServerEntry") -> "Sample | None":
        sampling = self.sampling
        if sampling is None or not entry.may_sample:
            return None
        return lambda params: sampling.answer(entry.name, self.to(entry).running, params)
