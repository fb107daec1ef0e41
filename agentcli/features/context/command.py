"""`agentcli context`, `prompt` and `tools`: what a request holds, with its tokens."""

from pathlib import Path
from typing import Annotated

import typer

from agentcli.ui.arguments import (
    STYLE,
    AsJson,
    Model,
    SessionMode,
    SessionOrLatest,
    TrustProject,
    Workspace,
)

context_app = typer.Typer(**STYLE)


@context_app.command()
def context(
    session: SessionOrLatest = None, workspace: Workspace = Path(), *, as_json: AsJson = False
) -> None:
    """Show the context usage of a session, in tokens by source."""
    from agentcli.features.context.render import show_context

    show_context(session, workspace, as_json=as_json)


# `agentcli prompt`: what the model sees before the first question


prompt_app = typer.Typer(**STYLE)


@prompt_app.command()
def prompt(
    prompt: Annotated[str, typer.Argument(help="The prompt to include.", show_default=False)] = "",
    workspace: Workspace = Path(),
    *,
    model: Model = None,
    mode: SessionMode = None,
    trust_project: TrustProject = False,
    as_json: Annotated[
        bool,
        typer.Option(
            "--json", help="Print the request as it would be sent, with images shortened."
        ),
    ] = False,
) -> None:
    """Print the start of every request, with the token cost of each part."""
    from agentcli.features.context.render import show_prompt
    from agentcli.settings import load_settings

    options = {"model": model, "mode": mode, "trust_project": trust_project}
    settings = load_settings(options, workspace=workspace, command="prompt")
    show_prompt(settings, prompt, as_json=as_json)


# `agentcli tools`: the tools that are declared to the model


tools_app = typer.Typer(**STYLE)


@tools_app.command()
def tools() -> None:
    """List the tools and their token cost."""
    from agentcli.features.context.tools import show_tools

    show_tools()
