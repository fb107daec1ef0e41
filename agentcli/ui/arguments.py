"""Parts shared by the commands: their style, and the options that mean the same everywhere."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

STYLE: dict[str, Any] = {
    "rich_markup_mode": None,
    "pretty_exceptions_enable": False,
    "add_completion": False,
    "context_settings": {"help_option_names": ["-h", "--help"], "max_content_width": 100},
}
"""Keyword arguments for every Typer. Help is plain text, so rich is never imported for it."""

Workspace = Annotated[
    Path, typer.Option("-C", "--cwd", metavar="DIR", help="The workspace: where the work is done.")
]
Resume = Annotated[
    str | None,
    typer.Option(
        "--resume",
        metavar="SESSION",
        help="Continue a session: its id, the beginning or the end of it, or its name.",
    ),
]
Continue = Annotated[
    bool, typer.Option("--continue", help="Continue the latest session of this workspace.")
]
PassEnv = Annotated[
    list[str] | None,
    typer.Option("--pass-env", metavar="NAME", help="A variable that commands may see, too."),
]
Mask = Annotated[
    list[str] | None,
    typer.Option(
        "--mask",
        metavar="NAME",
        help="A variable, or a glob for several, whose value is shown and kept nowhere.",
    ),
]
TrustProject = Annotated[
    bool,
    typer.Option(
        "--trust-project", help="Use what the repository brings in .agentcli, for this run."
    ),
]
McpConfig = Annotated[
    str | None,
    typer.Option(
        "--mcp-config", metavar="FILE", help="More MCP servers for this session, as mcpServers."
    ),
]
Model = Annotated[
    str | None,
    typer.Option(
        "--model",
        metavar="PROVIDER/NAME",
        help="Which model; script/FILE plays a script. Default: whichever provider has a key.",
    ),
]
SessionOrLatest = Annotated[
    str | None,
    typer.Argument(
        help="Its id, the beginning or the end of it, its name, or a path to its log. "
        "Default: the latest of this workspace.",
    ),
]
SessionName = Annotated[
    str,
    typer.Argument(
        metavar="SESSION",
        help="Its id, the beginning or the end of it, its name, or a path to its log.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="As JSON, for programs.")]
SessionMode = Annotated[
    str | None,
    typer.Option(
        "--mode",
        metavar="plan|ask|auto-edit|auto",
        help="What needs no question: reading (plan, ask), editing files too (auto-edit), "
        "everything (auto).",
    ),
]
Allow = Annotated[
    list[str] | None,
    typer.Option(
        "--allow", metavar="RULE", help="Allow calls that match, e.g. 'bash(pytest:*)', 'edit'."
    ),
]
Deny = Annotated[
    list[str] | None,
    typer.Option("--deny", metavar="RULE", help="Deny calls that match, in every mode."),
]
Policy = Annotated[
    Path | None, typer.Option("--policy", metavar="FILE", help="A file of rules for this session.")
]
SandboxKind = Annotated[
    str | None,
    typer.Option(
        "--sandbox",
        metavar="auto|bubblewrap|landlock|seatbelt|off",
        help="Which sandbox; off runs commands without any.",
    ),
]
Yolo = Annotated[
    bool,
    typer.Option("--yolo", help="Everything runs as you, without a question and a sandbox."),
]
ResumeOrPick = Annotated[
    str | None,
    typer.Option(
        "--resume",
        metavar="[SESSION]",
        help="Continue a session by its id or name; without one, choose from a list.",
    ),
]
ThemeName = Annotated[
    str | None,
    typer.Option("--theme", metavar="auto|dark|light|ansi|none", help="The colours."),
]
Color = Annotated[
    str | None,
    typer.Option("--color", metavar="auto|always|never", help="Whether to use colour at all."),
]
Accessible = Annotated[
    bool,
    typer.Option("--accessible", help="For screen readers: whole lines, nothing redrawn."),
]
Debug = Annotated[
    bool, typer.Option("--debug", help="Before the command: show the traceback of a bug, too.")
]


class TextOrJson(StrEnum):
    TEXT = "text"
    JSON = "json"


OutputOption = Annotated[
    TextOrJson, typer.Option("-o", "--output", help="For people, or for programs.")
]

MaxTurns = Annotated[
    str | None,
    typer.Option(
        metavar="N",
        help="Stop after N model requests; a child agent gets at most those that are left. "
        "[default: 100, in CI 50]",
    ),
]
MaxCost = Annotated[
    str | None,
    typer.Option(metavar="USD", help="Send no request that could cost the session more than this."),
]
Timeout = Annotated[
    str | None, typer.Option(metavar="TIME", help="Stop the run after 90s, 30m, 1h30m.")
]
OutputForm = Annotated[
    str,
    typer.Option(
        "-o",
        "--output",
        metavar="text|json|stream-json",
        help="Answer alone, one JSON result, or one JSON line per event.",
    ),
]
Reports = Annotated[
    list[str] | None,
    typer.Option(metavar="junit,github,markdown,sarif", help="Write reports, too."),
]
InCi = Annotated[
    bool | None,
    typer.Option("--ci/--no-ci", help="Heartbeats and CI defaults. [default: detected]"),
]
NoAnnotations = Annotated[
    bool, typer.Option("--no-annotations", help="Nothing special for GitHub Actions.")
]
Quiet = Annotated[bool, typer.Option("-q", "--quiet", help="Errors only on stderr.")]
Verbose = Annotated[
    bool, typer.Option("-v", "--verbose", help="Diffs and command output on stderr.")
]


# The options of `agentcli run`, some of them shared with `batch`: type and help text of each.


Prompt = Annotated[str | None, typer.Argument(help="What to do, in words; - reads it from stdin.")]
PromptFile = Annotated[
    Path | None, typer.Option("-f", "--file", metavar="FILE", help="The prompt, in a file.")
]
Images = Annotated[
    list[Path] | None,
    typer.Option(
        "--image",
        metavar="FILE",
        help="An image to look at; again for more. One of the workspace may be named in the "
        "prompt instead: @shot.png.",
    ),
]
Mode = Annotated[
    str | None,
    typer.Option(
        metavar="plan|ask|auto-edit|auto",
        help="What needs no question: reading (plan, ask), editing files too (auto-edit), "
        "everything (auto). Nobody can be asked here: what would be asked is denied.",
    ),
]
OnDeny = Annotated[
    str,
    typer.Option(
        metavar="fail|continue|ignore",
        help="When a call is denied: stop, go on and fail at the end, or only record it.",
    ),
]
StrictCost = Annotated[
    bool, typer.Option("--strict-cost", help="Refuse a model whose price is not known.")
]
MaxTokens = Annotated[
    str | None,
    typer.Option(metavar="N", help="Send none that could take the session above N tokens."),
]
ToolTimeout = Annotated[
    str | None, typer.Option(metavar="TIME", help="Stop any one command after that.")
]
MaxWait = Annotated[
    str | None,
    typer.Option(metavar="TIME", help="Wait no longer for a provider that asks to wait."),
]
WrapUp = Annotated[
    bool, typer.Option("--wrap-up", help="At a limit, let the model sum up, without tools.")
]
Verify = Annotated[
    list[str] | None,
    typer.Option(
        metavar="CMD",
        help="The task is done when this passes. What fails goes back to the model.",
    ),
]
CheckClaims = Annotated[
    bool,
    typer.Option("--check-claims", hidden=True),
]
SchemaFile = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="The answer is JSON that meets this JSON Schema."),
]
Partial = Annotated[
    bool, typer.Option("--partial", help="With stream-json: text and output as they come.")
]
PatchFile = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Write what the run changed, as a diff.")
]
LastMessage = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Write the answer to a file, too.")
]
OutputDir = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR", help="Write result, answer, patch, settings and log, however it ends."
    ),
]
