"""`agentcli models`: which models can be used, and why others cannot."""

from typing import Annotated

import typer

from agentcli.cli.options import STYLE

app = typer.Typer(**STYLE)


@app.command()
def models(
    local: Annotated[
        bool, typer.Option("--local", help="Look for servers on their usual ports, too.")
    ] = False,
) -> None:
    """List the models and what keeps them from use."""
    from agentcli.ui.models import show

    show(local=local)
