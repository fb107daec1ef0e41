"""Undo for the tools: every call that may change the workspace runs between two checkpoints.

Nothing is created before the first such call. A checkpoint that fails does not stop the call: it is
recorded that the call cannot be undone, and the user is warned.
"""

import asyncio
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from agentcli.agent.toolset import Load, Offer
from agentcli.log.paths import SessionPaths
from agentcli.types.errors import SettingsError, ToolError
from agentcli.types.events import Checkpointed, CheckpointFailed, Emit, Warned
from agentcli.types.grants import NO_GRANTS, Grants
from agentcli.types.own_tools import EDITING, list_paths
from agentcli.types.tools import Effect, Output, ToolContext, ToolSpec, WrappedTool

if TYPE_CHECKING:
    from agentcli.log.checkpoint.changes import ChangedFile
    from agentcli.log.checkpoint.keep import CheckpointBefore, CheckpointKeeper
    from agentcli.log.checkpoint.scan import WorkspaceTooLarge

T = TypeVar("T")
RootBefore: TypeAlias = "tuple[Path, CheckpointBefore]"
"""The state of a root before a call."""

FIRST_LOOK = "saving the workspace for undo …"
ANNOUNCE_AFTER_S = 1.0
"""Seconds before the wait is explained: the first scan of a large workspace takes longer."""


