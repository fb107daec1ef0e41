"""`agentcli caches`: what the commands of a workspace keep between sessions."""

from pathlib import Path
from typing import Annotated

import typer

from agentcli.ui.arguments import STYLE, AsJson, Workspace

app = typer.Typer(help="Show or clear what commands keep between sessions.", **STYLE)

All = Annotated[bool, typer.Option("--all", help="Clear those of all workspaces.")]


@app.command("list")
def list_caches(as_json: AsJson = False) -> None:
    """List the homes of commands with their sizes, latest used first."""
    from agentcli.features.caches.render import show_caches

    show_caches(as_json=as_json)


@app.command()
def clear(workspace: Workspace = Path(), everywhere: All = False) -> int:
    """Clear the home of this workspace's commands, with all tool caches in it."""
    from agentcli.features.caches.render import clear_caches
    from agentcli.system.files import resolve_directory

    return clear_caches(None if everywhere else resolve_directory(workspace))
