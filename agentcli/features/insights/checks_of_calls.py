"""Checks of the calls: answered, valid, recovered from, repeated, cut, denied, slow, expected."""

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby

from agentcli.features.insights.finding import (
    Level,
    TriageCase,
    TriageFinding,
    find_target,
    name_call,
)
from agentcli.features.insights.trace import TracedCall
from agentcli.system.command_outcome import describe_failure, name_check
from agentcli.types.errors import Ending
from agentcli.types.events import ContextNote
from agentcli.types.messages import Json
from agentcli.types.tools import Command, ErrorKind, FileView, Matches
from agentcli.types.verdicts import Verdict
from agentcli.ui.render.wording import describe_decision

# A comparison of arguments with a tool's schema, as far as it helps a reader of the log


_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
}


def find_mismatch(given: Json, schema: Json) -> str | None:
    """Describe what does not fit. None if all fits, or if there is no schema to compare with."""
    if isinstance(given, str):
        return "they are not JSON"
    if not isinstance(schema, dict):
        return None
    if not isinstance(given, dict):
        return "they are not an object"
    properties = schema.get("properties")
    if not isinstance(properties, dict):
        return None
    required = schema.get("required")
    missing = [str(n) for n in required if n not in given] if isinstance(required, list) else []
    if missing:
        return f"{', '.join(missing)} missing"
    if schema.get("additionalProperties") is False:
        unknown = [name for name in given if name not in properties]
        if unknown:
            return f"{', '.join(unknown)} unknown"
    return _find_wrong_type(given, properties)


def _find_wrong_type(given: dict[str, Json], properties: dict[str, Json]) -> str | None:
    for name, value in given.items():
        declared = properties.get(name)
        wanted = declared.get("type") if isinstance(declared, dict) else None
        if isinstance(wanted, str) and wanted in _TYPES and not _is(value, wanted):
            return f"{name} is not of type {wanted}"
    return None


def _is(value: Json, wanted: str) -> bool:
    if isinstance(value, bool):
        return wanted == "boolean"
    return isinstance(value, _TYPES[wanted])


_LIMITS = ("limit", "max_lines", "max_results", "head_limit")
"""The arguments in which a model limits a result itself."""
_OUTPUT = re.compile(r"out/[\w-]+\.log")
REPEATS_MAX = 3
SLOW_S = 1.0
SLOWEST_SHOWN = 3
REASON_CHARS = 160

_NOT_FAILURES = {
    ErrorKind.DENIED,
    ErrorKind.CANCELLED,
    ErrorKind.NOT_RUN,
    ErrorKind.INVALID_INPUT,
    ErrorKind.UNKNOWN_TOOL,
}
"""Errors that other checks report, or that the call itself did not cause."""


def find_unanswered(case: TriageCase) -> Iterator[TriageFinding]:
    for call in case.trace.calls:
        turn = case.trace.turns[call.turn - 1]
        interrupted = turn.ended is not None and turn.ended.ending is Ending.CANCELLED
        if call.finished is not None or interrupted or case.is_running:
            continue
        yield TriageFinding(
            level=Level.ERROR,
            record=call.record,
            what=f"{name_call(call.call)} ({call.call.id}) was never answered",
            why="it is unknown whether it ran; providers reject a history with an open call",
            fix="check whether it had an effect; resuming adds a placeholder result",
        )


def find_orphans(case: TriageCase) -> Iterator[TriageFinding]:
    for record, finished in case.trace.stray:
        yield TriageFinding(
            level=Level.ERROR,
            record=record,
            what=f"a result for {finished.result.call_id}, but there is no such call",
            why="the reply before it is missing, or its id differs from the model's",
            fix="agentcli audit verify shows whether the log was changed",
        )


def find_bad_arguments(case: TriageCase) -> Iterator[TriageFinding]:
    for call in case.trace.calls:
        rejected = call.finished and call.finished.result.error is ErrorKind.INVALID_INPUT
        schema = (case.schemas or {}).get(call.call.name)
        wrong = find_mismatch(call.call.input, schema)
        if wrong is None and not rejected:
            continue
        problem = wrong or _shorten_result(call)
        yield TriageFinding(
            level=Level.WARNING if rejected else Level.NOTE,
            record=call.record,
            what=f"the arguments of {name_call(call.call)} do not match its schema: {problem}",
            why="each such call wastes a request" if rejected else "it ran anyway",
            fix="if it happens often, explain in the prompt how to call the tool",
        )


def find_unknown_tools(case: TriageCase) -> Iterator[TriageFinding]:
    for call in case.trace.calls:
        if call.finished and call.finished.result.error is ErrorKind.UNKNOWN_TOOL:
            yield TriageFinding(
                level=Level.WARNING,
                record=call.record,
                what=f"there is no tool {call.call.name}",
                why="the model called a tool that it does not have",
                fix="add the tool, or say in the prompt what to use instead",
            )


