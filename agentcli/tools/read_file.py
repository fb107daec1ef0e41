"""read_file: numbered lines of a text or a notebook, a directory's entries, a PDF, an image."""

import asyncio
import os
import stat
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import field, replace
from typing import BinaryIO, ClassVar, TypeAlias

from agentcli.system.images import READ_BYTES, ImageRefused, decode_picture, detect_image_type
from agentcli.system.notebook import LIMIT_BYTES as NOTEBOOK_BYTES
from agentcli.system.notebook import NotNotebook, is_notebook_name, show_notebook
from agentcli.system.pdf import MAGIC, PdfPages, PdfRefused, read_pdf
from agentcli.system.pdf import READ_BYTES as PDF_BYTES
from agentcli.system.text import STRAY_SHOWN, NotText, decode, show_strays, to_printable
from agentcli.system.workspace import Workspace, WorkspacePath
from agentcli.tools.arguments import (
    FILE_PATH,
    BuiltinArguments,
    WholeCheck,
    declare_argument,
    parse_arguments,
)
from agentcli.tools.contracts import load_spec
from agentcli.tools.excerpt import (
    LINE_CHARS,
    FileExcerpt,
    compute_first_index,
    name_binary,
    read_big_excerpt,
    read_excerpt,
)
from agentcli.tools.hidden import BLOCK_BEGIN, NOTHING_HIDDEN, HiddenValues
from agentcli.tools.seen import compute_sha256, join_ranges
from agentcli.tools.text_file import LIMIT_BYTES
from agentcli.types.errors import ToolError
from agentcli.types.fast_dataclass import dataclass
from agentcli.types.messages import Document, Json, Text
from agentcli.types.tools import Effect, FileView, LineRanges, Output, ToolContext, ToolSpec

LIMIT_LINES = 2000
LIMIT_OUTPUT_BYTES = 50_000
LIMIT_ENTRIES = 500
LIMIT_PAGES = 50
LIMIT_DOCUMENT_PAGES = 10
"""The pages of a PDF that are given at once as a file: a page costs more than its text."""
LIMIT_DOCUMENT_CHARS = 6_000_000
MAGIC_BYTES = 16
AT_ONCE_BYTES = 256 * 1024
OUTLINE_LINES = 80

