"""`agentcli recall`: what is remembered of past sessions."""

from pathlib import Path
from typing import Annotated

import typer

from agentcli.ui.arguments import STYLE, AsJson, Workspace

app = typer.Typer(help="Show, search, edit and delete what is remembered of sessions.", **STYLE)

All = Annotated[bool, typer.Option("--all", help="Include all workspaces.")]
EntryId = Annotated[int, typer.Argument(metavar="ID", help="The number in the list.")]


@app.command("list")
def list_memories(
    workspace: Workspace = Path(), everywhere: All = False, *, as_json: AsJson = False
) -> int:
    """List what is remembered of this workspace, latest first."""
    from agentcli.features.recall.render import show_entries
    from agentcli.system.files import resolve_directory

    return show_entries(None, None if everywhere else resolve_directory(workspace), as_json=as_json)


@app.command()
def search(
    words: Annotated[str, typer.Argument(help="Words to find, or their beginnings.")],
    workspace: Workspace = Path(),
    *,
    everywhere: All = False,
    as_json: AsJson = False,
) -> int:
    """Search what is remembered of this workspace, best first."""
    from agentcli.features.recall.render import show_entries
    from agentcli.system.files import resolve_directory

    return show_entries(
        words, None if everywhere else resolve_directory(workspace), as_json=as_json
    )


@app.command()
def show(entry_id: EntryId, as_json: AsJson = False) -> int:
    """Show one memory in full, with the session it came from."""
    from agentcli.features.recall.render import show_entry

    return show_entry(entry_id, as_json=as_json)


@app.command()
def edit(
    entry_id: EntryId,
    asked: Annotated[
        str | None, typer.Option(metavar="TEXT", help="What was asked, in other words.")
    ] = None,
    *,
    learned: Annotated[
        str | None, typer.Option(metavar="TEXT", help="What was learned, in other words.")
    ] = None,
) -> int:
    """Change a memory."""
    from agentcli.features.recall.render import change_entry

    return change_entry(entry_id, asked=asked, learned=learned)


@app.command()
def delete(
    entry_ids: Annotated[
        list[int] | None, typer.Argument(metavar="ID...", help="Numbers in the list.")
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Delete the memories of all workspaces.")
    ] = False,
) -> int:
    """Delete memories for good."""
    from agentcli.features.recall.render import delete_entries

    return delete_entries(entry_ids or [], everything=everything)
