"""What somebody should look at, with its place where it has one: of a run, or of a review."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

from agentcli.types.errors import Exit, Outcome
from agentcli.types.events import Ending
from agentcli.ui.lines import target
from agentcli.ui.tally import Tally

Level = Literal["error", "warning", "note"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    rule: str
    """What kind it is, for programs: denied, verify, bug."""
    level: Level
    title: str
    message: str
    path: str = ""
    line: int = 0
    """Counted from 1; 0: the whole file, or nowhere."""
    end_line: int = 0


FindingsOf: TypeAlias = Callable[[Tally, Outcome], list[Finding]]

_OF_THEIR_OWN = (Ending.DONE, Ending.DENIED, Ending.VERIFY_FAILED, Ending.CLAIM_UNSUPPORTED)
"""Endings that another finding says better."""


def findings_of_run(tally: Tally, outcome: Outcome) -> list[Finding]:
    return [
        *_denied(tally),
        *_failed_checks(tally),
        *_claims(tally, outcome),
        *_ended(outcome),
        *(
            Finding(rule="warning", level="warning", title="agentcli", message=message)
            for message in tally.warnings
        ),
    ]


def _denied(tally: Tally) -> Iterator[Finding]:
    for call, verdict in tally.denials:
        if verdict.by == "nobody":
            message = f"{call.name} {target(call)}: {verdict.reason}"
            yield Finding(rule="denied", level="error", title="Denied", message=message)


def _failed_checks(tally: Tally) -> Iterator[Finding]:
    for run in tally.verified.values():
        if not run.passed:
            how = "did not end" if run.exit_code is None else f"exit code {run.exit_code}"
            message = f"{run.command}: {how}\n{run.output}"
            yield Finding(
                rule="verify", level="error", title="Verification failed", message=message
            )


def _claims(tally: Tally, outcome: Outcome) -> Iterator[Finding]:
    level: Level = "error" if outcome.ending is Ending.CLAIM_UNSUPPORTED else "warning"
    for claim in tally.claims:
        if claim.verdict == "not_supported":
            message = f"{claim.text}\nbut {claim.evidence}"
            yield Finding(rule="claim", level=level, title="Claim not supported", message=message)


def _ended(outcome: Outcome) -> Iterator[Finding]:
    if outcome.ending in _OF_THEIR_OWN:
        return
    title = "Limit reached" if outcome.exit_code in (Exit.LIMIT, Exit.TIMEOUT) else "Failed"
    message = "\n".join(filter(None, (outcome.message or outcome.ending, outcome.hint)))
    yield Finding(rule=outcome.ending.value, level="error", title=title, message=message)
