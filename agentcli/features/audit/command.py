"""`agentcli audit`: the check that a log is unchanged, and a head to compare it with."""

from pathlib import Path
from typing import Annotated

import typer

from agentcli.ui.arguments import STYLE, AsJson, SessionName, SessionOrLatest

app = typer.Typer(help="Check a session's log; keep or sign its head.", **STYLE)


@app.command()
def verify(
    session: SessionOrLatest = None,
    head: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="A head that was kept: nothing before it may differ."),
    ] = None,
    key: Annotated[
        Path | None,
        typer.Option("--key", metavar="FILE", help="Whose signature the head must carry."),
    ] = None,
    as_json: AsJson = False,
) -> int:
    """Check the chain, the order and every verdict of a log."""
    from agentcli.features.audit.render import verify_log as verify_log

    return verify_log(session, head=head, key=key, as_json=as_json)


@app.command("head")
def write_log_head(
    session: SessionOrLatest = None,
    out: Annotated[
        Path | None, typer.Option("-o", "--out", metavar="FILE", help="Where to; default: stdout.")
    ] = None,
) -> None:
    """Write the head of a log, to be kept where the log is not."""
    from agentcli.features.audit.render import write_head

    write_head(session, out)


@app.command()
def sign(
    session: SessionName,
    key: Annotated[
        Path,
        typer.Option(
            "--key", metavar="FILE", help="An SSH or minisign key of yours: the secret half."
        ),
    ],
    head: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Where to write the head; its signature goes beside it."),
    ] = None,
) -> None:
    """Sign the head of a log with a key of your own."""
    from agentcli.features.audit.render import sign_head as sign_head

    sign_head(session, key=key, out=head)
