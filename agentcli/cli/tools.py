"""`agentcli tools`: what the model is told it can do."""

import typer

from agentcli.cli.options import STYLE

tools_app = typer.Typer(**STYLE)


@tools_app.command()
def tools() -> None:
    """List the tools and what declaring them costs."""
    from agentcli.ui.tools import show_tools

    show_tools()
