"""`agentcli completion`: a script that completes commands and options in a shell."""

from typing import Annotated

import typer

from agentcli.ui.arguments import STYLE

app = typer.Typer(**STYLE)

Shell = Annotated[str, typer.Argument(help="bash, zsh or fish.")]


@app.command()
def completion(shell: Shell) -> None:
    """Print a script that completes commands and options in bash, zsh or fish."""
    from agentcli.features.completion.render import print_script

    print_script(shell)
