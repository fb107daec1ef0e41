"""`agentcli review`: the problems of a change, as findings."""

from pathlib import Path
from typing import Annotated

import typer

from agentcli.ui.arguments import (
    STYLE,
    InCi,
    MaxCost,
    MaxTurns,
    Model,
    NoAnnotations,
    OutputForm,
    Quiet,
    Reports,
    Timeout,
    Verbose,
    Workspace,
)

app = typer.Typer(**STYLE)


@app.command()
def review(
    focus: Annotated[str | None, typer.Argument(help="What to focus on, in your words.")] = None,
    base: Annotated[
        str | None,
        typer.Option(
            metavar="REF", help="Review all changes since HEAD left this branch or commit."
        ),
    ] = None,
    *,
    commit: Annotated[str | None, typer.Option(metavar="SHA", help="Review one commit.")] = None,
    uncommitted: Annotated[
        bool, typer.Option("--uncommitted", help="Review uncommitted changes. [default]")
    ] = False,
    workspace: Workspace = Path(),
    model: Model = None,
    max_turns: MaxTurns = None,
    max_cost: MaxCost = None,
    timeout: Timeout = None,
    output: OutputForm = "text",
    output_dir: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write result, reports and log here.")
    ] = None,
    report: Reports = None,
    ci: InCi = None,
    no_annotations: NoAnnotations = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> int:
    """Review a change, read-only. Findings as Markdown, JSON or SARIF."""
    from agentcli.features.review.review import ReviewRequest, ReviewScope
    from agentcli.ui.oneshot.request import has_ci_defaults, is_github, parse_output_format
    from agentcli.ui.oneshot.runner import run_once

    request = ReviewRequest(
        prompt=None,
        scope=ReviewScope(base=base, commit=commit, uncommitted=uncommitted),
        focus=focus or "",
        settings={
            "model": model,
            "mode": "plan",
            "max_turns": max_turns,
            "max_cost": max_cost,
            "timeout": timeout,
        },
        workspace=workspace,
        output=parse_output_format(output),
        quiet=quiet,
        verbose=verbose,
        is_ci=has_ci_defaults(option=ci),
        on_github=is_github() and not no_annotations,
        output_dir=output_dir,
        reports=tuple(report or ()),
        command="review",
    )
    return run_once(request)
