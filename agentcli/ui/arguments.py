"""Parts shared by the commands: their style, and the options that mean the same everywhere.

An option of one command alone is in its own module: those of `agentcli run` in `cli/run`.
"""

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
    Path, typer.Option("-C", "--cwd", metavar="DIR", help="The directory to work in.")
]
SessionWorkspace = Annotated[
    Path | None,
    typer.Option(
        "-C",
        "--cwd",
        metavar="DIR",
        help="The directory to work in. Default: the current one, or that of the session.",
    ),
]
Continue = Annotated[
    bool, typer.Option("--continue", help="Continue the latest session in this directory.")
]
AddDir = Annotated[
    list[str] | None,
    typer.Option(
        "--add-dir",
        metavar="DIR[:ro]",
        help="Work in this directory too, or only read it (repeatable).",
    ),
]
PassEnv = Annotated[
    list[str] | None,
    typer.Option(
        "--pass-env",
        metavar="NAME",
        help="Pass this environment variable to commands (repeatable).",
    ),
]
Mask = Annotated[
    list[str] | None,
    typer.Option(
        "--mask",
        metavar="NAME",
        help="Redact this variable's value everywhere (globs allowed, repeatable).",
    ),
]
TrustProject = Annotated[
    bool,
    typer.Option(
        "--trust-project",
        help="Load this repository's .agentcli settings, hooks and MCP servers for this run.",
    ),
]
McpConfig = Annotated[
    str | None,
    typer.Option(
        "--mcp-config", metavar="FILE", help="Load more MCP servers from this mcpServers file."
    ),
]
Model = Annotated[
    str | None,
    typer.Option(
        "--model",
        metavar="PROVIDER/NAME",
        help="Model, as provider/name. Default: the first provider with an API key.",
    ),
]
Effort = Annotated[
    str | None,
    typer.Option(
        "--effort",
        metavar="LEVEL",
        help="How much the model thinks: none, minimal, low, medium, high, xhigh or max. "
        "Also after the model, as in sonnet:high.",
    ),
]
SessionOrLatest = Annotated[
    str | None,
    typer.Argument(
        help="Session: its name, its id, either end of its id, or the path of its log. "
        "Default: the latest in this directory.",
    ),
]
SessionName = Annotated[
    str,
    typer.Argument(
        metavar="SESSION",
        help="Session: its name, its id, either end of its id, or the path of its log.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
SessionMode = Annotated[
    str | None,
    typer.Option(
        "--mode",
        metavar="plan|ask|auto-edit|auto",
        help="Permission mode: plan (read-only), ask (confirm edits and commands), auto-edit "
        "(edits without asking), auto (everything, in the sandbox).",
    ),
]
Allow = Annotated[
    list[str] | None,
    typer.Option(
        "--allow",
        metavar="RULE",
        help="Allow calls that match, e.g. 'bash(pytest:*)', 'edit' (repeatable).",
    ),
]
Deny = Annotated[
    list[str] | None,
    typer.Option(
        "--deny", metavar="RULE", help="Deny calls that match, in every mode (repeatable)."
    ),
]
Network = Annotated[
    list[str] | None,
    typer.Option(
        "--network",
        metavar="HOST",
        help="Let commands reach this host, e.g. docs.example.org, '*.example.com', or a preset "
        "such as python (agentcli policy presets lists them; repeatable).",
    ),
]
Web = Annotated[
    bool,
    typer.Option(
        "--web",
        help="Let the model read web pages. Each host needs your OK, or --allow 'web(HOST)'.",
    ),
]
Computer = Annotated[
    bool,
    typer.Option(
        "--computer",
        help="Let the model use a browser in the sandbox. Each host needs your OK, or --allow"
        " 'computer(HOST)'.",
    ),
]
Policy = Annotated[
    Path | None, typer.Option("--policy", metavar="FILE", help="Load more rules from this file.")
]
SandboxKind = Annotated[
    str | None,
    typer.Option(
        "--sandbox",
        metavar="auto|bubblewrap|landlock|seatbelt|off",
        help="Sandbox for commands. off runs them without one.",
    ),
]
Yolo = Annotated[
    bool,
    typer.Option("--yolo", help="Run everything without asking and without a sandbox. Dangerous."),
]
ResumeOrPick = Annotated[
    str | None,
    typer.Option(
        "--resume",
        metavar="[SESSION]",
        help="Continue a session by id or name. Without one, choose from a list.",
    ),
]
WorktreeName = Annotated[
    str | None,
    typer.Option(
        "-w", "--worktree", metavar="[NAME]", help="Work in a git worktree; made if missing."
    ),
]
ThemeName = Annotated[
    str | None,
    typer.Option("--theme", metavar="auto|dark|light|ansi|none|NAME", help="Colour theme."),
]
Color = Annotated[
    str | None,
    typer.Option(
        "--color",
        metavar="auto|always|never",
        help="Use colour or not. auto: only on a terminal.",
    ),
]
Accessible = Annotated[
    bool,
    typer.Option("--accessible", help="Screen reader mode: whole lines, nothing redrawn."),
]
Debug = Annotated[
    bool,
    typer.Option("--debug", help="Show tracebacks for internal errors (goes before the command)."),
]


class TextOrJson(StrEnum):
    TEXT = "text"
    JSON = "json"


OutputOption = Annotated[
    TextOrJson, typer.Option("-o", "--output", metavar="text|json", help="Output format.")
]

MaxTurns = Annotated[
    str | None,
    typer.Option(
        metavar="N",
        help="Stop after N model requests. A child agent gets at most the requests left. "
        "[default: 100, in CI 50]",
    ),
]
MaxCost = Annotated[
    str | None,
    typer.Option(metavar="USD", help="Stop before the session costs more than this."),
]
Timeout = Annotated[
    str | None,
    typer.Option(metavar="TIME", help="Stop the run after this time, e.g. 90s, 30m, 1h30m."),
]
OutputForm = Annotated[
    str,
    typer.Option(
        "-o",
        "--output",
        metavar="text|json|stream-json",
        help="Output format: the answer, one JSON result, or one JSON line per event.",
    ),
]
Reports = Annotated[
    list[str] | None,
    typer.Option(metavar="junit,github,markdown,sarif", help="Also write these reports."),
]
InCi = Annotated[
    bool | None,
    typer.Option("--ci/--no-ci", help="Use CI defaults and heartbeats. [default: detected]"),
]
NoAnnotations = Annotated[
    bool, typer.Option("--no-annotations", help="Disable GitHub Actions annotations.")
]
Quiet = Annotated[bool, typer.Option("-q", "--quiet", help="Print only errors on stderr.")]
Verbose = Annotated[
    bool, typer.Option("-v", "--verbose", help="Print diffs and command output on stderr.")
]
Mode = Annotated[
    str | None,
    typer.Option(
        metavar="plan|ask|auto-edit|auto",
        help="Permission mode: plan (read-only), ask (reads; edits and commands need --allow), "
        "auto-edit (edits too), auto (everything, in the sandbox). What would ask is denied.",
    ),
]
Verify = Annotated[
    list[str] | None,
    typer.Option(
        metavar="CMD",
        help="Check command; the task is done when it passes. Failures go back to the model "
        "(repeatable).",
    ),
]
