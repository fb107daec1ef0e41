"""agentcli as an MCP server: a face without a person."""

import asyncio

from agentcli.app.serving import Serving
from agentcli.mcp.server import serve as serve_tools
from agentcli.settings import Settings
from agentcli.types.errors import Exit


def serve(settings: Settings) -> Exit:
    return asyncio.run(_serve(settings))


async def _serve(settings: Settings) -> Exit:
    serving = Serving(settings)
    try:
        await serve_tools(serving.specs, serving.call, instructions=serving.instructions)
    finally:
        await serving.close()
    return Exit.DONE
