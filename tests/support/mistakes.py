"""A small project, and the tools as a session has them: to make mistakes with."""

import asyncio
import os
from functools import partial
from pathlib import Path
from typing import Any

from agentcli.agent.dispatch import Dispatcher
from agentcli.agent.limits import Breaker, Pace
from agentcli.agent.toolset import Toolset
from agentcli.system.process_table import ProcessTable
from agentcli.system.workspace import Workspace
from agentcli.tools.apply_patch import ApplyPatch
from agentcli.tools.bash import Bash
from agentcli.tools.edit_file import EditFile
from agentcli.tools.find_files import FindFiles
from agentcli.tools.grep import Grep
from agentcli.tools.read_file import ReadFile
from agentcli.tools.seen import Seen
from agentcli.tools.write_file import WriteFile
from agentcli.types.events import CallFinished, Event, Fact
from agentcli.types.messages import Json, ToolCall
from agentcli.types.tools import Tool
from tests.support.bash import shells_in
from tests.support.files import REPLIED
from tests.support.searching import ENGINES
from tests.support.session import allow

CODE = """import os


class Parser:
    def parse(self, text):
        result = []
        for line in text.splitlines():
            result.append(line.strip())
        return result

    def load(self, path):
        return self.parse(open(path).read())
"""


def plant_project(root: Path) -> None:
    (root / "src/app").mkdir(parents=True)
    (root / "tests").mkdir()
    (root / "src/app/parser.py").write_text(CODE)
    (root / "src/app/__init__.py").write_text("")
    (root / "tests/test_parser.py").write_text("def test_nothing():\n    assert True\n" * 2)
    (root / "README.md").write_text("# Title\n\nSome “quoted” text — with dashes…\n")
    (root / "long.txt").write_text("".join(f"row {number}\n" for number in range(1, 3001)))
    (root / "wide.json").write_text('{"a": "' + "x" * 9000 + '"}')
    (root / "logo.png").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(40))
    (root / "data.bin").write_bytes(bytes(range(256)) * 8)
    (root / "manual.pdf").write_bytes(b"%PDF-1.4\n" + bytes(range(200)))
    (root / "crlf.txt").write_bytes(b"one\r\ntwo\r\nthree\r\n")
    (root / "latin.txt").write_bytes("café\n".encode("latin-1"))
    (root / "empty.txt").write_text("")
    (root / "readonly.txt").write_text("kept\n")
    (root / "readonly.txt").chmod(0o444)
    (root / "dead").symlink_to("nowhere")
    (root / ".gitignore").write_text("ignored/\n")
    (root / "ignored").mkdir()
    (root / "ignored/secret_word.txt").write_text("needle\n")
    (root / ".git").mkdir()
    (root / ".git/config").write_text("[core]\n")
    (root / "a b").mkdir()
    (root / "a b/c d.txt").write_text("spaced\n")
    (root / "a.zip").write_bytes(b"PK\x03\x04" + bytes(40))
    (root / "a.sqlite").write_bytes(b"SQLite format 3\0" + bytes(40))
    (root / "tool.sh").write_text("echo hello\n")
    for name, first in {"windows.sh": "#!/bin/sh\r", "lost.py": "#!/usr/bin/python0"}.items():
        (root / name).write_text(f"{first}\nexit\n")
        (root / name).chmod(0o755)
    os.mkfifo(root / "pipe")


class Table:
    """The tools of one session, whose calls are dispatched as those of a model."""

    def __init__(self, root: Path, out: Path) -> None:
        self.facts: list[Fact] = []
        self._processes = ProcessTable()
        self._shells = shells_in(out, self._processes)
        workspace = Workspace(root, readable=(out,))
        seen = Seen(self.facts, locate=lambda path: workspace.locate(path).path)
        tools: list[Tool] = [
            ReadFile(workspace=workspace, images=lambda: False),
            WriteFile(workspace=workspace, seen=seen),
            EditFile(workspace=workspace, seen=seen),
            Grep(workspace=workspace, engine=ENGINES[0]),
            FindFiles(workspace=workspace, engine=ENGINES[0]),
            Bash(workspace=root, shells=self._shells, processes=self._processes),
            ApplyPatch(workspace=workspace, seen=seen),
        ]
        self._dispatcher = Dispatcher(
            toolset=Toolset((tool.spec, partial(_itself, tool)) for tool in tools),
            judge=allow,
            emit=self._keep,
            workspace=root,
            breaker=Breaker(),
            pace=Pace(10_000),
        )

    async def call(self, name: str, arguments: Json) -> str:
        call = ToolCall(id=f"c{len(self.facts)}", name=name, input=arguments)
        result = await self._dispatcher.dispatch(call)
        self.facts.append(REPLIED)
        return result.text

    async def close(self) -> None:
        self._shells.close()
        await self._processes.close()

    def _keep(self, event: Event) -> None:
        if isinstance(event, CallFinished):
            self.facts.append(event)


def _itself(tool: Tool) -> Tool:
    return tool


def answer_to(base: Path, *calls: tuple[str, Any]) -> str:
    """Return what the model gets for the last of these calls."""
    root, out = base / "project", base / "out"
    root.mkdir()
    out.mkdir()
    plant_project(root)

    async def scenario() -> str:
        table = Table(root, out)
        try:
            return [await table.call(name, arguments) for name, arguments in calls][-1]
        finally:
            await table.close()

    return asyncio.run(scenario())
