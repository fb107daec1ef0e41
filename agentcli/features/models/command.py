"""`agentcli models`: which models are ready to use, and what a switch would drop."""

from pathlib import Path
from typing import Annotated

import typer

from agentcli.ui.arguments import STYLE

app = typer.Typer(**STYLE)


@app.command()
def models(
    local: Annotated[
        bool, typer.Option("--local", help="Also look for local servers on their usual ports.")
    ] = False,
    check: Annotated[
        str | None,
        typer.Option(
            "--check",
            metavar="SESSION",
            help="Check a switch of this session to --model: what is dropped, size, cost.",
        ),
    ] = None,
    *,
    model: Annotated[
        str | None,
        typer.Option(
            "--model", metavar="PROVIDER/NAME", help="With --check: the model to switch to."
        ),
    ] = None,
) -> None:
    """List models and which are ready to use."""
    if check is None:
        from agentcli.features.models.render import show_models

        show_models(local=local)
        return
    from agentcli.features.models.render import show_swap
    from agentcli.settings import load_settings

    show_swap(check, load_settings({"model": model}, workspace=Path(), command="models"))
