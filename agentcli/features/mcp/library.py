"""Resources and prompts of a server: the user reads and runs them, the model reads resources.

Endless lists are cut. A server that has neither is asked anyway, which is not an error.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from mcp.client.client import Client
from mcp.shared.exceptions import MCPError
from mcp_types import (
    METHOD_NOT_FOUND,
    CallToolResult,
    ContentBlock,
    EmbeddedResource,
    GetPromptResult,
    PaginatedResult,
    TextContent,
)

from agentcli.features.mcp.connection import ServerConnection
from agentcli.features.mcp.tool import ContentStore, ForeignCall, ServerTool, convert_result
from agentcli.system.plain_text import show_controls
from agentcli.types.errors import ToolError
from agentcli.types.messages import Json
from agentcli.types.tools import ErrorKind, Output, ToolContext

PAGES_LIMIT = 50
LISTED_LIMIT = 2_000
ABOUT_CHARS = 200

P = TypeVar("P", bound=PaginatedResult)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceOffer:
    uri: str
    """For a template, the names of its parts are in braces."""
    about: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptOffer:
    name: str
    about: str
    arguments: tuple[str, ...] = ()
    required: frozenset[str] = frozenset()

    @property
    def usage(self) -> str:
        return " ".join(
            name if name in self.required else f"[{name}]"
            for name in map(show_controls, self.arguments)
        )


async def list_resources(link: ServerConnection) -> tuple[ResourceOffer, ...]:
    """Return the listed resources, then the templates. Raise ServerFault if the server fails."""

    async def list_page(client: Client) -> list[ResourceOffer]:
        pages = await _list_pages(lambda cursor: client.list_resources(cursor=cursor))
        return [
            ResourceOffer(
                uri=one.uri, about=_describe_offer(one.title or one.name, one.description)
            )
            for page in pages
            for one in page.resources
        ]

    async def list_templates(client: Client) -> list[ResourceOffer]:
        pages = await _list_pages(lambda cursor: client.list_resource_templates(cursor=cursor))
        return [
            ResourceOffer(
                uri=one.uri_template, about=_describe_offer(one.title or one.name, one.description)
            )
            for page in pages
            for one in page.resource_templates
        ]

    found = await link.ask(list_page, what="to list its resources")
    found += await link.ask(list_templates, what="to list its templates")
    return tuple(found[:LISTED_LIMIT])


async def list_prompts(link: ServerConnection) -> tuple[PromptOffer, ...]:
    """Return the prompts of a server. Raise ServerFault if the server fails."""

    async def list_page(client: Client) -> list[PromptOffer]:
        pages = await _list_pages(lambda cursor: client.list_prompts(cursor=cursor))
        return [
            PromptOffer(
                name=one.name,
                about=_describe_offer(one.title or "", one.description),
                arguments=tuple(argument.name for argument in one.arguments or ()),
                required=frozenset(
                    argument.name for argument in one.arguments or () if argument.required
                ),
            )
            for page in pages
            for one in page.prompts
        ]

    return tuple((await link.ask(list_page, what="to list its prompts"))[:LISTED_LIMIT])


async def read_resource(link: ServerConnection, uri: str, *, keeping: ContentStore) -> Output:
    """Return the content of a resource. Raise ServerFault if the server fails."""
    result = await link.ask(
        lambda client: client.read_resource(uri, cache_mode="refresh"), what=f"to read {uri}"
    )
    blocks: list[ContentBlock] = [
        EmbeddedResource(type="resource", resource=one) for one in result.contents
    ]
    return convert_result(CallToolResult(content=blocks), keeping)


async def run_prompt(
    link: ServerConnection, name: str, *, arguments: Mapping[str, str], keeping: ContentStore
) -> Output:
    """Return the messages that the server makes of a prompt, in order.

    Raise ServerFault if the server fails."""
    result = await link.ask(
        lambda client: client.get_prompt(name, dict(arguments)), what=f"to give the prompt {name}"
    )
    return convert_result(CallToolResult(content=_join_messages(result)), keeping)


def _join_messages(result: GetPromptResult) -> list[ContentBlock]:
    """Return the content of the messages, with their roles if not all are from the user."""
    blocks: list[ContentBlock] = []
    is_alone = all(message.role == "user" for message in result.messages)
    for message in result.messages:
        if not is_alone:
            blocks.append(TextContent(type="text", text=f"[{message.role}]"))
        blocks.append(message.content)
    return blocks


async def _list_pages(ask: Callable[[str | None], Awaitable[P]]) -> Sequence[P]:
    pages: list[P] = []
    cursor: str | None = None
    try:
        for _ in range(PAGES_LIMIT):
            page = await ask(cursor)
            pages.append(page)
            if page.next_cursor is None or page.next_cursor == cursor:
                break
            cursor = page.next_cursor
    except MCPError as error:
        if error.code != METHOD_NOT_FOUND:
            raise
    return pages


def _describe_offer(title: str, description: str | None) -> str:
    return " ".join(show_controls(f"{title} {description or ''}").split())[:ABOUT_CHARS]


# The tool with which a model lists and reads the resources of a server


class ResourceTool(ServerTool):
    """Needs no review: its description is ours, and what it reads is data."""

    def parse(self, raw: Json) -> ForeignCall:
        call = super().parse(raw)
        if not isinstance(call.arguments.get("uri", ""), str):
            raise ToolError("Invalid input: uri must be a string.", kind=ErrorKind.INVALID_INPUT)
        return call

    async def answer(self, args: ForeignCall, context: ToolContext) -> Output:
        if uri := args.arguments.get("uri"):
            return await read_resource(self.link, uri, keeping=self.keeping)
        offers = await list_resources(self.link)
        listed = "\n".join(f"{one.uri}  {one.about}".rstrip() for one in offers)
        text = TextContent(type="text", text=listed or "The server lists no resources.")
        return convert_result(CallToolResult(content=[text]), self.keeping)
