"""Files that are open in an editor: tools read their unsaved text, and give it what they write.

The disk stays the truth of everything else: commands, searches and undo see what is saved. A tool
that reads or changes a file asks the editor first. If the editor has a text that is not saved, the
tool works on it, and the result is written to the disk and to the editor.
"""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from agentcli.system.files import read_regular
from agentcli.system.text import choose_majority_ending, set_line_ending
from agentcli.system.workspace import UnsavedText
from agentcli.types.errors import ToolError
from agentcli.types.own_tools import EDITING, list_paths
from agentcli.types.tools import Details, Effect, Output, Tool, ToolContext, WrappedTool

if TYPE_CHECKING:
    from agentcli.system.workspace import Workspace

WORKING = EDITING | {"read_file"}
"""The tools that ask the editor for the files they name."""
LIMIT_BYTES = 10 * 1024 * 1024


class EditorFiles(Protocol):
    """The files of an editor. It answers in time, or as if it did not know the file."""

    async def read(self, path: Path) -> str | None:
        """Return the text that the editor has; None if it does not have the file."""

    async def write(self, path: Path, text: str) -> None:
        """Let the editor show and save a text. Must not raise."""


class UnsavedFiles:
    def __init__(self, editor: EditorFiles) -> None:
        self._editor = editor
        self._texts: dict[Path, UnsavedText] = {}

    def find(self, path: Path) -> UnsavedText | None:
        """Return the unsaved text of a file, as the last call that named it has found it."""
        return self._texts.get(path)

    def wrap_tool(self, tool: Tool, workspace: "Workspace") -> Tool:
        """Return a tool that asks the editor for the files it names, if it is one of files."""
        return _EditorTool(tool, self, workspace=workspace) if tool.spec.name in WORKING else tool

    async def refresh(self, paths: Sequence[Path]) -> None:
        """Ask the editor for these files, and keep what differs from the disk."""
        for path in paths:
            self._texts.pop(path, None)
            disk = await asyncio.to_thread(_read_text, path)
            text = None if disk is None else await self._editor.read(path)
            if disk is not None and text is not None and (fitted := _fit(text, disk)) != disk:
                self._texts[path] = UnsavedText(text=fitted, disk=disk)

    async def give_back(self, paths: Sequence[Path]) -> None:
        """Let the editor have what a tool has written."""
        for path in paths:
            self._texts.pop(path, None)
            data = await asyncio.to_thread(_read_text, path)
            if data is not None:
                await self._editor.write(path, data.decode())


def _read_text(path: Path) -> bytes | None:
    """Return a text file; None if it is missing, too large or not UTF-8."""
    try:
        if path.stat().st_size > LIMIT_BYTES or not path.is_file():
            return None
        data = read_regular(path)
        data.decode()
    except (OSError, UnicodeDecodeError):
        return None
    return data


def _fit(text: str, disk: bytes) -> bytes:
    """Return the editor's text with the line endings and the mark that the file has."""
    written = disk.decode()
    plain = text.removeprefix("\ufeff").replace("\r\n", "\n")
    if plain == written.removeprefix("\ufeff").replace("\r\n", "\n"):
        return disk
    mark = "\ufeff" if written.startswith("\ufeff") else ""
    return (mark + set_line_ending(plain, choose_majority_ending(written))).encode()


class _EditorTool(WrappedTool):
    """A tool that reads or changes files, with the editor asked before and told afterwards."""

    def __init__(self, tool: Tool, files: UnsavedFiles, *, workspace: "Workspace") -> None:
        super().__init__(tool, tool.spec)
        self._files = files
        self._workspace = workspace
        self.preview = self._refresh_and_preview

    async def _refresh_and_preview(self, args: Any, context: ToolContext) -> Details | None:
        await self._files.refresh(self._locate(args))
        return await self._tool.preview(args, context)

    async def run(self, args: Any, context: ToolContext) -> Output:
        paths = self._locate(args)
        await self._files.refresh(paths)
        output = await self._tool.run(args, context)
        if output.error is None and self.effect(args) is not Effect.READ:
            await self._files.give_back(paths)
        return output

    def _locate(self, args: Any) -> list[Path]:
        names = list_paths(args)
        try:
            return [self._workspace.locate(name).path for name in names]
        except ToolError:
            return []  # the tool will refuse the call for the same reason
