"""edit_file: replace text in a file, byte for byte, or refuse."""

import json
from collections.abc import Sequence
from dataclasses import field
from functools import partial
from typing import Any, ClassVar

from agentcli.system.diff import Comparison, compare_spliced
from agentcli.system.lazy import compile_later
from agentcli.system.text import splice, to_lf, to_printable
from agentcli.system.workspace import Workspace, WorkspacePath
from agentcli.tools import text_file
from agentcli.tools.arguments import (
    FILE_PATH,
    ArrayCheck,
    BuiltinArguments,
    ObjectCheck,
    SwitchCheck,
    TextCheck,
    declare_argument,
    get_description,
    parse_arguments,
)
from agentcli.tools.contracts import load_spec
from agentcli.tools.edit.edit import (
    EditRequest,
    PlannedEdit,
    make_refusal,
    plan_edit,
    plan_edits,
    plan_lines,
)
from agentcli.tools.edit.near import SHOWN_LINES, number_lines
from agentcli.tools.hidden import NOTHING_HIDDEN, HiddenValues
from agentcli.tools.seen import Seen, carry_over, compute_sha256, count_lines
from agentcli.tools.text_file import FileRewrite, TextFile, load_text
from agentcli.types.errors import ToolError
from agentcli.types.fast_dataclass import dataclass
from agentcli.types.messages import Json
from agentcli.types.tools import Diff, Effect, ErrorKind, Output, ToolContext, ToolSpec

LIMIT_CHARS = 4000


