"""`agentcli doctor`: checks of the setup, with fixes."""

from pathlib import Path

import typer

from agentcli.ui.arguments import STYLE, Model, SandboxKind, Workspace

app = typer.Typer(**STYLE)


@app.command()
def doctor(workspace: Workspace = Path(), model: Model = None, sandbox: SandboxKind = None) -> int:
    """Check your setup and suggest fixes."""
    from agentcli.features.doctor.checks import run_checks

    return run_checks({"model": model, "sandbox": sandbox}, workspace=workspace)
