"""edit_file: replace text in a file, byte for byte, or refuse."""

from functools import partial
from typing import Annotated, ClassVar

from pydantic import Field

from agentcli.machine.diff import Comparison, compare_spliced
from agentcli.machine.text import spliced, to_lf
from agentcli.machine.workspace import Place, Workspace
from agentcli.tools import rewriting
from agentcli.tools.contracts import contract
from agentcli.tools.editing.edit import Edit, Wish, edit
from agentcli.tools.editing.near import SHOWN_LINES, numbered
from agentcli.tools.hidden import NOTHING_HIDDEN, HiddenValues
from agentcli.tools.rewriting import Rewrite
from agentcli.tools.schema import Arguments, FilePath, parse
from agentcli.tools.seen import Seen, carry_over, sha256
from agentcli.tools.textfile import encoded, load
from agentcli.types.errors import ToolError
from agentcli.types.messages import Json
from agentcli.types.tools import Diff, Effect, Output, ToolContext, ToolSpec

LIMIT_CHARS = 4000


class Args(Arguments):
    path: FilePath
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


class EditFile:
    def __init__(
        self, *, workspace: Workspace, seen: Seen, hidden: HiddenValues = NOTHING_HIDDEN
    ) -> None:
        self._workspace = workspace
        self._seen = seen
        self._hidden = hidden

    @property
    def spec(self) -> ToolSpec:
        return contract("edit_file")

    def parse(self, raw: Json) -> Args:
        return parse(Args, raw)

    def effect(self, args: Args) -> Effect:
        return Effect.WRITE

    async def preview(self, args: Args, context: ToolContext) -> Diff:
        return await rewriting.preview(
            args.path, partial(self._plan, args), workspace=self._workspace
        )

    async def run(self, args: Args, context: ToolContext) -> Output:
        return await rewriting.carry_out(
            args.path, partial(self._plan, args), workspace=self._workspace, seen=self._seen
        )

    def _plan(self, args: Args, place: Place) -> Rewrite:
        self._workspace.require_writable(place)
        before = load(self._workspace, place)
        digest = sha256(before.data)
        knowledge = self._seen.knowledge(place.path, digest)
        restore = partial(self._hidden.restore, current=before.text, path=place.given)
        try:
            found = edit(
                before.text,
                Wish(
                    path=place.given,
                    old=restore(args.old_text),
                    new=restore(args.new_text),
                    replace_all=args.replace_all,
                    is_stale=knowledge == "stale",
                ),
            )
        except ToolError as error:
            raise ToolError(_cut(str(error)), kind=error.kind) from None
        text = spliced(before.text, found.splices)
        change = compare_spliced(before.text, found.splices, path=place.given)
        return Rewrite(
            before=before.data,
            after=encoded(text, encoding=before.encoding, place=place),
            told=_told_all(place, found) if args.replace_all else _told(place, found, change, text),
            diff=Diff(
                path=place.given,
                unified=change.unified,
                added=change.added,
                removed=change.removed,
                first_line=change.first_line,
                last_line=change.last_line,
                matched_by=found.overlooked or "exact",
                encoding=before.encoding.name,
                notes=change.notes,
            ),
            lines=carry_over(before.text, found.splices, self._seen.lines(place.path, digest)),
        )


def _told_all(place: Place, found: Edit) -> str:
    count = len(found.splices)
    return f"Edited {place.given}: {count} replacement{'s' * (count != 1)}."


def _told(place: Place, found: Edit, change: Comparison, text: str) -> str:
    """For the model: one line, and where its text was not exact, what stands there now."""
    first, last = change.first_line, change.last_line
    where = f"lines {first}-{last}" if last > first else f"line {first}"
    told = f"Edited {place.given}: {where} (+{change.added} -{change.removed})."
    if not found.overlooked:
        return told
    told += f" old_text differed in {found.overlooked}; the file's own unchanged lines were kept."
    lines = to_lf(text).split("\n", last)[first - 1 : last]
    return _cut(f"{told}\n{numbered(lines[:SHOWN_LINES], first)}")


def _cut(text: str) -> str:
    return text if len(text) <= LIMIT_CHARS else text[: LIMIT_CHARS - 1] + "…"