_TEXT_ALIASES = {
    "old": "old_text",
    "search": "old_text",
    "new": "new_text",
    "replace": "new_text",
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


_RANGE = compile_later(r"\s*(\d{1,9})(?:\s*[-–:,]\s*(\d{1,9}))?\s*")


@dataclass(frozen=True, slots=True, kw_only=True)
class TextEdit(BuiltinArguments):
    """One of several edits."""

    old_text: str = field(metadata=declare_argument(TextCheck()))
    new_text: str = field(metadata=declare_argument(TextCheck()))
    replace_all: bool = field(default=False, metadata=declare_argument(SwitchCheck()))
    """Accepted, but not declared: few edits need it, and every request would carry it."""

    aliases: ClassVar[dict[str, str]] = _TEXT_ALIASES


def _write_range(given: Any) -> Any:
    """Return a range of lines as text, however a model writes it."""
    numbers = given if isinstance(given, list) else [given]
    is_numeric = all(isinstance(one, int) and not isinstance(one, bool) for one in numbers)
    return "-".join(map(str, numbers)) if is_numeric and len(numbers) in (1, 2) else given


def _read_array(given: Any) -> Any:
    """Return an array that a model wrote as text; anything else as it is."""
    if not isinstance(given, str):
        return given
    try:
        return json.loads(given)
    except ValueError:
        return given


_EDITS = ArrayCheck(
    item=ObjectCheck(of=TextEdit, undeclared=frozenset({"replace_all"})), read=_read_array
)


@dataclass(frozen=True, slots=True, kw_only=True)
class EditFileArgs(BuiltinArguments):
    path: str = field(metadata=FILE_PATH)
    old_text: str | None = field(default=None, metadata=declare_argument(TextCheck(), "e.g. x = 1"))
    new_text: str | None = field(default=None, metadata=declare_argument(TextCheck(), "e.g. x = 2"))
    replace_all: bool = field(
        default=False, metadata=declare_argument(SwitchCheck(), "e.g. true to rename")
    )
    lines: str | None = field(
        default=None,
        metadata=declare_argument(TextCheck(read=_write_range), "For old_text, e.g. 40-96"),
    )
    edits: list[TextEdit] = field(
        default_factory=list, metadata=declare_argument(_EDITS, "Several, e.g. two: all or none")
    )

    aliases: ClassVar[dict[str, str]] = {
        "file_path": "path",
        "filePath": "path",
        "file": "path",
        "filename": "path",
        "line_range": "lines",
        "range": "lines",
        **_TEXT_ALIASES,
    }
    advice: ClassVar[dict[str, str]] = {
        **dict.fromkeys(
            ("insert_line", "insert_after", "insert", "position", "line"),
            "to insert, give the line before as old_text, and both lines as new_text",
        ),
        "command": "this tool replaces text, and needs none",
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
        return load_spec("edit_file")

    def parse(self, raw: Json) -> EditFileArgs:
        args = parse_arguments(EditFileArgs, raw)
        if fault := _find_fault(args):
            raise ToolError(f"Invalid input: {fault}.", kind=ErrorKind.INVALID_INPUT)
        return args

    def effect(self, args: EditFileArgs) -> Effect:
        return Effect.WRITE

    async def preview(self, args: EditFileArgs, context: ToolContext) -> Diff:
        return await text_file.preview_rewrite(
            args.path, partial(self._plan, args), workspace=self._workspace
        )

    async def run(self, args: EditFileArgs, context: ToolContext) -> Output:
        return await text_file.rewrite_file(
            args.path, partial(self._plan, args), workspace=self._workspace, seen=self._seen
        )

    def _plan(self, args: EditFileArgs, located: WorkspacePath) -> FileRewrite:
        self._workspace.require_writable(located)
        before = self._load(located)
        digest = compute_sha256(before.data)
        knowledge = self._seen.find_knowledge(located.path, digest)
        restore = partial(self._hidden.restore, current=before.text, path=located.given)
        one = TextEdit(old_text=args.old_text or "", new_text=args.new_text or "")
        requests = [
            EditRequest(
                path=located.given,
                old=restore(edit.old_text),
                new=restore(edit.new_text),
                replace_all=args.replace_all or edit.replace_all,
                is_stale=knowledge == "stale",
            )
            for edit in args.edits or (one,)
        ]
        _refuse_placeholders(requests, before)
        try:
            if args.lines:
                first, last = self._find_range(args.lines, located, before=before)
                found = plan_lines(before.text, first, last=last, new=requests[0].new)
            elif args.edits:
                found = plan_edits(before.text, requests)
            else:
                found = plan_edit(before.text, requests[0])
        except ToolError as error:
            raise ToolError(_cut(str(error)), kind=error.kind) from None
        text = splice(before.text, found.splices)
        change = compare_spliced(before.text, found.splices, path=located.given)
        return FileRewrite(
            before=before.data,
            after=before.encode(text, path=located),
            summary=_describe_all(located, found)
            if args.replace_all and not args.edits and not args.lines
            else _describe(located, found, change=change, text=text),
            diff=Diff(
                path=located.given,
                unified=change.unified,
                added=change.added,
                removed=change.removed,
                first_line=change.first_line,
                last_line=change.last_line,
                matched_by=found.overlooked or "exact",
                encoding=before.encoding.name,
                notes=change.notes,
            ),
            # The outputs of changed cells are gone, so the lines of a notebook may have moved.
            lines=()
            if before.is_notebook
            else carry_over(
                before.text, found.splices, lines=self._seen.lines(located.path, digest)
            ),
        )

    def _load(self, located: WorkspacePath) -> TextFile:
        if self._workspace.stat(located) is None:
            missing = str(self._workspace.build_missing_error(located))
            raise ToolError(missing if "?" in missing else f"{missing} write_file creates files.")
        return load_text(self._workspace, located)

    def _find_range(
        self, written: str, located: WorkspacePath, *, before: TextFile
    ) -> tuple[int, int]:
        """Return the first and last line; refuse a range that the model may not have in mind."""
        found = _RANGE.fullmatch(written)
        assert found is not None
        first, last = int(found[1]), int(found[2] or found[1])
        total = count_lines(before.text)
        if first > last:
            raise make_refusal(f"lines {first}-{last}: the first number is the larger one.")
        if not 1 <= first <= last <= total:
            raise make_refusal(f"lines {first}-{last}: {located.given} has lines 1-{total}.")
        digest = compute_sha256(before.data)
        read = f"read_file path={located.given} offset={first} limit={last - first + 1}"
        shown = self._seen.find_numbered_lines(located.path, digest)
        if not shown:
            raise make_refusal(
                f"{located.given} is not as you last read it, so line numbers may have moved. "
                f"Look at the lines first ({read}), or give old_text."
            )
        if not any(start <= first and last <= end for start, end in shown):
            raise make_refusal(f"you have not seen all of lines {first}-{last}. Read them: {read}.")
        return first, last


def _refuse_placeholders(requests: Sequence[EditRequest], before: TextFile) -> None:
    """Raise ToolError if a new text stands for lines that it does not have."""
    for request in requests:
        if line := text_file.find_placeholder(request.new, old=f"{before.text}\n{request.old}"):
            raise make_refusal(
                f"{line!r} in new_text stands for lines that are left out. new_text is written as "
                "it is: give all lines, or a smaller old_text."
            )


def _find_fault(args: EditFileArgs) -> str:
    """Return what is wrong with the arguments together; an empty string if nothing is."""
    given = {"old_text": args.old_text, "new_text": args.new_text}
    if args.lines:
        if args.old_text or args.edits:
            return "give lines with new_text, or old_text, or edits, not several of them"
        if not _RANGE.fullmatch(args.lines):
            return f'lines must be like 40-96, not "{to_printable(args.lines)}"'
        del given["old_text"]
    if args.edits:
        # A model that must fill every field sends empty texts beside them.
        return "give edits, or old_text and new_text, not both" if any(given.values()) else ""
    missing = [name for name, text in given.items() if text is None]
    if missing == ["new_text"]:
        return 'new_text is missing (e.g. x = 2, or "" to delete old_text)'
    return "; ".join(
        f"{name} is missing ({get_description(EditFileArgs, name)})" for name in missing
    )


def _describe_all(path: WorkspacePath, found: PlannedEdit) -> str:
    count = len(found.splices)
    return f"Edited {path.given}: {count} replacement{'s' * (count != 1)}."


def _describe(path: WorkspacePath, found: PlannedEdit, *, change: Comparison, text: str) -> str:
    """Describe the edit for the model; if the match was not exact, show the new lines."""
    first, last = change.first_line, change.last_line
    where = f"lines {first}-{last}" if last > first else f"line {first}"
    summary = f"Edited {path.given}: {where} (+{change.added} -{change.removed})."
    if not found.overlooked:
        return summary
    summary += (
        f" old_text differed in {found.overlooked}; the file's own unchanged lines were kept."
    )
    lines = to_lf(text).split("\n", last)[first - 1 : last]
    return _cut(f"{summary}\n{number_lines(lines[:SHOWN_LINES], first)}")


def _cut(text: str) -> str:
    return text if len(text) <= LIMIT_CHARS else text[: LIMIT_CHARS - 1] + "…"
