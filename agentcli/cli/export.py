"""`agentcli export`: a session as a document to read, send or keep."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from agentcli.cli.options import STYLE, SessionOrLatest

export_app = typer.Typer(**STYLE)


class ExportFormat(StrEnum):
    MARKDOWN = "markdown"
    HTML = "html"
    JSON = "json"


@export_app.command()
def export(
    session: SessionOrLatest = None,
    form: Annotated[
        ExportFormat | None,
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
    from agentcli.ui.export import export_session as write

    write(session, form=(form or _choose_format(out)).value, out=out)


def _choose_format(out: Path | None) -> ExportFormat:
    ending = out.suffix.lower() if out else ""
    return {".html": ExportFormat.HTML, ".htm": ExportFormat.HTML, ".json": ExportFormat.JSON}.get(
        ending, ExportFormat.MARKDOWN
    )
