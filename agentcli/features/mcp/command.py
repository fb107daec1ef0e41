"""`agentcli mcp`: the servers whose tools a model may use, and agentcli as such a server."""

from pathlib import Path
from typing import Annotated

import typer

from agentcli.ui.arguments import (
    STYLE,
    Allow,
    Deny,
    McpConfig,
    Model,
    Policy,
    SandboxKind,
    SessionMode,
    Workspace,
)

app = typer.Typer(**STYLE, help="Add, list, test and remove MCP servers, or be one.")

Name = Annotated[str, typer.Argument(metavar="NAME", help="Of the server.")]


@app.command()
def add(
    name: Name,
    command: Annotated[
        list[str] | None,
        typer.Argument(metavar="[-- COMMAND ARGS...]", help="What starts it, after --."),
    ] = None,
    url: Annotated[
        str, typer.Option("--url", metavar="URL", help="Of a server that runs elsewhere.")
    ] = "",
    env: Annotated[
        list[str] | None,
        typer.Option("--env", metavar="NAME=VALUE", help="A variable for it; ${VAR} is put in."),
    ] = None,
    header: Annotated[
        list[str] | None,
        typer.Option("--header", metavar="NAME:VALUE", help="With --url; ${VAR} is put in."),
    ] = None,
    writable: Annotated[
        list[Path] | None,
        typer.Option("--writable", metavar="DIR", help="Where else it may write."),
    ] = None,
    no_network: Annotated[
        bool, typer.Option("--no-network", help="Keep it from the network.")
    ] = False,
    unconfined: Annotated[
        bool, typer.Option("--unconfined", help="Run it without a sandbox, as yourself.")
    ] = False,
) -> int:
    """Write a server down in your own mcp.json."""
    from agentcli.features.mcp import render as face
    from agentcli.features.mcp.server_list import NewServer

    new = NewServer(
        command=tuple(command or ()),
        url=url,
        env=tuple(env or ()),
        headers=tuple(header or ()),
        unconfined=unconfined,
        no_network=no_network,
        writable=tuple(writable or ()),
    )
    return face.add(name, new)


@app.command("list")
def list_servers(workspace: Workspace = Path(), mcp_config: McpConfig = None) -> int:
    """List the servers, where they stand, and what their tools cost."""
    from agentcli.features.mcp import render as face

    return face.show_servers(workspace, config=mcp_config)


@app.command()
def test(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME]...", help="Which; without any, all.")
    ] = None,
    workspace: Workspace = Path(),
    mcp_config: McpConfig = None,
) -> int:
    """Connect, list the tools, and say how long it took."""
    from agentcli.features.mcp import render as face

    return face.test_servers(names or [], workspace, config=mcp_config)


@app.command()
def approve(
    name: Name,
    workspace: Workspace = Path(),
    mcp_config: McpConfig = None,
    yes: Annotated[bool, typer.Option("--yes", help="Accept without being asked.")] = False,
) -> int:
    """Look at what a server offers now, and accept it."""
    from agentcli.features.mcp import render as face

    return face.approve(name, workspace, config=mcp_config, yes=yes)


@app.command()
def login(
    name: Name,
    workspace: Workspace = Path(),
    mcp_config: McpConfig = None,
    no_browser: Annotated[
        bool, typer.Option("--no-browser", help="Only print the address; open nothing.")
    ] = False,
) -> int:
    """Log in to a server that runs elsewhere, in your browser."""
    from agentcli.features.mcp import render as face

    return face.login(name, workspace, config=mcp_config, opens_browser=not no_browser)


@app.command()
def logout(name: Name, workspace: Workspace = Path(), mcp_config: McpConfig = None) -> int:
    """Forget the login at a server."""
    from agentcli.features.mcp import render as face

    return face.logout(name, workspace, config=mcp_config)


@app.command()
def remove(name: Name) -> int:
    """Remove a server from your own mcp.json."""
    from agentcli.features.mcp import render as face

    return face.remove(name)


@app.command()
def serve(
    workspace: Workspace = Path(),
    model: Model = None,
    mode: SessionMode = None,
    allow: Allow = None,
    deny: Deny = None,
    policy: Policy = None,
    sandbox: SandboxKind = None,
) -> int:
    """Offer the tools, and whole tasks as `run`, to another program over stdin and stdout."""
    from agentcli.features.mcp.serve import run_server
    from agentcli.settings import load_settings

    settings = load_settings(
        {"model": model, "mode": mode, "sandbox": sandbox},
        workspace=workspace,
        allow=allow or (),
        deny=deny or (),
        policy=policy,
    )
    return run_server(settings)
