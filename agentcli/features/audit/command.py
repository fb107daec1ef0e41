"""`agentcli audit`: verify that a log is unchanged, and export its latest hash."""

from pathlib import Path
from typing import Annotated

import typer

from agentcli.ui.arguments import STYLE, AsJson, SessionName, SessionOrLatest

app = typer.Typer(help="Verify a session's log; export or sign its latest hash.", **STYLE)


@app.command()
def verify(
    session: SessionOrLatest = None,
    head: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="An exported hash: nothing before it may differ."),
    ] = None,
    *,
    key: Annotated[
        Path | None,
        typer.Option("--key", metavar="FILE", help="The key that must have signed it."),
    ] = None,
    as_json: AsJson = False,
) -> int:
    """Verify the hash chain, the order and every verdict of a log."""
    from agentcli.features.audit.render import verify_log

    return verify_log(session, head=head, key=key, as_json=as_json)


@app.command("head")
def write_log_head(
    session: SessionOrLatest = None,
    out: Annotated[
        Path | None,
        typer.Option("-o", "--out", metavar="FILE", help="Output file. Default: stdout."),
    ] = None,
) -> None:
    """Export the log's latest hash, to store elsewhere."""
    from agentcli.features.audit.render import write_head

    write_head(session, out)


@app.command()
def sign(
    session: SessionName,
    key: Annotated[
        Path,
        typer.Option("--key", metavar="FILE", help="Your private SSH or minisign key."),
    ],
    *,
    head: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Output file; the signature is written beside it."),
    ] = None,
) -> None:
    """Sign the log's latest hash with your key."""
    from agentcli.features.audit.render import sign_head

    sign_head(session, key=key, out=head)
