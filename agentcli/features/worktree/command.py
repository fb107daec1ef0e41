"""`agentcli worktree`: list, merge and discard worktrees of sessions."""

from pathlib import Path
from typing import Annotated

import typer

from agentcli.ui.arguments import STYLE, Workspace

app = typer.Typer(**STYLE, help="List, merge and discard the worktrees of sessions.")
Name = Annotated[str, typer.Argument(metavar="NAME", help="The name of the worktree.")]


@app.command("list")
def show(workspace: Workspace = Path()) -> int:
    """List the worktrees of this repository."""
    from agentcli.features.worktree.render import show_worktrees

    return show_worktrees(workspace)


@app.command()
def merge(name: Name, workspace: Workspace = Path()) -> int:
    """Merge a worktree's changes into your files, and remove it.

    A file that you changed in the same lines stays as you have it, and the worktree stays, too.
    Exit code: 0, or 7 if a file could not be merged. To take it back: agentcli undo SESSION.
    """
    from agentcli.features.worktree.render import merge_by_name

    return merge_by_name(workspace, name)


@app.command()
def discard(
    name: Name,
    workspace: Workspace = Path(),
    *,
    yes: Annotated[
        bool, typer.Option("-y", "--yes", help="Discard it even if files were changed.")
    ] = False,
) -> int:
    """Remove a worktree with its changes and its branch."""
    from agentcli.features.worktree.render import discard_by_name

    return discard_by_name(workspace, name, is_confirmed=yes)
