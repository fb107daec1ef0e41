"""agentcli as an MCP server on stdin and stdout: a front end without a user."""

import asyncio
import json
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeAlias

from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import Server
from mcp.server.session import ServerSession
from mcp.server.stdio import stdio_server
from mcp.shared.exceptions import MCPError
from mcp.shared.message import SessionMessage
from mcp_types import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    PARSE_ERROR,
    CallToolRequestParams,
    CallToolResult,
    ContentBlock,
    ErrorData,
    ImageContent,
    JSONRPCError,
    ListToolsResult,
    PaginatedRequestParams,
    TextContent,
    Tool,
)
from pydantic import ValidationError

from agentcli import __version__
from agentcli.features.mcp.faults import silence_library_log, summarize_error
from agentcli.features.mcp.stdio import Incoming, MessageFilter
from agentcli.features.mcp.tool_server import ToolServer
from agentcli.system.strict_json import replace_nonfinite
from agentcli.types.errors import Exit
from agentcli.types.messages import Document, Image, Json, Text
from agentcli.types.own_tools import BUILT_IN_READING, EDITING
from agentcli.types.settings import Settings
from agentcli.types.tools import ToolResult, ToolSpec

# Errors for client messages that cannot be read. The library silently drops them, and a client that
# sent one with an id would wait for ever.


_NOT_JSON = "json_invalid"
_WHOLE = ("model_type", "missing")
"""The kinds of error whose input is the whole message, not one field of it."""


def make_error_reply(error: Exception) -> SessionMessage | None:
    """Return the reply to a line that the library could not read. None if it needs no reply."""
    if not isinstance(error, ValidationError):
        return None
    first, *_ = found = error.errors(include_url=False)
    if first["type"] == _NOT_JSON:
        line = first["input"]
        return (
            _build_refusal(PARSE_ERROR, error, sent=_parse_loosely(line)) if line.strip() else None
        )
    sent = next((one["input"] for one in found if one["type"] in _WHOLE), None)
    return _build_refusal(INVALID_REQUEST, error, sent=sent)


def _build_refusal(code: int, error: ValidationError, *, sent: Any) -> SessionMessage | None:
    request = None
    match sent:
        case {"result": _} | {"error": _}:
            return None  # an answer needs no answer
        case {"id": str() | int() as identity} if not isinstance(identity, bool):
            request = identity
    problem = summarize_error(error).removeprefix("JSONRPCRequest").lstrip(".: ")
    wrong = ErrorData(code=code, message=problem)
    return SessionMessage(JSONRPCError(jsonrpc="2.0", id=request, error=wrong))


def _parse_loosely(line: str) -> Any:
    """Parse a line for its id. Python accepts what the library rejects, such as half a surrogate
    pair."""
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


# agentcli as a server: our tools for other programs, over stdin and stdout


FILE_TOOLS = frozenset({*BUILT_IN_READING, *EDITING})
"""The tools that touch nothing but files of the workspace."""

Show: TypeAlias = Callable[[str], None]
Call: TypeAlias = Callable[[str, Json, Show], Awaitable[ToolResult]]
"""Takes the name, the arguments as received, and a callback for progress.

Ends with a result, or is cancelled."""


async def serve(specs: Sequence[ToolSpec], call: Call, *, instructions: str) -> None:
    """Serve until the other side closes the connection."""
    silence_library_log()
    tools = {spec.name: _declare(spec) for spec in specs}

    async def on_list_tools(
        context: ServerRequestContext[Any], params: PaginatedRequestParams | None
    ) -> ListToolsResult:
        return ListToolsResult(tools=list(tools.values()))

    async def on_call_tool(
        context: ServerRequestContext[Any], params: CallToolRequestParams
    ) -> CallToolResult:
        if params.name not in tools:
            names = ", ".join(tools)
            raise MCPError(INVALID_PARAMS, f"Unknown tool: {params.name}; the tools are {names}")
        telling = _ProgressReports(context.session)
        try:
            given = replace_nonfinite(params.arguments or {})
            return _answer(await call(params.name, given, telling.show))
        finally:
            await telling.end()

    server: Server[Any] = Server(
        "agentcli",
        version=__version__,
        instructions=instructions,
        on_list_tools=on_list_tools,
        on_call_tool=on_call_tool,
    )
    async with stdio_server() as (incoming, outgoing):

        async def look(item: Incoming) -> Incoming | None:
            if not isinstance(item, Exception):
                return item
            if answer := make_error_reply(item):
                await outgoing.send(answer)
            return None

        await server.run(
            MessageFilter(incoming, look), outgoing, server.create_initialization_options()
        )


class _ProgressReports:
    """Progress of a call, for a client that wants it: in order, and never after the answer."""

    def __init__(self, session: ServerSession) -> None:
        self._session = session
        self._unsent: deque[str] = deque()
        self._sent = 0
        self._sending: asyncio.Task[None] | None = None

    def show(self, text: str) -> None:
        self._unsent.append(text)
        if self._sending is None or self._sending.done():
            self._sending = asyncio.ensure_future(self._send())

    async def end(self) -> None:
        """Wait for the last report. If the client has left, the call still has its result."""
        if self._sending is not None:
            await asyncio.gather(self._sending, return_exceptions=True)

    async def _send(self) -> None:
        while self._unsent:
            self._sent += 1
            await self._session.report_progress(self._sent, message=self._unsent.popleft())


def _declare(spec: ToolSpec) -> Tool:
    """Return the declaration, with hints from which a client may decide whether to ask."""
    hints = {
        "readOnlyHint": spec.name in BUILT_IN_READING,
        "destructiveHint": spec.name not in BUILT_IN_READING,
        "openWorldHint": spec.name not in FILE_TOOLS,
    }
    return Tool.model_validate(
        {
            "name": spec.name,
            "description": spec.description,
            "inputSchema": spec.schema,
            "annotations": hints,
        }
    )


def _answer(result: ToolResult) -> CallToolResult:
    content: list[ContentBlock] = []
    for block in result.content:
        match block:
            case Text(text=text) | Document(text=text):
                content.append(TextContent(type="text", text=text))
            case Image(media_type=media_type, data=data):
                content.append(ImageContent(type="image", data=data, mime_type=media_type))
    return CallToolResult(content=content, is_error=result.status == "error")


def run_server(settings: Settings) -> Exit:
    """Run agentcli as an MCP server: a front end without a user."""
    return asyncio.run(_run_server(settings))


async def _run_server(settings: Settings) -> Exit:
    serving = ToolServer(settings)
    try:
        await serve(serving.specs, serving.call_tool, instructions=serving.instructions)
    finally:
        await serving.close()
    return Exit.DONE
