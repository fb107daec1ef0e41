"""The output of a search as text for the model: grouped by file and bounded.

A row is cut around its match, control characters are replaced, and invalid UTF-8 shows as U+FFFD.
Taking ends with the first match beyond the limits, which is not shown; `more` is true then.
"""

import base64
import json
from collections.abc import Iterator
from dataclasses import field
from typing import Any

from agentcli.system.lazy import compile_later
from agentcli.system.plain_text import show_controls
from agentcli.tools.search.scope import SearchScope
from agentcli.types.fast_dataclass import dataclass
from agentcli.types.words import pluralize

ROW_LIMIT_CHARS = 400
OUTPUT_LIMIT_BYTES = 32_000
NARROW = "there are more: narrow the pattern, path or glob"

LONG_RECORD_BYTES = 100_000

_PLACE = compile_later(rb'"start":\d+,"end":\d+\}')


@dataclass(frozen=True, slots=True)
class _Row:
    number: int
    matches: bool
    text: str

    def __str__(self) -> str:
        number = f"  {self.number}{':' if self.matches else '-'}"
        return f"{number} {self.text}" if self.text else number


@dataclass(slots=True)
class _File:
    raw_path: bytes
    path: str
    rows: list[_Row] = field(default_factory=list)
    matches: int = 0

    def lines(self, *, before: int, after: int) -> Iterator[str]:
        yield self.path
        # A stopped search may have printed the lines before a match that is not shown.
        last = max(row.number for row in self.rows if row.matches) + after
        previous = self.rows[0].number - 1
        for row in self.rows:
            if row.number > last:
                return
            if (before or after) and row.number > previous + 1:
                yield "  --"
            yield str(row)
            previous = row.number


class MatchRows:
    """The matching lines, from ripgrep's JSON messages."""

    def __init__(self, scope: SearchScope, *, limit: int, before: int = 0, after: int = 0) -> None:
        self.matches = 0
        self.more = False
        self._unreadable = 0
        self._scope = scope
        self._limit = limit
        self._before = before
        self._after = after
        self._left_bytes = OUTPUT_LIMIT_BYTES
        self._files: list[_File] = []

    @property
    def files(self) -> int:
        return sum(1 for file in self._files if file.matches)

    def lines(self) -> list[str]:
        return [
            line
            for file in self._files
            if file.matches
            for line in file.lines(before=self._before, after=self._after)
        ]

    def notes(self) -> Iterator[str]:
        if self._unreadable:
            yield f"{pluralize(self._unreadable, 'match', many='matches')} of over 16 MB not shown"
        if self.more:
            found = pluralize(self.matches, "match", many="matches")
            yield f"first {found} in {pluralize(self.files, 'file')}; {NARROW}"

    def take(self, record: bytes) -> bool:
        message = _parse_message(record)
        if message is None:
            self._unreadable += 1
            return True
        data = message["data"]
        match message["type"]:
            case "match" | "context" as kind:
                return self._take_lines(data, is_match=kind == "match")
            case "end":
                self._end_file(data)
        return True

    def _take_lines(self, data: dict[str, Any], *, is_match: bool) -> bool:
        raw_path = _decode_raw(data["path"])
        if not self._scope.admits(raw_path):
            return True
        if is_match and self.matches == self._limit:
            self.more = True
            return False
        file = self._ensure_file(raw_path)
        for row in _iter_rows(data, is_match=is_match):
            self._left_bytes -= len(str(row).encode()) + 1
            if self._left_bytes < 0:
                self.more = True
                break
            if row.number == data["line_number"]:
                file.matches += is_match
                self.matches += is_match
            file.rows.append(row)
        return not self.more

    def _ensure_file(self, raw_path: bytes) -> _File:
        if not self._files or self._files[-1].raw_path != raw_path:
            file = _File(raw_path, self._scope.display(raw_path))
            self._left_bytes -= len(file.path.encode()) + 1
            self._files.append(file)
        return self._files[-1]

    def _end_file(self, data: dict[str, Any]) -> None:
        """Drop a file that proved binary: a NUL came after its first matches."""
        is_binary = data["binary_offset"] is not None
        if is_binary and self._files and self._files[-1].raw_path == _decode_raw(data["path"]):
            dropped = self._files.pop()
            self.matches -= dropped.matches
            self._left_bytes += sum(len(str(row).encode()) + 1 for row in dropped.rows)


