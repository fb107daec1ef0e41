"""`agentcli trust`: which repositories may bring settings, hooks, servers and commands."""

from pathlib import Path
from typing import Annotated

import typer

from agentcli.ui.arguments import STYLE

app = typer.Typer(**STYLE)


@app.command()
def trust(
    directory: Annotated[
        Path, typer.Argument(metavar="[DIR]", help="The repository, or a directory in it.")
    ] = Path(),
    show: Annotated[
        bool, typer.Option("--show", help="Only show what would be used and run.")
    ] = False,
    listing: Annotated[bool, typer.Option("--list", help="List what is trusted.")] = False,
    revoke: Annotated[bool, typer.Option("--revoke", help="Trust it no longer.")] = False,
) -> int:
    """Trust what a repository brings for agentcli.

    Its .agentcli/settings.toml, hooks.json, mcp.json and commands are not used before. Trust is
    for these files as they are now: when one changes, it is gone."""
    from agentcli.features.trust import render as face
    from agentcli.types.errors import UsageError

    if show + listing + revoke > 1:
        raise UsageError(
            "--show, --list and --revoke exclude each other", hint="agentcli trust --help"
        )
    if listing:
        return face.list_trusted()
    if revoke:
        return face.revoke_project_trust(directory)
    return face.show_project(directory) if show else face.trust_project(directory)
