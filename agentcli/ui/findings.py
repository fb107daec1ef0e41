"""What somebody should look at, with its place where it has one: of a run, or of a review."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

from agentcli.types.errors import Exit, RunOutcome
from agentcli.types.events import Ending
from agentcli.ui.lines import format_target
from agentcli.ui.tally import Tally

Level = Literal["error", "warning", "note"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportFinding:
    rule: str
    """What kind it is, for programs: denied, verify, bug."""
    level: Level
    title: str
    message: str
    path: str = ""
    line: int = 0
    """Counted from 1; 0: the whole file, or nowhere."""
    end_line: int = 0


CollectFindings: TypeAlias = Callable[[Tally, RunOutcome], list[ReportFinding]]

_REPORTED_ELSEWHERE = (Ending.DONE, Ending.DENIED, Ending.VERIFY_FAILED, Ending.CLAIM_UNSUPPORTED)
"""Endings that another finding says better."""


def collect_run_findings(tally: Tally, outcome: RunOutcome) -> list[ReportFinding]:
    return [
        *_find_denials(tally),
        *_find_failed_checks(tally),
        *_find_unsupported_claims(tally, outcome),
        *_find_failure(outcome),
        *(
            ReportFinding(rule="warning", level="warning", title="agentcli", message=message)
            for message in tally.warnings
        ),
    ]


def _find_denials(tally: Tally) -> Iterator[ReportFinding]:
    for call, verdict in tally.denials:
        if verdict.by == "nobody":
            message = f"{call.name} {format_target(call)}: {verdict.reason}"
            yield ReportFinding(rule="denied", level="error", title="Denied", message=message)


def _find_failed_checks(tally: Tally) -> Iterator[ReportFinding]:
    for run in tally.verified.values():
        if not run.passed:
            how = "did not end" if run.exit_code is None else f"exit code {run.exit_code}"
            message = f"{run.command}: {how}\n{run.output}"
            yield ReportFinding(
                rule="verify", level="error", title="Verification failed", message=message
            )


def _find_unsupported_claims(tally: Tally, outcome: RunOutcome) -> Iterator[ReportFinding]:
    level: Level = "error" if outcome.ending is Ending.CLAIM_UNSUPPORTED else "warning"
    for claim in tally.claims:
        if claim.verdict == "not_supported":
            message = f"{claim.text}\nbut {claim.evidence}"
            yield ReportFinding(
                rule="claim", level=level, title="Claim not supported", message=message
            )


def _find_failure(outcome: RunOutcome) -> Iterator[ReportFinding]:
    if outcome.ending in _REPORTED_ELSEWHERE:
        return
    title = "Limit reached" if outcome.exit_code in (Exit.LIMIT, Exit.TIMEOUT) else "Failed"
    message = "\n".join(filter(None, (outcome.message or outcome.ending, outcome.hint)))
    yield ReportFinding(rule=outcome.ending.value, level="error", title=title, message=message)
