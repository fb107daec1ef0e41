"""A run for the rest of a GitHub Actions job: its summary page and the step's outputs."""

import os
import secrets
from collections.abc import Mapping
from pathlib import Path

from agentcli.machine.bound import cap
from agentcli.ui.reports.account import RunSummary
from agentcli.ui.reports.markdown import render_markdown

SUMMARY_BYTES = 1_000_000
"""GitHub drops the summary of a step that is larger than 1 MiB."""


def write_job_files(summary: RunSummary, environ: Mapping[str, str] = os.environ) -> None:
    """Appends to the files that the runner names. Raises OSError."""
    if path := environ.get("GITHUB_STEP_SUMMARY"):
        _append(Path(path), cap(render_markdown(summary), SUMMARY_BYTES)[0] + "\n")
    if path := environ.get("GITHUB_OUTPUT"):
        _append(
            Path(path), "".join(_format_output(*pair) for pair in _list_outputs(summary).items())
        )


def _list_outputs(summary: RunSummary) -> dict[str, str]:
    outcome, tally = summary.outcome, summary.tally
    cost_usd = tally.spending.cost_usd
    return {
        "status": outcome.status,
        "exit-code": str(int(outcome.exit_code)),
        "session": tally.session,
        "cost-usd": "" if cost_usd is None else f"{cost_usd:.6f}",
        "changed": "true" if tally.changed or summary.patch else "false",
        "answer": summary.answer,
    }


def _format_output(name: str, value: str) -> str:
    """A value cannot end itself: nobody can guess the word that does."""
    delimiter = f"agentcli-{secrets.token_hex(16)}"
    return f"{name}<<{delimiter}\n{value}\n{delimiter}\n"


def _append(path: Path, text: str) -> None:
    with path.open("a", encoding="utf-8", errors="replace") as file:
        file.write(text)
