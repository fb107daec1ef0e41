"""`agentcli fork`: a session's beginning with another continuation."""

from pathlib import Path
from typing import Annotated

import typer

from agentcli.ui.arguments import STYLE, Model, SessionName

app = typer.Typer(**STYLE)


@app.command()
def fork(
    session: SessionName,
    prompt: Annotated[
        str, typer.Argument(help="What to ask instead; default: what was asked there.")
    ] = "",
    at: Annotated[
        str | None,
        typer.Option(
            "--at",
            metavar="TURN|CALL",
            help="Where to part: before a turn, by its number, or before a call, by its id.",
        ),
    ] = None,
    model: Model = None,
    policy: Annotated[
        Path | None, typer.Option("--policy", metavar="FILE", help="Other rules.")
    ] = None,
    result_file: Annotated[
        Path | None,
        typer.Option("--result-file", metavar="FILE", help="Another result of the call at --at."),
    ] = None,
    mode: Annotated[
        str | None,
        typer.Option("--mode", metavar="plan|ask|auto-edit|auto", help="Another mode."),
    ] = None,
) -> int:
    """Branch a session at any turn or call, and compare.

    Without --at and PROMPT the session is only copied, to be resumed. Else the fork goes on in a
    directory of its own, and its end, its cost and its changes are shown beside the original's.
    The exit code is the fork's: that of a run which ends so."""
    from agentcli.features.fork.render import ForkOptions, fork_and_compare

    otherwise = ForkOptions(model=model, mode=mode, policy=policy, result_file=result_file)
    return fork_and_compare(session, at=at, prompt=prompt, options=otherwise)
