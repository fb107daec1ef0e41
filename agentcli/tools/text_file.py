"""Changing one text file: plan it, write it under the file's lock, and record it as known."""

import asyncio
import os
import re
from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

from agentcli.system.notebook import LIMIT_BYTES as NOTEBOOK_BYTES
from agentcli.system.notebook import (
    NotNotebook,
    is_notebook_name,
    rewrite_notebook,
    show_notebook,
)
from agentcli.system.process import run_to_completion
from agentcli.system.text import STRAY_SHOWN, UTF8, Encoding, NotText, decode
from agentcli.system.workspace import Workspace, WorkspacePath
from agentcli.tools.seen import Seen, compute_sha256
from agentcli.types.errors import ToolError
from agentcli.types.fast_dataclass import dataclass
from agentcli.types.tools import Diff, KnownFile, LineRanges, Output

_PLACEHOLDER = re.compile(
    r"^[ \t]*(?:#|//|/\*|<!--|--|;|%)(?=[^\n]*(?:\.\.\.|…))[^\n]*"
    r"\b(?:rest of|existing|remaining|unchanged|as before|the same|omitted)\b[^\n]*$",
    re.MULTILINE | re.IGNORECASE,
)
"""A comment with an ellipsis that stands for lines: `# ... rest of the file unchanged ...`."""


def find_placeholder(new: str, *, old: str) -> str:
    """Return a line of a new text that stands for lines it leaves out, if the old text lacks it."""
    lines = (found[0].strip() for found in _PLACEHOLDER.finditer(new))
    return next((line for line in lines if line not in old), "")


@dataclass(frozen=True, slots=True, kw_only=True)
class FileRewrite:
    """The planned effect of a call, before anything is written."""

    before: bytes | None
    """The content before; None if there is no such file yet."""
    after: bytes
    summary: str
    """The message for the model, once it is done."""
    diff: Diff
    lines: LineRanges
    """The lines that the model knows whole afterwards."""


PlanRewrite: TypeAlias = Callable[[WorkspacePath], FileRewrite]
"""Reads and decides, in its own thread. Raises ToolError if nothing can be done."""


async def preview_rewrite(path: str, plan_rewrite: PlanRewrite, *, workspace: Workspace) -> Diff:
    """Return the diff; raise ToolError if the change would be refused."""
    return (await asyncio.to_thread(plan_rewrite, workspace.locate(path))).diff


async def rewrite_file(
    path: str, plan_rewrite: PlanRewrite, *, workspace: Workspace, seen: Seen
) -> Output:
    located = workspace.locate(path)

    def apply() -> tuple[FileRewrite, tuple[str, ...]]:
        rewrite = plan_rewrite(located)
        if rewrite.before == rewrite.after:
            return rewrite, ()
        return rewrite, workspace.replace(located, rewrite.after, expected=rewrite.before).notes

    async with seen.lock(located.path):
        # A cancelled call must not finish later, alongside another edit.
        rewrite, notes = await run_to_completion(asyncio.to_thread(apply))
    summary = "\n".join((rewrite.summary, *map("[{}]".format, notes)))
    digest = compute_sha256(rewrite.after)
    known = KnownFile(path=located.given, sha256=digest, lines=rewrite.lines)
    notes += rewrite.diff.notes
    details = replace(
        rewrite.diff,
        notes=notes,
        sha256=digest,
        known=(known,),
        is_unchanged=rewrite.before == rewrite.after,
        is_temporary=located.is_temporary,
    )
    return Output.of(summary, details=details)


# A whole text file, within the size that tools load into memory.


LIMIT_BYTES = 10 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class TextFile:
    data: bytes
    text: str
    """For a notebook, its cells."""
    encoding: Encoding
    is_notebook: bool = False

    def encode(self, text: str, *, path: WorkspacePath) -> bytes:
        """Return the bytes of a new text for this file. Raise ToolError if there are none."""
        if self.encoding.has_strays and text.count(STRAY_SHOWN) > self.text.count(STRAY_SHOWN):
            raise ToolError(
                f"Not written: {STRAY_SHOWN} stands for bytes of {path.given} that are not UTF-8, "
                "and they would be lost. Leave them out of what you replace, or change them with "
                "bash."
            )
        if not self.is_notebook or text.lstrip().startswith("{"):
            return encode_text(text, encoding=self.encoding, path=path)
        try:
            return rewrite_notebook(self.data, text)
        except NotNotebook as error:
            raise ToolError(f"Not written: {path.given} {error}.") from None


def load_text(workspace: Workspace, path: WorkspacePath) -> TextFile:
    """Load a text file, a notebook as its cells.

    Raise ToolError if it is absent, binary or too large."""
    is_notebook = is_notebook_name(path.given)
    with os.fdopen(workspace.open_file(path), "rb") as file:
        data = file.read((NOTEBOOK_BYTES if is_notebook else LIMIT_BYTES) + 1)
    if is_notebook and (found := _load_notebook(data, path)):
        return found
    if len(data) > LIMIT_BYTES:
        raise ToolError(
            f"{path.given} is larger than 10 MB, too large to change as text. Use sed in bash."
        )
    try:
        text, encoding = decode(data)
    except NotText as reason:
        raise ToolError(f"{path.given} is binary: {reason}. Change it with bash.") from None
    return TextFile(data=data, text=text, encoding=encoding)


def _load_notebook(data: bytes, path: WorkspacePath) -> TextFile | None:
    """Return the cells of a notebook; None if it is to be changed as text, since it is none."""
    try:
        text = show_notebook(data)
    except NotNotebook as error:
        if len(data) > LIMIT_BYTES:
            raise ToolError(f"{path.given} {error}.") from None
        return None
    return TextFile(data=data, text=text, encoding=UTF8, is_notebook=True)


def encode_text(text: str, *, encoding: Encoding = UTF8, path: WorkspacePath) -> bytes:
    try:
        data = encoding.encode(text)
    except UnicodeEncodeError as error:
        char = error.object[error.start].encode("utf-8", "backslashreplace").decode()
        raise ToolError(
            f'{path.given} is {encoding.name}, and "{char}" cannot be written in it.'
        ) from None
    if len(data) > LIMIT_BYTES:
        raise ToolError(f"Not written: {path.given} would be larger than 10 MB.")
    return data
