"""`agentcli doctor`: checks of the setup, with fixes."""

from pathlib import Path
from typing import Annotated

import typer

from agentcli.ui.arguments import STYLE, Model, SandboxKind, TrustProject, Workspace

app = typer.Typer(**STYLE)


@app.command()
def doctor(
    workspace: Workspace = Path(),
    model: Model = None,
    *,
    sandbox: SandboxKind = None,
    project: Annotated[
        bool,
        typer.Option(
            "--project", help="List the files for agents: used, waiting for trust, left out."
        ),
    ] = False,
    trust_project: TrustProject = False,
) -> int:
    """Check your setup and suggest fixes."""
    options = {"model": model, "sandbox": sandbox, "trust_project": trust_project}
    if project:
        from agentcli.features.doctor.project_table import print_project
        from agentcli.settings import load_settings

        return print_project(load_settings(options, workspace=workspace, command="doctor"))
    from agentcli.features.doctor.checks import run_checks

    return run_checks(options, workspace=workspace)
