"""`agentcli triage`: what went wrong in a session, found without a model."""

from typing import Annotated

import typer

from agentcli.cli.options import STYLE, OutputOption, SessionOrLatest, TextOrJson

triage_app = typer.Typer(**STYLE)


@triage_app.command()
def triage(
    session: SessionOrLatest = None,
    expect_tool: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="A tool that should have been called; repeatable."),
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Let warnings decide the exit code, too.")
    ] = False,
    output: OutputOption = TextOrJson.TEXT,
) -> int:
    """Say what went wrong in a session, the most important first.

    Exit code: 0, or 7 when there is an error among the findings. No model is asked.
    """
    from agentcli.ui.triage import show_triage

    return show_triage(
        session,
        expected=tuple(expect_tool or ()),
        is_strict=strict,
        as_json=output is TextOrJson.JSON,
    )