OutlineFile: TypeAlias = Callable[[WorkspacePath], Awaitable[Sequence[str]]]
"""Returns what a file defines, a line for each with its line numbers; none if that is unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadFileArgs(BuiltinArguments):
    path: str = field(metadata=FILE_PATH)
    offset: int = field(
        default=1,
        metadata=declare_argument(WholeCheck(), "First line, e.g. 201; -50 for the last 50"),
    )
    limit: int = field(
        default=LIMIT_LINES, metadata=declare_argument(WholeCheck(least=1), "Lines, e.g. 100")
    )

    aliases: ClassVar[dict[str, str]] = {
        "file_path": "path",
        "filePath": "path",
        "file": "path",
        "filename": "path",
        "start_line": "offset",
        "line": "offset",
        "max_lines": "limit",
        "start": "offset",
    }
    ignored: ClassVar[frozenset[str]] = frozenset({"encoding"})
    advice: ClassVar[dict[str, str]] = {
        **dict.fromkeys(("end", "end_line"), "give limit, the number of lines"),
        **dict.fromkeys(
            ("view_range", "line_range", "lines", "range"),
            "give offset, the first line, and limit, the number of lines",
        ),
    }


class ReadFile:
    def __init__(
        self,
        *,
        workspace: Workspace,
        images: Callable[[], bool],
        documents: Callable[[], bool] = lambda: False,
        outline: OutlineFile | None = None,
        hidden: HiddenValues = NOTHING_HIDDEN,
    ) -> None:
        """`images` and `documents` return whether the current model accepts such files. `outline`
        is for files that are too large to be shown whole; None for no outlines."""
        self._workspace = workspace
        self._images = images
        self._documents = documents
        self._outline = outline
        self._hidden = hidden

    @property
    def spec(self) -> ToolSpec:
        return load_spec("read_file")

    def parse(self, raw: Json) -> ReadFileArgs:
        return parse_arguments(ReadFileArgs, raw)

    def effect(self, args: ReadFileArgs) -> Effect:
        return Effect.READ

    async def preview(self, args: ReadFileArgs, context: ToolContext) -> None:
        return None

    async def run(self, args: ReadFileArgs, context: ToolContext) -> Output:
        path = self._workspace.locate(args.path, context.grants)
        output = self._read_small(path, args)
        if output is None:
            output = await asyncio.to_thread(self._read, path, args)
        if self._outline is not None and _is_first_part(args, output):
            output = _add_outline(output, await self._outline(path))
        return output

    def _read_small(self, located: WorkspacePath, args: ReadFileArgs) -> Output | None:
        """Read a small text at once, faster than a thread starts; None if it is not one."""
        found = self._workspace.stat(located)
        if found is None or not stat.S_ISREG(found.st_mode) or found.st_size > AT_ONCE_BYTES:
            return None
        with self._open(located) as file:
            head = _read_head(file)
            if detect_image_type(head) or head.startswith(MAGIC):
                return None
            return self._read_other(located, file, head=head, args=args)

    def _read(self, located: WorkspacePath, args: ReadFileArgs) -> Output:
        found = self._workspace.stat(located)
        if found is not None and stat.S_ISDIR(found.st_mode):
            return self._list_directory(located, args)
        with self._open(located) as file:
            head = _read_head(file)
            if media_type := detect_image_type(head):
                return self._show_image(located, media_type, data=file.read(READ_BYTES + 1))
            return self._read_other(located, file, head=head, args=args)

    def _open(self, located: WorkspacePath) -> BinaryIO:
        return os.fdopen(self._workspace.open_file(located), "rb")

    def _read_other(
        self, located: WorkspacePath, file: BinaryIO, *, head: bytes, args: ReadFileArgs
    ) -> Output:
        size_bytes = os.fstat(file.fileno()).st_size
        if head.startswith(MAGIC):
            data = file.read(PDF_BYTES + 1)
            return _read_pages(located, data, args=args, as_file=self._documents())
        try:
            part, digest = _read_excerpt(located, file, size_bytes=size_bytes, args=args)
        except NotText:
            return _describe_binary(located, size_bytes, head=head)
        if digest and part.first > 1:
            file.seek(0)
            part = self._hide_values(part, _read_whole(file, size_bytes))
        return _show_text(located, part, digest=digest, size_bytes=size_bytes)

    def _hide_values(self, part: FileExcerpt, data: bytes) -> FileExcerpt:
        if BLOCK_BEGIN.encode() not in data:
            return part
        current = show_strays(decode(data)[0])
        return replace(part, lines=self._hidden.hide(part.lines, current=current))

    def _list_directory(self, located: WorkspacePath, args: ReadFileArgs) -> Output:
        with self._workspace.open_folder(located) as folder, folder.scan() as entries:
            names = sorted(
                to_printable(entry.name) + "/" * entry.is_dir(follow_symlinks=False)
                for entry in entries
            )
        start = compute_first_index(args.offset, len(names))
        if start >= len(names) > 0:
            raise ToolError(f"It has {len(names)} entries; offset {args.offset} is past the end.")
        rows = list(_take_fitting(names[start : start + min(args.limit, LIMIT_ENTRIES)]))
        last = start + len(rows)
        is_cut = last < len(names)
        if is_cut or start:
            rows.append(f"[entries {start + 1}-{last} of {len(names)}{_go_on(last + 1, is_cut)}]")
        return Output.of(
            "\n".join(rows) or "[empty directory]",
            details=FileView(path=located.given, media="directory", size_bytes=0),
            truncated=is_cut,
        )

    def _show_image(self, located: WorkspacePath, media_type: str, *, data: bytes) -> Output:
        if not self._images():
            raise ToolError(
                f"{located.given} is an image ({media_type}), and this model does not take images. "
                "Tell the user if you need to know what it shows."
            )
        try:
            picture = decode_picture(data)
        except ImageRefused as error:
            raise ToolError(f"{located.given} {error}.") from error
        # The model gives positions in pixels of the image that it was shown.
        note = (Text(text=picture.format_label(located.given)),) if picture.is_smaller else ()
        return Output(
            content=(*note, picture.image),
            details=FileView(
                path=located.given, media="image", size_bytes=len(data), sha256=compute_sha256(data)
            ),
        )


def _is_first_part(args: ReadFileArgs, output: Output) -> bool:
    """Return whether it is the start of a text that the model wanted whole and is too large."""
    is_text = isinstance(output.details, FileView) and output.details.media == "text"
    return is_text and output.truncated and args.offset == 1 and args.limit >= LIMIT_LINES


def _add_outline(output: Output, outline: Sequence[str]) -> Output:
    """Return the output with an outline of the file; of a long one, the outermost definitions."""
    depth = max((len(line) - len(line.lstrip()) for line in outline), default=0)
    while len(outline) > OUTLINE_LINES and depth:
        outline = [line for line in outline if len(line) - len(line.lstrip()) < depth]
        depth -= 1
    if not outline:
        return output
    lines = [*outline[:OUTLINE_LINES], *(["..."] if len(outline) > OUTLINE_LINES else [])]
    note = "\n".join(["", "[outline of the whole file, by lines]", *lines])
    return replace(output, content=(*output.content, Text(text=note)))


def _read_head(file: BinaryIO) -> bytes:
    head = file.read(MAGIC_BYTES)
    file.seek(0)
    return head


def _read_pages(
    located: WorkspacePath, data: bytes, *, args: ReadFileArgs, as_file: bool
) -> Output:
    """Return pages of a PDF: for it, offset and limit count pages.

    With `as_file` the model also gets the file with these pages, and so their pictures."""
    first = args.offset or 1
    try:
        if as_file:
            found = _read_document(data, first, limit=min(args.limit, LIMIT_DOCUMENT_PAGES))
        else:
            found = read_pdf(data, first=first, limit=min(args.limit, LIMIT_PAGES))
    except PdfRefused as error:
        raise ToolError(
            f"{located.given} {error}. Tell the user, or use bash with pdftotext."
        ) from error
    as_file = as_file and len(found.file) <= LIMIT_DOCUMENT_CHARS
    pages = _format_pages(found) or [found.text[:LIMIT_OUTPUT_BYTES]]
    first, last = found.first, found.first + len(pages) - 1
    is_cut = last < found.count
    notes = [f"[pages {first}-{last} of {found.count}{_go_on(last + 1, is_cut)}]"]
    if not found.has_text and not as_file:
        notes.append("[its pages are images; the user can show them with an @ before the path]")
    text, note = "\n".join(pages), "\n".join(notes)
    shown = Document(name=located.given, data=found.file, text=text, pages=len(pages))
    return Output(
        content=(shown, Text(text=note)) if as_file else (Text(text=f"{text}\n{note}"),),
        details=FileView(
            path=located.given,
            media="pdf",
            size_bytes=len(data),
            first_line=first,
            last_line=last,
            total_lines=found.count,
            sha256=compute_sha256(data),
        ),
        truncated=is_cut,
    )


def _read_document(data: bytes, first: int, *, limit: int) -> PdfPages:
    """Return as many pages as fit in a document, by their text and by the size of their file."""
    found = read_pdf(data, first=first, limit=limit)
    while len(found.texts) > 1:
        share = LIMIT_DOCUMENT_CHARS / len(found.file)
        fitting = min(len(_format_pages(found)), int(share * len(found.texts)))
        if fitting >= len(found.texts):
            break
        found = read_pdf(data, first=first, limit=max(1, fitting))
    return found


def _format_pages(found: PdfPages) -> list[str]:
    """Return the texts of the pages that fit in the output limit."""
    return list(
        _take_fitting(
            f"[page {number} of {found.count}]\n{text or '[no text: it is an image]'}"
            for number, text in enumerate(found.texts, found.first)
        )
    )


def _show_text(
    located: WorkspacePath, part: FileExcerpt, *, digest: str, size_bytes: int
) -> Output:
    rows = list(
        _take_fitting(f"{number}\t{line}" for number, line in enumerate(part.lines, part.first))
    )
    return Output.of(
        "\n".join([*rows, *_iter_footer(part, len(rows))]),
        details=FileView(
            path=located.given,
            media="text",
            size_bytes=size_bytes,
            first_line=part.first if rows else 0,
            last_line=part.first + len(rows) - 1 if rows else 0,
            total_lines=part.total,
            encoding=part.encoding.name,
            sha256=digest,
            shown=_find_shown(part, len(rows)) if digest else (),
        ),
        truncated=part.has_more or len(rows) < len(part.lines),
    )


def _find_shown(part: FileExcerpt, count: int) -> LineRanges:
    """Return which of the first `count` lines were not shortened."""
    return join_ranges((part.first + at,) * 2 for at in range(count) if at not in part.cut)


def _read_excerpt(
    located: WorkspacePath, file: BinaryIO, *, size_bytes: int, args: ReadFileArgs
) -> tuple[FileExcerpt, str]:
    """Return the lines, and the hash of the file if all of it was read."""
    limit = min(args.limit, LIMIT_LINES)
    if is_notebook_name(located.given) and size_bytes:
        data = file.read(NOTEBOOK_BYTES + 1)
        try:
            cells = show_notebook(data).encode("utf-8", "replace")
        except NotNotebook as error:
            if len(data) > LIMIT_BYTES:
                raise ToolError(f"{located.given} {error}.") from None
            file.seek(0)  # it is shown as the text that it is
        else:
            return read_excerpt(cells, offset=args.offset, limit=limit), compute_sha256(data)
    if size_bytes <= LIMIT_BYTES:
        data = _read_whole(file, size_bytes)
        return read_excerpt(data, offset=args.offset, limit=limit), compute_sha256(data)
    return read_big_excerpt(file, size_bytes=size_bytes, offset=args.offset, limit=limit), ""


def _read_whole(file: BinaryIO, size_bytes: int) -> bytes:
    """Read up to the limit; a file may be longer than its size: it grows, or reports none."""
    data = file.read(size_bytes + 1)  # a buffer for the whole limit would be mapped and given back
    while size_bytes < len(data) < LIMIT_BYTES and (more := file.read(AT_ONCE_BYTES)):
        data += more
    return data[:LIMIT_BYTES]


def _take_fitting(rows: Iterable[str]) -> Iterator[str]:
    """Yield as many rows as fit in the output limit; one row always fits."""
    size_bytes = 0
    for row in rows:
        size_bytes += len(row.encode("utf-8", "replace")) + 1
        if size_bytes > LIMIT_OUTPUT_BYTES:
            return
        yield row


def _iter_footer(part: FileExcerpt, shown: int) -> Iterator[str]:
    """Yield notes in brackets on what the lines do not show."""
    if part.total == 0:
        yield "[empty file]"
        return
    last = part.first + shown - 1
    is_cut = part.has_more or shown < len(part.lines)
    if part.first < 0:
        yield f"[lines {part.first} to {last}, counted from the end{_go_on(last + 1, is_cut)}]"
    elif is_cut or part.first > 1:
        total = "" if part.total is None else f" of {part.total}"
        yield f"[lines {part.first}-{last}{total}{_go_on(last + 1, is_cut)}]"
    if part.cut and part.first > 0 and (at := min(part.cut)) < shown:
        line = f"sed -n {part.first + at}p FILE | cut -c{LINE_CHARS + 1}-"
        yield f"[line {part.first + at} is cut: {line} in bash shows the rest]"
    if part.ending:
        yield f"[{part.ending} line endings]"
    if part.encoding.name != "utf-8":
        strays = f", shown as {STRAY_SHOWN}; edits keep them" * part.encoding.has_strays
        yield f"[encoding {part.encoding.name}{strays}]"
    if not part.has_final_newline and not is_cut:
        yield "[no newline at the end]"


def _go_on(offset: int, is_cut: bool) -> str:
    return f"; continue with offset={offset}" if is_cut else ""


def _describe_binary(located: WorkspacePath, size_bytes: int, *, head: bytes) -> Output:
    name = name_binary(head)
    size = f"{size_bytes:,}".replace(",", " ")
    return Output.of(
        f"binary file, {size} bytes ({name or 'use bash with file, strings or xxd'})",
        details=FileView(path=located.given, media="binary", size_bytes=size_bytes),
    )
