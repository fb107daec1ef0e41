"""write_file: create a file, or replace one of which the model was shown every line."""

from dataclasses import field
from functools import partial
from typing import ClassVar

from agentcli.system.diff import compare
from agentcli.system.text import UTF8, choose_majority_ending, set_line_ending
from agentcli.system.workspace import Workspace, WorkspacePath
from agentcli.tools import text_file
from agentcli.tools.arguments import (
    FILE_PATH,
    BuiltinArguments,
    TextCheck,
    declare_argument,
    parse_arguments,
)
from agentcli.tools.contracts import load_spec
from agentcli.tools.excerpt import LINE_CHARS
from agentcli.tools.hidden import NOTHING_HIDDEN, HiddenValues
from agentcli.tools.seen import Seen, compute_sha256, count_lines, find_missing, list_all_lines
from agentcli.tools.text_file import FileRewrite, TextFile, encode_text, load_text
from agentcli.types.errors import ToolError
from agentcli.types.fast_dataclass import dataclass
from agentcli.types.messages import Json
from agentcli.types.tools import Diff, Effect, LineRanges, Output, ToolContext, ToolSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteFileArgs(BuiltinArguments):
    path: str = field(metadata=FILE_PATH)
    content: str = field(metadata=declare_argument(TextCheck(), "All of it, e.g. x = 1\\n"))

    aliases: ClassVar[dict[str, str]] = {
        "file_path": "path",
        "filePath": "path",
        "file": "path",
        "filename": "path",
        "contents": "content",
        "text": "content",
        "file_text": "content",
    }
    advice: ClassVar[dict[str, str]] = dict.fromkeys(
        ("append", "mode"), "the whole file is written; to add to it use edit_file"
    )


class WriteFile:
    def __init__(
        self, *, workspace: Workspace, seen: Seen, hidden: HiddenValues = NOTHING_HIDDEN
    ) -> None:
        self._workspace = workspace
        self._seen = seen
        self._hidden = hidden

    @property
    def spec(self) -> ToolSpec:
        return load_spec("write_file")

    def parse(self, raw: Json) -> WriteFileArgs:
        return parse_arguments(WriteFileArgs, raw)

    def effect(self, args: WriteFileArgs) -> Effect:
        return Effect.WRITE

    async def preview(self, args: WriteFileArgs, context: ToolContext) -> Diff:
        return await text_file.preview_rewrite(
            args.path, partial(self._plan, args), workspace=self._workspace
        )

    async def run(self, args: WriteFileArgs, context: ToolContext) -> Output:
        return await text_file.rewrite_file(
            args.path, partial(self._plan, args), workspace=self._workspace, seen=self._seen
        )

    def _plan(self, args: WriteFileArgs, located: WorkspacePath) -> FileRewrite:
        self._workspace.require_writable(located)
        if args.path.endswith("/"):
            raise ToolError(f"Not written: {located.given} names a directory, not a file.")
        if self._workspace.stat(located) is None:
            content = self._hidden.restore(args.content, current="", path=located.given)
            return _rewrite(located, None, text=content)
        before = load_text(self._workspace, located)
        self._require_read(located, before)
        content = self._hidden.restore(args.content, current=before.text, path=located.given)
        if line := text_file.find_placeholder(content, old=before.text):
            raise ToolError(
                f"Not written: {line!r} leaves out lines of {located.given}, and they would be "
                "lost. Give all lines, or change a part with edit_file."
            )
        return _rewrite(located, before, text=_restore_endings(content, before))

    def _require_read(self, located: WorkspacePath, before: TextFile) -> None:
        digest = compute_sha256(before.data)
        knowledge = self._seen.find_knowledge(located.path, digest)
        gaps = find_missing(self._seen.lines(located.path, digest), count_lines(before.text))
        if knowledge == "current" and not gaps:
            return
        if self._seen.is_pending(located.path):
            raise ToolError(
                f"Not written: you read {located.given} in this same reply, and wrote before you "
                "saw it. Look at it, then write."
            )
        match knowledge:
            case "unseen":
                raise ToolError(
                    f"Not written: {located.given} exists and you have not read it. "
                    "Read it first, or use edit_file."
                )
            case "stale":
                raise ToolError(
                    f"Not written: {located.given} changed on disk since you read it. "
                    "Read it again, or use edit_file."
                )
            case "current":
                raise ToolError(_explain_unseen(located, before, gaps=gaps))


def _explain_unseen(located: WorkspacePath, before: TextFile, *, gaps: LineRanges) -> str:
    """Return why a partly shown file is not replaced, and what to do instead."""
    first, last = gaps[0]
    count = sum(end - start + 1 for start, end in gaps)
    what = (
        f"Not written: you have not seen {count} of the {count_lines(before.text)} lines of "
        f"{located.given}, and they would be lost."
    )
    if len(before.text.split("\n", first)[first - 1].removesuffix("\r")) > LINE_CHARS:
        return (
            f"{what} Line {first} is too long to be shown whole: change a part with edit_file, "
            "or rewrite it with bash."
        )
    return (
        f"{what} Read the rest first (read_file path={located.given} offset={first} "
        f"limit={last - first + 1}), or change a part with edit_file."
    )


def _rewrite(located: WorkspacePath, before: TextFile | None, *, text: str) -> FileRewrite:
    encoding = UTF8 if before is None else before.encoding
    data = None if before is None else before.data
    after = before.encode(text, path=located) if before else encode_text(text, path=located)
    change = compare(
        before.text if before else "", text, path=located.given, created=before is None
    )
    size = _format_size(text)
    if data is None:
        summary = f"Created {located.given}: {size}."
    elif data == after:
        summary = f"{located.given} already has exactly this content."
    else:
        summary = f"Wrote {located.given}: {size} (+{change.added} -{change.removed})."
    return FileRewrite(
        before=data,
        after=after,
        summary=summary,
        diff=Diff(
            path=located.given,
            unified=change.unified,
            added=change.added,
            removed=change.removed,
            created=before is None,
            encoding=encoding.name,
            notes=change.notes,
        ),
        lines=list_all_lines(text),
    )


def _restore_endings(content: str, before: TextFile) -> str:
    """Return the content with the line endings of the file, and no second byte order mark."""
    if before.encoding.bom:
        content = content.removeprefix("\ufeff")
    return (
        set_line_ending(content, choose_majority_ending(before.text))
        if "\n" in before.text
        else content
    )


def _format_size(text: str) -> str:
    lines = text.count("\n") + (not text.endswith("\n") and text != "")
    return f"{lines} line{'s' * (lines != 1)}"
