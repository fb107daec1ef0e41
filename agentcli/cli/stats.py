"""`agentcli stats`: what the sessions of some time used and did."""

from typing import Annotated

import typer

from agentcli.cli.options import STYLE, OutputOption, TextOrJson

stats_app = typer.Typer(**STYLE)


@stats_app.command()
def stats(
    since: Annotated[
        str, typer.Option(metavar="DURATION", help="How far back: 12h, 30d, 8w, or all.")
    ] = "30d",
    output: OutputOption = TextOrJson.TEXT,
) -> None:
    """Show what sessions used: tokens, cost, cache, tools, failures, denials."""
    from agentcli.ui.stats import show_stats

    show_stats(since, as_json=output is TextOrJson.JSON)
