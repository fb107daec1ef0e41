"""The features of the program: one folder each below `agentcli/features`, listed only here.

A feature keeps its engine, its commands and its wording together. It is imported when one of its
commands is called: `--help` needs only this table.
"""

from collections.abc import Mapping
from typing import NamedTuple


class CommandEntry(NamedTuple):
    """A command of the program, and where it is."""

    summary: str
    """One line for `agentcli --help`; the command itself begins with the same."""
    module: str
    app: str = "app"
    """The name of the typer application in the module."""


def _in_feature(name: str, summary: str, app: str = "app") -> CommandEntry:
    return CommandEntry(summary, f"agentcli.features.{name}.command", app)


COMMANDS: Mapping[str, CommandEntry] = {
    "run": CommandEntry(
        "Run one task and exit. Answer on stdout, progress on stderr.",
        "agentcli.cli.run",
    ),
    "review": _in_feature(
        "review",
        "Review a change. Nothing is written; findings come as Markdown, JSON or SARIF.",
    ),
    "batch": _in_feature(
        "batch", "Run many tasks, each in its own worktree and session, and report once."
    ),
    "acp": _in_feature(
        "acp", "Serve an editor over the Agent Client Protocol, on stdin and stdout."
    ),
    "demo": _in_feature("demo", "Watch a recorded fix: no key, no network."),
    "context": _in_feature(
        "context", "Show what fills a session's context, in tokens by source.", "context_app"
    ),
    "prompt": _in_feature(
        "context", "Print what every request begins with, and what each part costs.", "prompt_app"
    ),
    "tools": _in_feature("context", "List the tools and what declaring them costs.", "tools_app"),
    "models": _in_feature("models", "List the models and what keeps them from use."),
    "mcp": _in_feature("mcp", "Manage MCP servers, or run agentcli as one."),
    "trust": _in_feature("trust", "Trust what a repository brings for agentcli."),
    "policy": _in_feature("policy", "Explain verdicts, and try rules on past calls."),
    "doctor": _in_feature("doctor", "Check this machine, and say how to fix it."),
    "sessions": _in_feature("sessions", "List, show, search, name and delete sessions."),
    "fork": _in_feature("fork", "Branch a session at any turn or call, and compare."),
    "export": _in_feature(
        "insights", "Write a session as Markdown, as one page of HTML, or as JSON.", "export_app"
    ),
    "replay": _in_feature(
        "replay", "Play a session again without its model, and say what differs."
    ),
    "audit": _in_feature("audit", "Check a session's log; keep or sign its head."),
    "undo": _in_feature(
        "undo", "Take back what a session changed in the workspace, and nothing else."
    ),
    "triage": _in_feature(
        "insights", "Say what went wrong in a session, the most important first.", "triage_app"
    ),
    "trace": _in_feature(
        "insights",
        "Print a session from top to bottom: turns, requests, calls, outcomes, cost.",
        "trace_app",
    ),
    "stats": _in_feature(
        "insights",
        "Show what sessions used: tokens, cost, cache, tools, failures, denials.",
        "stats_app",
    ),
}