def find_errors(case: TriageCase) -> Iterator[TriageFinding]:
    """Find failed calls. Recovered means a later call of the same tool or target succeeded."""
    for call, recovered in _pair_with_success(case.trace.calls):
        if not call.failed or call.finished is None or call.was_denied:
            continue
        if call.finished.result.error in _NOT_FAILURES:
            continue
        yield TriageFinding(
            level=Level.NOTE if recovered else Level.WARNING,
            record=call.finished_record,
            what=f"{name_call(call.call)} failed: {_shorten_result(call)}",
            why=(
                f"recovered in record {recovered.finished_record}"
                if recovered
                else "no later call did the same successfully"
            ),
            fix="nothing, if you expected it" if recovered else "read the result in the trace",
        )


def find_failed_commands(case: TriageCase) -> Iterator[TriageFinding]:
    """Find programs whose last run failed. An earlier failure was made up for, or repeated."""
    last: dict[str, tuple[TracedCall, Command]] = {}
    for call in case.trace.calls:
        details = call.finished.result.details if call.finished else None
        if isinstance(details, Command) and not call.failed and details.exit_code is not None:
            program = name_check(details.command) or _find_program(details.command)
            last.pop(program, None)  # so that they stay in the order of the log
            last[program] = (call, details)
    for call, details in last.values():
        if failure := describe_failure(details):
            yield TriageFinding(
                level=Level.WARNING,
                record=call.finished_record,
                what=f"{name_call(call.call)} ended with {failure}",
                why="no later run of the same program succeeded",
                fix="check whether the answer mentions it; read its output in the trace",
            )


def find_failed_background(case: TriageCase) -> Iterator[TriageFinding]:
    """Find commands that failed in the background. One that was killed was stopped on purpose."""
    started = {
        details.background_pid: call
        for call in case.trace.calls
        if call.finished and isinstance(details := call.finished.result.details, Command)
    }
    for record, note in case.trace.facts(ContextNote):
        if note.exit_code and (call := started.get(note.pid)):
            ending = f"exit code {note.exit_code}"
            yield TriageFinding(
                level=Level.WARNING,
                record=record,
                what=f"{name_call(call.call)} ended with {ending}, in the background",
                why="what was started after it may have counted on it",
                fix="read its output in the trace",
            )


def find_repeats(case: TriageCase) -> Iterator[TriageFinding]:
    counts: Counter[tuple[str, str]] = Counter()
    first: dict[tuple[str, str], TracedCall] = {}
    for call in case.trace.calls:
        key = (call.call.name, json.dumps(call.call.input, sort_keys=True))
        counts[key] += 1
        first.setdefault(key, call)
    for key, count in counts.items():
        if count > REPEATS_MAX:
            yield TriageFinding(
                level=Level.WARNING,
                record=first[key].record,
                what=(
                    f"{name_call(first[key].call)} was called {count} times with the same arguments"
                ),
                why="the model is looping, or polling for something",
                fix="read the result: it should tell the model what to do instead",
            )


def find_cut_results(case: TriageCase) -> Iterator[TriageFinding]:
    for turn in case.trace.turns:
        for call in _find_unread(turn.calls):
            yield TriageFinding(
                level=Level.WARNING,
                record=call.finished_record,
                what=f"the result of {name_call(call.call)} was cut, and the rest was never read",
                why="the model continued with only a part of it",
                fix="check whether the rest matters; ask for a narrower search or range",
            )


def _find_unread(calls: Sequence[TracedCall]) -> list[TracedCall]:
    """Return the calls of a turn whose result was cut, though nothing later read the rest.

    A later call reads the same target in another way, or the file with the full output.
    """
    unread: list[TracedCall] = []
    inputs: dict[str, set[str]] = {}
    outputs: set[str] = set()
    for call in reversed(calls):
        target, text = find_target(call.call), json.dumps(call.call.input, ensure_ascii=False)
        others = inputs.setdefault(target, set())
        if call.finished is not None and call.finished.result.truncated:
            details = call.finished.result.details
            log = details.log_path if isinstance(details, Command) else ""
            was_read = _OUTPUT.findall(log)[-1:] if log else []
            looks_again = len(others) > 1 or bool(others - {text})
            if not (looks_again or outputs.intersection(was_read) or _was_limited(call)):
                unread.append(call)
        others.add(text)
        outputs.update(_OUTPUT.findall(text))
    return unread[::-1]


