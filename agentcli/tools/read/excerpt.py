"""An excerpt of the lines of a file.

A file within the size limit is read whole, so its line count and its hash are known.
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import accumulate

from agentcli.system.text import Encoding, decode
from agentcli.types.errors import ToolError
from agentcli.types.fast_dataclass import dataclass

LINE_CHARS = 2000
PART_CHARS = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class FileExcerpt:
    lines: list[str]
    """The lines without newlines, shortened if they are very long."""
    first: int
    """The number of the first line; below zero if counted from the end."""
    total: int | None
    """The number of lines in the file, or None if it is not known."""
    has_more: bool
    encoding: Encoding
    ending: str = ""
    """The line ending, if it is not a plain newline."""
    has_final_newline: bool = True
    cut: frozenset[int] = frozenset()
    """The indices of the shortened lines, counted from 0; empty for a file that is too large."""


def read_excerpt(data: bytes, *, offset: int, limit: int) -> FileExcerpt:
    """Read from a whole file; raise NotText if it is binary, ToolError if the lines are absent."""
    text, encoding = decode(data)
    has_final_newline = not text or text.endswith("\n")
    newlines = [*accumulate(text.count("\n", *part) for part in _iter_parts(text))]
    total = (newlines[-1] if newlines else 0) + (not has_final_newline)
    start = compute_first_index(offset, total)
    if start >= total > 0:
        raise build_past_end_error(total, offset)
    lines = _slice_lines(text, newlines, start=start, count=min(limit, total - start))
    lines = [line.removesuffix("\r") for line in lines]
    return FileExcerpt(
        lines=[shorten_line(line) for line in lines],
        first=start + 1,
        total=total,
        has_more=start + limit < total,
        encoding=encoding,
        ending=_name_ending(text),
        has_final_newline=has_final_newline,
        cut=frozenset(at for at, line in enumerate(lines) if len(line) > LINE_CHARS),
    )


def _iter_parts(text: str) -> Iterator[tuple[int, int]]:
    return ((at, at + PART_CHARS) for at in range(0, len(text), PART_CHARS))


def _slice_lines(text: str, newlines: Sequence[int], *, start: int, count: int) -> list[str]:
    """Return lines by splitting only the parts of the text that hold them.

    `newlines` are the cumulative counts at the end of each part."""
    first = bisect_left(newlines, start)
    last = bisect_left(newlines, start + count)
    skipped = start - (newlines[first - 1] if first else 0)
    part = text[first * PART_CHARS : (last + 1) * PART_CHARS]
    return part.split("\n", skipped + count)[skipped : skipped + count]


def compute_first_index(offset: int, total: int) -> int:
    """Return the index, counted from 0, that an offset means; it may be past the end."""
    return max(offset, 1) - 1 if offset >= 0 else max(total + offset, 0)


def build_past_end_error(total: int, offset: int) -> ToolError:
    lines = "1 line" if total == 1 else f"{total} lines"
    return ToolError(
        f"The file has {lines}; offset {offset} is past the end. offset=-50 shows the last 50."
    )


def shorten_line(line: str, *, length: int | None = None, about: str = "") -> str:
    """Shorten a long line; `length` and `about` give its size if only its beginning is known."""
    length = len(line) if length is None else length
    if length <= LINE_CHARS:
        return line
    return f"{line[:LINE_CHARS]}… [line has {about}{length} characters]"


def _name_ending(text: str) -> str:
    crlf = text.count("\r\n") if "\r" in text else 0
    if not crlf:
        return ""
    return "CRLF" if crlf == text.count("\n") else "mixed CRLF and LF"


# The kind of a binary file, by its first bytes.


_BINARIES = (
    (b"\x7fELF", "ELF executable"),
    (b"MZ", "Windows executable"),
    (b"\xfe\xed\xfa", "Mach-O executable"),
    (b"\xcf\xfa\xed\xfe", "Mach-O executable"),
    (b"\xca\xfe\xba\xbe", "Java class or Mach-O executable"),
    (b"\0asm", "WebAssembly module"),
    (b"PK\x03\x04", "zip archive: use bash with unzip -l, or unzip -p FILE MEMBER"),
    (b"\x1f\x8b", "gzip data: use bash with zcat, or tar -tzf for an archive"),
    (b"BZh", "bzip2 data: use bash with bzcat, or tar -tjf for an archive"),
    (b"\xfd7zXZ\0", "xz data: use bash with xzcat, or tar -tJf for an archive"),
    (b"\x28\xb5\x2f\xfd", "zstd data: use bash with zstdcat"),
    (b"7z\xbc\xaf\x27\x1c", "7z archive"),
    (b"SQLite format 3\0", "SQLite database: use bash with python3 and its module sqlite3"),
    (b"BM", "bitmap image"),
    (b"\0\0\x01\0", "icon"),
    (b"OggS", "Ogg media"),
    (b"ID3", "MP3 audio"),
    (b"wOFF", "web font"),
    (b"wOF2", "web font"),
)


def name_binary(head: bytes) -> str | None:
    return next((name for magic, name in _BINARIES if head.startswith(magic)), None)
