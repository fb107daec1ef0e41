"""The connection to one server: opened when first needed, and opened again if it is lost.

Whatever a server does (slow, dying or lying), the result is a `ServerFault` that names the server.

A server's list of tools is made valid: a bad tool affects nothing but itself. A schema is completed
only if that adds no meaning: a tool takes an object, whether its server says so or not. A tool that
would need a guess is left out, and named.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from mcp.client.client import Client
from mcp.client.session import IncomingMessage
from mcp.client.subscriptions import SubscriptionLost
from mcp.shared.exceptions import MCPError
from mcp.shared.message import SessionMessage
from mcp_types import (
    METHOD_NOT_FOUND,
    CallToolResult,
    Implementation,
    JSONRPCResponse,
    Tool,
    ToolListChangedNotification,
)
from mcp_types.methods import validate_server_result
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from agentcli import __version__
from agentcli.features.mcp.approvals import (
    READ_RESOURCE,
    OfferedTool,
    clean_instructions,
    clean_offer,
)
from agentcli.features.mcp.entries import ServerEntry
from agentcli.features.mcp.faults import (
    FAULTS,
    FaultContext,
    ServerFault,
    SessionGone,
    is_gone,
    is_lost,
    silence_library_log,
    summarize_error,
)
from agentcli.features.mcp.host import FillIn, PausableTimeout, Sample, ServerHost, decline
from agentcli.features.mcp.stdio import Incoming, MessageFilter
from agentcli.system.plain_text import show_controls
from agentcli.system.schema_cost import is_quick

LIST_TOOLS = "tools/list"
REFS_LIMIT = 8
SHOWN_CHARS = 80

Page: TypeAlias = dict[str, Any]
Remark: TypeAlias = Callable[[str], None]


class UnusableTool(Exception):
    """The reason why a tool cannot be used."""


def fit_message(item: Incoming, *, version: str, remark: Remark) -> Incoming:
    """Return the message with valid tools only. `version` is that of the protocol.

    `remark` takes a sentence about each tool that is left out."""
    if not isinstance(item, SessionMessage) or not isinstance(item.message, JSONRPCResponse):
        return item
    page = item.message.result
    if not isinstance(page.get("tools"), list) or not _is_valid(page | {"tools": []}, version):
        return item
    tools = list(_fit_tools(page, version, remark=remark))
    message = item.message.model_copy(update={"result": page | {"tools": tools}})
    return SessionMessage(message, item.metadata)


def _fit_tools(page: Page, version: str, *, remark: Remark) -> Iterator[Page]:
    for number, tool in enumerate(page["tools"], 1):
        try:
            yield _fit_tool(tool, page, version=version)
        except UnusableTool as error:
            remark(f"{_name_tool(tool, number)} cannot be used: {error}")


def _fit_tool(tool: Any, page: Page, *, version: str) -> Page:
    if not isinstance(tool, dict):
        raise UnusableTool("it is not an object")
    match tool:
        case {"execution": {"taskSupport": "required"}}:
            # The library has no tasks: they left the core of the protocol in 2026-07-28.
            raise UnusableTool("it only runs as a task, which is not supported")
    fit = {**tool, "inputSchema": read_object_schema(tool.get("inputSchema"))}
    if "outputSchema" in fit and not is_quick(fit["outputSchema"]):
        del fit["outputSchema"]
    try:
        validate_server_result(LIST_TOOLS, version, page | {"tools": [fit]})
    except ValidationError as error:
        raise UnusableTool(summarize_error(error).removeprefix("tools.0.")) from None
    return fit


def read_object_schema(schema: Any) -> Page:
    """Return the schema of an object. Raise UnusableTool if it takes no object or is unclear."""
    if schema is None or schema is True:
        schema = {}
    if not isinstance(schema, dict):
        raise UnusableTool("its inputSchema is not an object")
    schema = _without_ref(schema)
    kind = schema.get("type", "object")
    if kind != "object" and not (isinstance(kind, list) and "object" in kind):
        raise UnusableTool(f"its input is not an object (type {_display_value(kind)})")
    return {**schema, "type": "object"} if schema else {"type": "object", "properties": {}}


def _without_ref(schema: Page) -> Page:
    """Resolve a reference at the root: providers want to see the properties there."""
    for _ in range(REFS_LIMIT):
        if "$ref" not in schema:
            return schema
        rest = {key: value for key, value in schema.items() if key != "$ref"}
        schema = {**_resolve_reference(schema, schema["$ref"]), **rest}
    raise UnusableTool("its inputSchema refers to itself")


def _resolve_reference(schema: Page, ref: Any) -> Page:
    found: Any = schema
    root, *steps = str(ref).split("/")
    for step in steps:
        key = step.replace("~1", "/").replace("~0", "~")
        found = found.get(key) if isinstance(found, dict) else None
    if root != "#" or not steps or not isinstance(found, dict):
        raise UnusableTool(f"its inputSchema refers to {_display_value(ref)}, which is not in it")
    return found


def _is_valid(page: Page, version: str) -> bool:
    """Return whether a page is valid. Called without the tools, so that only they can be wrong."""
    try:
        validate_server_result(LIST_TOOLS, version, page)
    except (ValidationError, KeyError, ValueError):
        return False
    return True


def _display_value(value: Any) -> str:
    return show_controls(repr(value))[:SHOWN_CHARS]


def _name_tool(tool: Any, number: int) -> str:
    name = tool.get("name") if isinstance(tool, dict) else None
    if not isinstance(name, str):
        return f"its tool number {number} (without a name)"
    return f"its tool {show_controls(name[:SHOWN_CHARS])}"


# All tools of a server, page by page, within limits


PAGES_LIMIT = 200
TOOLS_LIMIT = 2_000


async def list_all_tools(client: Client, remark: Remark) -> dict[str, OfferedTool]:
    """Return all tools of a server, and one of ours to read its resources if it has any."""
    try:
        tools = await _collect_tools(client, remark)
    except MCPError as error:
        if error.code != METHOD_NOT_FOUND:
            raise
        tools = {}
    if await _has_resources(client):
        tools.setdefault(READ_RESOURCE.name, READ_RESOURCE)
    return tools


async def _has_resources(client: Client) -> bool:
    """Return whether there is anything to read: many servers declare resources and have none."""
    if client.server_capabilities.resources is None:
        return False
    with suppress(MCPError, ValidationError):
        if (await client.list_resources(cache_mode="refresh")).resources:
            return True
        return bool((await client.list_resource_templates(cache_mode="refresh")).resource_templates)
    return False


async def _collect_tools(client: Client, remark: Remark) -> dict[str, OfferedTool]:
    tools: dict[str, OfferedTool] = {}
    async for tool in _iterate_pages(client, remark):
        if len(tools) >= TOOLS_LIMIT:
            remark(f"only the first {TOOLS_LIMIT} of its tools are used")
            break
        hints = tool.annotations
        tools.setdefault(
            tool.name,
            clean_offer(
                name=tool.name,
                description=tool.description or tool.title or "",
                schema=tool.model_dump(by_alias=True)["inputSchema"],
                says_read_only=bool(hints and hints.read_only_hint),
            ),
        )
    return tools


async def _iterate_pages(client: Client, remark: Remark) -> AsyncIterator[Tool]:
    cursor: str | None = None
    for _ in range(PAGES_LIMIT):
        page = await client.list_tools(cursor=cursor, cache_mode="refresh")
        for tool in page.tools:
            yield tool
        if page.next_cursor is None or page.next_cursor == cursor:
            return
        cursor = page.next_cursor
    remark(f"its list of tools has more than {PAGES_LIMIT} pages; the rest is ignored")


STARTS_LIMIT = 2
CLOSE_S = 10.0
REMARKS_LIMIT = 10

T = TypeVar("T")
Transport: TypeAlias = AbstractAsyncContextManager[Any]
NOBODY = FaultContext()

silence_library_log()


class ServerConnection:
    def __init__(
        self,
        entry: ServerEntry,
        *,
        open_transport: Callable[[], Transport],
        workspace: Path,
        witness: FaultContext = NOBODY,
        fill_in: FillIn = decline,
        sample: Sample | None = None,
    ) -> None:
        """`fill_in` asks the user on the server's behalf.

        `sample` asks the model on the server's behalf; None if the server may not ask."""
        self.entry = entry
        self._open_transport = open_transport
        self._witness = witness
        self._patience = PausableTimeout()
        self._host = ServerHost(
            entry.name, workspace, patience=self._patience, fill_in=fill_in, sample=sample
        )
        self._one_at_a_time = asyncio.Lock()
        self._held: asyncio.Task[None] | None = None
        self._client: Client | None = None
        self._leave = asyncio.Event()
        self._tools: dict[str, OfferedTool] | None = None
        self._starts = 0
        self.running: list[str] = []
        """The ids of the calls that wait for the server."""
        self._remarks: dict[str, None] = {}
        self.fault = ""
        """The reason why the last attempt to connect or to list the tools failed."""

    @property
    def is_up(self) -> bool:
        is_held = self._held is not None and not self._held.done()
        return self._client is not None and is_held and not self._witness.is_lost()

    @property
    def is_starting(self) -> bool:
        is_held = self._held is not None and not self._held.cancelling()
        return is_held and self._client is None

    @property
    def protocol(self) -> str:
        """Return the negotiated protocol version, or "" if not connected."""
        return self._client.protocol_version if self._client else ""

    @property
    def instructions(self) -> str:
        """Return what the server says about the use of its tools; "" if not connected."""
        return clean_instructions(self._client.instructions or "") if self._client else ""

    @property
    def remarks(self) -> tuple[str, ...]:
        """Return the remarks about its list of tools, to follow "the MCP server x: "."""
        few = tuple(self._remarks)[:REMARKS_LIMIT]
        left_out = len(self._remarks) - len(few)
        return (*few, f"{left_out} more warnings like these") if left_out else few

    async def list_tools(self) -> Mapping[str, OfferedTool]:
        """Return the tools that the server offers now. Connect if needed. Raise ServerFault."""
        async with self._one_at_a_time, self._remember_fault():
            client = await self._ensure_connected()
            if self._tools is None:
                self._remarks.clear()
                self._tools = await self._wait_for_answer(
                    client,
                    list_all_tools(client, self._remark),
                    within_s=self.entry.start_timeout_s,
                    what="to list its tools",
                )
            return self._tools

    async def call(
        self,
        tool: str,
        arguments: dict[str, Any],
        *,
        show: Callable[[str], None],
        call_id: str = "",
    ) -> CallToolResult:
        """Call a tool. `show` takes the server's progress; `call_id` is the call this is for.

        Raise ServerFault if the server fails."""

        async def report(progress: float, total: float | None, message: str | None) -> None:
            of = f" of {total:g}" if total else ""
            show(f"{progress:g}{of}{f': {message}' if message else ''}\n")

        self.running.append(call_id)
        try:
            return await self.ask(
                lambda client: client.call_tool(tool, arguments, progress_callback=report),
                what=f"to answer {tool}",
            )
        finally:
            self.running.remove(call_id)
            if not self.running:
                self._host.dismiss()

    async def ask(self, request: Callable[[Client], Awaitable[T]], *, what: str) -> T:
        """Send a request, connecting if needed. Raise ServerFault if the server fails.

        `what` names the request, to follow "took longer than 2 s"."""
        try:
            return await self._ask(request, what)
        except SessionGone:  # it was refused unread, so it is safe to send again
            return await self._ask(request, what)

    async def _ask(self, request: Callable[[Client], Awaitable[T]], what: str) -> T:
        async with self._one_at_a_time, self._remember_fault():
            if self.is_up and not self._patience.is_tried:
                self._witness.forget_words()
            client = await self._ensure_connected()
        return await self._wait_for_answer(
            client, request(client), within_s=self.entry.call_timeout_s, what=what
        )

    async def close(self) -> None:
        async with self._one_at_a_time:
            await self._disconnect()

    async def restart(self) -> None:
        """Close the connection and reset the count of starts, so that it may start again."""
        await self.close()
        self._starts = 0

    @asynccontextmanager
    async def _remember_fault(self) -> AsyncIterator[None]:
        try:
            yield
        except ServerFault as fault:
            self.fault = str(fault)
            raise
        self.fault = ""

    async def _wait_for_answer(
        self, client: Client, work: Awaitable[T], *, within_s: float, what: str
    ) -> T:
        try:
            async with self._patience.limit(within_s):
                return await work
        except TimeoutError:
            message = f"The MCP server {self.entry.name} took longer than {within_s:g} s {what}."
            raise ServerFault(message, timed_out=True) from None
        except FAULTS as error:
            if (is_gone(error) or is_lost(error)) and self._client is client:
                await self._disconnect()
            raise self._witness.fault(error, self.entry) from error

    async def _ensure_connected(self) -> Client:
        if self._client is not None and self.is_up:
            return self._client
        await self._disconnect()
        if self._starts >= STARTS_LIMIT and not self.entry.is_remote:
            raise ServerFault(
                f"The MCP server {self.entry.name} was started {self._starts} times in this session"
                f" and ended each time{self._witness.last_words()}. It is not started again."
            )
        self._starts += 1
        return await self._connect()

    async def _connect(self) -> Client:
        self._leave = asyncio.Event()
        ready: asyncio.Future[Client] = asyncio.get_running_loop().create_future()
        self._held = asyncio.create_task(
            self._hold_connection(ready), name=f"mcp {self.entry.name}"
        )
        self._held.add_done_callback(_ignore_result)
        try:
            await asyncio.wait(
                (ready, self._held),
                timeout=self.entry.start_timeout_s,
                return_when=asyncio.FIRST_COMPLETED,
            )
        except asyncio.CancelledError:
            await self._disconnect(at_once=True)
            raise
        if ready.done():
            self._client = ready.result()
            return self._client
        held = self._held
        if not held.done():
            held.cancel()  # it may take a while to end: the next caller waits for that
            seconds = self.entry.start_timeout_s
            raise ServerFault(
                f"The MCP server {self.entry.name} was not ready within {seconds:g} s"
                f"{self._witness.last_words()}.",
                timed_out=True,
            )
        await self._disconnect()
        error = held.exception()
        raise self._witness.fault(error, self.entry) from error

    async def _hold_connection(self, ready: "asyncio.Future[Client]") -> None:
        """Hold the connection open in a task of its own: the task that opens it must close it."""
        async with Client(
            self._connect_transport(),
            client_info=Implementation(name="agentcli", version=__version__),
            elicitation_callback=self._host.elicit,
            sampling_callback=self._host.sampling,
            list_roots_callback=self._host.roots,
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

    @asynccontextmanager
    async def _connect_transport(self) -> AsyncIterator[Any]:
        async def look(item: Incoming) -> Incoming:
            return fit_message(item, version=self.protocol, remark=self._remark)

        async with self._open_transport() as (incoming, outgoing):
            yield MessageFilter(incoming, look), outgoing

    def _remark(self, sentence: str) -> None:
        self._remarks[sentence] = None

    async def _disconnect(self, *, at_once: bool = False) -> None:
        held, self._held, self._client, self._tools = self._held, None, None, None
        self._leave.set()
        if held is not None and not at_once:
            await asyncio.wait((held,), timeout=CLOSE_S)
        if held is not None and not held.done():
            held.cancel()
            await asyncio.wait((held,), timeout=CLOSE_S)

    async def _listen(self, client: Client) -> None:
        """Listen for changes. Servers of the newer protocol report them only to listeners."""
        tools = client.server_capabilities.tools
        is_modern = client.protocol_version in MODERN_PROTOCOL_VERSIONS
        if not (is_modern and tools and tools.list_changed):
            return
        with suppress(SubscriptionLost, *FAULTS):
            async with client.listen(tools_list_changed=True) as changes:
                self._tools = None  # changes before we listened were not reported
                async for _ in changes:
                    self._tools = None

    async def _hear(self, message: IncomingMessage) -> None:
        if isinstance(message, ToolListChangedNotification):
            self._tools = None


def _ignore_result(task: "asyncio.Task[None]") -> None:
    """Let an idle server die silently: the next call finds out, and no warning is needed."""
    if not task.cancelled():
        task.exception()