class Checkpoints:
    def __init__(
        self,
        paths: SessionPaths,
        *,
        workspace: Path,
        emit: Emit,
        added: Callable[[], Grants] = lambda: NO_GRANTS,
    ) -> None:
        """`added` returns the directories that belong to the workspace by now."""
        self._paths = paths
        self._added = added
        self._workspace = workspace
        self._emit = emit
        self._one_at_a_time = asyncio.Lock()
        self._is_busy = Lock()
        """Held by the thread that works on states, for a call or ahead of it."""
        self._too_large: dict[Path, str] = {}
        """The roots whose state cannot be stored, and why. The user knows of them."""
        self._too_large_ahead: WorkspaceTooLarge | None = None
        self._keepers: dict[Path, CheckpointKeeper] = {}

    def wrap_offers(self, offers: Iterable[Offer]) -> Iterator[Offer]:
        """Yield the same tools, with checkpoints around each call that may change something."""
        for spec, load in offers:
            yield spec, partial(_CheckpointedTool, load, spec, checkpoints=self)

    def prepare(self, is_stopped: Callable[[], bool]) -> None:
        """Look at the workspace ahead, in another thread, if an earlier session has worked in it.

        What else fails is tried again by the call that needs it, which reports it."""
        from agentcli.log.checkpoint.scan import WorkspaceTooLarge

        with self._is_busy:
            keeper = self._find_keeper(self._workspace)
            if not keeper.has_states:
                return
            try:
                keeper.look_ahead(is_stopped)
            except WorkspaceTooLarge as error:
                self._too_large_ahead = error

    async def capture_before(
        self, spec: ToolSpec, args: Any, *, context: ToolContext
    ) -> "Sequence[RootBefore]":
        """Store the state before a call, of each root that it can change."""
        captured: list[RootBefore] = []
        loop = asyncio.get_running_loop()
        announcement = loop.call_later(ANNOUNCE_AFTER_S, context.progress, FIRST_LOOK)
        try:
            for root, paths in self._find_touched_paths(spec, args).items():
                if paths is None and root in self._too_large:
                    self._record_failure(root, context.call_id, reason=self._too_large[root])
                    continue
                keep = partial(self._keep_before, root, context.call_id, paths=paths)
                if before := await self._capture(root, context.call_id, work=keep):
                    captured.append((root, before))
        finally:
            announcement.cancel()
        return captured

    async def capture_after(self, captured: "Sequence[RootBefore]") -> None:
        """Record the state after a call, to the end: an interrupt must not cost the record."""
        from agentcli.system.process import run_to_completion

        for root, before in captured:
            await run_to_completion(self._record(root, before))

    async def capture_workspace(self) -> str:
        """Return the id of the workspace's state. Raise SettingsError if it cannot be stored."""
        before = await self._demand(partial(self._keep_before, self._workspace, "", paths=None))
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
        return await self._demand(partial(self._find_changes, facts, since))

    async def copy_with_old_files(
        self, facts: Sequence[Checkpointed], *, into: Path, is_wanted: Callable[[str], bool]
    ) -> tuple[str, ...]:
        """Copy the workspace, with the wanted files as they were before these changes.

        Return them; nothing is copied if there are none. Raise SettingsError if it fails.
        """
        return await self._demand(
            partial(self._copy_with_old_files, facts, into, is_wanted=is_wanted)
        )

    def _copy_with_old_files(
        self, facts: Sequence[Checkpointed], into: Path, *, is_wanted: Callable[[str], bool]
    ) -> tuple[str, ...]:
        from agentcli.log.checkpoint.keep import find_store
        from agentcli.log.rebuild import copy_with_old_files, find_changed_paths
        from agentcli.tools.search.ignore import IgnoreRules

        root = self._workspace
        store = find_store(root, self._paths.sessions)
        paths = tuple(sorted(filter(is_wanted, find_changed_paths(facts, store))))
        if paths:
            rules = IgnoreRules.for_workspace(root)
            ignored = [
                entry.name
                for entry in os.scandir(root)
                if rules.ignores(
                    os.fsencode(entry.name), is_dir=entry.is_dir(follow_symlinks=False)
                )
            ]
            copy_with_old_files(facts, store, root=root, into=into, paths=paths, linked=ignored)
        return paths

    def _find_changes(
        self, facts: Sequence[Checkpointed], since: str | None
    ) -> "tuple[ChangedFile, ...]":
        own = [fact for fact in facts if not fact.root]
        found = list(self._find_keeper(self._workspace).find_changes(own, since=since))
        for root in dict.fromkeys(fact.root for fact in facts if fact.root):
            if Path(root).is_dir():
                there = [fact for fact in facts if fact.root == root]
                keeper = self._find_keeper(Path(root))
                found += (
                    _name_outside(root, one) for one in keeper.find_changes(there, since=None)
                )
        return tuple(found)

    def _keep_before(
        self, root: Path, call_id: str, *, paths: Sequence[bytes] | None
    ) -> "CheckpointBefore":
        error = self._too_large_ahead
        if error is not None and root == self._workspace and paths is None:
            self._too_large_ahead = None
            raise error
        return self._find_keeper(root).begin_checkpoint(call_id, paths)

    async def _record(self, root: Path, before: "CheckpointBefore") -> None:
        finish = partial(self._finish_checkpoint, root, before)
        fact = await self._capture(root, before.call_id, work=finish)
        if fact is not None:
            self._emit(fact)

    def _finish_checkpoint(self, root: Path, before: "CheckpointBefore") -> Checkpointed | None:
        return self._find_keeper(root).finish_checkpoint(before)

    def close(self) -> None:
        for keeper in self._keepers.values():
            keeper.close()

    async def _capture(self, root: Path, call_id: str, *, work: Callable[[], T]) -> T | None:
        """Run `work` in a thread. Return None if it failed, after that is recorded."""
        from agentcli.log.checkpoint.scan import WorkspaceTooLarge

        try:
            return await self._run_alone(work)
        except WorkspaceTooLarge as error:
            self._too_large[root] = reason = str(error)
            where = "this workspace" if root == self._workspace else str(root)
            self._warn(f"changes by commands in {where} cannot be undone: {error}")
        except (OSError, SettingsError) as error:
            reason = _describe_failure(error)
            self._warn(f"the changes of this call cannot be undone: {reason}")
        self._record_failure(root, call_id, reason=reason)
        return None

    def _record_failure(self, root: Path, call_id: str, *, reason: str) -> None:
        name = "" if root == self._workspace else str(root)
        self._emit(CheckpointFailed(call_id=call_id, reason=reason, root=name))

    async def _demand(self, work: Callable[[], T]) -> T:
        """Run `work` in a thread. Raise SettingsError if it failed."""
        from agentcli.log.checkpoint.scan import WorkspaceTooLarge

        try:
            return await self._run_alone(work)
        except (OSError, WorkspaceTooLarge) as error:
            raise SettingsError(
                f"cannot keep the workspace's state: {_describe_failure(error)}",
                hint="leave out what need not be kept, by a line in .gitignore",
            ) from error

    async def _run_alone(self, work: Callable[[], T]) -> T:
        """Run `work` in a thread to its end, after all work before it."""
        from agentcli.system.process import run_to_completion

        async with self._one_at_a_time:
            return await run_to_completion(asyncio.to_thread(self._run_locked, work))

    def _run_locked(self, work: Callable[[], T]) -> T:
        with self._is_busy:
            return work()

    def _warn(self, message: str) -> None:
        self._emit(Warned(code="checkpoint.failed", message=message))

    def _find_touched_paths(
        self, spec: ToolSpec, args: Any
    ) -> Mapping[Path, Sequence[bytes] | None]:
        """Return the paths that a call can change in each root, or None for everything there."""
        match spec.name if spec.source == "built-in" else "":
            case name if name in EDITING:
                return self._locate(list_paths(args))
            case _:
                return dict.fromkeys((self._workspace, *self._added().writable))

    def _locate(self, names: Iterable[str]) -> Mapping[Path, Sequence[bytes] | None]:
        from agentcli.system.workspace import Workspace

        workspace = Workspace(self._workspace, added=self._added)
        located = []
        for name in names:
            with suppress(ToolError):  # a temporary file, or the tool refuses the whole call
                located.append(workspace.locate(name))
        return {
            self._workspace if root == workspace.root else root: [
                os.fsencode(one.relative) for one in located if one.root == root
            ]
            for root in dict.fromkeys(one.root for one in located)
        }

    def _find_keeper(self, root: Path) -> "CheckpointKeeper":
        if root not in self._keepers:
            self._keepers[root] = self._build_keeper(root)
        return self._keepers[root]

    def _build_keeper(self, root: Path) -> "CheckpointKeeper":
        from agentcli.log.checkpoint.keep import CheckpointKeeper, find_store
        from agentcli.system.repository import list_bare_parts
        from agentcli.tools.search.ignore import IgnoreRules

        sessions = self._paths.sessions
        return CheckpointKeeper(
            find_store(root, sessions),
            session=self._paths.id,
            root=root,
            name="" if root == self._workspace else str(root),
            scope=partial(IgnoreRules.for_workspace, root),
            outside=(
                *(sessions, sessions.parent / "checkpoints", sessions.parent / "homes"),
                *list_bare_parts(root),
            ),
        )


