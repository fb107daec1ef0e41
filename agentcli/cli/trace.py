"""`agentcli trace`: a session from top to bottom."""

from typing import Annotated

import typer

from agentcli.cli.options import STYLE, SessionOrLatest

trace_app = typer.Typer(**STYLE)


@trace_app.command()
def trace(
    session: SessionOrLatest = None,
    full: Annotated[bool, typer.Option("--full", help="Nothing is shortened.")] = False,
) -> None:
    """Print a session from top to bottom: turns, requests, calls, outcomes, cost."""
    from agentcli.ui.trace import show_trace

    show_trace(session, full=full)
