"""The patch of an agent: judged like an edit of its files, then merged into the workspace."""

import asyncio
import re
from dataclasses import dataclass, replace
from functools import partial

from agentcli.log.checkpoint.changes import ChangedFile
from agentcli.session.session import SessionParts
from agentcli.session.worktrees import Worktree, WorktreeRemoval, Worktrees
from agentcli.system.files import write_private
from agentcli.system.lazy import Lazy
from agentcli.tools.contracts import load_patch_spec
from agentcli.types.errors import ToolError, UsageError
from agentcli.types.events import Checkpointed, Warned
from agentcli.types.messages import Json, ToolCall
from agentcli.types.tools import (
    Details,
    Diff,
    Effect,
    Output,
    PreparedCall,
    ToolContext,
    ToolSpec,
)
from agentcli.types.verdicts import Delegation, Verdict
from agentcli.types.words import pluralize

_HEADER = re.compile(r"^diff --git .+$", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentPatch:
    """What an agent changed in its worktree."""

    worktree: Worktree
    state: str
    """The stored state of its files."""
    changes: tuple[ChangedFile, ...]

    @property
    def text(self) -> str:
        return "".join(change.patch for change in self.changes)

    @property
    def paths(self) -> tuple[str, ...]:
        return tuple(change.path for change in self.changes)

    @property
    def added(self) -> int:
        return sum(change.added for change in self.changes)

    @property
    def removed(self) -> int:
        return sum(change.removed for change in self.changes)


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentPatchArgs:
    patch: str
    paths: tuple[str, ...]


class PatchTool:
    """Stands for the merge of a patch where calls are judged. It is never run as a tool."""

    def __init__(self, patch: AgentPatch) -> None:
        self._patch = patch

    @property
    def spec(self) -> ToolSpec:
        return load_patch_spec()

    def build_call(self, call_id: str) -> ToolCall:
        shown = ", ".join(self._patch.paths)
        given: Json = {"path": shown, "patch": self._patch.text}
        return ToolCall(id=call_id, name=self.spec.name, input=given)

    def parse(self, raw: Json) -> AgentPatchArgs:
        """Return the patch with its files. Raise ToolError if an edited one names others."""
        text = raw.get("patch") if isinstance(raw, dict) else None
        if not isinstance(text, str):
            raise ToolError("The patch is missing.")
        text = text if text.endswith("\n") else f"{text}\n"
        known = {
            header: change.path
            for change in self._patch.changes
            for header in _HEADER.findall(change.patch)
        }
        headers = _HEADER.findall(text)
        unknown = [header for header in headers if header not in known]
        if unknown or not headers:
            what = f"names files that the agent did not change: {unknown[0]}" if unknown else ""
            raise ToolError(f"The edited patch {what or 'is empty'}.")
        return AgentPatchArgs(patch=text, paths=tuple(known[header] for header in headers))

    def effect(self, args: AgentPatchArgs) -> Effect:
        return Effect.WRITE

    async def preview(self, args: AgentPatchArgs, context: ToolContext) -> Details | None:
        return await self.preview_patch()

    async def preview_patch(self) -> Details | None:
        patch = self._patch
        return Diff(
            path=pluralize(len(patch.changes), "file")
            if len(patch.changes) > 1
            else patch.changes[0].path,
            unified=patch.text,
            added=patch.added,
            removed=patch.removed,
        )

    async def run(self, args: AgentPatchArgs, context: ToolContext) -> Output:
        raise ToolError("A patch of an agent is merged by the session.")


@dataclass(frozen=True, slots=True, kw_only=True)
class PatchOutcome:
    """The files that a merge changed, and those that it left because of conflicts."""

    merged: tuple[str, ...] = ()
    conflicts: tuple[str, ...] = ()


NOTHING_MERGED = PatchOutcome()


class PatchMerger:
    """Finds, judges and merges the patches of agents. Call it for one patch at a time."""

    def __init__(self, parts: SessionParts) -> None:
        self._parts = parts
        self._trees = Lazy(partial(open_trees, parts))

    async def find(self, number: int, worktree: str, *, state: str) -> AgentPatch | None:
        """Return the patch of an agent, and store it as a file beside the log.

        `state` is that of its files, if it is known. A worktree without changes is removed."""
        found = await asyncio.to_thread(self._read, number, worktree, state)
        if isinstance(found, WorktreeRemoval):
            self._warn_of_work(number, worktree, removal=found)
            return None
        return found

    async def judge(self, patch: AgentPatch, child: Delegation) -> Verdict:
        """Return the verdict of rules, mode, hooks and user on a patch."""
        tool = PatchTool(patch)
        call = tool.build_call(child.child_id)
        prepared = PreparedCall(
            call=call, tool=tool, args=tool.parse(call.input), effect=Effect.WRITE
        )
        return await self._parts.gate.judge(prepared, preview=tool.preview_patch, child=child)

    async def merge(self, number: int, patch: AgentPatch, *, verdict: Verdict) -> PatchOutcome:
        """Merge a patch as it was approved. Raise SettingsError if an edited one is no patch."""
        loop = asyncio.get_running_loop()

        def record(fact: Checkpointed) -> None:
            """Record it in the thread of the journal, before a file is touched."""
            fact = replace(fact, call_id=f"agent-{number}")
            asyncio.run_coroutine_threadsafe(self._append(fact), loop).result()

        def merge() -> PatchOutcome:
            trees, tree = self._trees.get(), patch.worktree
            base, after = tree.base, patch.state
            if verdict.decision == "modify":
                edited = PatchTool(patch).parse(verdict.input).patch
                base, after = trees.edit_state(tree, edited, paths=trees.list_paths(tree, after))
            report = trees.merge(
                tree,
                record=record,
                session=self._parts.paths.id,
                after=after,
                base=base,
                root="",
            )
            if report.conflicts:
                where = self._parts.paths.directory / "conflicts" / f"agent-{number}"
                trees.save_conflicts(tree, report, directory=where)
            conflicts = tuple(one.path for one in report.conflicts)
            return PatchOutcome(merged=tuple(report.merged), conflicts=conflicts)

        return await asyncio.to_thread(merge)

    async def remove(self, number: int, worktree: str) -> None:
        """Remove the worktree of an agent, and say what stays of it."""
        removal = await asyncio.to_thread(self._remove, worktree)
        self._warn_of_work(number, worktree, removal=removal)

    def _warn_of_work(self, number: int, worktree: str, *, removal: WorktreeRemoval) -> None:
        """Say where the work of an agent is that no patch has."""
        found = []
        if removal.branches:
            found.append(f"commits, which stay on the branch {' and '.join(removal.branches)}")
        if removal.unmerged:
            found.append(
                f"{', '.join(removal.unmerged)}, so its worktree stays; to remove it: "
                f"agentcli worktree discard {worktree} --yes"
            )
        for what in found:
            message = f"agent {number} made {what}"
            self._parts.journal.append(Warned(code="agents.work", message=message))

    async def _append(self, fact: Checkpointed) -> None:
        self._parts.journal.append(fact)

    def _read(self, number: int, worktree: str, state: str) -> AgentPatch | WorktreeRemoval | None:
        trees = self._trees.get()
        try:
            tree = trees.find(worktree)
        except UsageError:
            return None  # the user has merged or discarded it
        state = state or trees.capture(tree)
        changes = trees.find_changes(tree, after=state)
        if not changes:
            return trees.remove(tree, keeps_commits=True)
        patch = AgentPatch(worktree=tree, state=state, changes=changes)
        path = self._parts.paths.out / f"agent-{number}.patch"
        write_private(path, self._parts.gate.redactor.mask(patch.text))
        return patch

    def _remove(self, worktree: str) -> WorktreeRemoval:
        trees = self._trees.get()
        return trees.remove(trees.find(worktree), keeps_commits=True)


def open_trees(parts: SessionParts) -> Worktrees:
    return Worktrees(parts.settings.workspace, sessions=parts.paths.sessions)
