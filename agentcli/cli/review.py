"""`agentcli review`: a change is read, and what is wrong with it comes back as findings."""

from pathlib import Path
from typing import Annotated

import typer

from agentcli.cli.options import STYLE, Model, Workspace

app = typer.Typer(**STYLE)


@app.command()
def review(
    wish: Annotated[
        str | None, typer.Argument(help="What to look at in particular, in words.")
    ] = None,
    base: Annotated[
        str | None,
        typer.Option(metavar="REF", help="Everything since HEAD left this branch or commit."),
    ] = None,
    commit: Annotated[str | None, typer.Option(metavar="SHA", help="One commit.")] = None,
    uncommitted: Annotated[
        bool, typer.Option("--uncommitted", help="What is not committed yet. [default]")
    ] = False,
    workspace: Workspace = Path(),
    model: Model = None,
    max_turns: Annotated[
        str | None, typer.Option(metavar="N", help="Stop after N model requests.")
    ] = None,
    max_cost: Annotated[
        str | None,
        typer.Option(metavar="USD", help="Send no request that could cost more than is left."),
    ] = None,
    timeout: Annotated[
        str | None, typer.Option(metavar="TIME", help="Stop after 90s, 30m, 1h30m.")
    ] = None,
    output: Annotated[
        str,
        typer.Option(
            "-o",
            "--output",
            metavar="text|json|stream-json",
            help="Markdown, one JSON result, or one JSON line per event.",
        ),
    ] = "text",
    output_dir: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write result, reports and log.")
    ] = None,
    report: Annotated[
        list[str] | None,
        typer.Option(metavar="sarif,markdown,github,junit", help="Write reports, too."),
    ] = None,
    ci: Annotated[
        bool | None,
        typer.Option("--ci/--no-ci", help="Heartbeats and CI defaults. [default: detected]"),
    ] = None,
    no_annotations: Annotated[
        bool, typer.Option("--no-annotations", help="Nothing special for GitHub Actions.")
    ] = False,
    quiet: Annotated[bool, typer.Option("-q", "--quiet", help="Errors only on stderr.")] = False,
    verbose: Annotated[
        bool, typer.Option("-v", "--verbose", help="Command output on stderr.")
    ] = False,
) -> int:
    """Review a change. Nothing is written; findings come as Markdown, JSON or SARIF."""
    from agentcli.cli.faces import carry_out
    from agentcli.ui.ci.detect import is_ci
    from agentcli.ui.given import Given, output_form
    from agentcli.ui.review import Scope, findings_of_review, review_markdown, review_order

    given = Given(
        prompt=None,
        flags={
            "model": model,
            "mode": "plan",
            "max_turns": max_turns,
            "max_cost": max_cost,
            "timeout": timeout,
        },
        workspace=workspace,
        output=output_form(output),
        quiet=quiet,
        verbose=verbose,
        is_ci=is_ci(said=ci),
        annotations=not no_annotations,
        output_dir=output_dir,
        reports=tuple(report or ()),
    )
    scope = Scope(base=base, commit=commit, uncommitted=uncommitted)
    return carry_out(
        given,
        order_of=lambda: review_order(given, scope, wish),
        answer_of=review_markdown,
        findings_of=findings_of_review,
    )
