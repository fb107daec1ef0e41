"""When two results are the same: whatever depends on the place and the moment is left out.

Paths of workspace and session, times, durations, process ids, addresses, temporary names, and the
owner and date in a file listing have stand-ins. Everything else counts.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import fields
from difflib import unified_diff
from typing import Any

from agentcli.record.replay.relocate import RecordedPaths
from agentcli.types.hidden import NOTE
from agentcli.types.messages import Image, Text
from agentcli.types.tools import Details, ToolResult

_OF_THE_MOMENT = {"duration_s", "output_bytes", "background_pid", "left_running", "type"}
"""Details that no second run repeats."""

_NUMBER = r"\d+(?:\.\d+)?"
_STAND_INS: tuple[tuple[str, str], ...] = (
    (r"agentcli-[\w-]{8,}", "agentcli-<name>"),
    (r"/tmp/tmp\w{8}", "/tmp/<name>"),
    (r"pytest-of-\w+/pytest-\d+", "pytest-of-<name>"),
    (r"\b0x[0-9a-f]{6,16}\b", "<address>"),
    (r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d)?(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?", "<time>"),
    (r"\b\d\d:\d\d:\d\d(?:[.,]\d+)?\b", "<time>"),
    (rf"(?<![\w.]){_NUMBER} ?(?:ns|us|µs|ms|s|sec|secs|seconds?|minutes?)\b", "<duration>"),
    (rf"\b(?:real|user|sys)\s+\d+m{_NUMBER}s", "<duration>"),
    (r"(?i)\b(pid|process|ppid)([ =:]+)\d+", r"\1\2<pid>"),
    (r"(?m)^\[\d+\] \d+$", "<job>"),
    (rf"\n*{re.escape(NOTE)}", ""),  # calls that run together may end in another order
    (r"«secret:[0-9a-f]+»", "***"),  # every user has other tokens, and old logs had stars
    (r"(?m)^ *[~^]+\n", ""),  # under a line of a traceback: every Python draws them otherwise
    (
        r"(?m)^([-dlbcps][-rwxsStT]{9})[.+@]? +\d+ +\S+ +\S+ +(\d+) +\S+ +\d+ +[\d:]+ ",
        r"\1 \2 <time> ",
    ),
)
_COMPILED = tuple((re.compile(pattern), stand_in) for pattern, stand_in in _STAND_INS)

Normal = Callable[[str], str]


def build_normalizer(places: RecordedPaths) -> Normal:
    """A function that takes place and moment out of a text."""

    def normal(text: str) -> str:
        text = places.replace_in(text, workspace="<workspace>", session="<session>")
        for pattern, stand_in in _COMPILED:
            text = pattern.sub(stand_in, text)
        for session in places.sessions:
            text = text.replace(session, "<session>")
        return text

    return normal


def diff_results(recorded: ToolResult, again: ToolResult, then: Normal, now: Normal) -> str:
    """A unified diff of two results, place and moment left out; empty: they are the same."""
    return diff_lines(_lines(recorded, then), _lines(again, now))


def diff_lines(recorded: Sequence[str], again: Sequence[str]) -> str:
    return "\n".join(unified_diff(recorded, again, "recorded", "again", lineterm="", n=2))


def _lines(result: ToolResult, normal: Normal) -> list[str]:
    head = f"status: {result.status}{f' ({result.error})' if result.error else ''}"
    lines = [head, f"truncated: {result.truncated}"] if result.truncated else [head]
    for block in result.content:
        match block:
            case Text(text=text):
                told = normal(text).split("\n")
                # The newest come first, and a tree that is laid out again has other dates.
                lines.extend(sorted(told) if result.name == "find_files" else told)
            case Image(media_type=media_type, data=data):
                lines.append(f"image: {media_type}, {len(data)} characters, {hash(data):x}")
    return [*lines, *_details(result.details, normal)]


def _details(details: Details | None, normal: Normal) -> list[str]:
    if details is None:
        return []
    return [
        f"{field.name}: {line}"
        for field in fields(details)
        if field.name not in _OF_THE_MOMENT
        for line in _words(getattr(details, field.name), normal)
    ]


def _words(value: Any, normal: Normal) -> list[str]:
    if isinstance(value, tuple | list):
        return [line for item in value for line in _words(item, normal)]
    return normal(str(value)).split("\n") if value not in (None, "", (), False) else []
