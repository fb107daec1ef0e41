"""agentcli as an MCP server: a front end without a user."""

import asyncio

from agentcli.features.mcp.serve import serve as serve_tools
from agentcli.features.mcp.tool_server import ToolServer
from agentcli.settings import Settings
from agentcli.types.errors import Exit


def run_server(settings: Settings) -> Exit:
    return asyncio.run(_run_server(settings))


async def _run_server(settings: Settings) -> Exit:
    serving = ToolServer(settings)
    try:
        await serve_tools(serving.specs, serving.call_tool, instructions=serving.instructions)
    finally:
        await serving.close()
    return Exit.DONE
