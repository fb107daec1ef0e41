"""write_file: create a file, or replace all of one that the model has read."""

import asyncio
from dataclasses import dataclass
from typing import Annotated, ClassVar

from pydantic import Field

from agentcli.machine.diff import Comparison, compare
from agentcli.machine.process import to_its_end
from agentcli.machine.text import UTF8, majority_ending, with_ending
from agentcli.machine.workspace import Place, Workspace
from agentcli.tools.contracts import contract
from agentcli.tools.schema import Arguments, parse
from agentcli.tools.seen import Seen, sha256
from agentcli.tools.textfile import TextFile, encoded, load
from agentcli.types.errors import ToolError
from agentcli.types.messages import Json
from agentcli.types.tools import Diff, Effect, Output, ToolContext, ToolSpec


class Args(Arguments):
    path: Annotated[str, Field(description="e.g. src/app.py")]
    content: Annotated[str, Field(description="All of it, e.g. x = 1\\n")]

    aliases: ClassVar[dict[str, str]] = {
        "file_path": "path",
        "filePath": "path",
        "file": "path",
        "filename": "path",
        "contents": "content",
        "text": "content",
        "file_text": "content",
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plan:
    """What a write would do, before anything is written."""

    before: TextFile | None
    after: bytes
    text: str
    comparison: Comparison


class WriteFile:
    def __init__(self, *, workspace: Workspace, seen: Seen) -> None:
        self._workspace = workspace
        self._seen = seen

    @property
    def spec(self) -> ToolSpec:
        return contract("write_file")

    def parse(self, raw: Json) -> Args:
        return parse(Args, raw)

    def effect(self, args: Args) -> Effect:
        return Effect.WRITE

    async def preview(self, args: Args, context: ToolContext) -> Diff | None:
        try:
            place = self._workspace.locate(args.path)
            plan = await asyncio.to_thread(self._plan, place, args)
        except ToolError:
            return None
        return _diff(place, plan)

    async def run(self, args: Args, context: ToolContext) -> Output:
        place = self._workspace.locate(args.path)
        async with self._seen.lock(place.path):
            # Whoever cancels it must not find it done later, beside another edit.
            plan, notes = await to_its_end(asyncio.to_thread(self._apply, place, args))
            self._seen.note(place.path, sha256(plan.after))
        return Output.of(_told(place, plan), details=_diff(place, plan, notes))

    def _apply(self, place: Place, args: Args) -> tuple[_Plan, tuple[str, ...]]:
        plan = self._plan(place, args)
        before = None if plan.before is None else plan.before.data
        if before == plan.after:
            return plan, ()
        return plan, self._workspace.replace(place, plan.after, expected=before).notes

    def _plan(self, place: Place, args: Args) -> _Plan:
        self._workspace.require_writable(place)
        if args.path.endswith("/"):
            raise ToolError(f"Not written: {place.given} names a directory, not a file.")
        if self._workspace.stat(place) is None:
            return _plan(place, None, args.content)
        before = load(self._workspace, place)
        self._require_read(place, before)
        return _plan(place, before, _as_before(args.content, before))

    def _require_read(self, place: Place, before: TextFile) -> None:
        match self._seen.knowledge(place.path, sha256(before.data)):
            case "unseen":
                raise ToolError(
                    f"Not written: {place.given} exists and you have not read it. "
                    "Read it first, or use edit_file."
                )
            case "stale":
                raise ToolError(
                    f"Not written: {place.given} changed on disk since you read it. "
                    "Read it again, or use edit_file."
                )


def _plan(place: Place, before: TextFile | None, text: str) -> _Plan:
    encoding = UTF8 if before is None else before.encoding
    return _Plan(
        before=before,
        after=encoded(text, encoding=encoding, place=place),
        text=text,
        comparison=compare(
            before.text if before else "", text, path=place.given, created=before is None
        ),
    )


def _as_before(content: str, before: TextFile) -> str:
    """With the line endings of the file, and without a byte order mark that is not text."""
    if before.encoding.mark:
        content = content.removeprefix("\ufeff")
    return with_ending(content, majority_ending(before.text)) if "\n" in before.text else content


def _told(place: Place, plan: _Plan) -> str:
    lines = plan.text.count("\n") + (not plan.text.endswith("\n") and plan.text != "")
    size = f"{lines} line{'s' * (lines != 1)}"
    if plan.before is None:
        return f"Created {place.given}: {size}."
    if plan.before.data == plan.after:
        return f"{place.given} already has exactly this content."
    return f"Wrote {place.given}: {size} (+{plan.comparison.added} -{plan.comparison.removed})."


def _diff(place: Place, plan: _Plan, notes: tuple[str, ...] = ()) -> Diff:
    return Diff(
        path=place.given,
        unified=plan.comparison.unified,
        added=plan.comparison.added,
        removed=plan.comparison.removed,
        created=plan.before is None,
        encoding=(plan.before.encoding if plan.before else UTF8).name,
        notes=notes + plan.comparison.notes,
        sha256=sha256(plan.after),
    )
