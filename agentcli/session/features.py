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
        "Do one task and leave. The answer goes to stdout, the progress to stderr.",
        "agentcli.cli.run",
    ),
    "review": _in_feature(
        "review",
        "Review a change, read-only. Findings as Markdown, JSON or SARIF.",
    ),
    "batch": _in_feature(
        "batch", "Run many tasks, each in its own worktree and session, with one report."
    ),
    "acp": _in_feature(
        "acp", "Run as an agent in your editor, over the Agent Client Protocol (stdio)."
    ),
    "demo": _in_feature("demo", "Watch a recorded fix. No key, no network."),
    "context": _in_feature(
        "context", "Show the context usage of a session, in tokens by source.", "context_app"
    ),
    "prompt": _in_feature(
        "context",
        "Print the start of every request, with the token cost of each part.",
        "prompt_app",
    ),
    "tools": _in_feature("context", "List the tools and their token cost.", "tools_app"),
    "models": _in_feature("models", "List models and which are ready to use."),
    "mcp": _in_feature("mcp", "Add, list, test and remove MCP servers, or be one."),
    "trust": _in_feature("trust", "Trust a repository's agentcli settings, hooks and servers."),
    "policy": _in_feature("policy", "Explain permission decisions and test rules on past calls."),
    "doctor": _in_feature("doctor", "Check your setup and suggest fixes."),
    "sessions": _in_feature("sessions", "List, show, search, name and delete sessions."),
    "fork": _in_feature("fork", "Branch a session at a turn or call and compare the results."),
    "export": _in_feature("insights", "Export a session as Markdown, HTML or JSON.", "export_app"),
    "replay": _in_feature("replay", "Replay a session without its model and show what differs."),
    "audit": _in_feature("audit", "Verify a session's log; export or sign its latest hash."),
    "undo": _in_feature("undo", "Undo a session's file changes; your own edits stay."),
    "triage": _in_feature(
        "insights", "Diagnose a session: problems, most important first.", "triage_app"
    ),
    "trace": _in_feature(
        "insights",
        "Print everything in a session: turns, requests, calls, outcomes, cost.",
        "trace_app",
    ),
    "stats": _in_feature(
        "insights",
        "Show token usage, cost, cache, tools, failures and denials.",
        "stats_app",
    ),
}
