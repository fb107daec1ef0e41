"""agentcli as a server: tools of ours offered to other programs over stdin and stdout.

It knows nothing of how a call is judged or recorded: that is the business of whoever runs it.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeAlias

from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import Server
from mcp.server.stdio import stdio_server
from mcp_types import (
    CallToolRequestParams,
    CallToolResult,
    ContentBlock,
    ImageContent,
    ListToolsResult,
    PaginatedRequestParams,
    TextContent,
    Tool,
)

from agentcli import __version__
from agentcli.types.messages import Image, Json, Text
from agentcli.types.tools import ToolResult, ToolSpec

Call: TypeAlias = Callable[[str, Json], Awaitable[ToolResult]]
"""By name, with arguments as they came. Always ends in a result, unless it is cancelled."""


async def serve(specs: Sequence[ToolSpec], call: Call, *, instructions: str) -> None:
    """Until the other side closes the connection."""
    tools = [_declared(spec) for spec in specs]

    async def on_list_tools(
        context: ServerRequestContext[Any], params: PaginatedRequestParams | None
    ) -> ListToolsResult:
        return ListToolsResult(tools=tools)

    async def on_call_tool(
        context: ServerRequestContext[Any], params: CallToolRequestParams
    ) -> CallToolResult:
        return _answer(await call(params.name, params.arguments or {}))

    server: Server[Any] = Server(
        "agentcli",
        version=__version__,
        instructions=instructions,
        on_list_tools=on_list_tools,
        on_call_tool=on_call_tool,
    )
    async with stdio_server() as (incoming, outgoing):
        await server.run(incoming, outgoing, server.create_initialization_options())


def _declared(spec: ToolSpec) -> Tool:
    return Tool.model_validate(
        {"name": spec.name, "description": spec.description, "inputSchema": spec.schema}
    )


def _answer(result: ToolResult) -> CallToolResult:
    content: list[ContentBlock] = []
    for block in result.content:
        match block:
            case Text(text=text):
                content.append(TextContent(type="text", text=text))
            case Image(media_type=media_type, data=data):
                content.append(ImageContent(type="image", data=data, mime_type=media_type))
    return CallToolResult(content=content, is_error=result.status == "error")
