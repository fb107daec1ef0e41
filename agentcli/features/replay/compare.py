"""What differs in a replay: the results of calls, and the order in which things happened.

Times and paths do not count, nor what was said.
"""

import re
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import fields, replace
from difflib import unified_diff
from typing import Any

from agentcli.features.replay.recording import RecordedPaths, is_overflow
from agentcli.session.edit_checks import HEADING
from agentcli.types.errors import Ending
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
    find_call_id,
)
from agentcli.types.hidden import NOTE
from agentcli.types.messages import Document, Image, Text
from agentcli.types.own_tools import EDITING
from agentcli.types.tools import Command, Details, Diff, ErrorKind, ToolResult

# Comparing two results without what depends on path and time.


_OF_THE_MOMENT = {
    "duration_s",
    "output_bytes",
    "output_sha256",
    "background_pid",
    "left_running",
    "type",
}
"""Details that differ in every run."""
_DERIVED = {"shown", "known", "shown_lines"}
"""Details that follow from what is compared anyway; logs of older versions lack them."""

_NUMBER = r"\d+(?:\.\d+)?"
_REPLACEMENTS: tuple[tuple[str, str], ...] = (
    (r"/var/tmp/", "/tmp/"),  # commands get the one in which nothing else is mounted
    (r"agentcli-[\w-]{8,}", "agentcli-<name>"),
    (r"(?<=<session>/out/)\d+\.log\b", "<number>.log"),  # parallel calls take any order
    (r"\btmp(?:[a-z0-9_]{8}|\.[A-Za-z0-9]{10})(?!\w)", "<name>"),  # of Python and of mktemp
    (r"((?:/tmp|agentcli-<name>)/[\w-]*?[-._])[A-Za-z0-9_]{6,12}(?![\w-])", r"\1<name>"),
    (r"pytest-of-\w+/pytest-\d+", "pytest-of-<name>"),
    (r"[\w./<>-]*/homes/[0-9a-f]{16}/home\b", "<home>"),  # what commands have for a home
    (r"(?m)^\[the log is not whole: .*\]\n", ""),  # such as on a disk that was full
    (r"(?m)^(AGENTCLI_PROXY_LOGIN=).*$", r"\1<name>"),
    (r"\b0x[0-9a-f]{6,16}\b", "<address>"),
    (r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d)?(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?", "<time>"),
    (r"\b\d\d:\d\d:\d\d(?:[.,]\d+)?\b", "<time>"),
    (rf"(?<![\w.]){_NUMBER} ?(?:ns|us|µs|ms|s|sec|secs|seconds?|minutes?)\b", "<duration>"),
    (rf"\b(?:real|user|sys)\s+\d+m{_NUMBER}s", "<duration>"),
    (r"(?i)\b(pid|process|ppid|kill)([ =:]+)\d+", r"\1\2<pid>"),
    (r"(?m)^\[\d+\] \d+$", "<job>"),
    (rf"\n*{re.escape(NOTE)}", ""),  # parallel calls may end in another order
    (r"«secret:[0-9a-f]+»", "***"),  # every user has other tokens, and old logs had stars
    (r"(?m)^(There is no tool '.*) The tools are .*$", r"\1"),  # which of them were declared then
    (r"(?m)^ *[~^]+\n", ""),  # under a line of a traceback: Python versions draw them differently
    (
        r"(?m)^([-dlbcps][-rwxsStT]{9})[.+@]? +\d+ +\S+ +\S+ +(\d+) +\S+ +\d+ +[\d:]+ ",
        r"\1 \2 <time> ",
    ),
    (r"(?m)^d\S{9} \d+ <time> \.\.(?=/?$)", "<parent>"),  # of another directory by now
    (r"(?m)^(d\S{9}) \d+ (?=<time> )", r"\1 <size> "),  # the file system decides it
    (r"(?m)^total \d+(?:[.,]\d+)?[KMG]?$", "total <size>"),
)
_COMPILED = tuple((re.compile(pattern), replacement) for pattern, replacement in _REPLACEMENTS)

_TEMPLATE = re.compile(r"([\w.-]*[0-9A-WYZa-z._-])(X{3,})(?!\w)")
"""A name for mktemp, which replaces the X: at least one character, and the X."""

Normal = Callable[[str], str]


def build_normalizer(places: RecordedPaths) -> Normal:
    """Return a function that replaces paths and times in a text."""

    def normalize(text: str) -> str:
        text = places.replace_in(text, workspace="<workspace>", session="<session>")
        for pattern, replacement in _COMPILED:
            text = pattern.sub(replacement, text)
        for session in places.sessions:
            text = text.replace(session, "<session>")
        return text

    return normalize


def diff_results(recorded: ToolResult, again: ToolResult, *, then: Normal, now: Normal) -> str:
    """Return a unified diff of two results without paths and times; empty if they are the same."""
    return diff_lines(
        *_align_gaps(
            _list_lines(recorded, _hide_chosen_names(recorded.details, then)),
            _list_lines(again, _hide_chosen_names(again.details, now)),
        )
    )


_GAP = re.compile(r"\[\.\.\. [\d \u202f]+ bytes(?:, [\d \u202f]+ lines)? left out; .*")
GAP_SHIFT_LINES = 20


def _align_gaps(recorded: list[str], again: list[str]) -> tuple[list[str], list[str]]:
    """Return both with the same lines around the part that was left out, if each has one.

    A name of another length, such as that of a temporary file, moves both ends of that part.
    """
    gaps = [[at for at, line in enumerate(one) if _GAP.match(line)] for one in (recorded, again)]
    if [len(found) for found in gaps] != [1, 1]:
        return recorded, again
    (first,), (second,) = gaps
    before = min(first, second)
    after = min(len(recorded) - first, len(again) - second) - 1
    if abs(first - second) > GAP_SHIFT_LINES:
        return recorded, again

    def cut(lines: list[str]) -> list[str]:
        return [*lines[:before], "[... left out ...]", *lines[len(lines) - after :]]

    return cut(recorded), cut(again)


def _hide_chosen_names(details: Details | None, normal: Normal) -> Normal:
    """Return the function, which also replaces names made from a template like `log.XXXXXX`."""
    if not isinstance(details, Command) or "mktemp" not in details.command:
        return normal
    templates = {
        rf"(?<!\w){re.escape(prefix)}[A-Za-z0-9]{{{len(chosen)}}}(?!\w)": f"{prefix}<name>"
        for prefix, chosen in _TEMPLATE.findall(details.command)
    }

    def replace_names(text: str) -> str:
        text = normal(text)
        for pattern, replacement in templates.items():
            text = re.sub(pattern, replacement, text)
        return text

    return replace_names


def diff_lines(recorded: Sequence[str], again: Sequence[str]) -> str:
    return "\n".join(unified_diff(recorded, again, "recorded", "again", lineterm="", n=2))


def _list_lines(result: ToolResult, normal: Normal) -> list[str]:
    head = f"status: {result.status}{f' ({result.error})' if result.error else ''}"
    lines = [head, f"truncated: {result.truncated}"] if result.truncated else [head]
    findings: list[str] = []
    for block in result.content:
        match block:
            case Text(text=text):
                if result.name in EDITING:  # their checks are not run again
                    text, _, found = text.partition(f"\n\n{HEADING}\n")
                    findings += found.split("\n")
                rows = normal(text).split("\n")
                # The newest come first, and the files of a rebuilt tree have other dates.
                lines.extend(sorted(rows) if result.name == "find_files" else rows)
            case Document(text=text):
                lines.extend(normal(text).split("\n"))
            case Image(media_type=media_type, data=data):
                lines.append(f"image: {media_type}, {len(data)} characters, {hash(data):x}")
    details = result.details
    if isinstance(details, Diff):
        kept = tuple(note for note in details.notes if note not in findings)
        details = replace(details, notes=kept)
    return [*lines, *_list_details(details, normal)]


def _list_details(details: Details | None, normal: Normal) -> list[str]:
    if details is None:
        return []
    return [
        f"{field.name}: {line}"
        for field in fields(details)
        if field.name not in _OF_THE_MOMENT | _DERIVED
        for line in _list_words(getattr(details, field.name), normal)
    ]


def _list_words(value: Any, normal: Normal) -> list[str]:
    if isinstance(value, tuple | list):
        return [line for item in value for line in _list_words(item, normal)]
    return normal(str(value)).split("\n") if value not in (None, "", (), False) else []


_BY_THE_USER = (NoteReason.SHELL, NoteReason.UNDO, NoteReason.REDO)
"""Context notes about what the user did beside the model. A replay does not produce them."""


def describe_flow(
    facts: Iterable[Fact], normal: Normal, *, cut_turns: Container[int] = ()
) -> list[str]:
    """Return one line per fact. The outcomes of a reply's calls are in the order of the calls.

    Their order in time does not matter. `cut_turns` are the numbers of turns that were cut off.
    """
    turn = 0
    lines: list[str] = []
    order: list[str] = []
    pending: list[tuple[int, str]] = []
    for fact in _drop_unstarted(facts):
        call_id = find_call_id(fact)
        if call_id.rpartition(".")[0] in order:
            continue  # a call of a program: the program's result is compared, and that covers it
        turn += isinstance(fact, TurnStarted)
        line = _render_line(fact, normal)
        if not line or (isinstance(fact, TurnEnded) and turn in cut_turns):
            continue
        if call_id:
            pending.append((order.index(call_id) if call_id in order else len(order), line))
            continue
        lines.extend(text for _, text in sorted(pending, key=lambda one: one[0]))
        pending.clear()
        lines.append(line)
        if isinstance(fact, ModelReplied):
            order = [call.id for call in fact.message.tool_calls]
    lines.extend(text for _, text in sorted(pending, key=lambda one: one[0]))
    return lines


def _drop_unstarted(facts: Iterable[Fact]) -> Iterator[Fact]:
    """Yield the facts without what an interruption left over.

    That is the notes for a request that was not sent, and the results of calls that never began."""
    notes: list[ContextNote] = []
    judged: set[str] = set()
    for fact in facts:
        match fact:
            case ContextNote():
                notes.append(fact)
                continue
            case TurnEnded(ending=Ending.CANCELLED):
                notes.clear()
            case CallJudged(call=call):
                judged.add(call.id)
            case CallFinished(result=result) if result.error is ErrorKind.CANCELLED:
                if result.call_id not in judged:
                    continue
            case ModelReplied():
                judged.clear()
            case _:
                pass
        yield from notes
        notes.clear()
        yield fact
    yield from notes


def _render_line(fact: Fact, normal: Normal) -> str:
    """Return the line of a fact; empty if it is not part of the flow."""
    match fact:
        case TurnStarted():
            return "turn started"
        case ModelReplied(message=message):
            names = "".join(f" {call.name}" for call in message.tool_calls)
            return f"model replied: {message.stop}{names}"
        case ModelFailed(kind=kind) if not is_overflow(fact):
            return f"model failed: {kind}"
        case ContextNote(text=text, why=why) if why not in _BY_THE_USER:
            return f"note ({why}): {normal(text)}"
        case CallJudged(call=call, verdict=verdict):
            return f"  {call.id} {call.name}: {verdict.decision} by {verdict.by}"
        case CallFinished(result=result):
            return f"  {result.call_id} {result.name}: {result.error or result.status}"
        case TurnEnded(ending=ending):
            return f"turn ended: {ending}"
        case _:
            return ""
