"""Text within limits: its start and its end, every byte in a file, and a note on the rest.

However much is fed, memory stays constant. Whatever is left out is counted and reported, and no
result is larger than its limit plus its notes.
"""

import asyncio
import codecs
import hashlib
import os
import time
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from io import StringIO
from pathlib import Path
from typing import Protocol

from agentcli.system.lazy import compile_later
from agentcli.system.plain_text import to_plain_text
from agentcli.system.process import Sink
from agentcli.types.fast_dataclass import dataclass

KEPT_HEAD_BYTES = 40_000
KEPT_TAIL_BYTES = 160_000
LINE_CHARS = 2_000
LOG_LIMIT_BYTES = 200_000_000
"""The usual limit of what is stored: a command that prints without end must not fill the disk."""

_TORN_CHARACTER = compile_later(rb"[\x80-\xbf]{1,3}")
_CAP_NOTE_BYTES = 60
_PROGRESS_BYTES = 8_000


def group_digits(number: int) -> str:
    """Return 4812331 as `4 812 331`."""
    return f"{number:,}".replace(",", " ")


def cap(text: str, limit_bytes: int) -> tuple[str, bool]:
    """Return the text within a limit of at least 100 bytes, and whether anything was left out.

    The end of an output says more than its start, so it gets two thirds of the space.
    """
    data = text.encode("utf-8", "replace")
    if len(data) <= limit_bytes:
        return text, False
    room = max(0, limit_bytes - _CAP_NOTE_BYTES)
    head = data[: room // 3].decode("utf-8", "ignore")
    tail = data[len(data) - (room - room // 3) :].decode("utf-8", "ignore")
    left_out = len(data) - _measure_bytes(head) - _measure_bytes(tail)
    note = f"\n[... {group_digits(left_out)} bytes left out ...]\n"
    return head + note + tail, True


class LogFiles:
    """The files for the outputs of commands, in one directory. Their names are numbers."""

    def __init__(self, directory: Path, *, prefix: str = "") -> None:
        self._directory = directory
        self._prefix = prefix
        self._number = 0

    def create(self) -> tuple[Path, int]:
        """Create the next file and open it. An earlier run may have used some of the numbers."""
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        while True:
            self._number += 1
            path = self._directory / f"{self._prefix}{self._number}.log"
            with suppress(FileExistsError):
                return path, os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputExcerpt:
    """The part of an output that a model is shown."""

    text: str
    lines: int
    """The number of lines of the output, as far as it is stored."""
    shown_lines: int
    is_cut: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputSummary:
    """What is reported of an output."""

    excerpt: OutputExcerpt
    head: str
    tail: str
    """The first and the last lines for the user; no last ones if the first are all."""
    sha256: str
    """The hash of the log; empty while it is written to."""


class BoundedOutput:
    """Takes a stream of bytes: writes all of it to a log, keeps its first and last in memory."""

    def __init__(self, log_path: Path, log_fd: int, *, limit_bytes: int = LOG_LIMIT_BYTES) -> None:
        """`log_fd` is open already. From here on `close` closes it. It gets `limit_bytes` at most,
        whole lines or not."""
        self.log_path = log_path
        self._limit_bytes = limit_bytes
        self.size_bytes = 0
        self.logged_bytes = 0
        self.log_fault = ""
        """The reason why the log lacks the rest; empty while it holds every byte."""
        self.lines = 0
        """The lines that the log has so far. What it does not take is not counted: that would take
        longer than to read it."""
        self._is_line_open = False
        """True if the last of them has no newline yet."""
        self._head = bytearray()
        self._head_limit_bytes = KEPT_HEAD_BYTES
        self._tail = bytearray()
        self._log_fd = log_fd
        self._sha256 = hashlib.sha256()

    def feed(self, chunk: bytes) -> None:
        self.size_bytes += len(chunk)
        self._write(chunk)
        room = self._head_limit_bytes - len(self._head)
        if room > 0:
            self._head += chunk[:room]
            chunk = chunk[room:]
        self._tail += chunk
        if len(self._tail) > 2 * KEPT_TAIL_BYTES:
            del self._tail[:-KEPT_TAIL_BYTES]

    @property
    def is_full(self) -> bool:
        """True if the log takes no more: from then on only the end of the output is kept."""
        return bool(self.log_fault)

    def skip(self, chunk: bytes) -> None:
        """Count a chunk that will not be shown. What comes next does not continue what came."""
        self.size_bytes += len(chunk)
        self._head_limit_bytes = len(self._head)
        self._tail.clear()

    def close(self) -> None:
        if self._log_fd >= 0:
            os.close(self._log_fd)
            self._log_fd = -1

    @property
    def sha256(self) -> str:
        """The hash of what the log holds; empty while it is written to."""
        return self._sha256.hexdigest() if self._log_fd < 0 else ""

    def read_last_lines(self, count: int) -> str:
        """Return the latest output as plain text, cheap enough to be called while it streams."""
        recent = bytes((self._tail or self._head)[-_PROGRESS_BYTES:])
        shown = _split_lines(to_plain_text(_decode_after_cut(recent)))[-count:]
        return _join(shown).rstrip("\n")

    def summarize(
        self, *, limit_bytes: int, head_bytes: int, first: int, last: int
    ) -> OutputSummary:
        """Return an excerpt within the limit, and so many first and last lines."""
        lines = self.read_lines()
        head, tail = lines.build_card(first=first, last=last)
        return OutputSummary(
            excerpt=lines.build_excerpt(limit_bytes=limit_bytes, head_bytes=head_bytes),
            head=head,
            tail=tail,
            sha256=self.sha256,
        )

    def read_lines(self) -> "OutputLines":
        """Return all that is kept, as plain lines."""
        tail = bytes(self._tail[-KEPT_TAIL_BYTES:])
        gap_bytes = self.size_bytes - len(self._head) - len(tail)
        if gap_bytes:
            # Without `final`, the decoder holds back a character that the cut went through.
            head = codecs.getincrementaldecoder("utf-8")("replace").decode(self._head)
            last_lines = _split_lines(to_plain_text(_decode_after_cut(tail)))
        else:
            head = (self._head + tail).decode("utf-8", "replace")
            last_lines = []
        return OutputLines(
            head=_split_lines(to_plain_text(head)),
            tail=last_lines,
            gap_bytes=gap_bytes,
            lines=self.lines,
            is_stored=not self.log_fault,
            where=self._describe_log(),
        )

    def _describe_log(self) -> str:
        extent = "all"
        if self.log_fault:
            size, lines = group_digits(self.logged_bytes), group_digits(self.lines)
            extent = f"the first {size} bytes, {lines} lines,"
        return f"{extent} of it: {self.log_path}, read it with read_file or grep"

    def _write(self, chunk: bytes) -> None:
        """Write to the log. If it cannot be written, a note says so, and the command goes on."""
        if self.log_fault:
            return
        unwritten = chunk[: self._limit_bytes - self.logged_bytes]
        if len(unwritten) < len(chunk):
            self.log_fault = f"it ends at {group_digits(self._limit_bytes)} bytes"
        try:
            while unwritten:
                written = os.write(self._log_fd, unwritten)
                self._note_written(unwritten[:written])
                unwritten = unwritten[written:]
        except OSError as error:
            self.log_fault = error.strerror or str(error)

    def _note_written(self, data: bytes) -> None:
        self.logged_bytes += len(data)
        self._sha256.update(data)
        was_open, self._is_line_open = self._is_line_open, not data.endswith(b"\n")
        self.lines += data.count(b"\n") + self._is_line_open - was_open


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputLines:
    """An output as lines from its start and from its end."""

    head: list[str]
    tail: list[str]
    """Empty if `head` is everything."""
    gap_bytes: int
    """The size of the part between the two, which is only in the log."""
    lines: int
    """The lines in the log."""
    is_stored: bool
    """True if those are all of its lines."""
    where: str

    def build_card(self, *, first: int, last: int) -> tuple[str, str]:
        """Return the first and the last lines for the user; no last ones if the first are all."""
        if not self.gap_bytes and len(self.head) <= first + last:
            return _join(self.head).rstrip("\n"), ""
        ends = self.head[:first], (self.tail or self.head)[-last:]
        return _join(ends[0]).rstrip("\n"), _join(ends[1]).rstrip("\n")

    def build_excerpt(self, *, limit_bytes: int, head_bytes: int) -> OutputExcerpt:
        """Return all of it if it fits, else lines from both ends and a note on the rest."""
        if not self.gap_bytes:
            text = _join(self.head)
            if _measure_bytes(text) <= limit_bytes:
                return self._build_whole(text)
        return self._build_ends(limit_bytes=limit_bytes, head_bytes=head_bytes)

    def _build_whole(self, text: str) -> OutputExcerpt:
        is_cut = any(len(line) > LINE_CHARS for line in self.head)
        if is_cut:
            text = text.removesuffix("\n") + f"\n[... lines were cut; {self.where} ...]\n"
        return OutputExcerpt(text=text, lines=self.lines, shown_lines=self.lines, is_cut=is_cut)

    def _build_ends(self, *, limit_bytes: int, head_bytes: int) -> OutputExcerpt:
        head, tail = _close_gap(self.head, self.tail) if self.gap_bytes else (self.head, [])
        first = _take_fitting(head, head_bytes)
        rest = tail if self.gap_bytes else head[len(first) :]
        last = _take_fitting(reversed(rest), limit_bytes - head_bytes)[::-1]
        shown_lines = min(self.lines, len(first) + len(last))
        kept_bytes = _measure_bytes("".join(self.head)) + _measure_bytes("".join(self.tail))
        left_out = _describe_gap(
            size_bytes=self.gap_bytes
            + kept_bytes
            - _measure_bytes("".join(first))
            - _measure_bytes("".join(last)),
            lines=self.lines - shown_lines if self.is_stored else 0,
        )
        before = _join(first)
        if before and not before.endswith("\n"):
            before += "\n"
        return OutputExcerpt(
            text=f"{before}[... {left_out}; {self.where} ...]\n{_join(last)}",
            lines=self.lines,
            shown_lines=shown_lines,
            is_cut=True,
        )


def _split_lines(text: str) -> list[str]:
    """Return lines with their newlines; only a newline ends one."""
    return StringIO(text, newline="\n").readlines()


def _measure_bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8"))


def _decode_after_cut(data: bytes) -> str:
    """Decode text cut out of a stream, without the rest of a character that was cut."""
    torn = _TORN_CHARACTER.match(data)
    return data[torn.end() if torn else 0 :].decode("utf-8", "replace")


def _close_gap(head: list[str], tail: list[str]) -> tuple[list[str], list[str]]:
    """Return both sides of a gap without the lines it cuts, but with the ends of long ones."""
    half = LINE_CHARS // 2
    *before, left = head or [""]
    *after, right = tail[::-1] or [""]
    if left.endswith("\n"):
        before.append(left)
    elif len(left) > half or not before:
        before.append(left[:half])
    if len(right) > half or not after:
        after.append(right[-half:])
    return before, after[::-1]


def _take_fitting(lines: Iterable[str], limit_bytes: int) -> list[str]:
    fitting = []
    for line in lines:
        limit_bytes -= _measure_bytes(line if len(line) <= LINE_CHARS else _shorten(line))
        if limit_bytes < 0:
            break
        fitting.append(line)
    return fitting


def _join(lines: Iterable[str]) -> str:
    return "".join(map(_shorten, lines))


def _shorten(line: str) -> str:
    if len(line) <= LINE_CHARS:
        return line
    half = LINE_CHARS // 2
    return (
        f"{line[:half]}[... {group_digits(len(line) - 2 * half)} characters left out "
        f"...]{line[-half:]}"
    )


def _describe_gap(*, size_bytes: int, lines: int) -> str:
    of_lines = f", {group_digits(lines)} lines" if lines else ""
    return f"{group_digits(size_bytes)} bytes{of_lines} left out"


def store_output(path: Path, data: bytes) -> OutputLines:
    """Write a whole output to a file that only the user can read, and return its lines."""
    whole = BoundedOutput(path, os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600))
    try:
        whole.feed(data)
    finally:
        whole.close()
    return whole.read_lines()


# Filtering: output is changed before it is stored, so that what was removed is stored nowhere


FILTER_EVERY_S = 0.1
FILTER_CONTEXT_BYTES = 64 * 1024
"""The longest thing that a filter removes."""
_LATEST_BYTES = KEPT_TAIL_BYTES + FILTER_CONTEXT_BYTES


class OutputFilter(Protocol):
    """May hold back the end of its input, and returns the rest when it is closed.

    What is fed after that does not continue what was fed before."""

    def feed(self, chunk: bytes) -> bytes: ...

    def close(self) -> bytes: ...


class BoundedSink(Sink, Protocol):
    """A sink that stores no more at some point, and then needs only the end of its input."""

    @property
    def is_full(self) -> bool: ...

    def skip(self, chunk: bytes) -> None: ...


class FilteredSink:
    """A sink that filters its input and feeds another one.

    Filtering takes longer than all the rest. When the other sink is full, only what comes last now
    and then is filtered, and the rest is counted."""

    def __init__(self, sink: BoundedSink, by: OutputFilter) -> None:
        self._sink = sink
        self._filter = by
        self._latest: deque[bytes] = deque()
        """Input that is not filtered yet, for a sink that is full."""
        self._latest_bytes = 0
        self._has_gap = False
        """True if something before it was skipped."""
        self._not_before = 0.0

    def feed(self, chunk: bytes) -> None:
        if not self._sink.is_full:
            self._feed_filtered(chunk)
            return
        self._latest.append(chunk)
        self._latest_bytes += len(chunk)
        while self._latest_bytes - len(self._latest[0]) >= _LATEST_BYTES:
            skipped = self._latest.popleft()
            self._latest_bytes -= len(skipped)
            self._sink.skip(skipped)
            self._has_gap = True
        if time.monotonic() >= self._not_before:
            self._filter_latest()
            self._not_before = time.monotonic() + FILTER_EVERY_S

    def close(self) -> None:
        self._filter_latest()
        if rest := self._filter.close():
            self._sink.feed(rest)
        self._sink.close()

    def _filter_latest(self) -> None:
        chunk = b"".join(self._latest)
        self._latest.clear()
        self._latest_bytes = 0
        if self._has_gap:
            self._sink.skip(self._filter.close())
            # The first part may be the end of something to be removed. It is not shown.
            self._sink.skip(chunk[:FILTER_CONTEXT_BYTES])
            self._filter.feed(chunk[:FILTER_CONTEXT_BYTES])
            chunk = chunk[FILTER_CONTEXT_BYTES:]
            self._has_gap = False
        self._feed_filtered(chunk)

    def _feed_filtered(self, chunk: bytes) -> None:
        if kept := self._filter.feed(chunk):
            self._sink.feed(kept)


# Live output: it is stored, and its latest lines are reported to the user now and then


REPORT_EVERY_S = 0.1


class LiveOutput:
    """A sink that keeps everything and reports progress at most ten times a second."""

    def __init__(self, output: BoundedOutput, *, report: Callable[[str], None], lines: int) -> None:
        self._kept = output
        self._report = report
        self._lines = lines
        self._loop = asyncio.get_running_loop()
        self._not_before = 0.0
        self._due: asyncio.TimerHandle | None = None
        self._is_watched = True

    def feed(self, chunk: bytes) -> None:
        self._kept.feed(chunk)
        if self._is_watched and self._due is None:
            when = max(self._not_before, self._loop.time())
            self._due = self._loop.call_at(when, self._report_latest)

    @property
    def is_full(self) -> bool:
        return self._kept.is_full

    def skip(self, chunk: bytes) -> None:
        self._kept.skip(chunk)

    def close(self) -> None:
        self._kept.close()

    def stop_progress(self) -> None:
        """Stop reporting: from now on output is only stored."""
        self._is_watched = False
        if self._due is not None:
            self._due.cancel()

    def _report_latest(self) -> None:
        self._due = None
        self._report(self._kept.read_last_lines(self._lines))
        self._not_before = self._loop.time() + REPORT_EVERY_S
