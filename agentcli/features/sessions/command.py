"""`agentcli sessions`: list, show, search, name and delete sessions."""

from pathlib import Path
from typing import Annotated

import typer

from agentcli.ui.arguments import STYLE, AsJson, SessionName, SessionOrLatest, Workspace

app = typer.Typer(help="List, show, search, name and delete sessions.", **STYLE)

All = Annotated[bool, typer.Option("--all", help="List the sessions of all workspaces.")]


@app.command("list")
def list_sessions(
    workspace: Workspace = Path(), everywhere: All = False, *, as_json: AsJson = False
) -> None:
    """List the sessions of this workspace, latest first."""
    from agentcli.features.sessions.render import show_session_list
    from agentcli.system.files import resolve_directory

    show_session_list(None if everywhere else resolve_directory(workspace), as_json=as_json)


@app.command()
def show(session: SessionOrLatest = None, as_json: AsJson = False) -> None:
    """Show a session: its prompts, changes, denials and cost."""
    from agentcli.features.sessions.render import show_session

    show_session(session, as_json=as_json)


@app.command()
def search(words: Annotated[str, typer.Argument(help="Text to find, ignoring case.")]) -> int:
    """Search the prompts, replies, calls and results of all sessions."""
    from agentcli.features.sessions.render import show_search_hits

    return show_search_hits(words)


@app.command()
def name(
    session: SessionName,
    new_name: Annotated[str, typer.Argument(metavar="NAME", help="The new name.")],
) -> None:
    """Name a session."""
    from agentcli.features.sessions.render import rename_session

    rename_session(session, new_name)


@app.command()
def delete(
    session: SessionName,
    yes: Annotated[bool, typer.Option("-y", "--yes", help="Do not ask for confirmation.")] = False,
) -> int:
    """Delete a session: its log, outputs and undo history."""
    from agentcli.features.sessions.render import delete_session

    return delete_session(session, is_confirmed=yes)
