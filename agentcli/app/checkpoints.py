"""Undo for the tools: whatever may change the workspace runs between two kept states.

Nothing is made before the first such call. A state that cannot be kept does not stop the call: the
person is told that it cannot be taken back.
"""

import asyncio
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from agentcli.agent.toolset import Load
from agentcli.record.place import SessionPlace
from agentcli.types.errors import SettingsError, ToolError
from agentcli.types.events import Emit, Warned
from agentcli.types.messages import Json
from agentcli.types.tools import Details, Effect, Output, Tool, ToolContext, ToolSpec

if TYPE_CHECKING:
    from agentcli.record.checkpoint.keep import Before, Keeper

T = TypeVar("T")

FIRST_LOOK = "keeping the state of the workspace, so that this can be taken back …"
PATIENCE_S = 1.0
"""How long a person may wonder: the first look at a large workspace takes longer."""


class Checkpoints:
    def __init__(self, place: SessionPlace, *, workspace: Path, tell: Emit) -> None:
        self._place = place
        self._workspace = workspace
        self._tell = tell
        self._one_at_a_time = asyncio.Lock()
        self._is_too_large = False

    def around(self, offers: Iterable[tuple[ToolSpec, Load]]) -> Iterator[tuple[ToolSpec, Load]]:
        """The same tools, each with its states kept when it may change something."""
        for spec, load in offers:
            yield spec, partial(self._loaded, load)

    async def before(self, tool: Tool, args: Any, context: ToolContext) -> "Before | None":
        paths = self._paths(tool.spec, args)
        if paths is None and self._is_too_large:
            return None
        loop = asyncio.get_running_loop()
        announcement = loop.call_later(PATIENCE_S, context.progress, FIRST_LOOK)
        try:
            return await self._kept(lambda: self._keeper.before(context.call_id, paths))
        finally:
            announcement.cancel()

    async def after(self, before: "Before") -> None:
        """To its end: a person who is in a hurry must not cost the record."""
        from agentcli.machine.process import to_its_end

        await to_its_end(self._recorded(before))

    async def _recorded(self, before: "Before") -> None:
        fact = await self._kept(lambda: self._keeper.after(before))
        if fact is not None:
            self._tell(fact)

    def close(self) -> None:
        if "_keeper" in self.__dict__:
            self._keeper.close()

    def _loaded(self, load: Load) -> Tool:
        return _Kept(load(), self)

    async def _kept(self, work: Callable[[], T]) -> T | None:
        """None: it could not be done, and the person was told."""
        from agentcli.machine.process import to_its_end
        from agentcli.record.checkpoint.scan import TooLarge

        async with self._one_at_a_time:
            try:
                return await to_its_end(asyncio.to_thread(work))
            except TooLarge as error:
                self._is_too_large = True
                self._warn(f"what commands change in this workspace cannot be taken back: {error}")
            except (OSError, SettingsError) as error:
                self._warn(f"what this call changes cannot be taken back: {error}")
        return None

    def _warn(self, message: str) -> None:
        self._tell(Warned(code="checkpoint.failed", message=message))

    def _paths(self, spec: ToolSpec, args: Any) -> Sequence[bytes] | None:
        """What a call can touch; None: anything."""
        match spec.name if spec.source == "built-in" else "":
            case "write_file" | "edit_file":
                return self._located([args.path])
            case "apply_patch":
                return self._located(args.paths)
            case _:
                return None

    def _located(self, names: Iterable[str]) -> Sequence[bytes]:
        from agentcli.machine.workspace import Workspace

        workspace = Workspace(self._workspace)
        try:
            return [os.fsencode(workspace.locate(name).relative) for name in names]
        except ToolError:
            return ()  # it will be refused for the same reason

    @cached_property
    def _keeper(self) -> "Keeper":
        from agentcli.app.ignoring import Ignoring
        from agentcli.record.checkpoint.keep import Keeper, store_of

        sessions = self._place.directory.parent
        return Keeper(
            store_of(self._workspace, sessions),
            session=self._place.id,
            root=self._workspace,
            scope=partial(Ignoring.of_workspace, self._workspace),
            outside=(sessions, sessions.parent / "checkpoints"),
        )


class _Kept:
    """A tool whose changes can be taken back."""

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
        if self._tool.effect(args) is Effect.READ:
            return await self._tool.run(args, context)
        before = await self._checkpoints.before(self._tool, args, context)
        try:
            return await self._tool.run(args, context)
        finally:
            if before is not None:
                await self._checkpoints.after(before)
