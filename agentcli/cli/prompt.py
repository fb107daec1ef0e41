"""`agentcli prompt`: what the model is told before anything is asked."""

from pathlib import Path

import typer

from agentcli.cli.options import STYLE, Workspace

app = typer.Typer(**STYLE)


@app.command()
def prompt(workspace: Workspace = Path()) -> None:
    """Print what every request begins with, and what each part costs."""
    from agentcli.settings import load
    from agentcli.ui.context import show_prompt

    show_prompt(load({}, workspace=workspace))
