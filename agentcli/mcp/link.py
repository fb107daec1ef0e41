"""One server and the connection to it, made when it is first needed and made again if it is lost.

Whatever a server does, slow, dying or lying, ends here as a `ServerFault` that names the server.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, suppress
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import anyio
import httpx2
from mcp.client.client import Client
from mcp.client.session import ClientRequestContext, IncomingMessage
from mcp.client.subscriptions import SubscriptionLost
from mcp.shared.exceptions import MCPError
from mcp_types import (
    CONNECTION_CLOSED,
    CallToolResult,
    ElicitRequestParams,
    ElicitResult,
    Implementation,
    ListRootsResult,
    Root,
    ToolListChangedNotification,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import FileUrl

from agentcli import __version__
from agentcli.mcp.entries import ServerEntry
from agentcli.mcp.listing import all_tools
from agentcli.mcp.offered import Offered
from agentcli.types.errors import AgentError

STARTS_LIMIT = 2
CLOSE_S = 10.0

T = TypeVar("T")
Transport: TypeAlias = AbstractAsyncContextManager[Any]

_GONE = ("Session terminated", "Session not found")
"""All that the library tells of a session that the server has forgotten."""
_FAULTS = (MCPError, httpx2.HTTPError, OSError, RuntimeError, ValueError, ExceptionGroup)

# Without a handler of its own the library's complaints would be printed over the screen.
logging.getLogger("mcp").addHandler(logging.NullHandler())


class ServerFault(Exception):
    """A server did not do what was asked of it. The message is for the model and for people."""

    def __init__(self, message: str, *, timed_out: bool = False) -> None:
        super().__init__(message)
        self.timed_out = timed_out


class SessionGone(ServerFault):
    """A server elsewhere does not know our session any more."""


class Link:
    def __init__(
        self,
        entry: ServerEntry,
        *,
        open_transport: Callable[[], Transport],
        workspace: Path,
        last_words: Callable[[], str] = str,
        is_lost: Callable[[], bool] = lambda: False,
        on_listed: Callable[[Mapping[str, Offered]], None] = lambda tools: None,
        on_question: Callable[[str], None] = lambda message: None,
    ) -> None:
        """`last_words`: what is known of a process that has ended. `is_lost`: whether it has.
        `on_listed`: told of every list of tools. `on_question`: of what nobody was asked."""
        self.entry = entry
        self._open_transport = open_transport
        self._workspace = workspace
        self._last_words = last_words
        self._is_lost = is_lost
        self._on_listed = on_listed
        self._on_question = on_question
        self._one_at_a_time = asyncio.Lock()
        self._held: asyncio.Task[None] | None = None
        self._client: Client | None = None
        self._leave = asyncio.Event()
        self._tools: dict[str, Offered] | None = None
        self._starts = 0

    @property
    def protocol(self) -> str:
        """The version that was agreed upon; empty: not connected."""
        return self._client.protocol_version if self._client else ""

    async def tools(self) -> Mapping[str, Offered]:
        """What the server offers now. Connects if need be. Raises ServerFault."""
        async with self._one_at_a_time:
            client = await self._connected()
            if self._tools is None:
                self._tools = await self._answered(
                    client,
                    all_tools(client),
                    within_s=self.entry.start_timeout_s,
                    what="to list its tools",
                )
                self._on_listed(self._tools)
            return self._tools

    async def call(
        self, tool: str, arguments: dict[str, Any], *, show: Callable[[str], None]
    ) -> CallToolResult:
        """`show`: takes what the server says of its progress. Raises ServerFault."""
        try:
            return await self._call(tool, arguments, show)
        except SessionGone:  # it was refused unread, so that it can be asked again
            return await self._call(tool, arguments, show)

    async def _call(
        self, tool: str, arguments: dict[str, Any], show: Callable[[str], None]
    ) -> CallToolResult:
        async with self._one_at_a_time:
            client = await self._connected()

        async def report(progress: float, total: float | None, message: str | None) -> None:
            of = f" of {total:g}" if total else ""
            show(f"{progress:g}{of}{f': {message}' if message else ''}\n")

        return await self._answered(
            client,
            client.call_tool(tool, arguments, progress_callback=report),
            within_s=self.entry.call_timeout_s,
            what=f"to answer {tool}",
        )

    async def close(self) -> None:
        async with self._one_at_a_time:
            await self._let_go()

    async def _answered(
        self, client: Client, work: Awaitable[T], *, within_s: float, what: str
    ) -> T:
        try:
            async with asyncio.timeout(within_s):
                return await work
        except TimeoutError:
            message = f"The MCP server {self.entry.name} took longer than {within_s:g} s {what}."
            raise ServerFault(message, timed_out=True) from None
        except _FAULTS as error:
            is_gone = _is_gone(error)
            if (is_gone or _is_lost(error)) and self._client is client:
                await self._let_go()
            if is_gone:
                raise SessionGone(self._explained(error)) from error
            raise ServerFault(self._explained(error)) from error

    async def _connected(self) -> Client:
        is_held = self._held is not None and not self._held.done()
        if self._client is not None and is_held and not self._is_lost():
            return self._client
        await self._let_go()
        if self._starts >= STARTS_LIMIT and not self.entry.is_remote:
            raise ServerFault(
                f"The MCP server {self.entry.name} was started {self._starts} times in this session"
                f" and ended each time{self._last_words()}. It is not started again."
            )
        self._starts += 1
        return await self._connect()

    async def _connect(self) -> Client:
        self._leave = asyncio.Event()
        ready: asyncio.Future[Client] = asyncio.get_running_loop().create_future()
        self._held = asyncio.create_task(self._hold(ready), name=f"mcp {self.entry.name}")
        self._held.add_done_callback(_looked_at)
        try:
            await asyncio.wait(
                (ready, self._held),
                timeout=self.entry.start_timeout_s,
                return_when=asyncio.FIRST_COMPLETED,
            )
        except asyncio.CancelledError:
            await self._let_go(at_once=True)
            raise
        if ready.done():
            self._client = ready.result()
            return self._client
        held, is_late = self._held, not self._held.done()
        await self._let_go(at_once=True)
        if is_late:
            seconds = self.entry.start_timeout_s
            raise ServerFault(
                f"The MCP server {self.entry.name} was not ready within {seconds:g} s"
                f"{self._last_words()}.",
                timed_out=True,
            )
        raise ServerFault(self._explained(held.exception())) from held.exception()

    async def _hold(self, ready: "asyncio.Future[Client]") -> None:
        """The connection lives in a task of its own: what opens it also has to close it."""
        async with Client(
            self._open_transport(),
            client_info=Implementation(name="agentcli", version=__version__),
            elicitation_callback=self._decline,
            list_roots_callback=self._roots,
            message_handler=self._hear,
        ) as client:
            ready.set_result(client)
            leaving = asyncio.create_task(self._leave.wait())
            listening = asyncio.create_task(self._listen(client))
            try:
                await leaving
            finally:
                for task in (leaving, listening):
                    task.cancel()
                await asyncio.wait((leaving, listening))

    async def _let_go(self, *, at_once: bool = False) -> None:
        held, self._held, self._client, self._tools = self._held, None, None, None
        self._leave.set()
        if held is not None and not at_once:
            await asyncio.wait((held,), timeout=CLOSE_S)
        if held is not None and not held.done():
            held.cancel()
            await asyncio.wait((held,), timeout=CLOSE_S)

    async def _listen(self, client: Client) -> None:
        """Servers of the newer protocol tell of changes only to those who listen."""
        tools = client.server_capabilities.tools
        is_modern = client.protocol_version in MODERN_PROTOCOL_VERSIONS
        if not (is_modern and tools and tools.list_changed):
            return
        with suppress(SubscriptionLost, *_FAULTS):
            async with client.listen(tools_list_changed=True) as changes:
                self._tools = None  # what changed before we listened nobody tells us
                async for _ in changes:
                    self._tools = None

    async def _hear(self, message: IncomingMessage) -> None:
        if isinstance(message, ToolListChangedNotification):
            self._tools = None

    async def _decline(
        self, context: ClientRequestContext, params: ElicitRequestParams
    ) -> ElicitResult:
        self._on_question(params.message)
        return ElicitResult(action="decline")

    async def _roots(self, context: ClientRequestContext) -> ListRootsResult:
        uri = FileUrl(self._workspace.as_uri())
        return ListRootsResult(roots=[Root(uri=uri, name=self._workspace.name)])

    def _explained(self, error: BaseException | None) -> str:
        name = self.entry.name
        leaves = [one for one in _leaves(error) if not isinstance(one, anyio.BrokenResourceError)]
        first = leaves[0] if leaves else error
        if _is_lost(error):
            return f"The MCP server {name} ended the connection{self._last_words()}."
        if isinstance(first, MCPError):
            status = self._last_words() if self.entry.is_remote else ""
            return f"The MCP server {name} answered with an error: {first.message}{status}"
        if isinstance(first, AgentError):
            return f"The MCP server {name} cannot be started: {first}"
        if isinstance(first, FileNotFoundError | PermissionError | NotADirectoryError):
            return f"The MCP server {name} cannot be started: {first.strerror}: {first.filename}"
        if isinstance(first, httpx2.HTTPError):
            detail = f": {first}" if str(first) else ""
            kind = type(first).__name__
            return (
                f"The MCP server {name} cannot be reached at {self.entry.shown} ({kind}{detail})."
            )
        return f"The MCP server {name} gave an answer that cannot be used: {first}"


def _looked_at(task: "asyncio.Task[None]") -> None:
    """An idle server may die unheard: the next call finds out, and nobody has to be warned."""
    if not task.cancelled():
        task.exception()


def _leaves(error: BaseException | None) -> list[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        return [leaf for one in error.exceptions for leaf in _leaves(one)]
    return [error] if error is not None else []


def _is_gone(error: BaseException) -> bool:
    return isinstance(error, MCPError) and error.message in _GONE


def _is_lost(error: BaseException | None) -> bool:
    return any(
        isinstance(one, anyio.ClosedResourceError | anyio.EndOfStream)
        or (isinstance(one, MCPError) and one.code == CONNECTION_CLOSED)
        for one in _leaves(error)
    )
