"""Links to servers that are scripts of ours, started without a sandbox."""

import asyncio
import os
import secrets
import socket
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from agentcli.features.mcp.approvals import OfferedTool
from agentcli.features.mcp.connection import ServerConnection
from agentcli.features.mcp.entries import ServerEntry
from agentcli.features.mcp.host import Sample
from agentcli.features.mcp.server_pool import LocalMcpServer
from agentcli.features.mcp.stdio import Handles, StartedServer
from agentcli.features.mcp.tool import ContentStore, ServerTool
from agentcli.system import process
from agentcli.system.environment import build_child_environment
from agentcli.types.forms import FormAnswer, ServerForm
from agentcli.types.tools import Output, ToolContext
from tests.support.processes import until
from tests.support.program import write_script_command

T = TypeVar("T")


class Unfiltered:
    def feed(self, chunk: bytes) -> bytes:
        return chunk

    def close(self) -> bytes:
        return b""


NASTY = Path(__file__).with_name("mcp_servers") / "nasty.py"
MODERN = NASTY.with_name("modern.py")
MEMBERS = NASTY.with_name("members.py")
ASKING = NASTY.with_name("asking.py")
SHELF = NASTY.with_name("shelf.py")


def describe_asking_server(**entry: Any) -> dict[str, Any]:
    """Return the entry of a server that asks back. It runs without a sandbox, so it is forked."""
    command, *args = write_script_command(ASKING)
    return {"command": command, "args": args, "sandbox": False, **entry}


@contextmanager
def served(script: Path, *arguments: str) -> Iterator[str]:
    """The address of a server in a process of its own, which takes its port as last argument."""
    with socket.socket() as reserved:
        # Bound, so that nobody else gets the port, and not listening, so that the server can.
        reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        reserved.bind(("127.0.0.1", 0))
        port = reserved.getsockname()[1]
        process = subprocess.Popen(
            [sys.executable, str(script), *arguments, str(port)],
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


class Nasty:
    """One misbehaving server, and what was heard of it."""

    def __init__(
        self,
        mode: str,
        directory: Path,
        *more: str,
        script: Path = NASTY,
        sample: Sample | None = None,
        **entry: Any,
    ) -> None:
        self.directory = directory
        self.entry = ServerEntry(
            name="nasty", command=sys.executable, args=(str(script), mode, *more), **entry
        )
        self.asked: list[ServerForm] = []
        self.answer = FormAnswer(action="decline")
        self.accepted: Mapping[str, OfferedTool] = {}
        self.shown: list[str] = []
        self.local = LocalMcpServer(
            self._launch, log_path=directory / "nasty.log", clean=Unfiltered
        )
        self.link = ServerConnection(
            self.entry,
            open_transport=self.local.open_transport,
            workspace=directory,
            witness=self.local.witness,
            fill_in=self.fill_in,
            sample=sample,
        )

    async def fill_in(self, form: ServerForm) -> FormAnswer:
        self.asked.append(form)
        return self.answer

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
        keeping = ContentStore(directory=self.directory, takes_images=lambda: True)
        offered = (await self.link.list_tools())[name]
        return ServerTool(offered, self.link, keeping=keeping, review=self._reviewed)

    async def _reviewed(self, now: Mapping[str, OfferedTool]) -> Mapping[str, OfferedTool]:
        return self.accepted

    async def _launch(self, handles: Handles) -> StartedServer:
        mark = f"agentcli-{secrets.token_hex(8)}"
        child = process.start(
            [self.entry.command, *self.entry.args],
            cwd=self.directory,
            env=build_child_environment({"PATH": "/usr/bin:/bin"}, tag=mark),
            stdin=handles.stdin,
            stdout=handles.stdout,
            stderr=handles.stderr,
        )
        return StartedServer(process=child, tag=mark, finish=tuple)
