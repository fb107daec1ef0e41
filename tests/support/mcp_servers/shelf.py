"""A server with a tool that says of itself that it only reads, and one that does not."""

from mcp.server.mcpserver import MCPServer
from mcp.types import ToolAnnotations

server = MCPServer("shelf")


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def look() -> str:
    """Says what is on the shelf."""
    return "three books"


@server.tool()
def put(what: str) -> str:
    """Puts something on the shelf."""
    return f"there is {what} now"


if __name__ == "__main__":
    server.run("stdio")
