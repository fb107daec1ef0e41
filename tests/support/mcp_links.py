"""Links to servers that are scripts of ours, started without a sandbox."""

import secrets
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

from agentcli.machine import process
from agentcli.machine.environment import child_environment
from agentcli.mcp.content import Keeping
from agentcli.mcp.entries import ServerEntry
from agentcli.mcp.link import Link
from agentcli.mcp.local import LocalServer
from agentcli.mcp.stdio import Handles, Started
from agentcli.mcp.tool import ServerTool
from agentcli.types.tools import Output, ToolContext

T = TypeVar("T")


class Unfiltered:
    def feed(self, chunk: bytes) -> bytes:
        return chunk

    def close(self) -> bytes:
        return b""


NASTY = Path(__file__).with_name("mcp_servers") / "nasty.py"
MODERN = NASTY.with_name("modern.py")


class Nasty:
    """One misbehaving server, and what was heard of it."""

    def __init__(
        self, mode: str, directory: Path, *more: str, script: Path = NASTY, **entry: Any
    ) -> None:
        self.directory = directory
        self.entry = ServerEntry(
            name="nasty", command=sys.executable, args=(str(script), mode, *more), **entry
        )
        self.asked: list[str] = []
        self.lists: list[list[str]] = []
        self.shown: list[str] = []
        self.local = LocalServer(self._launch, log_path=directory / "nasty.log", clean=Unfiltered)
        self.link = Link(
            self.entry,
            open_transport=self.local.transport,
            workspace=directory,
            last_words=self.local.last_words,
            is_lost=self.local.is_lost,
            on_listed=lambda tools: self.lists.append(list(tools)),
            on_question=self.asked.append,
        )

    async def use(self, scenario: "Callable[[Nasty], Awaitable[T]]") -> T:
        try:
            return await scenario(self)
        finally:
            await self.link.close()

    async def call(self, name: str = "echo", **arguments: Any) -> Output:
        """Through the tool, as dispatch would."""
        tool = await self.tool(name)
        return await tool.run(tool.parse(arguments), self.context)

    @property
    def context(self) -> ToolContext:
        return ToolContext(call_id="c", workspace=self.directory, progress=self.shown.append)

    async def tool(self, name: str) -> ServerTool:
        keeping = Keeping(directory=self.directory, takes_images=lambda: True)
        return ServerTool((await self.link.tools())[name], self.link, keeping=keeping)

    def _launch(self, handles: Handles) -> Started:
        mark = f"agentcli-{secrets.token_hex(8)}"
        child = process.start(
            [self.entry.command, *self.entry.args],
            cwd=self.directory,
            env=child_environment({"PATH": "/usr/bin:/bin"}, mark=mark),
            stdin=handles.stdin,
            stdout=handles.stdout,
            stderr=handles.stderr,
        )
        return Started(process=child, mark=mark, finish=tuple)
