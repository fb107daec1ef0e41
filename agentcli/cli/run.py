"""`agentcli run`: one task, without a person to ask."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from agentcli.cli.options import (
    STYLE,
    Allow,
    Continue,
    Deny,
    Mask,
    McpConfig,
    Model,
    PassEnv,
    Policy,
    Resume,
    SandboxKind,
    TrustProject,
    Workspace,
)
from agentcli.types.errors import UsageError

if TYPE_CHECKING:
    from agentcli.record.sessions import Summary

app = typer.Typer(**STYLE)


@app.command()
def run(
    prompt: Annotated[
        str | None, typer.Argument(help="What to do, in words; - reads it from stdin.")
    ] = None,
    file: Annotated[
        Path | None, typer.Option("-f", "--file", metavar="FILE", help="The prompt, in a file.")
    ] = None,
    workspace: Workspace = Path(),
    model: Model = None,
    resume: Resume = None,
    latest: Continue = False,
    mode: Annotated[
        str | None,
        typer.Option(
            metavar="plan|ask|auto-edit|auto",
            help="What needs no question: reading (plan, ask), editing files too (auto-edit), "
            "everything (auto). Nobody can be asked here: what would be asked is denied.",
        ),
    ] = None,
    allow: Allow = None,
    deny: Deny = None,
    policy: Policy = None,
    on_deny: Annotated[
        str,
        typer.Option(
            metavar="fail|continue|ignore",
            help="When a call is denied: stop, go on and fail at the end, or only record it.",
        ),
    ] = "fail",
    sandbox: SandboxKind = None,
    pass_env: PassEnv = None,
    mask: Mask = None,
    trust_project: TrustProject = False,
    mcp_config: McpConfig = None,
    max_turns: Annotated[
        str | None,
        typer.Option(metavar="N", help="Stop after N model requests. [default: 100, in CI 50]"),
    ] = None,
    max_cost: Annotated[
        str | None,
        typer.Option(metavar="USD", help="Send no request that could cost more than is left."),
    ] = None,
    strict_cost: Annotated[
        bool, typer.Option("--strict-cost", help="Refuse a model whose price is not known.")
    ] = False,
    max_tokens: Annotated[
        str | None,
        typer.Option(metavar="N", help="Send none that could take more tokens than are left."),
    ] = None,
    timeout: Annotated[
        str | None, typer.Option(metavar="TIME", help="Stop the run after 90s, 30m, 1h30m.")
    ] = None,
    tool_timeout: Annotated[
        str | None, typer.Option(metavar="TIME", help="Stop any one command after that.")
    ] = None,
    max_wait: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Wait no longer for a provider that asks to wait."),
    ] = None,
    wrap_up: Annotated[
        bool, typer.Option("--wrap-up", help="At a limit, let the model sum up, without tools.")
    ] = False,
    verify: Annotated[
        list[str] | None,
        typer.Option(
            metavar="CMD",
            help="The task is done when this passes. What fails goes back to the model.",
        ),
    ] = None,
    check_claims: Annotated[
        bool,
        typer.Option("--check-claims", help="Fail if the answer claims what the record refutes."),
    ] = False,
    schema: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The answer is JSON that meets this JSON Schema."),
    ] = None,
    output: Annotated[
        str,
        typer.Option(
            "-o",
            "--output",
            metavar="text|json|stream-json",
            help="Answer alone, one JSON result, or one JSON line per event.",
        ),
    ] = "text",
    partial: Annotated[
        bool, typer.Option("--partial", help="With stream-json: text and output as they come.")
    ] = False,
    patch: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write what the run changed, as a diff.")
    ] = None,
    last_message: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the answer to a file, too.")
    ] = None,
    output_dir: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Write result, answer, patch, settings and log, however it ends."
        ),
    ] = None,
    report: Annotated[
        list[str] | None,
        typer.Option(metavar="junit,github,markdown,sarif", help="Write reports, too."),
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
        bool, typer.Option("-v", "--verbose", help="Diffs and command output on stderr.")
    ] = False,
) -> int:
    """Do one task and leave. The answer goes to stdout, the story to stderr."""
    from agentcli.cli.faces import carry_out
    from agentcli.ui.ci.detect import is_ci
    from agentcli.ui.given import Given, denial_policy, output_form

    given = Given(
        prompt=prompt,
        prompt_file=file,
        flags={
            "model": model,
            "mode": mode,
            "sandbox": sandbox,
            "max_turns": max_turns,
            "max_cost": max_cost,
            "strict_cost": strict_cost or None,
            "max_tokens": max_tokens,
            "timeout": timeout,
            "tool_timeout": tool_timeout,
            "max_wait": max_wait,
            "mcp_config": mcp_config,
        },
        workspace=workspace,
        allow=tuple(allow or ()),
        deny=tuple(deny or ()),
        policy=policy,
        pass_env=tuple(pass_env or ()),
        mask=tuple(mask or ()),
        trust_project=trust_project,
        past=_past(resume, latest=latest, workspace=workspace),
        output=output_form(output),
        partial=partial,
        quiet=quiet,
        verbose=verbose,
        is_ci=is_ci(said=ci),
        annotations=not no_annotations,
        on_deny=denial_policy(on_deny),
        checks=tuple(verify or ()),
        schema=schema,
        check_claims=check_claims,
        wraps_up=wrap_up,
        patch=patch,
        last_message=last_message,
        output_dir=output_dir,
        reports=tuple(report or ()),
    )
    return carry_out(given)


def _past(resume: str | None, *, latest: bool, workspace: Path) -> "Callable[[], Summary] | None":
    if resume is None and not latest:
        return None
    if resume is not None and latest:
        raise UsageError(
            "--continue and --resume name two sessions", hint="agentcli run --resume ID"
        )
    from agentcli.record.sessions import past_session

    return partial(past_session, resume, workspace)
