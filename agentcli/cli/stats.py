"""`agentcli stats`: what the sessions of some time used and did."""

from typing import Annotated

import typer

from agentcli.cli.options import STYLE, Form, TextOrJson

app = typer.Typer(**STYLE)


@app.command()
def stats(
    since: Annotated[
        str, typer.Option(metavar="DURATION", help="How far back: 12h, 30d, 8w, or all.")
    ] = "30d",
    output: Form = TextOrJson.TEXT,
) -> None:
    """Show what sessions used: tokens, cost, cache, tools, failures, denials."""
    from agentcli.ui.stats import show

    show(since, as_json=output is TextOrJson.JSON)
