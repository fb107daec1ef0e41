"""edit_file: replace text in a file, byte for byte, or refuse."""

import asyncio
from dataclasses import dataclass
from typing import Annotated, ClassVar

from pydantic import Field

from agentcli.machine.diff import Comparison, compare_spliced
from agentcli.machine.process import to_its_end
from agentcli.machine.text import spliced, to_lf
from agentcli.machine.workspace import Place, Workspace
from agentcli.tools.contracts import contract
from agentcli.tools.editing.edit import Edit, Wish, edit
from agentcli.tools.editing.near import SHOWN_LINES, numbered
from agentcli.tools.schema import Arguments, parse
from agentcli.tools.seen import Seen, sha256
from agentcli.tools.textfile import TextFile, encoded, load
from agentcli.types.errors import ToolError
from agentcli.types.messages import Json
from agentcli.types.tools import Diff, Effect, Output, ToolContext, ToolSpec

LIMIT_CHARS = 4000


class Args(Arguments):
    path: Annotated[str, Field(description="e.g. src/app.py")]
    old_text: Annotated[str, Field(description="e.g. x = 1")]
    new_text: Annotated[str, Field(description="e.g. x = 2")]
    replace_all: Annotated[bool, Field(description="e.g. true to rename")] = False

    aliases: ClassVar[dict[str, str]] = {
        "file_path": "path",
        "filePath": "path",
        "file": "path",
        "filename": "path",
        "old_string": "old_text",
        "oldString": "old_text",
        "oldText": "old_text",
        "old_str": "old_text",
        "new_string": "new_text",
        "newString": "new_text",
        "newText": "new_text",
        "new_str": "new_text",
        "replaceAll": "replace_all",
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plan:
    """What an edit would do, before anything is written."""

    before: TextFile
    after: bytes
    text: str
    edit: Edit
    comparison: Comparison


class EditFile:
    def __init__(self, *, workspace: Workspace, seen: Seen) -> None:
        self._workspace = workspace
        self._seen = seen

    @property
    def spec(self) -> ToolSpec:
        return contract("edit_file")

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
        return Output.of(_told(place, plan, args), details=_diff(place, plan, notes))

    def _apply(self, place: Place, args: Args) -> tuple[_Plan, tuple[str, ...]]:
        plan = self._plan(place, args)
        replaced = self._workspace.replace(place, plan.after, expected=plan.before.data)
        return plan, replaced.notes

    def _plan(self, place: Place, args: Args) -> _Plan:
        self._workspace.require_writable(place)
        before = load(self._workspace, place)
        knowledge = self._seen.knowledge(place.path, sha256(before.data))
        try:
            found = edit(
                before.text,
                Wish(
                    path=place.given,
                    old=args.old_text,
                    new=args.new_text,
                    replace_all=args.replace_all,
                    is_stale=knowledge == "stale",
                ),
            )
        except ToolError as error:
            raise ToolError(_cut(str(error)), kind=error.kind) from None
        text = spliced(before.text, found.splices)
        return _Plan(
            before=before,
            after=encoded(text, encoding=before.encoding, place=place),
            text=text,
            edit=found,
            comparison=compare_spliced(before.text, found.splices, path=place.given),
        )


def _told(place: Place, plan: _Plan, args: Args) -> str:
    """For the model: one line, and where its text was not exact, what stands there now."""
    if args.replace_all:
        count = len(plan.edit.splices)
        return f"Edited {place.given}: {count} replacement{'s' * (count != 1)}."
    change = plan.comparison
    first, last = change.first_line, change.last_line
    where = f"lines {first}-{last}" if last > first else f"line {first}"
    told = f"Edited {place.given}: {where} (+{change.added} -{change.removed})."
    if not plan.edit.overlooked:
        return told
    told += (
        f" old_text differed in {plan.edit.overlooked}; the file's own unchanged lines were kept."
    )
    lines = to_lf(plan.text).split("\n", last)[first - 1 : last]
    return _cut(f"{told}\n{numbered(lines[:SHOWN_LINES], first)}")


def _cut(text: str) -> str:
    return text if len(text) <= LIMIT_CHARS else text[: LIMIT_CHARS - 1] + "…"


def _diff(place: Place, plan: _Plan, notes: tuple[str, ...] = ()) -> Diff:
    change = plan.comparison
    return Diff(
        path=place.given,
        unified=change.unified,
        added=change.added,
        removed=change.removed,
        first_line=change.first_line,
        last_line=change.last_line,
        matched_by=plan.edit.overlooked or "exact",
        encoding=plan.before.encoding.name,
        notes=notes + change.notes,
        sha256=sha256(plan.after),
    )
