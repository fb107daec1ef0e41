"""`agentcli context`: where the tokens of a session's next request come from."""

from pathlib import Path
from typing import Annotated

import typer

from agentcli.cli.options import STYLE, AsJson, Workspace

context_app = typer.Typer(**STYLE)


@context_app.command()
def context(
    session: Annotated[
        str | None,
        typer.Argument(help="By id, name or path. Default: the latest of this workspace."),
    ] = None,
    workspace: Workspace = Path(),
    as_json: AsJson = False,
) -> None:
    """Show what fills a session's context, in tokens by source."""
    from agentcli.ui.context import show_context

    show_context(session, workspace, as_json=as_json)
