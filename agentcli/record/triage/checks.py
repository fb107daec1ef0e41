"""What went wrong in a session, without a model: one table of checks over its trace.

Each check is a function that yields findings. A new one is written beside its kin and gets a line
here, and nothing else has to know of it.
"""

from dataclasses import replace

from agentcli.machine.plain import show_controls
from agentcli.record.triage import calls, endings, spending
from agentcli.record.triage.finding import Check, TriageCase, TriageFinding

LINE_CHARS = 300

CHECKS: dict[str, Check] = {
    "damage": endings.find_damage,
    "crash": endings.find_crash,
    "ending": endings.find_bad_ending,
    "stop": endings.find_stop_reasons,
    "request": endings.find_failed_requests,
    "verify": endings.find_failed_checks,
    "claim": endings.find_unsupported_claims,
    "unanswered": calls.find_unanswered,
    "orphan": calls.find_orphans,
    "expected": calls.find_missing_expected,
    "denied": calls.find_denials,
    "error": calls.find_errors,
    "unknown-tool": calls.find_unknown_tools,
    "arguments": calls.find_bad_arguments,
    "repeated": calls.find_repeats,
    "cut": calls.find_cut_results,
    "hook": spending.find_failed_hooks,
    "cache": spending.find_cache_misses,
    "no-cache": spending.find_missing_cache,
    "retry": spending.find_retries,
    "slow": calls.find_slowest,
    "cost": spending.find_expensive_turns,
    "shortened": spending.find_shortenings,
    "warned": spending.find_other_warnings,
}


def run_checks(case: TriageCase) -> list[TriageFinding]:
    """The most important first; among equals in the order of the table, then of the log."""
    found = [
        _make_presentable(finding, name)
        for name, check in CHECKS.items()
        for finding in check(case)
    ]
    return sorted(found, key=lambda finding: finding.level)


def _make_presentable(finding: TriageFinding, check: str) -> TriageFinding:
    """Names, commands and messages come from anywhere: a line each that any screen can show."""
    what, why, fix = map(_line, (finding.what, finding.why, finding.fix))
    return replace(finding, check=check, what=what, why=why, fix=fix)


def _line(text: str) -> str:
    line = show_controls(" ".join(text.split()))
    return line if len(line) <= LINE_CHARS else line[: LINE_CHARS - 1] + "…"
