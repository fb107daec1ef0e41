import asyncio
import socket
from collections.abc import Awaitable, Callable
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

import pytest

from agentcli.features.mcp.connection import ServerConnection
from agentcli.features.mcp.entries import ServerEntry
from agentcli.features.mcp.faults import ServerFault
from agentcli.features.mcp.server_pool import RemoteServer
from tests.support.files import ignore
from tests.support.mcp_links import MODERN, served
from tests.support.mcp_servers.web import web

T = TypeVar("T")


def linked(url: str, scenario: Callable[[ServerConnection], Awaitable[T]], **entry: Any) -> T:
    server = ServerEntry(name="web", url=url, **entry)

    async def use() -> T:
        remote = RemoteServer(server)
        link = ServerConnection(
            server,
            open_transport=remote.open_transport,
            witness=remote.witness,
            workspace=Path.cwd(),
        )
        try:
            return await scenario(link)
        finally:
            await link.close()

    return asyncio.run(use())


async def called(link: ServerConnection) -> tuple[list[str], str, int]:
    tools = list(await link.list_tools())
    result = await link.call("echo", {}, show=ignore)
    (block,) = result.content
    assert block.type == "text"
    return tools, link.protocol, len(block.text)


def test_older_server_is_called_with_the_headers_of_the_person() -> None:
    with web() as server:
        found = linked(server.url, called, headers=(("Authorization", "Bearer x"),))
        assert found == (["echo"], "2025-11-25", 5)
        assert set(server.headers) == {"Bearer x"}


def test_large_event_is_taken() -> None:
    with web("large") as server:
        assert linked(server.url, called)[2] == 5_000_000


def test_forgotten_session_is_opened_again() -> None:
    with web() as server:

        async def scenario(link: ServerConnection) -> int:
            await called(link)
            server.expire()
            return (await called(link))[2]

        assert (linked(server.url, scenario), server.sessions) == (5, 2)


@pytest.mark.parametrize(
    ("mode", "told"),
    [
        ("locked", "The MCP server web needs you to log in: agentcli mcp login web"),
        ("page", "Unexpected content type: text/html"),
    ],
)
def test_server_that_refuses_is_explained(mode: str, told: str) -> None:
    with web(mode) as server, pytest.raises(ServerFault, match=told):
        linked(server.url, called)


def test_address_where_nobody_listens_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        url = f"http://127.0.0.1:{free.getsockname()[1]}/mcp"
    with pytest.raises(ServerFault, match=f"The MCP server web cannot be reached at {url}"):
        linked(url, called)


async def until_heard(link: ServerConnection) -> None:
    """A change is told on a stream of its own, so it may come after the answer."""
    async with asyncio.timeout(20):
        for _ in count():
            if "grown" in await link.list_tools():
                return
            await asyncio.sleep(0.01)


def test_newer_server_is_called_and_its_changes_are_heard() -> None:
    async def scenario(link: ServerConnection) -> tuple[str, list[str], list[str]]:
        before = list(await link.list_tools())
        await link.call("grow", {}, show=ignore)
        await until_heard(link)
        return link.protocol, before, list(await link.list_tools())

    with served(MODERN, "http") as url:
        assert linked(url, scenario) == ("2026-07-28", ["add", "grow"], ["add", "grow", "grown"])
