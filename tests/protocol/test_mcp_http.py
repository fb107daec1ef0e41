import asyncio
import os
import socket
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

import pytest

from agentcli.mcp.entries import ServerEntry
from agentcli.mcp.link import Link, ServerFault
from agentcli.mcp.remote import RemoteServer
from tests.support.files import ignore
from tests.support.mcp_links import MODERN
from tests.support.mcp_servers.web import web
from tests.support.processes import until

T = TypeVar("T")


def linked(url: str, scenario: Callable[[Link], Awaitable[T]], **entry: Any) -> T:
    server = ServerEntry(name="web", url=url, **entry)

    async def use() -> T:
        remote = RemoteServer(server)
        link = Link(
            server,
            open_transport=remote.transport,
            last_words=remote.last_words,
            workspace=Path.cwd(),
        )
        try:
            return await scenario(link)
        finally:
            await link.close()

    return asyncio.run(use())


async def called(link: Link) -> tuple[list[str], str, int]:
    tools = list(await link.tools())
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

        async def scenario(link: Link) -> int:
            await called(link)
            server.expire()
            return (await called(link))[2]

        assert (linked(server.url, scenario), server.sessions) == (5, 2)


@pytest.mark.parametrize(
    ("mode", "told"),
    [
        ("locked", "HTTP status 401: it wants to know who you are"),
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


async def until_heard(link: Link) -> None:
    """A change is told on a stream of its own, so it may come after the answer."""
    async with asyncio.timeout(20):
        for _ in count():
            if "grown" in await link.tools():
                return
            await asyncio.sleep(0.01)


@contextmanager
def newer_server() -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    process = subprocess.Popen(
        [sys.executable, str(MODERN), "http", str(port)],
        env={**os.environ, "PYTHONWARNINGS": "ignore"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )

    def is_up() -> bool:
        assert process.poll() is None
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", port)) == 0

    try:
        asyncio.run(until(is_up))
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        process.kill()
        process.wait()


def test_newer_server_is_called_and_its_changes_are_heard() -> None:
    async def scenario(link: Link) -> tuple[str, list[str], list[str]]:
        before = list(await link.tools())
        await link.call("grow", {}, show=ignore)
        await until_heard(link)
        return link.protocol, before, list(await link.tools())

    with newer_server() as url:
        assert linked(url, scenario) == ("2026-07-28", ["add", "grow"], ["add", "grow", "grown"])
