"""The commands export, stats, view, trace and triage."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from agentcli.ui.arguments import STYLE, OutputOption, SessionOrLatest, TextOrJson

export_app = typer.Typer(**STYLE)


class ExportFormat(StrEnum):
    MARKDOWN = "markdown"
    HTML = "html"
    JSON = "json"
    ATIF = "atif"


@export_app.command()
def export(
    session: SessionOrLatest = None,
    form: Annotated[
        ExportFormat | None,
        typer.Option(
            "--format",
            metavar="markdown|html|json|atif",
            help="Output format. Default: by the name of FILE, else markdown.",
        ),
    ] = None,
    *,
    out: Annotated[
        Path | None,
        typer.Option("-o", "--out", metavar="FILE", help="Output file. Default: stdout."),
    ] = None,
) -> None:
    """Export a session as Markdown, HTML, JSON or ATIF."""
    from agentcli.features.insights.export import export_session as write

    write(session, form=(form or _choose_format(out)).value, out=out)


def _choose_format(out: Path | None) -> ExportFormat:
    ending = out.suffix.lower() if out else ""
    return {".html": ExportFormat.HTML, ".htm": ExportFormat.HTML, ".json": ExportFormat.JSON}.get(
        ending, ExportFormat.MARKDOWN
    )


# `agentcli stats`: usage and activity of the sessions in a period


stats_app = typer.Typer(**STYLE)


@stats_app.command()
def stats(
    since: Annotated[
        str, typer.Option(metavar="DURATION", help="Period: 12h, 30d, 8w, or all.")
    ] = "30d",
    output: OutputOption = TextOrJson.TEXT,
    *,
    html: Annotated[
        bool, typer.Option("--html", help="Write a page with charts, and open it in a browser.")
    ] = False,
) -> None:
    """Show token usage, cost, cache, tools, failures and denials."""
    from agentcli.features.insights.render import collect_stats, show_stats

    if html:
        from agentcli.features.insights.view import show_stats_page

        show_stats_page(collect_stats(since), period=since)
    else:
        show_stats(since, as_json=output is TextOrJson.JSON)


# `agentcli view`: a session as a page in the browser


view_app = typer.Typer(**STYLE)


@view_app.command()
def view(
    session: SessionOrLatest = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "-o", "--out", metavar="FILE", help="Output file. Default: in the session's directory."
        ),
    ] = None,
    *,
    no_open: Annotated[bool, typer.Option("--no-open", help="Only write the page.")] = False,
) -> None:
    """Show a session in the browser: timeline, changes, verdicts, cost, search."""
    from agentcli.features.insights.view import show_view

    show_view(session, out=out, opens=not no_open)


# `agentcli trace`: a session from beginning to end


trace_app = typer.Typer(**STYLE)


@trace_app.command()
def trace(
    session: SessionOrLatest = None,
    full: Annotated[bool, typer.Option("--full", help="Shorten nothing.")] = False,
) -> None:
    """Print everything in a session: turns, requests, calls, outcomes, cost."""
    from agentcli.features.insights.render_trace import show_trace

    show_trace(session, full=full)


# `agentcli triage`: the problems of a session, found without a model


triage_app = typer.Typer(**STYLE)


@triage_app.command()
def triage(
    session: SessionOrLatest = None,
    expect_tool: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME", help="Report an error if this tool was not called (repeatable)."
        ),
    ] = None,
    *,
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit with 7 for warnings, too.")
    ] = False,
    output: OutputOption = TextOrJson.TEXT,
) -> int:
    """Diagnose a session: problems, most important first.

    Exit code: 0, or 7 if an error was found. Uses no model.
    """
    from agentcli.features.insights.render import show_triage

    return show_triage(
        session,
        expected=tuple(expect_tool or ()),
        is_strict=strict,
        as_json=output is TextOrJson.JSON,
    )
