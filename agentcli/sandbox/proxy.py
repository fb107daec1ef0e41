"""The proxy through which commands reach granted hosts, and no others.

It runs in the session, outside the sandbox. Its listening socket was made in the private network
of the commands, and stays there. Each command has a lease: a token that its programs send, valid
from its release until it has ended. Then its connections are cut.

Who decides on a host is `judge_host`: in a session the permission gate, by `permissions/granting`.
"""

import asyncio
import secrets
import socket
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import field, replace
from functools import partial

from agentcli.sandbox.environment import (
    CREDENTIALS_HOST,
    build_git_variables,
    build_proxy_variables,
)
from agentcli.sandbox.proxy_requests import (
    BUSY,
    DENIED,
    HEAD_BYTES,
    MALFORMED,
    UNKNOWN,
    UNREACHABLE,
    ProxyRequest,
    RequestRefused,
    join_head,
    join_refusal,
    meet_client,
)
from agentcli.sandbox.proxy_route import (
    OWN_ADDRESSES,
    Dial,
    Link,
    Resolve,
    UpstreamProxy,
    advise,
    dial_directly,
    find_addresses,
    open_link,
    open_link_upstream,
    relay,
)
from agentcli.sandbox.ssh_agent import AgentBrokers
from agentcli.system.hosts import HostPattern, join_port
from agentcli.system.resolver import resolve as resolve_by_system
from agentcli.types.events import Emit, HostJudged
from agentcli.types.fast_dataclass import dataclass
from agentcli.types.grants import NO_GRANTS, Grants
from agentcli.types.verdicts import AnswerGit, CommandChannels, JudgeHost, Verdict

_REQUEST_S = 30.0
_PAUSE_S = 0.1
_LINGER_S = 2.0
_MOST_CONNECTIONS = 256
"""For each command; each holds less than a megabyte."""
_MOST_STRANGERS = 256
"""Connections that have not shown a token yet."""
_MOST_HOSTS = 200
"""The number of different hosts and ports that one command may have judged."""
_MOST_TOLD = 5
_MOST_ASKED_BYTES = 8 * 1024

FindUpstream = Callable[[str, int, bool], UpstreamProxy | None]
"""Returns the user's own proxy for a host, a port, and whether it is plain HTTP.

Raises ValueError if there is one that cannot be used."""

NO_LISTENER = (
    "network: hosts cannot be granted one by one in this sandbox, so none was reached;"
    " that needs bubblewrap"
)
NO_BROKER = (
    "credentials: git cannot ask for them in this sandbox, so it got none; that needs bubblewrap"
)


async def judge_by_grants(call_id: str, host: str, port: int, grants: Grants) -> Verdict:
    """Allow what the grants name, and nothing else."""
    for text in grants.hosts:
        if HostPattern.parse(text).matches(host, port):
            return Verdict(decision="allow", by="rule", reason=f"{text} is granted")
    return Verdict(decision="deny", by="nobody", reason="not granted")


async def refuse_git(
    call_id: str, asked: str, may_reach: Callable[[str, int], Awaitable[bool]]
) -> str:
    raise ValueError("there are none here")


def _asks_for_git(grants: Grants) -> bool:
    return "git" in grants.credentials


def _is_allowed(task: asyncio.Task[Verdict]) -> bool:
    is_settled = task.done() and not task.cancelled() and task.exception() is None
    return is_settled and task.result().decision == "allow"


@dataclass(slots=True)
class _Lease:
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
        more = len(sentences) - _MOST_TOLD
        rest = (f"network: {more} more hosts were refused",) if more > 0 else ()
        return (*sentences[:_MOST_TOLD], *rest)


