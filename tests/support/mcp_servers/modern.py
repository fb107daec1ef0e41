"""A server on the official SDK, which speaks both protocols, over stdio or HTTP."""

import sys
from typing import Any

from mcp.server.mcpserver import Context, MCPServer

server = MCPServer("modern")


@server.tool()
def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


@server.tool()
async def grow(context: Context[Any]) -> str:
    """Brings a new tool."""
    server.add_tool(lambda: "new", name="grown", description="A new one.")
    await context.notify_tools_changed()
    return "grown"


if __name__ == "__main__":
    if sys.argv[1] == "http":
        server.run("streamable-http", host="127.0.0.1", port=int(sys.argv[2]))
    else:
        server.run("stdio")
