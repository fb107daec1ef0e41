"""Findings in words, or as JSON, and the exit code that a pipeline can act on."""

import json
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from agentcli.record.lock import is_held
from agentcli.record.sessions import find_log
from agentcli.record.triage.checks import run_checks
from agentcli.record.triage.finding import Level, TriageCase, TriageFinding
from agentcli.record.triage.trace import Trace, read_trace
from agentcli.tools.contracts import BUILT_IN, load_spec
from agentcli.types.errors import Exit
from agentcli.types.words import pluralize
from agentcli.ui.tally import build_cost_json

SHOWN_OF_A_KIND = 5

_MARKS = {Level.ERROR: "ERROR", Level.WARNING: "WARN", Level.NOTE: "note"}


def show_triage(
    session: str | None, *, expected: Sequence[str], is_strict: bool, as_json: bool
) -> Exit:
    log = find_log(session)
    case = TriageCase(
        trace=read_trace(log),
        expected_tools=tuple(expected),
        schemas={name: load_spec(name).schema for name in BUILT_IN},
        is_running=is_held(log.parent),
    )
    found = run_checks(case)
    worst_allowed = Level.WARNING if is_strict else Level.ERROR
    failed = any(finding.level <= worst_allowed for finding in found)
    code = Exit.VERIFY_FAILED if failed else Exit.DONE
    if as_json:
        sys.stdout.write(
            json.dumps(_triage_json(case.trace, found, code), ensure_ascii=False) + "\n"
        )
    else:
        for line in (_render_trace_summary(case.trace), *_render_findings(found)):
            sys.stdout.write(line + "\n")
    return code


def _render_trace_summary(trace: Trace) -> str:
    ended = trace.turns[-1].ended if trace.turns else None
    spending = trace.spending
    used = spending.usage
    return (
        f"session {_session_id(trace)}: "
        f"{pluralize(len(trace.entries), 'record')} · {pluralize(len(trace.turns), 'turn')} · "
        f"{spending.request_summary} · {pluralize(len(trace.calls), 'call')} · "
        f"{used.prompt_tokens} tokens in, {used.output_tokens} out · "
        f"{spending.cost_text} · {ended.ending if ended else 'no ending'}"
    )


def _render_findings(found: Sequence[TriageFinding]) -> Iterator[str]:
    if not found:
        yield "nothing to report"
    told: Counter[tuple[Level, str]] = Counter()
    for finding in found:
        kind = (finding.level, finding.check)
        told[kind] += 1
        if told[kind] > SHOWN_OF_A_KIND:
            continue
        where = f"record {finding.record}" if finding.record else "session"
        yield ""
        yield f"{_MARKS[finding.level]:<5}  {where}: {finding.what}  [{finding.check}]"
        yield f"       why: {finding.why}"
        yield f"       do:  {finding.fix}"
    for (_, check), number in told.items():
        if number > SHOWN_OF_A_KIND:
            yield f"\n… {number - SHOWN_OF_A_KIND} more of [{check}]: -o json has all of them"


def _triage_json(trace: Trace, found: Sequence[TriageFinding], code: Exit) -> dict[str, Any]:
    ended = trace.turns[-1].ended if trace.turns else None
    spending = trace.spending
    return {
        "v": 1,
        "session": _session_id(trace),
        "records": len(trace.entries),
        "turns": len(trace.turns),
        "requests": spending.requests,
        "calls": len(trace.calls),
        "tokens_in": spending.usage.prompt_tokens,
        "tokens_out": spending.usage.output_tokens,
        **build_cost_json(spending),
        "ending": ended.ending if ended else None,
        "exit_code": int(code),
        "findings": [
            {
                "level": finding.level.name.lower(),
                "check": finding.check,
                "record": finding.record,
                "what": finding.what,
                "why": finding.why,
                "fix": finding.fix,
            }
            for finding in found
        ],
    }


def _session_id(trace: Trace) -> str:
    return trace.entries[-1].session if trace.entries else ""
