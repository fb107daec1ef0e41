"""`agentcli update`: how to update this installation, and on request whether there is anything."""

from typing import Annotated

import typer

from agentcli.ui.arguments import STYLE

app = typer.Typer(**STYLE)


@app.command()
def update(
    check: Annotated[
        bool, typer.Option("--check", help="Ask the repository whether there is a newer commit.")
    ] = False,
) -> None:
    """Show how to update agentcli. Asks the network only with --check."""
    from agentcli.features.update.render import show_update

    show_update(asks=check)
