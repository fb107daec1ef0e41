"""The course of a session as lines: what happened in which order, without what was said."""

import re
from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import fields
from difflib import unified_diff
from typing import Any

from agentcli.features.replay.recording import RecordedPaths, is_overflow
from agentcli.types.events import (
    CallFinished,
    CallJudged,
    ContextNote,
    Fact,
    ModelFailed,
    ModelReplied,
    NoteReason,
    TurnEnded,
    TurnStarted,
)
from agentcli.types.hidden import NOTE
from agentcli.types.messages import Image, Text
from agentcli.types.tools import Details, ToolResult

# When two results are the same: whatever depends on the place and the moment is left out.


_OF_THE_MOMENT = {"duration_s", "output_bytes", "background_pid", "left_running", "type"}
"""Details that no second run repeats."""
_DERIVED = {"shown", "known"}
"""Details that follow from what is compared anyway; logs of older versions have none."""

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
        if field.name not in _OF_THE_MOMENT | _DERIVED
        for line in _words(getattr(details, field.name), normal)
    ]


def _words(value: Any, normal: Normal) -> list[str]:
    if isinstance(value, tuple | list):
        return [line for item in value for line in _words(item, normal)]
    return normal(str(value)).split("\n") if value not in (None, "", (), False) else []


_BY_THE_PERSON = (NoteReason.SHELL, NoteReason.UNDO, NoteReason.REDO)
"""What they did beside the model is given: nothing of ours is to do it again."""


def describe_flow(
    facts: Iterable[Fact], normal: Normal, cut_turns: Container[int] = ()
) -> list[str]:
    """One line per fact. What a reply's calls came to is in their order, not in that of clocks.

    `cut_turns`: numbers of turns that did not come to an end of their own."""
    turn = 0
    lines: list[str] = []
    order: list[str] = []
    pending: list[tuple[int, str]] = []
    for fact in facts:
        call_id = _call_id(fact)
        if call_id is not None and call_id.rpartition(".")[0] in order:
            continue  # a program's: its result is told, and its own calls are in that
        if call_id is not None:
            place = order.index(call_id) if call_id in order else len(order)
            pending.append((place, _line(fact, normal)))
            continue
        turn += isinstance(fact, TurnStarted)
        line = _line(fact, normal)
        if not line or (isinstance(fact, TurnEnded) and turn in cut_turns):
            continue
        lines.extend(text for _, text in sorted(pending, key=lambda one: one[0]))
        pending.clear()
        lines.append(line)
        if isinstance(fact, ModelReplied):
            order = [call.id for call in fact.message.tool_calls]
    lines.extend(text for _, text in sorted(pending, key=lambda one: one[0]))
    return lines


def _call_id(fact: Fact) -> str | None:
    match fact:
        case CallJudged(call=call):
            return call.id
        case CallFinished(result=result):
            return result.call_id
        case _:
            return None


def _line(fact: Fact, normal: Normal) -> str:
    """Empty: not part of the course."""
    match fact:
        case TurnStarted():
            return "turn started"
        case ModelReplied(message=message):
            names = "".join(f" {call.name}" for call in message.tool_calls)
            return f"model replied: {message.stop}{names}"
        case ModelFailed(kind=kind) if not is_overflow(fact):
            return f"model failed: {kind}"
        case ContextNote(text=text, why=why) if why not in _BY_THE_PERSON:
            return f"told ({why}): {normal(text)}"
        case CallJudged(call=call, verdict=verdict):
            return f"  {call.id} {call.name}: {verdict.decision} by {verdict.by}"
        case CallFinished(result=result):
            return f"  {result.call_id} {result.name}: {result.error or result.status}"
        case TurnEnded(ending=ending):
            return f"turn ended: {ending}"
        case _:
            return ""
