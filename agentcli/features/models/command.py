"""`agentcli models`: which models can be used, why others cannot, and what a swap would lose."""

from pathlib import Path
from typing import Annotated

import typer

from agentcli.ui.arguments import STYLE, Model

app = typer.Typer(**STYLE)


@app.command()
def models(
    local: Annotated[
        bool, typer.Option("--local", help="Look for servers on their usual ports, too.")
    ] = False,
    check: Annotated[
        str | None,
        typer.Option(
            "--check",
            metavar="SESSION",
            help="What a session would lose with --model, whether it fits, what it costs.",
        ),
    ] = None,
    model: Model = None,
) -> None:
    """List the models and what keeps them from use."""
    if check is None:
        from agentcli.features.models.render import show_models

        show_models(local=local)
        return
    from agentcli.features.models.render import show_swap
    from agentcli.settings import load_settings

    show_swap(check, load_settings({"model": model}, workspace=Path()))
