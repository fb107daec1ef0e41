"""`agentcli replay`: run sessions again without their model, and compare with the log."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from agentcli.ui.arguments import STYLE, AsJson

app = typer.Typer(**STYLE)


class VerdictSource(StrEnum):
    RECORDED = "recorded"
    CURRENT = "current"


@app.command()
def replay(
    sessions: Annotated[
        list[str] | None,
        typer.Argument(
            help="Sessions: their names, their ids, or the paths of their logs. "
            "Default: the latest in this directory."
        ),
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Exit with 7 if anything differs.")
    ] = False,
    *,
    stub_tools: Annotated[
        bool, typer.Option("--stub-tools", help="Run no tools: replay the control flow only.")
    ] = False,
    judge: Annotated[
        VerdictSource,
        typer.Option(
            metavar="recorded|current", help="Use the recorded verdicts, or the current rules."
        ),
    ] = VerdictSource.RECORDED,
    policy: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Use the rules in this file instead.")
    ] = None,
    base: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="The files to start with, if none were recorded."),
    ] = None,
    sandbox: Annotated[
        str, typer.Option(metavar="auto|off", help="off runs recorded commands without a sandbox.")
    ] = "auto",
    as_json: AsJson = False,
) -> int:
    """Replay a session without its model and show what differs."""
    from agentcli.features.replay.engine import ReplayOptions
    from agentcli.features.replay.render import replay_sessions

    manner = ReplayOptions(
        stub_tools=stub_tools,
        judged_by=judge.value,
        policy=policy,
        base=base,
        sandbox="off" if sandbox == "off" else "auto",
    )
    return replay_sessions(sessions or [None], manner, check=check, as_json=as_json)
