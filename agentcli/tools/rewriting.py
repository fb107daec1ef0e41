"""How a tool changes one file: worked out, written under the file's lock, known as seen after."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeAlias

from agentcli.machine.process import run_to_completion
from agentcli.machine.workspace import Workspace, WorkspacePath
from agentcli.tools.seen import Seen, sha256
from agentcli.types.tools import Diff, KnownFile, LineRanges, Output


@dataclass(frozen=True, slots=True, kw_only=True)
class FileRewrite:
    """What a call would do, before anything is written."""

    before: bytes | None
    """None: there is no such file yet."""
    after: bytes
    summary: str
    """For the model, once it is done."""
    diff: Diff
    lines: LineRanges
    """That the model knows whole afterwards."""


Plan: TypeAlias = Callable[[WorkspacePath], FileRewrite]
"""Reads and decides, in a thread of its own. Raises ToolError where nothing can be done."""


async def preview_rewrite(path: str, plan: Plan, *, workspace: Workspace) -> Diff:
    """Raises ToolError where it would be refused."""
    return (await asyncio.to_thread(plan, workspace.locate(path))).diff


async def rewrite_file(path: str, plan: Plan, *, workspace: Workspace, seen: Seen) -> Output:
    place = workspace.locate(path)

    def apply() -> tuple[FileRewrite, tuple[str, ...]]:
        rewrite = plan(place)
        if rewrite.before == rewrite.after:
            return rewrite, ()
        return rewrite, workspace.replace(place, rewrite.after, expected=rewrite.before).notes

    async with seen.lock(place.path):
        # Whoever cancels it must not find it done later, beside another edit.
        rewrite, notes = await run_to_completion(asyncio.to_thread(apply))
    digest = sha256(rewrite.after)
    known = KnownFile(path=place.given, sha256=digest, lines=rewrite.lines)
    notes += rewrite.diff.notes
    details = replace(rewrite.diff, notes=notes, sha256=digest, known=(known,))
    return Output.of(rewrite.summary, details=details)
