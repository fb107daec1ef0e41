"""`agentcli sessions`: what was done before, listed, looked into, named and deleted."""

from pathlib import Path
from typing import Annotated

import typer

from agentcli.ui.arguments import STYLE, AsJson, SessionName, SessionOrLatest, Workspace

app = typer.Typer(help="List, show, search, name and delete sessions.", **STYLE)

All = Annotated[bool, typer.Option("--all", help="Of every workspace, not of this one alone.")]


@app.command("list")
def list_sessions(
    workspace: Workspace = Path(), everywhere: All = False, as_json: AsJson = False
) -> None:
    """List the sessions of this workspace, the latest first."""
    from agentcli.features.sessions.render import show_session_list

    show_session_list(None if everywhere else workspace.resolve(), as_json=as_json)


@app.command()
def show(session: SessionOrLatest = None, as_json: AsJson = False) -> None:
    """Show what one session was asked, what it did, and what it cost."""
    from agentcli.features.sessions.render import show_session

    show_session(session, as_json=as_json)


@app.command()
def search(words: Annotated[str, typer.Argument(help="What to look for, in any case.")]) -> int:
    """Find words in what was said and done, in all sessions."""
    from agentcli.features.sessions.render import show_search_hits

    return show_search_hits(words)


@app.command()
def name(session: SessionName, new_name: Annotated[str, typer.Argument(metavar="NAME")]) -> None:
    """Give a session a name of its own."""
    from agentcli.features.sessions.render import rename_session

    rename_session(session, new_name)


@app.command()
def delete(
    session: SessionName,
    yes: Annotated[bool, typer.Option("-y", "--yes", help="Do not ask.")] = False,
) -> int:
    """Delete a session: its log, its outputs and its undo."""
    from agentcli.features.sessions.render import delete_session as delete_session

    return delete_session(session, is_confirmed=yes)
