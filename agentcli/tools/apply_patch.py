"""apply_patch: change several files by one text, for models that are trained to write it.

The whole patch is worked out before anything is written, and all of it is written or nothing.
"""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, ClassVar

from pydantic import Field

from agentcli.machine.process import to_its_end
from agentcli.machine.text import NotText, decode
from agentcli.machine.workspace import Workspace
from agentcli.tools.hidden import NOTHING_HIDDEN, HiddenValues
from agentcli.tools.patching.contract import patch_contract
from agentcli.tools.patching.parser import FileChange, Update, parse_patch
from agentcli.tools.patching.plan import Planned, Step, planned
from agentcli.tools.patching.steps import carry_out
from agentcli.tools.schema import Arguments, parse
from agentcli.tools.seen import Seen, all_lines, carry_over, sha256
from agentcli.types.errors import ToolError
from agentcli.types.messages import Json
from agentcli.types.tools import Diff, Effect, KnownFile, LineRanges, Output, ToolContext, ToolSpec


class Args(Arguments):
    patch: Annotated[str, Field(description="All of it, from *** Begin Patch to *** End Patch")]

    aliases: ClassVar[dict[str, str]] = {"input": "patch", "patch_text": "patch", "diff": "patch"}


@dataclass(frozen=True, slots=True)
class Patch:
    """The text as it was understood, so that rules judge the very files that would change."""

    changes: tuple[FileChange, ...]
    aliases: ClassVar[dict[str, str]] = Args.aliases

    @property
    def paths(self) -> list[str]:
        targets = [change.move_to for change in self.changes if isinstance(change, Update)]
        return [*(change.path for change in self.changes), *filter(None, targets)]


class ApplyPatch:
    def __init__(
        self, *, workspace: Workspace, seen: Seen, hidden: HiddenValues = NOTHING_HIDDEN
    ) -> None:
        self._workspace = workspace
        self._seen = seen
        self._hidden = hidden

    @property
    def spec(self) -> ToolSpec:
        return patch_contract()

    def parse(self, raw: Json) -> Patch:
        args = parse(Args, raw)
        with _changing_nothing():
            return Patch(parse_patch(args.patch))

    def effect(self, args: Patch) -> Effect:
        return Effect.WRITE

    async def preview(self, args: Patch, context: ToolContext) -> Diff | None:
        with _changing_nothing():
            return _diff(await asyncio.to_thread(self._plan, args.changes))

    async def run(self, args: Patch, context: ToolContext) -> Output:
        with _changing_nothing():
            paths = self._located(args)
        async with AsyncExitStack() as locks:
            for path in paths:
                await locks.enter_async_context(self._seen.lock(path))
            # Whoever cancels it must not find it done later, beside another edit.
            plan, notes = await to_its_end(asyncio.to_thread(self._apply, args.changes))
            known = self._known(plan)
        details = replace(_diff(plan, notes), known=known)
        return Output.of(_told(plan), details=details)

    def _located(self, patch: Patch) -> list[Path]:
        """Every file in an order of its own, so that two patches cannot wait for each other."""
        return sorted({self._workspace.locate(path).path for path in patch.paths})

    def _apply(self, changes: Sequence[FileChange]) -> tuple[list[Planned], tuple[str, ...]]:
        with _changing_nothing():
            plan = self._plan(changes)
        return plan, carry_out(_steps(plan), self._workspace)

    def _plan(self, changes: Sequence[FileChange]) -> list[Planned]:
        plan = [planned(change, self._workspace, self._hidden) for change in changes]
        _require_distinct(plan)
        return plan

    def _known(self, plan: Sequence[Planned]) -> tuple[KnownFile, ...]:
        steps = _steps(plan)
        data = {step.place.path: step.before for step in steps if step.before is not None}
        return tuple(
            KnownFile(
                path=step.place.given,
                sha256=sha256(step.after),
                lines=self._lines(step, data),
            )
            for step in steps
            if step.after is not None
        )

    def _lines(self, step: Step, data: Mapping[Path, bytes]) -> LineRanges:
        """Return the lines that the model knows after a step. `data`: of the files before."""
        try:
            if step.source is None:
                return all_lines(decode(step.after or b"")[0])
            before = data[step.source.path]
            lines = self._seen.lines(step.source.path, sha256(before))
            return carry_over(decode(before)[0], step.splices, lines)
        except NotText:  # a file that is only moved
            return ()


@contextmanager
def _changing_nothing() -> Iterator[None]:
    """What is refused before the first write has changed nothing, and the model is told so."""
    try:
        yield
    except ToolError as error:
        raise ToolError(f"Nothing was changed: {error}", kind=error.kind) from None


def _steps(plan: Sequence[Planned]) -> list[Step]:
    return [step for each in plan for step in each.steps]


def _require_distinct(plan: Sequence[Planned]) -> None:
    """Two names may lead to one file."""
    seen: set[Path] = set()
    for step in _steps(plan):
        if step.place.path in seen:
            raise ToolError(f"{step.place.given} is named twice. Put its hunks together.")
        seen.add(step.place.path)


def _told(plan: Sequence[Planned]) -> str:
    if len(plan) == 1:
        return f"Patch applied: {plan[0].done}."
    return "\n".join(["Patch applied:", *(each.done for each in plan)])


def _diff(plan: Sequence[Planned], notes: tuple[str, ...] = ()) -> Diff:
    """Of one file, or of all of them one after another."""
    first, comparisons = plan[0].steps[0], [each.comparison for each in plan]
    is_one = len(plan) == 1
    return Diff(
        path=first.place.given if is_one else f"{len(plan)} files",
        unified="".join(each.unified for each in comparisons),
        added=sum(each.added for each in comparisons),
        removed=sum(each.removed for each in comparisons),
        created=all(each.steps[0].before is None for each in plan),
        notes=notes + tuple(note for each in comparisons for note in each.notes),
        sha256=sha256(first.after) if is_one and first.after is not None else "",
    )
