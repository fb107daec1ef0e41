"""`agentcli trust`: which repositories may set up hooks, servers and commands."""

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
        bool, typer.Option("--show", help="Only show what would be loaded and run.")
    ] = False,
    *,
    listing: Annotated[bool, typer.Option("--list", help="List the trusted repositories.")] = False,
    revoke: Annotated[bool, typer.Option("--revoke", help="Revoke the trust.")] = False,
) -> int:
    """Trust a repository's agentcli settings, hooks and servers.

    Until then, its .agentcli/settings.toml, hooks.json, mcp.json and commands are not used. Trust
    applies to the files as they are now: if one changes, you are asked again."""
    from agentcli.features.trust import render
    from agentcli.types.errors import UsageError

    if show + listing + revoke > 1:
        raise UsageError(
            "use only one of --show, --list and --revoke", hint="agentcli trust --help"
        )
    if listing:
        return render.list_trusted()
    if revoke:
        return render.revoke_project_trust(directory)
    return render.show_project(directory) if show else render.trust_project(directory)
