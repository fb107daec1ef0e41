"""`agentcli export`: a session as a document to read, send or keep."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from agentcli.cli.options import STYLE, SessionName

app = typer.Typer(**STYLE)


class Form(StrEnum):
    MARKDOWN = "markdown"
    HTML = "html"
    JSON = "json"


@app.command()
def export(
    session: SessionName,
    form: Annotated[Form, typer.Option("--format", help="The form.")] = Form.MARKDOWN,
    out: Annotated[
        Path | None, typer.Option("-o", "--out", metavar="FILE", help="Where to; default: stdout.")
    ] = None,
) -> None:
    """Write a session as Markdown, as one page of HTML, or as JSON."""
    from agentcli.ui.export import export as write

    write(session, form=form.value, out=out)
