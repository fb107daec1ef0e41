"""`agentcli trace`: a session from top to bottom."""

from typing import Annotated

import typer

from agentcli.cli.options import STYLE, SessionOrLatest

app = typer.Typer(**STYLE)


@app.command()
def trace(
    session: SessionOrLatest = None,
    full: Annotated[bool, typer.Option("--full", help="Nothing is shortened.")] = False,
) -> None:
    """Print a session from top to bottom: turns, requests, calls, outcomes, cost."""
    from agentcli.ui.trace import show

    show(session, full=full)
