"""Everything a report may say about a run that has ended."""

from dataclasses import dataclass

from agentcli.types.errors import RunOutcome
from agentcli.ui.findings import ReportFinding
from agentcli.ui.tally import Tally


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSummary:
    outcome: RunOutcome
    tally: Tally
    findings: tuple[ReportFinding, ...]
    answer: str
    patch: str
    """What the run changed, as a diff; empty: nothing, or it is not known."""