class FileCounts:
    """The number of matching lines per file, from `path NUL count` lines."""

    def __init__(self, scope: SearchScope, *, limit: int, with_counts: bool) -> None:
        self.more = False
        self._scope = scope
        self._limit = limit
        self._with_counts = with_counts
        self._counts: list[tuple[str, int]] = []
        self._left_bytes = OUTPUT_LIMIT_BYTES
        self._held = b""

    @property
    def matches(self) -> int:
        return sum(count for _, count in self._counts)

    @property
    def files(self) -> int:
        return len(self._counts)

    def lines(self) -> list[str]:
        return [f"{path}: {count}" if self._with_counts else path for path, count in self._counts]

    def notes(self) -> Iterator[str]:
        if self.more:
            yield f"first {pluralize(self.files, 'file')}; {NARROW}"
        elif self._with_counts and self._counts:
            found = pluralize(self.matches, "match", many="matches")
            yield f"{found} in {pluralize(self.files, 'file')}"

    def take(self, record: bytes) -> bool:
        raw_path, nul, count = (self._held + record).rpartition(b"\0")
        # A file name may contain newlines.
        self._held = b"" if nul else self._held + record + b"\n"
        if not nul or not self._scope.admits(raw_path):
            return True
        path = self._scope.display(raw_path)
        self._left_bytes -= len(path.encode()) + len(count) + 3
        if self.files == self._limit or self._left_bytes < 0:
            self.more = True
            return False
        self._counts.append((path, int(count)))
        return True


def _parse_message(record: bytes) -> dict[str, Any] | None:
    """Parse a record; return None if it was cut within a match of many megabytes."""
    if len(record) > LONG_RECORD_BYTES:
        record = _with_one_submatch(record)
    if not record.endswith(b"}"):
        return None
    try:
        parsed: dict[str, Any] = json.loads(record)
    except ValueError:
        return None
    return parsed


def _with_one_submatch(record: bytes) -> bytes:
    """Return the record with only the first match in the line; there may be a million others."""
    # Inside a JSON string every quote is escaped, so these can only be the real ones.
    head, key, submatches = record.partition(b',"submatches":[')
    match = _PLACE.search(submatches)
    return head + key + b"{" + match.group() + b"]}}" if match else record


def _decode_raw(text: dict[str, str]) -> bytes:
    """Return the bytes of a text, which ripgrep gives as base64 if it is not UTF-8."""
    return text["text"].encode() if "text" in text else base64.b64decode(text["bytes"])


def _iter_rows(data: dict[str, Any], *, is_match: bool) -> Iterator[_Row]:
    first = data["submatches"][0] if data["submatches"] else {"start": 0}
    start, end = first["start"], first.get("end", first["start"])
    lines = _decode_raw(data["lines"]).removesuffix(b"\n").split(b"\n")
    for number, line in enumerate(lines, data["line_number"]):
        yield _Row(number, is_match, _cut_window(line.removesuffix(b"\r"), start, end=end))
        start, end = 0, 0


def _cut_window(line: bytes, start: int, *, end: int) -> str:
    """Return the part of a line around its match; positions are in bytes."""
    # A character has at most four bytes: anything further away cannot be in the window.
    reach = 4 * ROW_LIMIT_CHARS + 4
    left, right = max(0, start - reach), start + reach
    text = show_controls(line[left:right].decode("utf-8", "replace"))
    if len(text) <= ROW_LIMIT_CHARS:
        return text
    before = len(line[left:start].decode("utf-8", "replace"))
    length = min(len(line[start:end].decode("utf-8", "replace")), ROW_LIMIT_CHARS)
    begin = max(0, before - (ROW_LIMIT_CHARS - length) // 2)
    begin = min(begin, len(text) - ROW_LIMIT_CHARS)
    stop = begin + ROW_LIMIT_CHARS
    cut_before = "…" if left + begin else ""
    cut_after = "…" if stop < len(text) or right < len(line) else ""
    return cut_before + text[begin:stop] + cut_after