class _CheckpointedTool(WrappedTool):
    """A tool whose changes can be undone."""

    def __init__(self, load: Load, spec: ToolSpec, *, checkpoints: Checkpoints) -> None:
        super().__init__(load(), spec)
        self._checkpoints = checkpoints

    async def run(self, args: Any, context: ToolContext) -> Output:
        if context.effect is Effect.READ:
            return await self._tool.run(args, context)
        before = await self._checkpoints.capture_before(self.spec, args, context=context)
        try:
            return await self._tool.run(args, context)
        finally:
            await self._checkpoints.capture_after(before)


def _describe_failure(error: Exception) -> str:
    """Return one line of limited length, however long the path is that it is about."""
    from agentcli.system.text import to_printable

    if not isinstance(error, OSError) or error.strerror is None:
        return to_printable(str(error))
    name = os.fsdecode(error.filename) if isinstance(error.filename, str | bytes) else ""
    return to_printable(": ".join(filter(None, (error.strerror.lower(), name))))


def _name_outside(root: str, changed: "ChangedFile") -> "ChangedFile":
    """Return the change under its whole path: a patch of the workspace cannot hold it."""
    path = f"{root}/{changed.path}"
    return replace(
        changed, path=path, patch=f"# not in this patch, outside the workspace: {path}\n"
    )
