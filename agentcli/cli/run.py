"""`agentcli run`: one task, without a user to ask."""

from pathlib import Path

import typer

from agentcli.ui.arguments import (
    STYLE,
    AddDir,
    Allow,
    CheckClaims,
    Computer,
    Continue,
    Deny,
    Effort,
    Images,
    InCi,
    InputForm,
    LastMessage,
    Mask,
    MaxCost,
    MaxTokens,
    MaxTurns,
    MaxWait,
    McpConfig,
    Mode,
    Model,
    Network,
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
    ProtectTests,
    Quiet,
    Reports,
    Resume,
    RunWorktree,
    SandboxKind,
    SchemaFile,
    StrictCost,
    Timeout,
    ToolChoice,
    ToolTimeout,
    TrustProject,
    Verbose,
    Verify,
    Web,
    Workspace,
    WrapUp,
)

app = typer.Typer(**STYLE)


@app.command()
def run(
    prompt: Prompt = None,
    file: PromptFile = None,
    image: Images = None,
    workspace: Workspace = Path(),
    worktree: RunWorktree = None,
    model: Model = None,
    effort: Effort = None,
    resume: Resume = None,
    latest: Continue = False,
    mode: Mode = None,
    allow: Allow = None,
    deny: Deny = None,
    network: Network = None,
    web: Web = False,
    computer: Computer = False,
    policy: Policy = None,
    on_deny: OnDeny = "continue",
    sandbox: SandboxKind = None,
    add_dir: AddDir = None,
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
    tool_choice: ToolChoice = "auto",
    wrap_up: WrapUp = False,
    verify: Verify = None,
    protect_tests: ProtectTests = None,
    check_claims: CheckClaims = False,
    schema: SchemaFile = None,
    input: InputForm = "text",
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
        is_ci,
        parse_input_format,
        parse_on_deny,
        parse_output_format,
    )
    from agentcli.ui.oneshot.runner import run_once

    if worktree is not None:
        from agentcli.features.worktree.render import enter_and_say

        workspace = enter_and_say(workspace, worktree, quiet=quiet)
    request = RunRequest(
        prompt=prompt,
        prompt_file=file,
        images=tuple(image or ()),
        flags={
            "model": model,
            "effort": effort,
            "mode": mode,
            "sandbox": sandbox,
            "web": web or None,
            "computer": computer or None,
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
        deny=(*(deny or ()), *(f"edit({glob})" for glob in protect_tests or ())),
        network=tuple(network or ()),
        policy=policy,
        add_dir=tuple(add_dir or ()),
        pass_env=tuple(pass_env or ()),
        mask=tuple(mask or ()),
        trust_project=trust_project,
        resume=resume,
        latest=latest,
        input=parse_input_format(input),
        output=parse_output_format(output),
        partial=partial,
        quiet=quiet,
        verbose=verbose,
        is_ci=is_ci(option=ci),
        annotations=not no_annotations,
        on_deny=parse_on_deny(on_deny),
        checks=tuple(verify or ()),
        schema=schema,
        tool_choice=tool_choice,
        wraps_up=wrap_up,
        patch=patch,
        last_message=last_message,
        output_dir=output_dir,
        reports=tuple(report or ()),
    )
    code = run_once(request)
    if worktree is not None:
        from agentcli.features.worktree.render import say_kept

        say_kept(workspace, quiet=quiet)
    return code
