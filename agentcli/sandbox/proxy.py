"""The proxy through which commands reach granted hosts, and no others.

It runs in the session, outside the sandbox. Its listening socket was made in the private network
of the commands, and stays there. Each command has a lease: a token that its programs send, valid
from its start until it has ended. Then its connections are cut. Its answers are in
`proxy_service`.
"""

import asyncio
import secrets
import socket
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import field, replace
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Protocol

from agentcli.sandbox.environment import build_git_variables, build_proxy_variables
from agentcli.system.lazy import Lazy
from agentcli.types.fast_dataclass import dataclass
from agentcli.types.grants import NO_GRANTS, Grants
from agentcli.types.sandbox import CommandChannels
from agentcli.types.verdicts import Verdict

if TYPE_CHECKING:
    from agentcli.sandbox.ssh_agent import AgentBrokers

_OWN_LOOPBACK = "127.0.0.1"
_PAUSE_S = 0.1
_MOST_REPORTED = 5

NO_LISTENER = (
    "network: hosts cannot be granted one by one in this sandbox, so none was reached;"
    " that needs bubblewrap"
)
NO_BROKER = (
    "credentials: git cannot ask for them in this sandbox, so it got none; that needs bubblewrap"
)


def asks_for_git(grants: Grants) -> bool:
    return "git" in grants.credentials


def _asks_for_agent(grants: Grants) -> bool:
    return "ssh-agent" in grants.credentials and not grants.outside


def _is_allowed(task: asyncio.Task[Verdict]) -> bool:
    is_settled = task.done() and not task.cancelled() and task.exception() is None
    return is_settled and task.result().decision == "allow"


@dataclass(slots=True)
class CommandLease:
    call_id: str
    grants: Grants
    verdicts: dict[tuple[str, int], asyncio.Task[Verdict]] = field(default_factory=dict)
    connections: dict[asyncio.Task[None], list[asyncio.StreamWriter]] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    """A sentence for each refused host, by its name and port."""

    def find_reached(self) -> list[tuple[str, int]] | None:
        """Return the hosts that the command was let through to; None if it reaches all."""
        if self.grants.network:
            return None
        return [host for host, task in self.verdicts.items() if _is_allowed(task)]

    def end(self) -> tuple[str, ...]:
        for verdict in self.verdicts.values():
            verdict.cancel()
        for task, writers in self.connections.items():
            for writer in writers:
                writer.transport.abort()
            task.cancel()
        sentences = tuple(self.refused.values())
        more = len(sentences) - _MOST_REPORTED
        rest = (f"network: {more} more hosts were refused",) if more > 0 else ()
        return (*sentences[:_MOST_REPORTED], *rest)


class Service(Protocol):
    """The part of the proxy that answers (`proxy_service`)."""

    async def serve(self, accepted: socket.socket) -> None: ...


class NetworkProxy:
    def __init__(
        self,
        listen: Callable[[], socket.socket | None],
        *,
        build_service: Callable[[Mapping[str, CommandLease]], Service],
        build_agents: "Callable[[], AgentBrokers | None]" = lambda: None,
    ) -> None:
        """`listen` is called once, before the first command. `build_service` is called with the
        leases, by their tokens, when the first connection comes. `build_agents` is called for the
        first command that may use the user's ssh agent; if it returns None, none may."""
        self._listen = listen
        self._leases: dict[str, CommandLease] = {}
        self._service = Lazy(partial(build_service, self._leases))
        self._agents = Lazy(build_agents)
        self._preparing = Lock()
        self._is_prepared = False
        self._port = 0
        """Where it listens; 0 if it does not."""
        self._loopback_port = 0
        """The same on the user's own loopback, for commands that have the whole network."""
        self._listeners: list[socket.socket] = []
        """Those that nobody accepts connections from yet."""
        self._accepting: list[tuple[asyncio.AbstractEventLoop, socket.socket]] = []
        self._connections: set[asyncio.Task[None]] = set()

    def prepare(self, grants: Grants = NO_GRANTS) -> None:
        with self._preparing:
            if not self._is_prepared:
                self._is_prepared = True
                self._port = self._listen_at(self._listen())
            if grants.network and asks_for_git(grants) and not self._loopback_port:
                self._loopback_port = self._listen_at(socket.create_server((_OWN_LOOPBACK, 0)))
        with suppress(RuntimeError):  # in another thread, so the first command does it
            self._accept()

    def _listen_at(self, listener: socket.socket | None) -> int:
        """Return the port, or 0 without a listener. Who connects there waits in the socket."""
        if listener is None:
            return 0
        self._listeners.append(listener)
        return int(listener.getsockname()[1])

    def _accept(self) -> None:
        """Accept the connections of all listeners from now on."""
        loop = asyncio.get_running_loop()
        while self._listeners:
            listener = self._listeners.pop()
            listener.setblocking(False)
            loop.add_reader(listener, self._accept_one, listener)
            self._accepting.append((loop, listener))

    def _accept_one(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        try:
            accepted, _ = listener.accept()
        except BlockingIOError:
            return  # who wanted to connect is gone already
        except OSError:  # we have no descriptor left
            loop.remove_reader(listener)
            self._accepting.remove((loop, listener))
            self._listeners.append(listener)
            loop.call_later(_PAUSE_S, self._accept)
            return
        accepted.setblocking(False)
        task = loop.create_task(self._service.get().serve(accepted))
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)

    def create_token(self) -> str:
        return secrets.token_hex(16)

    def open(self, token: str, grants: Grants) -> CommandChannels:
        variables = self._build_variables(token, grants)
        agents = self._agents.get() if _asks_for_agent(grants) else None
        if agents is None:
            return CommandChannels(variables=variables)
        agent = agents.open(token, grants)
        return replace(agent, variables={**variables, **agent.variables})

    def _build_variables(self, token: str, grants: Grants) -> dict[str, str]:
        port = self._find_port(grants)
        if not port:
            return {}
        git = build_git_variables(port, token=token) if asks_for_git(grants) else {}
        if grants.network:
            return git
        return {**build_proxy_variables(port, token=token, hosts=grants.hosts), **git}

    def _find_port(self, grants: Grants) -> int:
        """Return where a command finds us; 0 if it does not, or reaches everything itself."""
        if grants.outside:
            return 0
        return self._loopback_port if grants.network else self._port

    def begin(self, token: str, *, call_id: str, grants: Grants) -> None:
        self._accept()
        lease = CommandLease(call_id, grants)
        if self._agents.made:
            self._agents.made.begin(token, call_id=call_id, find_reached=lease.find_reached)
        if grants.outside or (grants.network and not asks_for_git(grants)):
            return  # it does not come here
        self._leases[token] = lease
        if not self._find_port(grants):
            if grants.hosts:
                lease.refused["hosts"] = NO_LISTENER
            if asks_for_git(grants):
                lease.refused["git"] = NO_BROKER

    def end(self, token: str) -> tuple[str, ...]:
        lease = self._leases.pop(token, None)
        unsigned = self._agents.made.end(token) if self._agents.made else ()
        return (*(lease.end() if lease else ()), *unsigned)

    def close(self) -> None:
        for token in tuple(self._leases):
            self.end(token)
        if self._agents.made:
            self._agents.made.close()
        for task in self._connections:
            task.cancel()
        while self._accepting:
            loop, listener = self._accepting.pop()
            loop.remove_reader(listener)
            listener.close()
        while self._listeners:
            self._listeners.pop().close()
