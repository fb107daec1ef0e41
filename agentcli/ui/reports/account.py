"""Everything a report may say about a run that has ended."""

from dataclasses import dataclass

from agentcli.types.errors import Outcome
from agentcli.ui.findings import Finding
from agentcli.ui.tally import Tally


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    outcome: Outcome
    tally: Tally
    findings: tuple[Finding, ...]
    answer: str
    patch: str
    """What the run changed, as a diff; empty: nothing, or it is not known."""
