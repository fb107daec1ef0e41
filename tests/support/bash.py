"""A session that runs commands: the real tool, real processes, and an end to all of them."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from agentcli.system.environment import build_child_environment
from agentcli.system.process_table import ProcessTable
from agentcli.tools.bash import Bash, BashArgs
from agentcli.tools.shells import ShellPool
from agentcli.tools.terminals import Terminals
from agentcli.tools.write_stdin import WriteStdin
from agentcli.types.grants import Grants
from agentcli.types.messages import Text
from agentcli.types.sandbox import HostLeases, Sandbox
from agentcli.types.tools import Command, Output, ToolContext, WorkingDirectory

T = TypeVar("T")


@dataclass
class Session:
    tool: Bash
    shells: ShellPool
    ledger: ProcessTable
    workspace: Path
    out_dir: Path
    directory: WorkingDirectory
    terminals: Terminals
    told: list[str] = field(default_factory=list)

    async def run(
        self,
        command: str,
        *,
        timeout: int = 60,
        background: bool = False,
        terminal: bool = False,
        grants: Grants | None = None,
    ) -> Output:
        """`grants` are the whole network and the directory above the workspace if None."""
        args = BashArgs(command=command, timeout=timeout, background=background, terminal=terminal)
        context = ToolContext(
            call_id="c",
            workspace=self.workspace,
            progress=self.told.append,
            grants=grants or Grants(network=True, writable=(self.workspace.parent,)),
        )
        return await self.tool.run(args, context)

    async def send(self, terminal: int, text: str = "", *, timeout: int = 30) -> Output:
        """Send input to a terminal."""
        tool = WriteStdin(self.terminals)
        context = ToolContext(call_id="i", workspace=self.workspace, progress=self.told.append)
        args = tool.parse({"terminal": terminal, "input": text, "timeout": timeout})
        return await tool.run(args, context)


def shells_in(
    out_dir: Path,
    ledger: ProcessTable,
    sandbox: Sandbox | None = None,
    leases: HostLeases | None = None,
) -> ShellPool:
    return ShellPool(
        leases=leases,
        directory=out_dir,
        sandbox=sandbox,
        new_tag=ledger.create_tag,
        environment=lambda mark, _: build_child_environment(os.environ, tag=mark),
    )


def in_session(
    home: Path,
    scenario: Callable[[Session], Awaitable[T]],
    sandbox: Sandbox | None = None,
    *,
    out: Path | None = None,
    leases: HostLeases | None = None,
) -> T:
    """`out` is for a real sandbox: a directory that its commands can read."""
    out_dir = out or home / "out"

    async def main() -> T:
        ledger = ProcessTable()
        shells = shells_in(out_dir, ledger, sandbox, leases)
        directory, terminals = WorkingDirectory(workspace), Terminals()
        tool = Bash(
            workspace=workspace,
            shells=shells,
            processes=ledger,
            terminals=terminals,
            directory=directory,
        )
        try:
            return await scenario(
                Session(tool, shells, ledger, workspace, out_dir, directory, terminals)
            )
        finally:
            shells.close()
            await ledger.close()

    workspace = home / "workspace"
    workspace.mkdir(exist_ok=True)
    return asyncio.run(main())


def ran(home: Path, *commands: str, timeout: int = 60) -> Output:
    async def scenario(session: Session) -> Output:
        outputs = [await session.run(command, timeout=timeout) for command in commands]
        return outputs[-1]

    return in_session(home, scenario)


def text(output: Output) -> str:
    (block,) = output.content
    assert isinstance(block, Text)
    return block.text


def details(output: Output) -> Command:
    assert isinstance(output.details, Command)
    return output.details


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())
