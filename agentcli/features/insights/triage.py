"""The problems of a session, found without a model: a table of checks over its trace.

Each check is a function that yields findings. A new one is written beside similar ones and gets a
line here. Nothing else has to change.
"""

from dataclasses import replace

from agentcli.features.insights import checks_of_calls, checks_of_endings
from agentcli.features.insights.finding import Check, TriageCase, TriageFinding
from agentcli.system.plain_text import show_controls

LINE_CHARS = 300

CHECKS: dict[str, Check] = {
    "command": checks_of_calls.find_failed_commands,
    "background": checks_of_calls.find_failed_background,
    "damage": checks_of_endings.find_damage,
    "crash": checks_of_endings.find_crash,
    "ending": checks_of_endings.find_bad_ending,
    "stop": checks_of_endings.find_stop_reasons,
    "request": checks_of_endings.find_failed_requests,
    "verify": checks_of_endings.find_failed_checks,
    "claim": checks_of_endings.find_unsupported_claims,
    "unanswered": checks_of_calls.find_unanswered,
    "orphan": checks_of_calls.find_orphans,
    "expected": checks_of_calls.find_missing_expected,
    "denied": checks_of_calls.find_denials,
    "error": checks_of_calls.find_errors,
    "unknown-tool": checks_of_calls.find_unknown_tools,
    "arguments": checks_of_calls.find_bad_arguments,
    "repeated": checks_of_calls.find_repeats,
    "cut": checks_of_calls.find_cut_results,
    "hook": checks_of_endings.find_failed_hooks,
    "cache": checks_of_endings.find_cache_misses,
    "no-cache": checks_of_endings.find_missing_cache,
    "retry": checks_of_endings.find_retries,
    "slow": checks_of_calls.find_slowest,
    "cost": checks_of_endings.find_expensive_turns,
    "shortened": checks_of_endings.find_shortenings,
    "warned": checks_of_endings.find_other_warnings,
}


def run_checks(case: TriageCase) -> list[TriageFinding]:
    """Return the findings by importance, then in the order of the table, then of the log."""
    found = [
        _make_presentable(finding, name)
        for name, check in CHECKS.items()
        for finding in check(case)
    ]
    return sorted(found, key=lambda finding: finding.level)


def _make_presentable(finding: TriageFinding, check: str) -> TriageFinding:
    """Return a finding of single lines that any screen can show: its text can come from
    anywhere."""
    what, why, fix = map(_shorten_line, (finding.what, finding.why, finding.fix))
    return replace(finding, check=check, what=what, why=why, fix=fix)


def _shorten_line(text: str) -> str:
    line = show_controls(" ".join(text.split()))
    return line if len(line) <= LINE_CHARS else line[: LINE_CHARS - 1] + "…"
