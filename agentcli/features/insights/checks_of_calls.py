"""Checks of the calls: answered, valid, recovered from, repeated, cut, denied, slow, expected."""

import json
from collections import Counter
from collections.abc import Iterator, Sequence

from agentcli.features.insights.finding import (
    Level,
    TriageCase,
    TriageFinding,
    find_target,
    name_call,
)
from agentcli.features.insights.trace import TracedCall
from agentcli.types.errors import Ending
from agentcli.types.messages import Json
from agentcli.types.tools import Command, ErrorKind
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
    return _wrong_type(given, properties)


def _wrong_type(given: dict[str, Json], properties: dict[str, Json]) -> str | None:
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
        problem = wrong or _first_words(call)
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
    calls = case.trace.calls
    for index, call in enumerate(calls):
        if not call.failed or call.finished is None or call.was_denied:
            continue
        if call.finished.result.error in _NOT_FAILURES:
            continue
        recovered = next((c for c in calls[index + 1 :] if _makes_up_for(c, call)), None)
        yield TriageFinding(
            level=Level.NOTE if recovered else Level.WARNING,
            record=call.finished_record,
            what=f"{name_call(call.call)} failed: {_first_words(call)}",
            why=(
                f"recovered in record {recovered.finished_record}"
                if recovered
                else "no later call did the same successfully"
            ),
            fix="nothing, if you expected it" if recovered else "read the result in the trace",
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
    calls = case.trace.calls
    for index, call in enumerate(calls):
        if call.finished is None or not call.finished.result.truncated:
            continue
        later = [c for c in calls[index + 1 :] if c.turn == call.turn and _looks_again(c, call)]
        if not later:
            yield TriageFinding(
                level=Level.WARNING,
                record=call.finished_record,
                what=f"the result of {name_call(call.call)} was cut, and the rest was never read",
                why="the model continued with only a part of it",
                fix="check whether the rest matters; ask for a narrower search or range",
            )


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
                fix=_permission(call, verdict),
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


def _makes_up_for(later: TracedCall, failed: TracedCall) -> bool:
    if later.record <= failed.record or later.finished is None or later.failed:
        return False  # calls of the same reply cannot react to each other
    same_target = find_target(later.call) == find_target(failed.call)
    return later.call.name == failed.call.name or (bool(find_target(failed.call)) and same_target)


def _looks_again(later: TracedCall, cut: TracedCall) -> bool:
    """Return whether a call reads the same target in another way, or the file with the full
    output."""
    text = json.dumps(later.call.input, ensure_ascii=False)
    details = cut.finished.result.details if cut.finished else None
    if isinstance(details, Command) and details.log_path and details.log_path in text:
        return True
    same_target = find_target(later.call) == find_target(cut.call)
    return same_target and later.call.input != cut.call.input


def _first_words(call: TracedCall) -> str:
    text = call.finished.result.text.strip() if call.finished else ""
    lines: Sequence[str] = text.splitlines() or [""]
    # A command's last line says how it ended. Otherwise the first line says what is wrong.
    details = call.finished.result.details if call.finished else None
    line = lines[-1] if isinstance(details, Command) else lines[0]
    return line if len(line) <= REASON_CHARS else line[:REASON_CHARS] + "…"


def _permission(call: TracedCall, verdict: Verdict) -> str:
    match verdict.by:
        case "user":
            return "nothing: you decided it"
        case "rule" | "hook" | "evaluator":
            return f"to allow it, change the {verdict.by} that denied it"
        case _:
            return f"to allow it: --allow '{_rule(call)}'"


def _rule(call: TracedCall) -> str:
    given = call.call.input if isinstance(call.call.input, dict) else {}
    command = given.get("command")
    if call.call.name == "bash" and isinstance(command, str):
        return f"bash({command.split(maxsplit=1)[0] if command.split() else ''}:*)"
    path = given.get("path")
    return f"edit({path})" if isinstance(path, str) else call.call.name