class NetworkProxy:
    def __init__(
        self,
        listen: Callable[[], socket.socket | None],
        *,
        emit: Emit,
        judge_host: JudgeHost = judge_by_grants,
        resolve: Resolve = resolve_by_system,
        dial: Dial = dial_directly,
        find_upstream: FindUpstream = lambda host, port, is_plain: None,
        answer_git: AnswerGit = refuse_git,
        agents: AgentBrokers | None = None,
        server: str = "",
    ) -> None:
        """`listen` is called once, before the first command. `judge_host` decides on each host
        once for a command. If `agents` is None, no command uses the user's ssh agent. `server` is
        the MCP server that it is for, if it is for one."""
        self._listen = listen
        self._emit = emit
        self._judge_host = judge_host
        self._resolve = resolve
        self._dial = dial
        self._find_upstream = find_upstream
        self._answer_git = answer_git
        self._agents = agents
        self._server = server
        self._leases: dict[str, _Lease] = {}
        self._strangers = 0
        self._is_prepared = False
        self._port = 0
        """Where it listens; 0 if it does not."""
        self._loopback_port = 0
        """The same on the user's own loopback, for commands that have the whole network."""
        self._listeners: list[socket.socket] = []
        """Those that nobody accepts connections from yet."""
        self._accepting: list[asyncio.Task[None]] = []
        self._connections: set[asyncio.Task[None]] = set()

    def prepare(self, grants: Grants = NO_GRANTS) -> None:
        if not self._is_prepared:
            self._is_prepared = True
            self._port = self._listen_at(self._listen())
        if grants.network and _asks_for_git(grants) and not self._loopback_port:
            self._loopback_port = self._listen_at(socket.create_server((OWN_ADDRESSES[0], 0)))
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
            accept_all = self._accept_all(self._listeners.pop())
            self._accepting.append(loop.create_task(accept_all))

    def create_token(self) -> str:
        return secrets.token_hex(16)

    def open(self, token: str, grants: Grants) -> CommandChannels:
        agent = self._agents.open(token, grants) if self._agents else CommandChannels()
        return replace(agent, variables={**self._build_variables(token, grants), **agent.variables})

    def _build_variables(self, token: str, grants: Grants) -> dict[str, str]:
        port = self._find_port(grants)
        if not port:
            return {}
        git = build_git_variables(port, token=token) if _asks_for_git(grants) else {}
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
        lease = _Lease(call_id, grants)
        if self._agents:
            self._agents.begin(token, call_id=call_id, find_reached=lease.find_reached)
        if grants.outside or (grants.network and not _asks_for_git(grants)):
            return  # it does not come here
        self._leases[token] = lease
        if not self._find_port(grants):
            if grants.hosts:
                lease.refused["hosts"] = NO_LISTENER
            if _asks_for_git(grants):
                lease.refused["git"] = NO_BROKER

    def end(self, token: str) -> tuple[str, ...]:
        lease = self._leases.pop(token, None)
        unsigned = self._agents.end(token) if self._agents else ()
        return (*(lease.end() if lease else ()), *unsigned)

    def close(self) -> None:
        for token in tuple(self._leases):
            self.end(token)
        if self._agents:
            self._agents.close()
        for task in (*self._connections, *self._accepting):
            task.cancel()
        while self._listeners:
            self._listeners.pop().close()

    async def _accept_all(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        with listener:
            listener.setblocking(False)
            while True:
                try:
                    accepted, _ = await loop.sock_accept(listener)
                except OSError:  # we have no descriptor left, or it is gone already
                    await asyncio.sleep(_PAUSE_S)
                    continue
                task = loop.create_task(self._serve(accepted))
                self._connections.add(task)
                task.add_done_callback(self._connections.discard)

    async def _serve(self, accepted: socket.socket) -> None:
        client = Link(*await asyncio.open_connection(sock=accepted, limit=HEAD_BYTES))
        try:
            with suppress(OSError, EOFError, TimeoutError):
                await self._answer(client)
        finally:
            client.writer.close()

    async def _answer(self, client: Link) -> None:
        with self._count_stranger():
            async with asyncio.timeout(_REQUEST_S):
                spoken = await meet_client(client.reader, client.writer)
                try:
                    request = await spoken.read_request()
                    lease = self._find_lease(request.token)
                except RequestRefused as refused:
                    spoken.refuse(refused)
                    await _linger(client)
                    return
        with _hold_connection(lease, client) as writers:
            if request.host == CREDENTIALS_HOST:
                try:
                    await self._give_credentials(lease, request, client)
                except RequestRefused as refused:
                    spoken.refuse(refused)
                await _linger(client)
                return
            try:
                link = await self._open(lease, request)
            except RequestRefused as refused:
                spoken.refuse(_record(lease, request, refused))
                await _linger(client)
                return
            writers.append(link.writer)
            try:
                spoken.accept()
                await relay(client, link, request)
            except RequestRefused as refused:
                said = _record(lease, request, refused)
                client.writer.write(refused.alert or join_refusal(said))
            finally:
                link.writer.close()

    @contextmanager
    def _count_stranger(self) -> Iterator[None]:
        """Bound what has not shown a token. Raise EOFError if there are too many."""
        if self._strangers >= _MOST_STRANGERS:
            raise EOFError
        self._strangers += 1
        try:
            yield
        finally:
            self._strangers -= 1

    def _find_lease(self, token: str) -> _Lease:
        lease = self._leases.get(token)
        if lease is None:
            raise RequestRefused(
                UNKNOWN, "no running command has this password; use the proxy as HTTPS_PROXY has it"
            )
        if len(lease.connections) >= _MOST_CONNECTIONS:
            raise RequestRefused(BUSY, f"more than {_MOST_CONNECTIONS} connections at once")
        return lease

    async def _give_credentials(self, lease: _Lease, request: ProxyRequest, client: Link) -> None:
        """Answer git's request for credentials. Raise RequestRefused if there are none for it."""
        if not _asks_for_git(lease.grants):
            raise RequestRefused(DENIED, "credentials for git were not granted")
        size = request.plain.size_bytes if request.plain else None
        if size is None or size > _MOST_ASKED_BYTES:
            raise RequestRefused(MALFORMED, "not a request for credentials")
        async with asyncio.timeout(_REQUEST_S):
            asked = await client.reader.readexactly(size)

        async def may_reach(host: str, port: int) -> bool:
            if lease.grants.network:
                return True
            return (await self._judge(lease, host, port)).decision == "allow"

        try:
            lines = await self._answer_git(lease.call_id, asked.decode(), may_reach)
        except ValueError as error:
            raise RequestRefused(DENIED, f"credentials: {error}") from None
        client.writer.write(join_head(("HTTP/1.1 200 OK", "Connection: close")) + lines.encode())

    async def _open(self, lease: _Lease, request: ProxyRequest) -> Link:
        """Connect to the host of a request. Raise RequestRefused if that may or can not be."""
        host, port = request.host, request.port
        verdict = await self._judge(lease, host, port)
        if verdict.decision != "allow":
            raise RequestRefused(DENIED, verdict.reason, advice=advise(verdict, host, port))
        try:
            upstream = self._find_upstream(host, port, request.plain is not None)
        except ValueError as error:
            raise RequestRefused(UNREACHABLE, str(error)) from None
        try:
            addresses = await find_addresses(
                host, port, resolve=self._resolve, judge=partial(self._judge, lease)
            )
        except RequestRefused as refused:
            # Behind a proxy, a machine may know no names: then the proxy resolves them.
            if upstream is None or refused.refusal is DENIED:
                raise
        if upstream is not None:
            return await open_link_upstream(upstream, request)
        return await open_link(self._dial, addresses, request)

    async def _judge(self, lease: _Lease, host: str, port: int) -> Verdict:
        task = lease.verdicts.get((host, port))
        if task is None:
            if len(lease.verdicts) >= _MOST_HOSTS:
                raise RequestRefused(DENIED, f"it asked for more than {_MOST_HOSTS} hosts")
            task = asyncio.get_running_loop().create_task(self._judge_once(lease, host, port))
            lease.verdicts[host, port] = task
        # Several connections wait for the same answer, and one of them may leave.
        return await asyncio.shield(task)

    async def _judge_once(self, lease: _Lease, host: str, port: int) -> Verdict:
        verdict = await self._judge_host(lease.call_id, host, port, lease.grants)
        self._emit(
            HostJudged(
                call_id=lease.call_id, host=host, port=port, verdict=verdict, server=self._server
            )
        )
        return verdict


async def _linger(client: Link) -> None:
    """Read on after a refusal: closing a socket with unread bytes would discard what we said."""
    client.writer.write_eof()
    with suppress(TimeoutError):
        async with asyncio.timeout(_LINGER_S):
            while await client.reader.read(HEAD_BYTES):
                pass


@contextmanager
def _hold_connection(lease: _Lease, client: Link) -> Iterator[list[asyncio.StreamWriter]]:
    """Yield the sockets of a connection, to be cut when the lease ends."""
    task = asyncio.current_task()
    assert task is not None
    lease.connections[task] = writers = [client.writer]
    try:
        yield writers
    finally:
        del lease.connections[task]


def _record(lease: _Lease, request: ProxyRequest, refused: RequestRefused) -> RequestRefused:
    """Note a refusal for the model, and return it with the same words for the program."""
    where = join_port(request.host, request.port)
    verb = "refused" if refused.refusal is DENIED else "not reached"
    advice = f"; {refused.advice}" if refused.advice else ""
    sentence = f"network: {where} was {verb}: {refused.reason}{advice}"
    lease.refused.setdefault(where, sentence)
    return RequestRefused(refused.refusal, sentence)
