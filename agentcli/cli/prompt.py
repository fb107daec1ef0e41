"""`agentcli prompt`: what the model is told before anything is asked."""

from pathlib import Path
from typing import Annotated

import typer

from agentcli.cli.options import STYLE, Model, SessionMode, TrustProject, Workspace

prompt_app = typer.Typer(**STYLE)


@prompt_app.command()
def prompt(
    prompt: Annotated[str, typer.Argument(help="What would be asked.", show_default=False)] = "",
    workspace: Workspace = Path(),
    model: Model = None,
    mode: SessionMode = None,
    trust_project: TrustProject = False,
    as_json: Annotated[
        bool,
        typer.Option(
            "--json", help="The request itself, as it would be sent; of images the beginning."
        ),
    ] = False,
) -> None:
    """Print what every request begins with, and what each part costs."""
    from agentcli.settings import load_settings
    from agentcli.ui.context import show_prompt

    flags = {"model": model, "mode": mode}
    settings = load_settings(flags, workspace=workspace, trust_project=trust_project)
    show_prompt(settings, prompt, as_json=as_json)
