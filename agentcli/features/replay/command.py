"""`agentcli replay`: sessions played again without their model, and held against the recording."""

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
        typer.Argument(help="Ids, names, or paths to logs. Default: the latest of this workspace."),
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Fail when anything differs: a test without a key.")
    ] = False,
    stub_tools: Annotated[
        bool, typer.Option("--stub-tools", help="Run no tool: play the control flow alone.")
    ] = False,
    judge: Annotated[
        VerdictSource,
        typer.Option(help="Give the recorded verdicts, or let the rules of today judge."),
    ] = VerdictSource.RECORDED,
    policy: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Judge by this file of rules instead.")
    ] = None,
    base: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="The tree to begin with, where none was recorded."),
    ] = None,
    sandbox: Annotated[
        str, typer.Option(metavar="auto|off", help="off runs recorded commands without a sandbox.")
    ] = "auto",
    as_json: AsJson = False,
) -> int:
    """Play a session again without its model, and say what differs."""
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
