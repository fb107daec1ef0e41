"""What servers have besides tools, listed while somebody types: soon, or not at all.

A server is started for it only once its name and a colon stand there.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias, TypeVar

if TYPE_CHECKING:
    from agentcli.app.servers import Servers
    from agentcli.mcp.library import PromptOffer, ResourceOffer

WAIT_S = 10.0
AGAIN_AFTER_S = 30.0

Item = TypeVar("Item")
PendingLists: TypeAlias = "dict[str, asyncio.Task[Sequence[Item]]]"


class ServerMenu:
    def __init__(self, servers: "Servers") -> None:
        self._servers = servers
        self._resources: PendingLists[ResourceOffer] = {}
        self._prompts: PendingLists[PromptOffer] = {}

    @property
    def names(self) -> list[str]:
        return [entry.name for entry in self._servers.entries]

    async def list_resources(self, server: str) -> "Sequence[ResourceOffer]":
        from agentcli.mcp import library

        if (entry := self._servers.find_entry(server)) is None:
            return ()
        link = self._servers.connect(entry)
        return await _list_with_timeout(
            self._resources, server, lambda: library.list_resources(link)
        )

    async def list_prompts(self, server: str) -> "Sequence[PromptOffer]":
        from agentcli.mcp import library

        if (entry := self._servers.find_entry(server)) is None:
            return ()
        link = self._servers.connect(entry)
        return await _list_with_timeout(self._prompts, server, lambda: library.list_prompts(link))


async def _list_with_timeout(
    lists: "PendingLists[Item]", server: str, ask: Callable[[], Awaitable[Sequence[Item]]]
) -> Sequence[Item]:
    """What takes longer is there at the next key; what failed is asked again after a while."""
    if server not in lists:
        lists[server] = asyncio.ensure_future(_list_or_nothing(ask))
    task = lists[server]
    await asyncio.wait((task,), timeout=WAIT_S)
    if not task.done():
        return ()
    if not task.result():
        asyncio.get_running_loop().call_later(AGAIN_AFTER_S, lists.pop, server, None)
    return task.result()


async def _list_or_nothing(ask: Callable[[], Awaitable[Sequence[Item]]]) -> Sequence[Item]:
    from agentcli.mcp.faults import ServerFault

    try:
        return await ask()
    except ServerFault:
        return ()
