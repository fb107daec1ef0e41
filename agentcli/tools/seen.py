"""The model's knowledge of each file: lines that it was shown whole, and text that it wrote itself.

It is a fold over the facts of one conversation. So it is the same after a resume, and files that a
child agent read are not known to its parent. Content decides, never a timestamp. What was read
counts from the next reply on: the calls of one reply were written before their results were shown.
"""

import asyncio
import hashlib
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Literal

from agentcli.system.text import Splice, splice
from agentcli.types.errors import ToolError
from agentcli.types.events import (
    CallFinished,
    CallJudged,
    Fact,
    ModelReplied,
    ResultsTrimmed,
    Rewound,
    list_effective_facts,
)
from agentcli.types.tools import Diff, FileView, KnownFile, LineRanges, ToolResult

Knowledge = Literal["unseen", "current", "stale"]

RANGES_MAX = 1000
"""The most ranges recorded for one file; the rest counts as not shown."""


def compute_sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


class FileLocks:
    """One lock per real path keeps read, match and write together, for all callers."""

    def __init__(self) -> None:
        self._locks: dict[Path, asyncio.Lock] = {}

    def get_lock(self, path: Path) -> asyncio.Lock:
        return self._locks.setdefault(path, asyncio.Lock())


class Seen:
    def __init__(
        self,
        facts: Sequence[Fact] = (),
        *,
        locate: Callable[[str], Path] = Path,
        locks: FileLocks | None = None,
    ) -> None:
        """`facts` are those of the conversation, which may grow. `locate` returns the real path of
        a name, or raises ToolError. `locks` are shared by all that write to the same files."""
        self.lock = (locks or FileLocks()).get_lock
        self._facts = facts
        self._folded = 0
        self._locate = locate
        self._known: dict[Path, KnownFile] = {}
        self._numbered: dict[Path, KnownFile] = {}
        """The lines that the model was shown with their numbers, and has not changed since."""
        self._pending: dict[str, FileView] = {}
        """By call id, the files that were read but not sent to the model yet."""
        self._in_programs: set[str] = set()
        """The ids of calls made by programs; the model does not get their results."""

    def find_knowledge(self, path: Path, digest: str) -> Knowledge:
        """Return how the model knows the file that now has this hash."""
        self._catch_up()
        known = self._known.get(path)
        if known is None:
            return "unseen"
        return "current" if known.sha256 == digest else "stale"

    def lines(self, path: Path, digest: str) -> LineRanges:
        """Return the lines of the file, in its current state, that the model knows whole."""
        self._catch_up()
        return _read_lines(self._known.get(path), digest)

    def find_numbered_lines(self, path: Path, digest: str) -> LineRanges:
        """Return the lines whose current numbers the model was shown, not only their text."""
        self._catch_up()
        return _read_lines(self._numbered.get(path), digest)

    def is_pending(self, path: Path) -> bool:
        """Return whether the file was read in the same reply that now acts on it."""
        self._catch_up()
        return any(self._find_path(view.path) == path for view in self._pending.values())

    def _catch_up(self) -> None:
        new, self._folded = self._facts[self._folded :], len(self._facts)
        if any(isinstance(fact, Rewound) for fact in new):
            for known in (self._known, self._numbered, self._pending, self._in_programs):
                known.clear()
            new = list_effective_facts(self._facts)
        for fact in new:
            self._add(fact)

    def _add(self, fact: Fact) -> None:
        match fact:
            case CallJudged(call=call) if call.caller:
                self._in_programs.add(call.id)
            case CallFinished(result=result) if result.status == "ok":
                self._finish(result)
            case ResultsTrimmed(results=results):
                for trimmed in results:
                    self._cut(trimmed.call_id, trimmed.last_line)
            case ModelReplied():
                for view in self._pending.values():
                    self._show(view)
                self._pending.clear()
            case _:
                pass

    def _finish(self, result: ToolResult) -> None:
        match result.details:
            case FileView() as view if view.sha256 and result.call_id not in self._in_programs:
                self._pending[result.call_id] = view
            case Diff() as diff:
                for file in diff.known or (KnownFile(path=diff.path, sha256=diff.sha256),):
                    self._write(file)
            case _:
                pass

    def _cut(self, call_id: str, last_line: int) -> None:
        """Limit a pending file to the lines up to `last_line`, since the model gets no more."""
        view = self._pending.get(call_id)
        if view is not None:
            self._pending[call_id] = replace(view, shown=cut_lines(view.shown, last_line))

    def _write(self, file: KnownFile) -> None:
        path = self._find_path(file.path)
        if path is None or not file.sha256:
            return
        self._known[path] = file
        before = [
            call for call, view in self._pending.items() if self._find_path(view.path) == path
        ]
        for call in before:
            del self._pending[call]

    def _show(self, view: FileView) -> None:
        path = self._find_path(view.path)
        if path is not None:
            for known in (self._known, self._numbered):
                before = _read_lines(known.get(path), view.sha256)
                lines = join_ranges((*before, *view.shown))[:RANGES_MAX]
                known[path] = KnownFile(path=view.path, sha256=view.sha256, lines=lines)

    def _find_path(self, name: str) -> Path | None:
        try:
            return self._locate(name)
        except ToolError:
            return None


