"""An excerpt of the lines of a file of any size, and the kind of one that has no lines.

A file within the size limit is read whole, so its line count and its hash are known.
"""

import codecs
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import BinaryIO

from agentcli.system.text import (
    SNIFFED_BYTES,
    Encoding,
    NotText,
    choose_by_evidence,
    decode,
    show_strays,
    sniff,
)
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
    lines = [show_strays(line.removesuffix("\r")) for line in lines]
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


# Lines of a file too large for memory: only a bounded part of it is read.
#
# Lines counted from the end have numbers from the end, as the total number is not known.


BLOCK_BYTES = 1 << 20
SCANNED_BYTES = 1 << 30
SAMPLED_BYTES = 1 << 23
TAIL_BYTES = 1 << 16
LONGEST_TAIL_BYTES = 1 << 22
LONGEST_LINE_CHARS = 1 << 26

_ONE_BYTE = Encoding(codec="windows-1252")


def read_big_excerpt(file: BinaryIO, *, size_bytes: int, offset: int, limit: int) -> FileExcerpt:
    """Read an excerpt; raise NotText if binary, ToolError if the lines are absent or too far."""
    encoding = sniff(file.read(SNIFFED_BYTES))
    if not encoding.codec.startswith("utf"):
        encoding = _ONE_BYTE
    if offset < 0:
        return _read_from_end(file, encoding, size_bytes=size_bytes, count=-offset, limit=limit)
    try:
        return _read_from_start(file, encoding, offset=max(offset, 1), limit=limit)
    except UnicodeDecodeError as error:
        encoding = _choose_fallback(file, encoding, misfit=error.object)
        return _read_from_start(file, encoding, offset=max(offset, 1), limit=limit)


def _choose_fallback(file: BinaryIO, encoding: Encoding, *, misfit: bytes) -> Encoding:
    """Return the encoding to use if only the beginning of the file fits the first one."""
    if encoding.codec != "utf-8":
        raise NotText(f"it begins like {encoding.codec} but is not")
    file.seek(0)
    found = choose_by_evidence(file.read(SAMPLED_BYTES) + misfit)
    return found if found.has_strays else _ONE_BYTE


def _read_from_start(file: BinaryIO, encoding: Encoding, *, offset: int, limit: int) -> FileExcerpt:
    file.seek(len(encoding.bom))
    collected = _LineCollector(offset, limit)
    for text in _iter_texts(file, encoding):
        collected.feed(text)
        if collected.is_full:
            break
    else:
        collected.finish()
    if not collected.lines:
        raise build_past_end_error(collected.number - 1, offset)
    return FileExcerpt(
        lines=list(map(show_strays, collected.lines)),
        first=offset,
        total=None if collected.is_full else collected.number - 1,
        has_more=collected.is_full,
        encoding=encoding,
    )


def _iter_texts(file: BinaryIO, encoding: Encoding) -> Iterator[str]:
    decoder = None
    if encoding is not _ONE_BYTE:
        decoder = codecs.getincrementaldecoder(encoding.codec)(encoding.errors)
    for _ in range(SCANNED_BYTES // BLOCK_BYTES):
        block = file.read(BLOCK_BYTES)
        yield decoder.decode(block, not block) if decoder else encoding.decode(block)
        if not block:
            return
    raise ToolError(
        "Those lines are more than 1 GB into the file. Use a negative offset to read from its "
        "end, or bash (grep, sed -n) to get there."
    )


class _LineCollector:
    """Collects lines from a given one on; of a long line only the beginning is kept."""

    def __init__(self, first: int, limit: int) -> None:
        self.lines: list[str] = []
        self.number = 1
        """The number of the next line."""
        self.is_full = False
        """True if the file has more than was wanted."""
        self._first = first
        self._limit = limit
        self._begun = ""
        self._length = 0

    def feed(self, text: str) -> None:
        missing = self._first - self.number
        if missing > 0:
            newlines = text.count("\n")
            self.number += min(newlines, missing)
            if newlines < missing:
                if text:
                    self._length = len(text) - text.rfind("\n") - 1
                return
            self._length = 0
            text = text.split("\n", missing)[missing]
        *ended, rest = text.split("\n", self._limit - len(self.lines))
        for piece in ended:
            self._append(piece)
            self._end_line()
        self._append(rest)
        if len(self.lines) == self._limit:
            self.is_full = bool(rest)
        elif self._length > LONGEST_LINE_CHARS:
            self._end_line("more than ")
            self.is_full = True

    def finish(self) -> None:
        if self._length and self.number < self._first:
            self.number += 1
        elif self._length:
            self._end_line()

    def _append(self, piece: str) -> None:
        self._length += len(piece)
        self._begun += piece[: LINE_CHARS + 1 - len(self._begun)]

    def _end_line(self, about: str = "") -> None:
        line = self._begun.removesuffix("\r") if self._length <= LINE_CHARS + 1 else self._begun
        self.lines.append(shorten_line(line, length=self._length, about=about))
        self._begun, self._length = "", 0
        self.number += 1


def _read_from_end(
    file: BinaryIO, encoding: Encoding, *, size_bytes: int, count: int, limit: int
) -> FileExcerpt:
    tail_bytes = TAIL_BYTES
    while True:
        start = max(size_bytes - tail_bytes, len(encoding.bom))
        lines, encoding = _read_tail(file, encoding, start=start)
        if len(lines) >= count or start == len(encoding.bom):
            break
        if tail_bytes >= LONGEST_TAIL_BYTES:
            raise ToolError(
                f"The last {LONGEST_TAIL_BYTES >> 20} MB of the file have less than {count} lines. "
                "Ask for fewer, or count from the beginning."
            )
        tail_bytes *= 4
    kept = lines[-count:]
    return FileExcerpt(
        lines=[shorten_line(show_strays(line.removesuffix("\r"))) for line in kept[:limit]],
        first=-len(kept),
        total=None,
        has_more=limit < len(kept),
        encoding=encoding,
    )


def _read_tail(file: BinaryIO, encoding: Encoding, *, start: int) -> tuple[list[str], Encoding]:
    """Return the whole lines after a position; a line cut by the position is left out."""
    newline = b"\n" if encoding is _ONE_BYTE else "\n".encode(encoding.codec)
    start -= (start - len(encoding.bom)) % len(newline)
    file.seek(start)
    data = file.read()
    if start > len(encoding.bom):
        first = _find_aligned(data, newline)
        if first < 0:
            return [], encoding
        data = data[first + len(newline) :]
    try:
        text = encoding.decode(data)
    except UnicodeDecodeError as error:
        encoding = _choose_fallback(file, encoding, misfit=error.object)
        text = encoding.decode(data)
    return text.removesuffix("\n").split("\n"), encoding


def _find_aligned(data: bytes, newline: bytes) -> int:
    """Return the position of the first newline aligned to a character, or a negative number."""
    found = data.find(newline)
    while found % len(newline) and found >= 0:
        found = data.find(newline, found + 1)
    return found
