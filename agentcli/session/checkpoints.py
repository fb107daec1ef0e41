"""Undo for the tools: every call that may change the workspace runs between two checkpoints.

Nothing is created before the first such call. A checkpoint that fails does not stop the call: the
user is warned that the call cannot be undone.
"""

import asyncio
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from agentcli.agent.toolset import Load
from agentcli.log.paths import SessionPaths
from agentcli.system.lazy import Lazy
from agentcli.types.errors import SettingsError, ToolError
from agentcli.types.events import Checkpointed, Emit, Warned
from agentcli.types.messages import Json
from agentcli.types.tools import Details, Effect, Output, Tool, ToolContext, ToolSpec

if TYPE_CHECKING:
    from agentcli.log.checkpoint.changes import ChangedFile
    from agentcli.log.checkpoint.keep import CheckpointBefore, CheckpointKeeper

T = TypeVar("T")

FIRST_LOOK = "saving the workspace for undo …"
ANNOUNCE_AFTER_S = 1.0
"""Seconds before the wait is explained: the first scan of a large workspace takes longer."""


class Checkpoints:
    def __init__(self, paths: SessionPaths, *, workspace: Path, emit: Emit) -> None:
        self._paths = paths
        self._workspace = workspace
        self._emit = emit
        self._one_at_a_time = asyncio.Lock()
        self._is_too_large = False
        self._keeper = Lazy(self._build_keeper)

    def wrap_offers(
        self, offers: Iterable[tuple[ToolSpec, Load]]
    ) -> Iterator[tuple[ToolSpec, Load]]:
        """Yield the same tools, with checkpoints around each that may change something."""
        for spec, load in offers:
            yield spec, partial(self._wrap_tool, load)

    async def capture_before(
        self, tool: Tool, args: Any, context: ToolContext
    ) -> "CheckpointBefore | None":
        paths = self._find_touched_paths(tool.spec, args)
        if paths is None and self._is_too_large:
            return None
        loop = asyncio.get_running_loop()
        announcement = loop.call_later(ANNOUNCE_AFTER_S, context.progress, FIRST_LOOK)
        try:
            return await self._capture(lambda: self._keeper.get().before(context.call_id, paths))
        finally:
            announcement.cancel()

    async def capture_after(self, before: "CheckpointBefore") -> None:
        """Record the state after a call, to the end: an interrupt must not cost the record."""
        from agentcli.system.process import run_to_completion

        await run_to_completion(self._record(before))

    async def capture_workspace(self) -> str:
        """Return the id of the workspace's state. Raise SettingsError if it cannot be stored."""
        before = await self._demand(lambda: self._keeper.get().before("", None))
        return before.tree

    async def find_changes(
        self, facts: Sequence[Checkpointed], *, since: str | None
    ) -> "tuple[ChangedFile, ...]":
        """Return the files that differ from the states before these changes.

        `since` is a state of the whole workspace, to find also what no call changed. Raise
        SettingsError if a state is gone.
        """
        if not facts and since is None:
            return ()
        return await self._demand(lambda: self._keeper.get().find_changes(facts, since=since))

    async def _record(self, before: "CheckpointBefore") -> None:
        fact = await self._capture(lambda: self._keeper.get().after(before))
        if fact is not None:
            self._emit(fact)

    def close(self) -> None:
        if self._keeper.made:
            self._keeper.made.close()

    def _wrap_tool(self, load: Load) -> Tool:
        return _CheckpointedTool(load(), self)

    async def _capture(self, work: Callable[[], T]) -> T | None:
        """Run `work` in a thread. Return None if it failed; the user is warned then."""
        from agentcli.log.checkpoint.scan import WorkspaceTooLarge

        try:
            return await self._run_alone(work)
        except WorkspaceTooLarge as error:
            self._is_too_large = True
            self._warn(f"changes by commands in this workspace cannot be undone: {error}")
        except (OSError, SettingsError) as error:
            self._warn(f"the changes of this call cannot be undone: {error}")
        return None

    async def _demand(self, work: Callable[[], T]) -> T:
        """Run `work` in a thread. Raise SettingsError if it failed."""
        from agentcli.log.checkpoint.scan import WorkspaceTooLarge

        try:
            return await self._run_alone(work)
        except (OSError, WorkspaceTooLarge) as error:
            raise SettingsError(
                f"cannot keep the workspace's state: {error}",
                hint="leave out what need not be kept, by a line in .gitignore",
            ) from error

    async def _run_alone(self, work: Callable[[], T]) -> T:
        """Run `work` in a thread to its end, after all work before it."""
        from agentcli.system.process import run_to_completion

        async with self._one_at_a_time:
            return await run_to_completion(asyncio.to_thread(work))

    def _warn(self, message: str) -> None:
        self._emit(Warned(code="checkpoint.failed", message=message))

    def _find_touched_paths(self, spec: ToolSpec, args: Any) -> Sequence[bytes] | None:
        """Return the paths that a call can change, or None if it can change anything."""
        match spec.name if spec.source == "built-in" else "":
            case "write_file" | "edit_file":
                return self._locate([args.path])
            case "apply_patch":
                return self._locate(args.paths)
            case _:
                return None

    def _locate(self, names: Iterable[str]) -> Sequence[bytes]:
        from agentcli.system.workspace import Workspace

        workspace = Workspace(self._workspace)
        try:
            return [os.fsencode(workspace.locate(name).relative) for name in names]
        except ToolError:
            return ()  # the tool will refuse the call for the same reason

    def _build_keeper(self) -> "CheckpointKeeper":
        from agentcli.log.checkpoint.keep import CheckpointKeeper, find_store
        from agentcli.session.ignore_rules import IgnoreRules

        sessions = self._paths.directory.parent
        return CheckpointKeeper(
            find_store(self._workspace, sessions),
            session=self._paths.id,
            root=self._workspace,
            scope=partial(IgnoreRules.for_workspace, self._workspace),
            outside=(sessions, sessions.parent / "checkpoints", sessions.parent / "homes"),
        )


class _CheckpointedTool:
    """A tool whose changes can be undone."""

    def __init__(self, tool: Tool, checkpoints: Checkpoints) -> None:
        self._tool = tool
        self._checkpoints = checkpoints

    @property
    def spec(self) -> ToolSpec:
        return self._tool.spec

    def parse(self, raw: Json) -> Any:
        return self._tool.parse(raw)

    def effect(self, args: Any) -> Effect:
        return self._tool.effect(args)

    async def preview(self, args: Any, context: ToolContext) -> Details | None:
        return await self._tool.preview(args, context)

    async def run(self, args: Any, context: ToolContext) -> Output:
        if context.effect is Effect.READ:
            return await self._tool.run(args, context)
        before = await self._checkpoints.capture_before(self._tool, args, context)
        try:
            return await self._tool.run(args, context)
        finally:
            if before is not None:
                await self._checkpoints.capture_after(before)