def _read_lines(known: KnownFile | None, digest: str) -> LineRanges:
    return known.lines if known is not None and known.sha256 == digest else ()


def count_lines(text: str) -> int:
    """Return the number of lines; the text after a final newline is not a line."""
    return text.count("\n") + (text != "" and not text.endswith("\n"))


def list_all_lines(text: str) -> LineRanges:
    count = count_lines(text)
    return ((1, count),) if count else ()


def join_ranges(ranges: Iterable[tuple[int, int]]) -> LineRanges:
    """Return the ranges in order, with adjacent and overlapping ones merged."""
    found: list[tuple[int, int]] = []
    for first, last in sorted(ranges):
        if found and first <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(last, found[-1][1]))
        else:
            found.append((first, last))
    return tuple(found)


def find_missing(lines: LineRanges, count: int) -> LineRanges:
    """Return the ranges of a file with `count` lines that are not in `lines`."""
    found: list[tuple[int, int]] = []
    after = 1
    for first, last in lines:
        if after < first:
            found.append((after, first - 1))
        after = last + 1
    if after <= count:
        found.append((after, count))
    return tuple(found)


def cut_lines(lines: LineRanges, last_line: int) -> LineRanges:
    return tuple((first, min(last, last_line)) for first, last in lines if first <= last_line)


def carry_over(text: str, splices: Sequence[Splice], *, lines: LineRanges) -> LineRanges:
    """Return the lines known after a change, if `lines` of the text were known before.

    A line is known if each of its characters was known or is new."""
    after = splice(text, splices)
    gaps = find_missing(lines, count_lines(text))
    if not gaps:
        return list_all_lines(after)
    starts, new_starts = _list_starts(text), _list_starts(after)
    unknown = [(starts[first - 1], starts[last]) for first, last in gaps]
    touched = join_ranges(
        (bisect_right(new_starts, start), bisect_right(new_starts, end - 1))
        for start, end in _move_parts(unknown, _find_kept(splices, len(text)))
    )
    return find_missing(touched, count_lines(after))[:RANGES_MAX]


def _find_kept(splices: Sequence[Splice], size: int) -> Iterator[tuple[int, int, int]]:
    """Yield the start and end of each stretch that stays, and its new start."""
    at = new_at = 0
    for each in splices:
        yield at, each.start, new_at
        new_at += each.start - at + len(each.text)
        at = each.end
    yield at, size, new_at


def _move_parts(
    parts: Sequence[tuple[int, int]], kept: Iterable[tuple[int, int, int]]
) -> Iterator[tuple[int, int]]:
    """Yield the new positions of the remaining parts; both inputs are in order."""
    stretches = list(kept)
    index = 0
    for start, end in parts:
        while index < len(stretches) and stretches[index][1] <= start:
            index += 1
        for old, old_end, new in islice(stretches, index, None):
            if old >= end:
                break
            first, last = max(old, start), min(old_end, end)
            if first < last:
                yield new + first - old, new + last - old


def _list_starts(text: str) -> list[int]:
    """Return the start of each line, and at the end the length of the text."""
    starts = [0]
    at = text.find("\n") + 1
    while at:
        starts.append(at)
        at = text.find("\n", at) + 1
    return starts if starts[-1] == len(text) and text else [*starts, len(text)]
