"""The answers of the proxy to the connections of commands: which host each may reach.

It is loaded when the first connection comes, since most commands reach no host. Who decides on a
host is `judge_host`: in a session the permission gate, by `permissions/granting`.
"""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial

from agentcli.sandbox.environment import CREDENTIALS_HOST
from agentcli.sandbox.proxy import CommandLease, asks_for_git
from agentcli.sandbox.proxy_requests import (
    BUSY,
    DENIED,
    HEAD_BYTES,
    MALFORMED,
    UNKNOWN,
    UNREACHABLE,
    ProxyRequest,
    RequestRefused,
    detect_protocol,
    join_head,
    join_refusal,
)
from agentcli.sandbox.proxy_route import (
    Dial,
    FindUpstream,
    Link,
    Resolve,
    advise,
    dial_directly,
    find_addresses,
    open_link,
    open_link_upstream,
    relay,
)
from agentcli.system.hosts import HostPattern, join_port
from agentcli.system.resolver import resolve as resolve_by_system
from agentcli.types.events import Emit, HostJudged
from agentcli.types.grants import Grants
from agentcli.types.verdicts import AnswerGit, JudgeHost, Verdict

_REQUEST_S = 30.0
_LINGER_S = 2.0
_MOST_CONNECTIONS = 256
"""For each command; each holds less than a megabyte."""
_MOST_STRANGERS = 256
"""Connections that have not shown a token yet."""
_MOST_HOSTS = 200
"""The number of different hosts and ports that one command may have judged."""
_MOST_ASKED_BYTES = 8 * 1024


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


class ProxyService:
    def __init__(
        self,
        leases: Mapping[str, CommandLease],
        *,
        emit: Emit,
        judge_host: JudgeHost = judge_by_grants,
        resolve: Resolve = resolve_by_system,
        dial: Dial = dial_directly,
        find_upstream: FindUpstream = lambda host, port, is_plain: None,
        answer_git: AnswerGit = refuse_git,
        server: str = "",
    ) -> None:
        """`leases` are those of running commands, by their tokens. `judge_host` decides on each
        host once for a command. `server` is the MCP server that it is for, if it is for one."""
        self._leases = leases
        self._emit = emit
        self._judge_host = judge_host
        self._resolve = resolve
        self._dial = dial
        self._find_upstream = find_upstream
        self._answer_git = answer_git
        self._server = server
        self._strangers = 0

    async def serve(self, accepted: socket.socket) -> None:
        """Answer one connection, until either side or its lease ends."""
        client = Link(*await asyncio.open_connection(sock=accepted, limit=HEAD_BYTES))
        try:
            with suppress(OSError, EOFError, TimeoutError):
                await self._answer(client)
        finally:
            client.writer.close()

    async def _answer(self, client: Link) -> None:
        with self._count_stranger():
            async with asyncio.timeout(_REQUEST_S):
                protocol = await detect_protocol(client.reader, client.writer)
                try:
                    request = await protocol.read_request()
                    lease = self._find_lease(request.token)
                except RequestRefused as refused:
                    protocol.refuse(refused)
                    await _linger(client)
                    return
        with _hold_connection(lease, client) as writers:
            if request.host == CREDENTIALS_HOST:
                try:
                    await self._give_credentials(lease, request, client=client)
                except RequestRefused as refused:
                    protocol.refuse(refused)
                await _linger(client)
                return
            try:
                link = await self._open(lease, request)
            except RequestRefused as refused:
                protocol.refuse(_record(lease, request, refused=refused))
                await _linger(client)
                return
            writers.append(link.writer)
            try:
                protocol.accept()
                await relay(client, link, request=request)
            except RequestRefused as refused:
                said = _record(lease, request, refused=refused)
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

    def _find_lease(self, token: str) -> CommandLease:
        lease = self._leases.get(token)
        if lease is None:
            raise RequestRefused(
                UNKNOWN, "no running command has this password; use the proxy as HTTPS_PROXY has it"
            )
        if len(lease.connections) >= _MOST_CONNECTIONS:
            raise RequestRefused(BUSY, f"more than {_MOST_CONNECTIONS} connections at once")
        return lease

    async def _give_credentials(
        self, lease: CommandLease, request: ProxyRequest, *, client: Link
    ) -> None:
        """Answer git's request for credentials. Raise RequestRefused if there are none for it."""
        if not asks_for_git(lease.grants):
            raise RequestRefused(DENIED, "credentials for git were not granted")
        size = request.plain.size_bytes if request.plain else None
        if size is None or size > _MOST_ASKED_BYTES:
            raise RequestRefused(MALFORMED, "not a request for credentials")
        async with asyncio.timeout(_REQUEST_S):
            asked = await client.reader.readexactly(size)

        async def may_reach(host: str, port: int) -> bool:
            if lease.grants.network:
                return True
            return (await self._judge(lease, host, port=port)).decision == "allow"

        try:
            lines = await self._answer_git(lease.call_id, asked.decode(), may_reach)
        except ValueError as error:
            raise RequestRefused(DENIED, f"credentials: {error}") from None
        client.writer.write(join_head(("HTTP/1.1 200 OK", "Connection: close")) + lines.encode())

    async def _open(self, lease: CommandLease, request: ProxyRequest) -> Link:
        """Connect to the host of a request. Raise RequestRefused if it is denied or fails."""
        host, port = request.host, request.port
        verdict = await self._judge(lease, host, port=port)
        if verdict.decision != "allow":
            raise RequestRefused(DENIED, verdict.reason, advice=advise(verdict, host, port=port))
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
        return await open_link(self._dial, addresses, request=request)

    async def _judge(self, lease: CommandLease, host: str, port: int) -> Verdict:
        task = lease.verdicts.get((host, port))
        if task is None:
            if len(lease.verdicts) >= _MOST_HOSTS:
                raise RequestRefused(DENIED, f"it asked for more than {_MOST_HOSTS} hosts")
            task = asyncio.get_running_loop().create_task(self._judge_once(lease, host, port=port))
            lease.verdicts[host, port] = task
        # Several connections wait for the same answer, and one of them may leave.
        return await asyncio.shield(task)

    async def _judge_once(self, lease: CommandLease, host: str, *, port: int) -> Verdict:
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
def _hold_connection(lease: CommandLease, client: Link) -> Iterator[list[asyncio.StreamWriter]]:
    """Yield the sockets of a connection, to be cut when the lease ends."""
    task = asyncio.current_task()
    assert task is not None
    lease.connections[task] = writers = [client.writer]
    try:
        yield writers
    finally:
        del lease.connections[task]


def _record(
    lease: CommandLease, request: ProxyRequest, *, refused: RequestRefused
) -> RequestRefused:
    """Note a refusal for the model, and return it with the same words for the program."""
    where = join_port(request.host, request.port)
    verb = "refused" if refused.refusal is DENIED else "not reached"
    advice = f"; {refused.advice}" if refused.advice else ""
    sentence = f"network: {where} was {verb}: {refused.reason}{advice}"
    lease.refused.setdefault(where, sentence)
    return RequestRefused(refused.refusal, sentence)
