"""`agentcli run`: one task, without a user to ask.

To add an option: its type and help here, and its parameter. One that is named like a setting is
that setting, and nothing else has to change. Any other goes into `RunRequest.from_options`.
"""

from pathlib import Path
from typing import Annotated

import typer

from agentcli.cli.line import run_one_shot
from agentcli.ui.arguments import (
    STYLE,
    AddDir,
    Allow,
    Computer,
    Continue,
    Deny,
    Effort,
    InCi,
    Mask,
    MaxCost,
    MaxTurns,
    McpConfig,
    Mode,
    Model,
    Network,
    NoAnnotations,
    OutputForm,
    PassEnv,
    Policy,
    Quiet,
    Reports,
    SandboxKind,
    SessionWorkspace,
    Timeout,
    TrustProject,
    Verbose,
    Verify,
    Web,
)

Prompt = Annotated[str | None, typer.Argument(help="The task. - reads it from stdin.")]
PromptFile = Annotated[
    Path | None,
    typer.Option("-f", "--file", metavar="FILE", help="Read the prompt from this file."),
]
Images = Annotated[
    list[Path] | None,
    typer.Option(
        "--image",
        metavar="FILE",
        help="Attach an image (repeatable). Images in the project also work as @shot.png in the "
        "prompt.",
    ),
]
RunWorktree = Annotated[
    str | None,
    typer.Option(
        "-w", "--worktree", metavar="NAME", help="Work in this git worktree; made if missing."
    ),
]
Resume = Annotated[
    str | None,
    typer.Option(
        "--resume",
        metavar="SESSION",
        help="Continue this session: its name, its id, or either end of its id.",
    ),
]
OnDeny = Annotated[
    str,
    typer.Option(
        metavar="continue|fail|ignore",
        help="When a call is denied: tell the model, continue and fail at the end; stop at once; "
        "or only record it.",
    ),
]
StrictCost = Annotated[
    bool,
    typer.Option("--strict-cost", help="With --max-cost: refuse models without a known price."),
]
MaxTokens = Annotated[
    str | None,
    typer.Option(metavar="N", help="Stop before the session uses more than N tokens."),
]
ToolTimeout = Annotated[
    str | None, typer.Option(metavar="TIME", help="Stop each command after this time.")
]
MaxWait = Annotated[
    str | None,
    typer.Option(metavar="TIME", help="Wait at most this long when a provider asks to wait."),
]
ToolChoice = Annotated[
    str,
    typer.Option(
        metavar="auto|none|required|TOOL",
        help="Let the model call tools, forbid it, or require a call: of any tool, or of this one.",
    ),
]
WrapUp = Annotated[
    bool, typer.Option("--wrap-up", help="At a limit, ask the model for a summary, without tools.")
]
ProtectTests = Annotated[
    list[str] | None,
    typer.Option(
        "--protect-tests",
        metavar="GLOB",
        help="Let neither tools nor commands change these files, e.g. 'tests/**' (repeatable).",
    ),
]
CheckClaims = Annotated[
    bool,
    typer.Option("--check-claims", hidden=True),
]
SchemaFile = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Require an answer in JSON that matches this JSON Schema."),
]
InputForm = Annotated[
    str,
    typer.Option(
        "--input",
        metavar="text|stream-json",
        help="Input format: one prompt, or prompts, answers and interrupts on stdin.",
    ),
]
Partial = Annotated[
    bool, typer.Option("--partial", help="With stream-json: include partial text and output.")
]
PatchFile = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Write the run's changes to this file, as a diff."),
]
LastMessage = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Also write the answer to this file.")
]
OutputDir = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR",
        help="Write result, answer, patch, settings and log here, even if the run fails.",
    ),
]

app = typer.Typer(**STYLE)


@app.command()
def run(
    prompt: Prompt = None,
    file: PromptFile = None,
    *,
    image: Images = None,
    workspace: SessionWorkspace = None,
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
    return run_one_shot(locals())
