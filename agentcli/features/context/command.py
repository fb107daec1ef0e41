"""`agentcli context`: where the tokens of a session's next request come from."""

from pathlib import Path
from typing import Annotated

import typer

from agentcli.ui.arguments import STYLE, AsJson, Model, SessionMode, TrustProject, Workspace

context_app = typer.Typer(**STYLE)


@context_app.command()
def context(
    session: Annotated[
        str | None,
        typer.Argument(help="By id, name or path. Default: the latest of this workspace."),
    ] = None,
    workspace: Workspace = Path(),
    as_json: AsJson = False,
) -> None:
    """Show what fills a session's context, in tokens by source."""
    from agentcli.features.context.render import show_context

    show_context(session, workspace, as_json=as_json)


# `agentcli prompt`: what the model sees before the first question


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
    from agentcli.features.context.render import show_prompt
    from agentcli.settings import load_settings

    flags = {"model": model, "mode": mode}
    settings = load_settings(flags, workspace=workspace, trust_project=trust_project)
    show_prompt(settings, prompt, as_json=as_json)


# `agentcli tools`: the tools that are declared to the model


tools_app = typer.Typer(**STYLE)


@tools_app.command()
def tools() -> None:
    """List the tools and what declaring them costs."""
    from agentcli.features.context.tools import show_tools

    show_tools()
