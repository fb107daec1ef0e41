"""New results that do not fit the window: cut to what fits, each with where to go on.

The next request is the first to carry them, so none is left out: a small one stays whole, and the
large ones share the room that is left.
"""

import re
from collections.abc import Iterable, Iterator, Sequence

from agentcli.agent.size import count_result_tokens
from agentcli.agent.trimming import StoreResult, new_results
from agentcli.machine.tokens import ROUGH_BYTES, estimate_fast
from agentcli.types.events import ResultsTrimmed, TrimmedResult
from agentcli.types.messages import Image
from agentcli.types.tools import Command, FileView, ToolResult
from agentcli.types.wire import Message

NOTE_TOKENS = 100
"""For the line that says where to go on."""
LEAST_TOKENS = 2 * NOTE_TOKENS
HEAD_OF_COMMAND = 0.25
"""Of what is left of an output; the rest is its end, where a failure is told."""

_ROW = re.compile(r"(-?\d+)\t")


def cut_new(
    messages: Sequence[Message], *, limit_tokens: int, keep: StoreResult
) -> ResultsTrimmed | None:
    """Return the new results as they are within the limit; None: they are within it already."""
    results = new_results(messages)
    share = _share([count_result_tokens(result) for result in results], limit_tokens)
    large = [result for result in results if count_result_tokens(result) > max(share, LEAST_TOKENS)]
    if not large:
        return None
    cut = tuple(_cut(result, max(share, LEAST_TOKENS), keep) for result in large)
    freed = sum(map(count_result_tokens, large)) - sum(estimate_fast(one.text) for one in cut)
    return ResultsTrimmed(results=cut, freed_tokens=freed)


def _share(sizes: Sequence[int], limit_tokens: int) -> int:
    """Return the most that one may have, so that all of them are within the limit."""
    left, ascending = limit_tokens, sorted(sizes)
    for at, size in enumerate(ascending):
        share = left // (len(ascending) - at)
        if size > share:
            return share
        left -= size
    return max(ascending, default=0)


def _cut(result: ToolResult, limit_tokens: int, keep: StoreResult) -> TrimmedResult:
    images = any(isinstance(block, Image) for block in result.content)
    room_bytes = (limit_tokens - NOTE_TOKENS) * ROUGH_BYTES
    match result.details:
        case FileView(media="text") as view:
            text, last_line = _rows(result.text, view, room_bytes)
            return TrimmedResult(call_id=result.call_id, text=text, last_line=last_line)
        case Command():
            text = _ends(result.text, room_bytes, keep(result))
        case _:
            kept = [*_fitting(result.text.split("\n"), room_bytes)]
            what = "an image was" if images else "the rest was"
            text = "\n".join([*kept, f"[{what} left out to make room: {keep(result)}]"])
    return TrimmedResult(call_id=result.call_id, text=text)


def _rows(text: str, view: FileView, room_bytes: int) -> tuple[str, int]:
    """Return the first lines of a file that was read, and the number of the last of them."""
    kept = [*_fitting(text.split("\n"), room_bytes)]
    numbers = [int(found[1]) for row in kept if (found := _ROW.match(row))]
    go_on = numbers[-1] + 1 if numbers else view.first_line
    shown = f"lines {numbers[0]}-{numbers[-1]}" if numbers else "no line"
    total = "" if view.total_lines is None else f" of {view.total_lines}"
    note = f"[{shown}{total}: the rest was left out to make room; continue with offset={go_on}]"
    return "\n".join([*kept, note]), max(0, numbers[-1]) if numbers else 0


def _ends(text: str, room_bytes: int, path: str) -> str:
    lines = text.split("\n")
    first = [*_fitting(lines, int(HEAD_OF_COMMAND * room_bytes))]
    rest = lines[len(first) :]
    last = [*_fitting(reversed(rest), int((1 - HEAD_OF_COMMAND) * room_bytes))][::-1]
    left_out = len(rest) - len(last)
    note = f"[... {left_out} lines left out to make room; all of it is in {path} ...]"
    return "\n".join([*first, note, *last])


def _fitting(lines: Iterable[str], room_bytes: int) -> Iterator[str]:
    for line in lines:
        room_bytes -= len(line.encode("utf-8", "replace")) + 1
        if room_bytes < 0:
            return
        yield line
