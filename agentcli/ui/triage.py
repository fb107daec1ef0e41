"""Findings in words, or as JSON, and the exit code that a pipeline can act on."""

import json
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from agentcli.record.lock import is_held
from agentcli.record.sessions import log_of
from agentcli.record.triage.checks import findings
from agentcli.record.triage.finding import Case, Finding, Level
from agentcli.record.triage.trace import Trace, read_trace
from agentcli.tools.contracts import BUILT_IN, contract
from agentcli.types.errors import Exit
from agentcli.types.words import counted
from agentcli.ui.tally import cost_json

SHOWN_OF_A_KIND = 5

_MARKS = {Level.ERROR: "ERROR", Level.WARNING: "WARN", Level.NOTE: "note"}


def show(session: str | None, *, expected: Sequence[str], is_strict: bool, as_json: bool) -> Exit:
    log = log_of(session)
    case = Case(
        trace=read_trace(log),
        expected_tools=tuple(expected),
        schemas={name: contract(name).schema for name in BUILT_IN},
        is_running=is_held(log.parent),
    )
    found = findings(case)
    worst_allowed = Level.WARNING if is_strict else Level.ERROR
    failed = any(finding.level <= worst_allowed for finding in found)
    code = Exit.VERIFY_FAILED if failed else Exit.DONE
    if as_json:
        sys.stdout.write(json.dumps(_as_json(case.trace, found, code), ensure_ascii=False) + "\n")
    else:
        for line in (_summary(case.trace), *_lines(found)):
            sys.stdout.write(line + "\n")
    return code


def _summary(trace: Trace) -> str:
    ended = trace.turns[-1].ended if trace.turns else None
    spending = trace.spending
    used = spending.usage
    return (
        f"session {_session(trace)}: "
        f"{counted(len(trace.entries), 'record')} · {counted(len(trace.turns), 'turn')} · "
        f"{spending.asked} · {counted(len(trace.calls), 'call')} · "
        f"{used.prompt_tokens} tokens in, {used.output_tokens} out · "
        f"{spending.cost} · {ended.ending if ended else 'no ending'}"
    )


def _lines(found: Sequence[Finding]) -> Iterator[str]:
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


def _as_json(trace: Trace, found: Sequence[Finding], code: Exit) -> dict[str, Any]:
    ended = trace.turns[-1].ended if trace.turns else None
    spending = trace.spending
    return {
        "v": 1,
        "session": _session(trace),
        "records": len(trace.entries),
        "turns": len(trace.turns),
        "requests": spending.requests,
        "calls": len(trace.calls),
        "tokens_in": spending.usage.prompt_tokens,
        "tokens_out": spending.usage.output_tokens,
        **cost_json(spending),
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


def _session(trace: Trace) -> str:
    return trace.entries[-1].session if trace.entries else ""
