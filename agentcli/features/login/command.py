"""`agentcli login` and `agentcli logout`: the stored API keys of the user."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from agentcli.types.errors import Exit, UsageError
from agentcli.ui.arguments import STYLE

login_app = typer.Typer(**STYLE)
logout_app = typer.Typer(**STYLE)

Provider = Annotated[
    str, typer.Argument(metavar="[PROVIDER]", help="anthropic, openai, gemini, ...")
]


@login_app.command()
def login(
    provider: Provider = "",
    no_test: Annotated[
        bool, typer.Option("--no-test", help="Store the key without testing it.")
    ] = False,
) -> int:
    """Test and store an API key: typed without echo, or piped in."""
    from agentcli.features.login.engine import log_in
    from agentcli.settings import load_settings

    settings = load_settings({}, workspace=Path())
    try:
        name = log_in(settings, provider=provider, tests=not no_test)
    except (EOFError, KeyboardInterrupt):
        sys.stdout.write("\n")
        return Exit.INTERRUPTED
    if not name:
        raise UsageError("no key was given", hint="agentcli login PROVIDER")
    return Exit.DONE


@logout_app.command()
def logout(provider: Provider = "") -> None:
    """Remove a stored API key."""
    from agentcli.features.login.engine import choose_provider, forget_key, list_logins
    from agentcli.settings import load_settings

    settings = load_settings({}, workspace=Path())
    stored = list_logins(settings)
    if not provider and len(stored) > 1:
        raise UsageError("which key?", hint=f"agentcli logout {' | '.join(stored)}")
    if not provider and not stored:
        sys.stdout.write("No stored keys.\n")
        return
    name = provider or stored[0]
    chosen = choose_provider(name, settings, command="agentcli logout", names=stored)
    for line in forget_key(chosen):
        sys.stdout.write(f"{line}\n")
