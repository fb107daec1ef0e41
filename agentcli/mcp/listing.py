"""All tools of a server, page by page, within limits.

A list without end is cut, not awaited, and that is said.
"""

from collections.abc import AsyncIterator

from mcp.client.client import Client
from mcp.shared.exceptions import MCPError
from mcp_types import METHOD_NOT_FOUND, Tool

from agentcli.mcp.fitting import Remark
from agentcli.mcp.offered import OfferedTool, clean_offer

PAGES_LIMIT = 200
TOOLS_LIMIT = 2_000


async def list_all_tools(client: Client, remark: Remark) -> dict[str, OfferedTool]:
    """None at all where the server has prompts or resources only."""
    try:
        return await _collect_tools(client, remark)
    except MCPError as error:
        if error.code == METHOD_NOT_FOUND:
            return {}
        raise


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
    remark(f"its list of tools goes on after {PAGES_LIMIT} pages, where it was cut")
