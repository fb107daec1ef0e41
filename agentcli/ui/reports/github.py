"""A run for the rest of a GitHub Actions job: its summary page and the step's outputs."""

import os
import secrets
from collections.abc import Mapping
from pathlib import Path

from agentcli.machine.bound import cap
from agentcli.ui.reports.account import Account
from agentcli.ui.reports.markdown import markdown

SUMMARY_BYTES = 1_000_000
"""GitHub drops the summary of a step that is larger than 1 MiB."""


def write_job_files(account: Account, environ: Mapping[str, str] = os.environ) -> None:
    """Appends to the files that the runner names. Raises OSError."""
    if path := environ.get("GITHUB_STEP_SUMMARY"):
        _append(Path(path), cap(markdown(account), SUMMARY_BYTES)[0] + "\n")
    if path := environ.get("GITHUB_OUTPUT"):
        _append(Path(path), "".join(_output(*pair) for pair in _outputs(account).items()))


def _outputs(account: Account) -> dict[str, str]:
    outcome, tally = account.outcome, account.tally
    cost_usd = tally.spending.cost_usd
    return {
        "status": outcome.status,
        "exit-code": str(int(outcome.exit_code)),
        "session": tally.session,
        "cost-usd": "" if cost_usd is None else f"{cost_usd:.6f}",
        "changed": "true" if tally.changed or account.patch else "false",
        "answer": account.answer,
    }


def _output(name: str, value: str) -> str:
    """A value cannot end itself: nobody can guess the word that does."""
    delimiter = f"agentcli-{secrets.token_hex(16)}"
    return f"{name}<<{delimiter}\n{value}\n{delimiter}\n"


def _append(path: Path, text: str) -> None:
    with path.open("a", encoding="utf-8", errors="replace") as file:
        file.write(text)
