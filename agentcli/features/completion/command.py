"""`agentcli completion`: the names of commands and options, for your shell."""

from typing import Annotated

import typer

from agentcli.ui.arguments import STYLE

app = typer.Typer(**STYLE)

ShellName = Annotated[
    str | None,
    typer.Argument(metavar="[bash|zsh|fish]", help="The shell. [default: the one you use]"),
]


@app.callback()
def completion() -> None:
    """Complete commands and options in your shell."""


@app.command()
def install(shell: ShellName = None) -> None:
    """Install the completion for yourself, where the shell looks for it."""
    from agentcli.features.completion.engine import find_shell, install_completion

    install_completion(find_shell(shell))


@app.command()
def show(shell: ShellName = None) -> None:
    """Print the completion, to put it where you like."""
    from agentcli.features.completion.engine import build_completion, find_shell

    typer.echo(build_completion(find_shell(shell)), nl=False)