def _was_limited(call: TracedCall) -> bool:
    """Return whether the model got as much as it asked for: it set the limit itself."""
    given = call.call.input if isinstance(call.call.input, dict) else {}
    limits = [value for name in _LIMITS if isinstance(value := given.get(name), int)]
    match call.finished.result.details if call.finished and limits else None:
        case FileView(first_line=first, last_line=last):
            return last - first + 1 >= min(limits)
        case Matches(matches=matches, files=files):
            return max(matches, files) >= min(limits)
        case _:
            return False


def find_denials(case: TriageCase) -> Iterator[TriageFinding]:
    for call in case.trace.calls:
        if call.judged is not None and call.was_denied:
            verdict = call.judged.verdict
            reason = "" if verdict.by == "user" else f": {verdict.reason}"
            yield TriageFinding(
                level=Level.WARNING,
                record=call.finished_record or call.record,
                what=f"{name_call(call.call)} was {describe_decision(verdict)}{reason}",
                why="the model had to find another way, or gave up",
                fix=_suggest_permission(call, verdict),
            )


def find_slowest(case: TriageCase) -> Iterator[TriageFinding]:
    timed = [(call.finished.duration_s, call) for call in case.trace.calls if call.finished]
    slow = sorted((one for one in timed if one[0] >= SLOW_S), key=lambda one: -one[0])
    for duration_s, call in slow[:SLOWEST_SHOWN]:
        yield TriageFinding(
            level=Level.NOTE,
            record=call.finished_record,
            what=f"{name_call(call.call)} took {duration_s:.1f} s",
            why="one of the slowest calls",
            fix="run less at once, or run it in the background",
        )


def find_missing_expected(case: TriageCase) -> Iterator[TriageFinding]:
    called = {call.call.name for call in case.trace.calls}
    for name in case.expected_tools:
        if name not in called:
            others = ", ".join(sorted(called)) or "no tool at all"
            yield TriageFinding(
                level=Level.ERROR,
                record=0,
                what=f"{name} was expected and never called",
                why=f"the model used {others}",
                fix="say in the prompt when to use it, or improve its description",
            )


def _pair_with_success(
    calls: Sequence[TracedCall],
) -> Iterator[tuple[TracedCall, TracedCall | None]]:
    """Yield each call with the first later one of the same tool or target that succeeded.

    Calls of the same reply cannot react to each other.
    """
    pairs: list[tuple[TracedCall, TracedCall | None]] = []
    later: dict[tuple[str, str], TracedCall] = {}
    for _, group in groupby(reversed(calls), key=lambda call: call.record):
        same_reply = list(group)
        for call in same_reply:
            found = [later[key] for key in _list_keys(call) if key in later]
            pairs.append((call, min(found, key=lambda one: one.finished_record, default=None)))
        for call in same_reply:
            if call.finished is not None and not call.failed:
                later.update(dict.fromkeys(_list_keys(call), call))
    return reversed(pairs)


def _list_keys(call: TracedCall) -> list[tuple[str, str]]:
    """Return by what a later call counts as another attempt at this one: same tool, or target."""
    target = find_target(call.call)
    return [("tool", call.call.name), *([("target", target)] if target else [])]


def _find_program(command: str) -> str:
    """Return the program that a command line is about: the last one that `&&` leads to."""
    words = re.split(r"&&|;|\n", command.strip().rstrip(";"))[-1].split("|")[0].split()
    words = words[next((n for n, word in enumerate(words) if "=" not in word), 0) :]
    return " ".join(words[:3] if words[1:2] == ["-m"] else words[:1])


def _shorten_result(call: TracedCall) -> str:
    text = call.finished.result.text.strip() if call.finished else ""
    lines: Sequence[str] = text.splitlines() or [""]
    # A command's last line says how it ended. Otherwise the first line says what is wrong.
    details = call.finished.result.details if call.finished else None
    line = lines[-1] if isinstance(details, Command) else lines[0]
    return line if len(line) <= REASON_CHARS else line[:REASON_CHARS] + "…"


def _suggest_permission(call: TracedCall, verdict: Verdict) -> str:
    match verdict.by:
        case "user":
            return "nothing: you decided it"
        case "rule" | "hook" | "evaluator":
            return f"to allow it, change the {verdict.by} that denied it"
        case "mode":
            return "to allow it, leave plan mode: --mode ask"
        case _:
            option = verdict.remedy or f"--allow '{_suggest_rule(call)}'"
            return f"to allow it: {option}"


def _suggest_rule(call: TracedCall) -> str:
    given = call.call.input if isinstance(call.call.input, dict) else {}
    command = given.get("command")
    if call.call.name == "bash" and isinstance(command, str):
        return f"bash({command.split(maxsplit=1)[0] if command.split() else ''}:*)"
    path = given.get("path")
    return f"edit({path})" if isinstance(path, str) else call.call.name
