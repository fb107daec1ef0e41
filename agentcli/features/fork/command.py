"""`agentcli fork`: a session's beginning with another continuation."""

from pathlib import Path
from typing import Annotated

import typer

from agentcli.ui.arguments import STYLE, SessionName

app = typer.Typer(**STYLE)


@app.command()
def fork(
    session: SessionName,
    prompt: Annotated[str, typer.Argument(help="New prompt. Default: the original one.")] = "",
    *,
    at: Annotated[
        str | None,
        typer.Option(
            "--at",
            metavar="TURN|CALL",
            help="Where to branch: before a turn (its number) or before a call (its id).",
        ),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            "--model",
            metavar="PROVIDER/NAME",
            help="Model for the fork. Default: that of the session.",
        ),
    ] = None,
    policy: Annotated[
        Path | None, typer.Option("--policy", metavar="FILE", help="Rules for the fork.")
    ] = None,
    result_file: Annotated[
        Path | None,
        typer.Option(
            "--result-file", metavar="FILE", help="Use this as the result of the call at --at."
        ),
    ] = None,
    mode: Annotated[
        str | None,
        typer.Option(
            "--mode", metavar="plan|ask|auto-edit|auto", help="Permission mode for the fork."
        ),
    ] = None,
) -> int:
    """Branch a session at a turn or call and compare the results.

    Without --at and PROMPT the session is only copied, so that you can resume the copy. Otherwise
    the fork runs in a directory of its own, and its ending, cost and changes are shown beside
    those of the original. The exit code is that of the fork's run."""
    from agentcli.features.fork.render import ForkOptions, fork_and_compare

    options = ForkOptions(model=model, mode=mode, policy=policy, result_file=result_file)
    return fork_and_compare(session, at=at, prompt=prompt, options=options)
