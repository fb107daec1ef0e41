"""`agentcli plugins`: directories with skills, agents, commands, hooks and servers."""

from typing import Annotated

import typer

from agentcli.ui.arguments import STYLE

app = typer.Typer(**STYLE, help="Install plugins: skills, agents, commands, hooks and servers.")

Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the plugin.")]
Yes = Annotated[bool, typer.Option("-y", "--yes", help="Agree without being asked.")]


@app.command()
def install(
    source: Annotated[
        str,
        typer.Argument(metavar="PATH|GIT-URL", help="A directory, or the URL of a repository."),
    ],
    path: Annotated[
        str, typer.Option("--path", metavar="DIR", help="The plugin's directory in the source.")
    ] = "",
    *,
    ref: Annotated[
        str, typer.Option("--ref", metavar="REF", help="Branch, tag or commit of the repository.")
    ] = "",
    yes: Yes = False,
) -> int:
    """Install a plugin: an Agent Plugins 1.0 directory, or one made for Claude Code.

    Shows what it brings and would run, and its content hash. If it runs anything, you are asked.
    A copy is kept, and used only as long as it has this hash."""
    from agentcli.features.plugins import render

    return render.install(source, path=path, ref=ref, yes=yes)


@app.command("list")
def list_plugins() -> int:
    """List the plugins with state, content hash, source and parts."""
    from agentcli.features.plugins import render

    return render.list_plugins()


@app.command()
def enable(name: Name, yes: Yes = False) -> int:
    """Use a plugin that is disabled, or has changed, after you have seen what it runs."""
    from agentcli.features.plugins import render

    return render.enable(name, yes=yes)


@app.command()
def disable(name: Name) -> int:
    """Keep a plugin, and use nothing of it."""
    from agentcli.features.plugins import render

    return render.disable(name)


@app.command()
def remove(name: Name) -> int:
    """Remove a plugin with its data."""
    from agentcli.features.plugins import render

    return render.remove(name)


@app.command()
def update(
    name: Annotated[str, typer.Argument(metavar="[NAME]", help="Only this plugin.")] = "",
    yes: Yes = False,
) -> int:
    """Fetch plugins again. New content is shown, and asks again if it runs anything."""
    from agentcli.features.plugins import render

    return render.update(name, yes=yes)
