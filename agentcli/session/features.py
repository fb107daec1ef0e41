"""The features of the program: one folder each below `agentcli/features`, listed only here.

A feature keeps its engine, its commands and its wording together. It is imported when one of its
commands is called: `--help` needs only this table.
"""

from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from agentcli.agent.journal import Listener
    from agentcli.agent.toolset import Load
    from agentcli.session.parts import SessionParts
    from agentcli.types.events import ContextNote, Warned
    from agentcli.types.messages import Image
    from agentcli.types.tools import ToolSpec


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
    "mcp": _in_feature("mcp", "Add, list, test and remove MCP servers, or be one."),
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


# What features add to a session.


class SessionFeature:
    """What a feature adds to a session. A feature overrides what it has; the rest adds nothing."""

    listeners: "Sequence[Listener]" = ()
    warnings: "Sequence[Warned]" = ()
    is_ready = True
    """False if `prepare` will take a while."""

    def iter_offers(self) -> "Iterator[tuple[ToolSpec, Load]]":
        """Yield tools that are always declared."""
        return iter(())

    def iter_foreign_offers(self) -> "Iterator[tuple[ToolSpec, Load]]":
        """Yield tools that are declared if there are few, and else found by search."""
        return iter(())

    def build_start_notes(self) -> "Sequence[ContextNote | Warned]":
        """Return notes for the model on what is available. Called when all tools are known."""
        return ()

    async def prepare(self) -> None:
        """Do what must be done before a turn."""

    def runs_prompt(self, message: str) -> bool:
        """Return whether the message is a command of the feature that brings a prompt."""
        return False

    async def fetch(self, message: str) -> "Sequence[str | Image]":
        """Return what a message mentions. Raise UsageError if it names a prompt that is missing."""
        return ()

    async def close(self) -> None:
        """Close what was opened."""


SESSION_FEATURES: Mapping[str, str] = {
    "programs": "agentcli.features.programs.engine",
    "children": "agentcli.features.children.engine",
    "plugins": "agentcli.features.plugins.engine",
    "mcp": "agentcli.features.mcp.server_files",
    "telemetry": "agentcli.features.insights.session_telemetry",
}
"""The features that add tools or listeners to a session, in the order of their tools.

Each module has a function `build_session_feature`, which returns None if there is nothing to add.
"""


def build_session_features(parts: "SessionParts") -> Mapping[str, SessionFeature]:
    """Build what features add to a session. Raise SettingsError if one cannot be had."""
    built = {
        name: import_module(module).build_session_feature(parts)
        for name, module in SESSION_FEATURES.items()
    }
    return {name: feature for name, feature in built.items() if feature is not None}
