"""`agentcli run`: one task, without a user to ask."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from agentcli.types.errors import UsageError
from agentcli.ui.arguments import (
    STYLE,
    Allow,
    CheckClaims,
    Continue,
    Deny,
    Images,
    InCi,
    LastMessage,
    Mask,
    MaxCost,
    MaxTokens,
    MaxTurns,
    MaxWait,
    McpConfig,
    Mode,
    Model,
    NoAnnotations,
    OnDeny,
    OutputDir,
    OutputForm,
    Partial,
    PassEnv,
    PatchFile,
    Policy,
    Prompt,
    PromptFile,
    Quiet,
    Reports,
    Resume,
    SandboxKind,
    SchemaFile,
    StrictCost,
    Timeout,
    ToolTimeout,
    TrustProject,
    Verbose,
    Verify,
    Workspace,
    WrapUp,
)

if TYPE_CHECKING:
    from agentcli.log.sessions import SessionSummary

app = typer.Typer(**STYLE)


@app.command()
def run(
    prompt: Prompt = None,
    file: PromptFile = None,
    image: Images = None,
    workspace: Workspace = Path(),
    model: Model = None,
    resume: Resume = None,
    latest: Continue = False,
    mode: Mode = None,
    allow: Allow = None,
    deny: Deny = None,
    policy: Policy = None,
    on_deny: OnDeny = "fail",
    sandbox: SandboxKind = None,
    pass_env: PassEnv = None,
    mask: Mask = None,
    trust_project: TrustProject = False,
    mcp_config: McpConfig = None,
    max_turns: MaxTurns = None,
    max_cost: MaxCost = None,
    strict_cost: StrictCost = False,
    max_tokens: MaxTokens = None,
    timeout: Timeout = None,
    tool_timeout: ToolTimeout = None,
    max_wait: MaxWait = None,
    wrap_up: WrapUp = False,
    verify: Verify = None,
    check_claims: CheckClaims = False,
    schema: SchemaFile = None,
    output: OutputForm = "text",
    partial: Partial = False,
    patch: PatchFile = None,
    last_message: LastMessage = None,
    output_dir: OutputDir = None,
    report: Reports = None,
    ci: InCi = None,
    no_annotations: NoAnnotations = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> int:
    """Run one task and exit. Answer on stdout, progress on stderr."""
    if check_claims:
        typer.echo(
            "warning: --check-claims was removed; check the result with --verify CMD", err=True
        )
    from agentcli.ui.oneshot.request import (
        RunRequest,
        execute_request,
        is_ci,
        parse_on_deny,
        parse_output_format,
    )

    given = RunRequest(
        prompt=prompt,
        prompt_file=file,
        images=tuple(image or ()),
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
        find_past=_build_past_finder(resume, latest=latest, workspace=workspace),
        output=parse_output_format(output),
        partial=partial,
        quiet=quiet,
        verbose=verbose,
        is_ci=is_ci(option=ci),
        annotations=not no_annotations,
        on_deny=parse_on_deny(on_deny),
        checks=tuple(verify or ()),
        schema=schema,
        wraps_up=wrap_up,
        patch=patch,
        last_message=last_message,
        output_dir=output_dir,
        reports=tuple(report or ()),
    )
    return execute_request(given)


def _build_past_finder(
    resume: str | None, *, latest: bool, workspace: Path
) -> "Callable[[], SessionSummary] | None":
    if resume is None and not latest:
        return None
    if resume is not None and latest:
        raise UsageError(
            "--continue and --resume cannot be used together", hint="agentcli run --resume ID"
        )
    from agentcli.log.sessions import choose_session

    return partial(choose_session, resume, workspace)
