"""apply_patch: change several files with one text, for models that are trained to write it.

The whole patch is planned before anything is written, and all of it is written or nothing.
"""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, contextmanager
from dataclasses import field, replace
from pathlib import Path
from typing import ClassVar

from agentcli.system.process import run_to_completion
from agentcli.system.text import NotText, decode
from agentcli.system.workspace import Workspace
from agentcli.tools.arguments import BuiltinArguments, TextCheck, declare_argument, parse_arguments
from agentcli.tools.contracts import load_patch_spec
from agentcli.tools.hidden import NOTHING_HIDDEN, HiddenValues
from agentcli.tools.patch.parser import FileChange, Update, parse_patch
from agentcli.tools.patch.plan import PatchStep, PlannedChange, apply_patch_steps, plan_change
from agentcli.tools.seen import Seen, carry_over, compute_sha256, list_all_lines
from agentcli.types.errors import ToolError
from agentcli.types.fast_dataclass import dataclass
from agentcli.types.messages import Json
from agentcli.types.tools import Diff, Effect, KnownFile, LineRanges, Output, ToolContext, ToolSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyPatchArgs(BuiltinArguments):
    patch: str = field(
        metadata=declare_argument(TextCheck(), "All of it, from *** Begin Patch to *** End Patch")
    )

    aliases: ClassVar[dict[str, str]] = {"input": "patch", "patch_text": "patch", "diff": "patch"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Patch:
    """The parsed patch, so that rules judge exactly the files that would change."""

    changes: tuple[FileChange, ...]
    aliases: ClassVar[dict[str, str]] = ApplyPatchArgs.aliases

    @property
    def paths(self) -> list[str]:
        targets = [change.move_to for change in self._updates]
        return [*(change.path for change in self.changes), *filter(None, targets)]

    @property
    def changed_paths(self) -> list[str]:
        """The files of which a refusal may show lines."""
        return [change.path for change in self._updates]

    @property
    def _updates(self) -> list[Update]:
        return [change for change in self.changes if isinstance(change, Update)]


class ApplyPatch:
    def __init__(
        self, *, workspace: Workspace, seen: Seen, hidden: HiddenValues = NOTHING_HIDDEN
    ) -> None:
        self._workspace = workspace
        self._seen = seen
        self._hidden = hidden

    @property
    def spec(self) -> ToolSpec:
        return load_patch_spec()

    def parse(self, raw: Json) -> Patch:
        args = parse_arguments(ApplyPatchArgs, raw)
        with _note_unchanged():
            return Patch(changes=parse_patch(args.patch))

    def effect(self, args: Patch) -> Effect:
        return Effect.WRITE

    async def preview(self, args: Patch, context: ToolContext) -> Diff | None:
        with _note_unchanged():
            return _build_diff(await asyncio.to_thread(self._plan, args.changes))

    async def run(self, args: Patch, context: ToolContext) -> Output:
        with _note_unchanged():
            paths = self._locate(args)
        async with AsyncExitStack() as locks:
            for path in paths:
                await locks.enter_async_context(self._seen.lock(path))
            # A cancelled call must not finish later, alongside another edit.
            plan, notes = await run_to_completion(asyncio.to_thread(self._apply, args.changes))
            known = self._find_known(plan)
        details = replace(_build_diff(plan, notes), known=known)
        summary = "\n".join((_describe_plan(plan), *map("[{}]".format, notes)))
        return Output.of(summary, details=details)

    def _locate(self, patch: Patch) -> list[Path]:
        """Return the files in a fixed order, so that two patches cannot wait for each other."""
        return sorted({self._workspace.locate(path).path for path in patch.paths})

    def _apply(self, changes: Sequence[FileChange]) -> tuple[list[PlannedChange], tuple[str, ...]]:
        with _note_unchanged():
            plan = self._plan(changes)
        return plan, apply_patch_steps(_list_steps(plan), self._workspace)

    def _plan(self, changes: Sequence[FileChange]) -> list[PlannedChange]:
        plan = [plan_change(change, self._workspace, hidden=self._hidden) for change in changes]
        _require_distinct(plan)
        return plan

    def _find_known(self, plan: Sequence[PlannedChange]) -> tuple[KnownFile, ...]:
        steps = _list_steps(plan)
        data = {step.path.path: step.before for step in steps if step.before is not None}
        return tuple(
            KnownFile(
                path=step.path.given,
                sha256=compute_sha256(step.after),
                lines=self._find_known_lines(step, data),
            )
            for step in steps
            if step.after is not None
        )

    def _find_known_lines(self, step: PatchStep, data: Mapping[Path, bytes]) -> LineRanges:
        """Return the lines that the model knows after a step; `data` holds the files before it."""
        try:
            if step.source is None:
                return list_all_lines(decode(step.after or b"")[0])
            before = data[step.source.path]
            lines = self._seen.lines(step.source.path, compute_sha256(before))
            return carry_over(decode(before)[0], step.splices, lines=lines)
        except NotText:  # a file that is only moved
            return ()


@contextmanager
def _note_unchanged() -> Iterator[None]:
    """Add to each refusal that nothing was changed, since nothing was written yet."""
    try:
        yield
    except ToolError as error:
        raise ToolError(f"Nothing was changed: {error}", kind=error.kind) from None


def _list_steps(plan: Sequence[PlannedChange]) -> list[PatchStep]:
    return [step for each in plan for step in each.steps]


def _require_distinct(plan: Sequence[PlannedChange]) -> None:
    """Raise ToolError if two names lead to one file."""
    seen: set[Path] = set()
    for step in _list_steps(plan):
        if step.path.path in seen:
            raise ToolError(f"{step.path.given} is named twice. Put its hunks together.")
        seen.add(step.path.path)


def _describe_plan(plan: Sequence[PlannedChange]) -> str:
    if len(plan) == 1:
        return f"Patch applied: {plan[0].done}."
    return "\n".join(["Patch applied:", *(each.done for each in plan)])


def _build_diff(plan: Sequence[PlannedChange], notes: tuple[str, ...] = ()) -> Diff:
    """Return the diff of one file, or of all files one after another."""
    first, comparisons = plan[0].steps[0], [each.comparison for each in plan]
    is_one = len(plan) == 1
    return Diff(
        path=first.path.given if is_one else f"{len(plan)} files",
        unified="".join(each.unified for each in comparisons),
        added=sum(each.added for each in comparisons),
        removed=sum(each.removed for each in comparisons),
        created=all(each.steps[0].before is None for each in plan),
        notes=notes + tuple(note for each in comparisons for note in each.notes),
        sha256=compute_sha256(first.after) if is_one and first.after is not None else "",
        is_unchanged=all(step.before == step.after for step in _list_steps(plan)),
        is_temporary=all(step.path.is_temporary for step in _list_steps(plan)),
    )
