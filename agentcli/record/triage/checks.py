"""What went wrong in a session, without a model: one table of checks over its trace.

Each check is a function that yields findings. A new one is written beside its kin and gets a line
here, and nothing else has to know of it.
"""

from dataclasses import replace

from agentcli.machine.plain import visible
from agentcli.record.triage import calls, endings, spending
from agentcli.record.triage.finding import Case, Check, Finding

LINE_CHARS = 300

CHECKS: dict[str, Check] = {
    "damage": endings.damage,
    "crash": endings.crash,
    "ending": endings.final_ending,
    "stop": endings.stop_reasons,
    "request": endings.failed_requests,
    "verify": endings.checks_of_the_person,
    "claim": endings.claims,
    "unanswered": calls.unanswered,
    "orphan": calls.orphans,
    "expected": calls.expected,
    "denied": calls.denials,
    "error": calls.errors,
    "unknown-tool": calls.unknown_tools,
    "arguments": calls.arguments,
    "repeated": calls.repeats,
    "cut": calls.cut_results,
    "hook": spending.failed_hooks,
    "cache": spending.cache_misses,
    "no-cache": spending.no_cache,
    "retry": spending.retries,
    "slow": calls.slowest,
    "cost": spending.cost_by_turn,
    "shortened": spending.shortened,
    "warned": spending.other_warnings,
}


def findings(case: Case) -> list[Finding]:
    """The most important first; among equals in the order of the table, then of the log."""
    found = [
        _presentable(finding, name) for name, check in CHECKS.items() for finding in check(case)
    ]
    return sorted(found, key=lambda finding: finding.level)


def _presentable(finding: Finding, check: str) -> Finding:
    """Names, commands and messages come from anywhere: a line each that any screen can show."""
    what, why, fix = map(_line, (finding.what, finding.why, finding.fix))
    return replace(finding, check=check, what=what, why=why, fix=fix)


def _line(text: str) -> str:
    line = visible(" ".join(text.split()))
    return line if len(line) <= LINE_CHARS else line[: LINE_CHARS - 1] + "…"
