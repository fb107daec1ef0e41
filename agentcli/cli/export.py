"""`agentcli export`: a session as a document to read, send or keep."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from agentcli.cli.options import STYLE, SessionOrLatest

app = typer.Typer(**STYLE)


class Form(StrEnum):
    MARKDOWN = "markdown"
    HTML = "html"
    JSON = "json"


@app.command()
def export(
    session: SessionOrLatest = None,
    form: Annotated[
        Form | None,
        typer.Option(
            "--format",
            metavar="markdown|html|json",
            help="The form. Default: as FILE is named, else markdown.",
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("-o", "--out", metavar="FILE", help="Where to; default: stdout.")
    ] = None,
) -> None:
    """Write a session as Markdown, as one page of HTML, or as JSON."""
    from agentcli.ui.export import export as write

    write(session, form=(form or _form_of(out)).value, out=out)


def _form_of(out: Path | None) -> Form:
    ending = out.suffix.lower() if out else ""
    return {".html": Form.HTML, ".htm": Form.HTML, ".json": Form.JSON}.get(ending, Form.MARKDOWN)
