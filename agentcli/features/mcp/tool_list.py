"""A server's list of tools, made valid: a bad tool affects nothing but itself.

A schema is completed only if that adds no meaning: a tool takes an object, whether its server says
so or not. A tool that would need a guess is left out, and named.
"""

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from typing import Any, TypeAlias

from mcp.client.client import Client
from mcp.shared.exceptions import MCPError
from mcp.shared.message import SessionMessage
from mcp_types import METHOD_NOT_FOUND, JSONRPCResponse, Tool
from mcp_types.methods import validate_server_result
from pydantic import ValidationError

from agentcli.features.mcp.approvals import READ_RESOURCE, OfferedTool, clean_offer
from agentcli.features.mcp.faults import summarize_error
from agentcli.features.mcp.stdio import Incoming
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
    tools = list(_fit_tools(page, version, remark))
    message = item.message.model_copy(update={"result": page | {"tools": tools}})
    return SessionMessage(message, item.metadata)


def _fit_tools(page: Page, version: str, remark: Remark) -> Iterator[Page]:
    for number, tool in enumerate(page["tools"], 1):
        try:
            yield _fit_tool(tool, page, version)
        except UnusableTool as error:
            remark(f"{_name_tool(tool, number)} cannot be used: {error}")


def _fit_tool(tool: Any, page: Page, version: str) -> Page:
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
