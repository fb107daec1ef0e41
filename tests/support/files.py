"""The file tools on a real directory, called as dispatch calls them."""

import asyncio
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentcli.system.workspace import Workspace
from agentcli.tools.edit_file import EditFile
from agentcli.tools.read_file import ReadFile
from agentcli.tools.seen import Seen
from agentcli.tools.write_file import WriteFile
from agentcli.types.errors import ToolError
from agentcli.types.events import CallFinished, Fact, ModelReplied
from agentcli.types.messages import AssistantMessage
from agentcli.types.sandbox import TemporaryFiles
from agentcli.types.tools import Details, Output, Tool, ToolContext, ToolResult

REPLIED = ModelReplied(
    message=AssistantMessage(content=(), stop="end", protocol="test", model="test")
)
IS_ROOT = hasattr(os, "geteuid") and os.geteuid() == 0


def ignore(text: str) -> None:
    """Where progress goes that nobody watches."""


@dataclass(frozen=True)
class Bench:
    """The three file tools of one session."""

    root: Path
    facts: list[Fact]
    """Of a conversation in which each call is a reply of its own."""
    read_file: ReadFile
    write_file: WriteFile
    edit_file: EditFile

    @property
    def context(self) -> ToolContext:
        return ToolContext(call_id="1", workspace=self.root, progress=ignore)

    def read(self, path: str, **arguments: Any) -> Output:
        return self._run(self.read_file, path=path, **arguments)

    def write(self, path: str, content: str) -> Output:
        return self._run(self.write_file, path=path, content=content)

    def edit(self, path: str, old: str, new: str, **arguments: Any) -> Output:
        return self._run(self.edit_file, path=path, old_text=old, new_text=new, **arguments)

    def edit_lines(self, path: str, lines: Any, new: str) -> Output:
        return self._run(self.edit_file, path=path, lines=lines, new_text=new)

    def preview(self, tool: Tool, **arguments: Any) -> Details | None:
        return asyncio.run(tool.preview(tool.parse(arguments), self.context))

    def _run(self, tool: Tool, **arguments: Any) -> Output:
        output = asyncio.run(tool.run(tool.parse(arguments), self.context))
        self.facts.extend(make_facts(tool, output))
        return output


def make_facts(tool: Tool, output: Output) -> tuple[Fact, Fact]:
    """Return what a conversation says of a call whose result the model has got."""
    result = ToolResult(
        call_id="1",
        name=tool.spec.name,
        status="error" if output.error else "ok",
        content=output.content,
        details=output.details,
    )
    return CallFinished(result=result), REPLIED


def bench(
    root: Path,
    *,
    images: bool = True,
    documents: bool = False,
    readable: tuple[Path, ...] = (),
    temporary: TemporaryFiles | None = None,
) -> Bench:
    workspace = Workspace(root, readable=readable, find_temporary=lambda: temporary)
    facts = list[Fact]()
    seen = Seen(facts, locate=lambda path: workspace.locate(path).path)
    return Bench(
        root=root,
        facts=facts,
        read_file=ReadFile(workspace=workspace, images=lambda: images, documents=lambda: documents),
        write_file=WriteFile(workspace=workspace, seen=seen),
        edit_file=EditFile(workspace=workspace, seen=seen),
    )


def text_of(output: Output) -> str:
    (block,) = output.content
    assert block.type == "text"
    return block.text


def refusal(call: Any, *arguments: Any, **named: Any) -> str:
    """What a call is refused with."""
    try:
        call(*arguments, **named)
    except ToolError as error:
        return str(error)
    raise AssertionError("it was not refused")


def tree(root: Path) -> dict[str, bytes | str]:
    """Every file's bytes and every link's target, by its path: to see that nothing changed."""
    return {
        str(path.relative_to(root)): str(path.readlink())
        if path.is_symlink()
        else path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_symlink() or path.is_file()
    }
