"""`agentcli undo`: undo or redo the file changes of a session."""

from typing import Annotated

import typer

from agentcli.ui.arguments import STYLE, SessionOrLatest, SessionWorkspace

app = typer.Typer(**STYLE)


@app.command()
def undo(
    session: SessionOrLatest = None,
    call: Annotated[
        str | None,
        typer.Argument(
            help="A number from --list, or the id of a call. Default: the latest change."
        ),
    ] = None,
    *,
    workspace: SessionWorkspace = None,
    turn: Annotated[
        int | None,
        typer.Option(metavar="N", help="Undo all changes from turn N on."),
    ] = None,
    redo: Annotated[bool, typer.Option("--redo", help="Redo what was last undone.")] = False,
    list_only: Annotated[
        bool, typer.Option("--list", help="List the changes that can be undone.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would happen; change nothing.")
    ] = False,
) -> int:
    """Undo a session's file changes; what you edited since then stays.

    Files that you edited since are merged. A file that cannot be merged stays unchanged.
    What anybody changed while a command ran counts as changed by it: --dry-run shows every path.
    Exit code: 0, or 7 if a file could not be merged.
    """
    from agentcli.features.undo.render import UndoRequest, show_changes, undo_or_redo
    from agentcli.types.errors import UsageError

    choices = {
        "--list": list_only,
        "--redo": redo,
        f"--turn {turn}": turn is not None,
        f"the change {call}": call is not None,
    }
    chosen = [name for name, is_given in choices.items() if is_given]
    if len(chosen) > 1:
        raise UsageError(
            f"{chosen[0]} and {chosen[1]} cannot be used together", hint="agentcli undo --help"
        )
    if list_only:
        return show_changes(session, workspace)
    wanted = UndoRequest(call=call, turn=turn, redo=redo, dry_run=dry_run)
    return undo_or_redo(session, workspace, request=wanted)
