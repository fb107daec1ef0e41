"""`agentcli undo`: take back what a session changed, or put it back again."""

from pathlib import Path
from typing import Annotated

import typer

from agentcli.ui.arguments import STYLE, Workspace

app = typer.Typer(**STYLE)


@app.command()
def undo(
    session: Annotated[
        str | None,
        typer.Argument(help="Its id, name or a part of it. Default: the latest of the workspace."),
    ] = None,
    call: Annotated[
        str | None,
        typer.Argument(help="A number of --list, or a call's id. Default: the latest change."),
    ] = None,
    workspace: Workspace = Path(),
    turn: Annotated[
        int | None,
        typer.Option(metavar="N", help="Take back all that turn N and those after it changed."),
    ] = None,
    redo: Annotated[
        bool, typer.Option("--redo", help="Put back what was last taken back.")
    ] = False,
    list_only: Annotated[
        bool, typer.Option("--list", help="List the changes that can be taken back.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would happen; change nothing.")
    ] = False,
) -> int:
    """Take back what a session changed in the workspace, and nothing else.

    Files that were changed since are merged; where that cannot be done they stay as they are.
    Exit code: 0, or 7 when a file was left for that reason.
    """
    from agentcli.features.undo.render import UndoRequest, show_changes, undo_or_redo

    if list_only:
        return show_changes(session, workspace)
    wanted = UndoRequest(call=call, turn=turn, redo=redo, dry_run=dry_run)
    return undo_or_redo(session, workspace, wanted)
