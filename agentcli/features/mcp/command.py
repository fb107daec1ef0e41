"""`agentcli mcp`: manage the servers whose tools a model may use, or run agentcli as a server."""

from pathlib import Path
from typing import Annotated

import typer

from agentcli.ui.arguments import (
    STYLE,
    AddDir,
    Allow,
    Deny,
    McpConfig,
    Mode,
    Model,
    Network,
    Policy,
    SandboxKind,
    Workspace,
)

app = typer.Typer(**STYLE, help="Manage MCP servers, or run agentcli as one.")

Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the server.")]


def _require_library() -> None:
    from agentcli.system.extras import require

    require("mcp", needed_by="agentcli mcp", extra="mcp")


@app.command()
def add(
    name: Name,
    command: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[-- COMMAND ARGS...]", help="Command that starts the server, after --."
        ),
    ] = None,
    *,
    url: Annotated[
        str, typer.Option("--url", metavar="URL", help="Address of a remote server.")
    ] = "",
    env: Annotated[
        list[str] | None,
        typer.Option(
            "--env",
            metavar="NAME=VALUE",
            help="Environment variable for the server; ${VAR} is expanded.",
        ),
    ] = None,
    header: Annotated[
        list[str] | None,
        typer.Option(
            "--header", metavar="NAME:VALUE", help="HTTP header, with --url; ${VAR} is expanded."
        ),
    ] = None,
    writable: Annotated[
        list[Path] | None,
        typer.Option("--writable", metavar="DIR", help="Let the server write to this directory."),
    ] = None,
    no_network: Annotated[bool, typer.Option("--no-network", help="Block network access.")] = False,
    unconfined: Annotated[
        bool, typer.Option("--unconfined", help="Run the server without a sandbox.")
    ] = False,
) -> int:
    """Add a server to your mcp.json."""
    _require_library()
    from agentcli.features.mcp import render
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
    return render.add(name, new)


@app.command("list")
def list_servers(workspace: Workspace = Path(), mcp_config: McpConfig = None) -> int:
    """List servers with status and token cost."""
    _require_library()
    from agentcli.features.mcp import render

    return render.show_servers(workspace, config=mcp_config)


@app.command()
def test(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME]...", help="Servers to test. Default: all.")
    ] = None,
    workspace: Workspace = Path(),
    *,
    mcp_config: McpConfig = None,
) -> int:
    """Connect to servers and list their tools."""
    _require_library()
    from agentcli.features.mcp import render

    return render.test_servers(names or [], workspace, config=mcp_config)


@app.command()
def approve(
    name: Name,
    workspace: Workspace = Path(),
    *,
    mcp_config: McpConfig = None,
    yes: Annotated[bool, typer.Option("-y", "--yes", help="Approve without asking.")] = False,
) -> int:
    """Review a server's tools and approve them."""
    _require_library()
    from agentcli.features.mcp import render

    return render.approve(name, workspace, config=mcp_config, yes=yes)


@app.command()
def login(
    name: Name,
    workspace: Workspace = Path(),
    *,
    mcp_config: McpConfig = None,
    no_browser: Annotated[
        bool, typer.Option("--no-browser", help="Print the address instead of opening a browser.")
    ] = False,
) -> int:
    """Log in to a remote server in your browser."""
    _require_library()
    from agentcli.features.mcp import render

    return render.login(name, workspace, config=mcp_config, opens_browser=not no_browser)


@app.command()
def logout(name: Name, workspace: Workspace = Path(), *, mcp_config: McpConfig = None) -> int:
    """Log out of a server."""
    _require_library()
    from agentcli.features.mcp import render

    return render.logout(name, workspace, config=mcp_config)


@app.command()
def remove(name: Name) -> int:
    """Remove a server from your mcp.json."""
    _require_library()
    from agentcli.features.mcp import render

    return render.remove(name)


@app.command()
def serve(
    workspace: Workspace = Path(),
    model: Model = None,
    *,
    mode: Mode = None,
    allow: Allow = None,
    deny: Deny = None,
    network: Network = None,
    policy: Policy = None,
    sandbox: SandboxKind = None,
    add_dir: AddDir = None,
) -> int:
    """Serve tools and tasks to MCP clients on stdin and stdout."""
    _require_library()
    from agentcli.features.mcp.serve import run_server
    from agentcli.settings import load_settings

    settings = load_settings(
        {
            "model": model,
            "mode": mode,
            "sandbox": sandbox,
            "allow": allow,
            "deny": deny,
            "network": network,
            "policy": policy,
            "add_dir": add_dir,
        },
        workspace=workspace,
        command="mcp serve",
    )
    return run_server(settings)
