"""The features of the program: one folder each below `agentcli/features`, listed only here.

A feature keeps its engine, its commands and its wording together. It is imported when one of its
commands is called: `--help` and the menu of slash commands need only this table.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple, Protocol

from agentcli.settings import SERVERS_FILE, get_user_directory
from agentcli.types.own_tools import WEB_FETCH

if TYPE_CHECKING:
    from agentcli.agent.journal import Listener
    from agentcli.agent.toolset import Offer
    from agentcli.session.builtin_tools import BuiltinTools
    from agentcli.session.configuration import Configuration
    from agentcli.session.project import Project
    from agentcli.session.session import SessionParts
    from agentcli.tools.read_file import OutlineFile
    from agentcli.types.events import ContextNote, Warned
    from agentcli.types.messages import Image
    from agentcli.types.settings import Settings
    from agentcli.types.tools import ToolSpec


class CommandEntry(NamedTuple):
    """A command of the program, and where it is."""

    summary: str
    """One line for `agentcli --help`; the command itself begins with the same."""
    module: str
    app: str = "app"
    """The name of the typer application in the module."""


def _build_command_entry(name: str, summary: str, *, app: str = "app") -> CommandEntry:
    return CommandEntry(summary, f"agentcli.features.{name}.command", app)


COMMANDS: Mapping[str, CommandEntry] = {
    "run": CommandEntry(
        "Run one task and exit. Answer on stdout, progress on stderr.",
        "agentcli.cli.run",
    ),
    "review": _build_command_entry(
        "review",
        "Review a change, read-only. Findings as Markdown, JSON or SARIF.",
    ),
    "batch": _build_command_entry(
        "batch", "Run many tasks, each in its own worktree and session, with one report."
    ),
    "eval": _build_command_entry("eval", "Measure how well a model does the tasks of a suite."),
    "acp": _build_command_entry(
        "acp", "Run as an agent in your editor, over the Agent Client Protocol (stdio)."
    ),
    "login": _build_command_entry(
        "login", "Test and store an API key: typed without echo, or piped in.", app="login_app"
    ),
    "logout": _build_command_entry("login", "Remove a stored API key.", app="logout_app"),
    "demo": _build_command_entry("demo", "Try agentcli on a recorded fix. No key, no network."),
    "worktree": _build_command_entry(
        "worktree", "List, merge and discard the worktrees of sessions."
    ),
    "context": _build_command_entry(
        "context", "Show the context usage of a session, in tokens by source.", app="context_app"
    ),
    "prompt": _build_command_entry(
        "context",
        "Print the start of every request, with the token cost of each part.",
        app="prompt_app",
    ),
    "tools": _build_command_entry(
        "context", "List the tools and their token cost.", app="tools_app"
    ),
    "models": _build_command_entry("models", "List models and which are ready to use."),
    "mcp": _build_command_entry("mcp", "Manage MCP servers, or run agentcli as one."),
    "plugins": _build_command_entry(
        "plugins", "Install plugins: skills, agents, commands, hooks and servers."
    ),
    "trust": _build_command_entry(
        "trust", "Trust a repository's agentcli settings, hooks and servers."
    ),
    "import": _build_command_entry(
        "importer", "Take over your settings for other agents: rules, hooks and servers."
    ),
    "policy": _build_command_entry(
        "policy", "Explain permission decisions and test rules on past calls."
    ),
    "completion": _build_command_entry(
        "completion", "Complete commands and options in your shell."
    ),
    "update": _build_command_entry(
        "update", "Show how to update agentcli. Asks the network only with --check."
    ),
    "doctor": _build_command_entry("doctor", "Check your setup and suggest fixes."),
    "sessions": _build_command_entry("sessions", "List, show, search, name and delete sessions."),
    "recall": _build_command_entry(
        "recall", "Show, search, edit and delete what is remembered of sessions."
    ),
    "caches": _build_command_entry("caches", "Show or clear what commands keep between sessions."),
    "fork": _build_command_entry(
        "fork", "Branch a session at a turn or call and compare the results."
    ),
    "export": _build_command_entry(
        "insights", "Export a session as Markdown, HTML, JSON or ATIF.", app="export_app"
    ),
    "replay": _build_command_entry(
        "replay", "Replay a session without its model and show what differs."
    ),
    "audit": _build_command_entry(
        "audit", "Verify a session's log; export or sign its latest hash."
    ),
    "undo": _build_command_entry(
        "undo", "Undo a session's file changes; what you edited since then stays."
    ),
    "triage": _build_command_entry(
        "insights", "Diagnose a session: problems, most important first.", app="triage_app"
    ),
    "trace": _build_command_entry(
        "insights",
        "Print everything in a session: turns, requests, calls, outcomes, cost.",
        app="trace_app",
    ),
    "view": _build_command_entry(
        "insights",
        "Show a session in the browser: timeline, changes, verdicts, cost, search.",
        app="view_app",
    ),
    "stats": _build_command_entry(
        "insights",
        "Show token usage, cost, cache, tools, failures and denials.",
        app="stats_app",
    ),
}


TOOL_LISTS = (
    "agentcli.features.recall.engine",
    "agentcli.features.symbols.engine",
    "agentcli.features.python_tools.engine",
    "agentcli.features.mcp.server_files",
)
"""The modules that list tools from elsewhere. `list_known_tools(settings, project)` of each returns
their specs, as known without asking any server, and problems for the user."""


def list_foreign_tools(
    settings: "Settings", project: "Project | None"
) -> "tuple[list[ToolSpec], list[str]]":
    """Return the tools that are not built in, and problems with where they come from.

    Raise SettingsError if a file that configures them cannot be read."""
    specs: list[ToolSpec] = []
    problems: list[str] = []
    for module in TOOL_LISTS:
        known, bad = import_module(module).list_known_tools(settings, project)
        specs += known
        problems += bad
    return specs, problems


# Slash commands of the interactive session


class SlashEntry(NamedTuple):
    """A slash command of a feature. `run_NAME` in the module runs it, with _ for -."""

    module: str
    usage: str
    """The arguments of the command, as help shows them."""
    summary: str
    lists_arguments: bool = False
    """True if `list_NAME_arguments` in the module lists the possible first arguments."""
    works_alone: bool = False
    """True if the command also works when the session cannot be opened."""


def _build_slash_entry(
    name: str, usage: str, *, summary: str, lists_arguments: bool = False, works_alone: bool = False
) -> SlashEntry:
    module = f"agentcli.features.{name}.slash"
    return SlashEntry(module, usage, summary, lists_arguments, works_alone)


SLASH_COMMANDS: Mapping[str, SlashEntry] = {
    "model": _build_slash_entry(
        "models",
        "[NAME [--check]]",
        summary="show or switch the model",
        lists_arguments=True,
    ),
    "effort": _build_slash_entry(
        "models",
        "[LEVEL]",
        summary="show or change how much the model thinks",
        lists_arguments=True,
    ),
    "login": _build_slash_entry(
        "login",
        "[PROVIDER]",
        summary="test and store an API key",
        lists_arguments=True,
        works_alone=True,
    ),
    "logout": _build_slash_entry(
        "login",
        "[PROVIDER]",
        summary="remove a stored API key",
        lists_arguments=True,
        works_alone=True,
    ),
    "resume": _build_slash_entry(
        "sessions",
        "[SESSION]",
        summary="continue another session of this project",
        lists_arguments=True,
    ),
    "name": _build_slash_entry(
        "sessions", "[NAME]", summary="name this session, or let the model name it"
    ),
    "recall": _build_slash_entry(
        "recall",
        "[WORDS | show ID | edit ID TEXT | delete ID]",
        summary="search past sessions' memories",
    ),
    "rewind": _build_slash_entry(
        "undo",
        "[N [both|conversation|files]]",
        summary="go back to before a message: conversation, files or both",
    ),
    "undo": _build_slash_entry("undo", "[CHANGE | list]", summary="undo the latest change"),
    "redo": _build_slash_entry("undo", "", summary="redo what was undone or rewound"),
    "compact": _build_slash_entry(
        "context",
        "[WHAT TO KEEP | --undo]",
        summary="summarize the conversation (--undo restores it)",
    ),
    "goal": _build_slash_entry(
        "goal", "[CMD | off]", summary="a command that must pass before a turn is done"
    ),
    "btw": _build_slash_entry(
        "context", "QUESTION", summary="ask something aside; the conversation does not get it"
    ),
    "commit": _build_slash_entry(
        "commit", "[MESSAGE]", summary="commit what the session changed, with a drafted message"
    ),
    "pr": _build_slash_entry("commit", "", summary="draft the text of a pull request"),
    "context": _build_slash_entry("context", "", summary="show context usage"),
    "tools": _build_slash_entry("context", "", summary="list the tools of the model"),
    "cost": _build_slash_entry("insights", "", summary="show token usage and cost"),
    "export": _build_slash_entry("insights", "FILE", summary="write the transcript to a file"),
    "mcp": _build_slash_entry(
        "mcp",
        "[NAME | restart NAME]",
        summary="MCP servers, the tools of one, or restart one",
        lists_arguments=True,
    ),
    "add-dir": _build_slash_entry(
        "directories", "[DIR[:ro]]", summary="work in another directory too, or only read it"
    ),
    "agents": _build_slash_entry(
        "children",
        "[N | stop N | stop all]",
        summary="the background agents: their state, cost and patches",
        lists_arguments=True,
    ),
    "worktree": _build_slash_entry(
        "worktree",
        "[NAME | merge | keep | discard]",
        summary="continue in a git worktree of its own, or end it",
        lists_arguments=True,
    ),
    "permissions": _build_slash_entry(
        "policy", "", summary="show the permission mode and the rules"
    ),
    "doctor": _build_slash_entry("doctor", "", summary="check your setup", works_alone=True),
}
"""The slash commands of features, in the order of the menu."""
# What features add to a session.


class PromptMenu(Protocol):
    """Names that a prompt can mention, by the servers that list them, each with a description."""

    @property
    def names(self) -> Sequence[str]: ...

    async def list_prompts(self, server: str) -> Sequence[tuple[str, str]]: ...

    async def list_resources(self, server: str) -> Sequence[tuple[str, str]]: ...


class SessionFeature:
    """What a feature adds to a session. A feature overrides what it has; the rest adds nothing.

    What it has to tell the model it adds to `start_notes` and `step_notes` of the parts."""

    listeners: "Sequence[Listener]" = ()
    warnings: "Sequence[Warned]" = ()
    menu: PromptMenu | None = None
    """What prompts can mention; None if they can mention nothing of it."""
    is_ready = True
    """False if `prepare` has something to do, which may take a while."""
    offers: "Sequence[Offer]" = ()
    """Tools that are always declared."""
    foreign_offers: "Sequence[Offer]" = ()
    """Tools that are declared if there are few, and else found by search."""

    def describe_activity(self) -> str:
        """Return what it does beside the turns, in a few words for the toolbar."""
        return ""

    async def find_unfinished(self) -> "Sequence[ContextNote]":
        """Return notes on work that remains when the model says that it is done."""
        return ()

    async def prepare(self) -> None:
        """Do what must be done before a turn. Called while `is_ready` is False."""

    async def finish_turn(self) -> None:
        """Do what must be done after a turn that was not interrupted."""

    def runs_prompt(self, message: str) -> bool:
        """Return whether the message is a command of the feature that brings a prompt."""
        return False

    async def fetch(self, message: str) -> "Sequence[str | Image]":
        """Return what a message mentions. Raise UsageError if it names a prompt that is missing."""
        return ()

    async def close(self) -> None:
        """Close what was opened."""


class FeatureEntry(NamedTuple):
    """A feature that takes part in sessions. `build_session_feature` in the module builds it.

    That returns None if there is nothing to add."""

    module: str
    is_on: "Callable[[SessionParts], bool]" = lambda parts: True
    """Returns whether the session has a use for it. If not, its module is not loaded."""


def _uses_web(parts: "SessionParts") -> bool:
    """Return whether the model may ask for pages, or for a tool of its provider that does."""
    return parts.settings.web or bool(parts.settings.hosted) or allows_web(parts.configuration)


def allows_web(configuration: "Configuration") -> bool:
    """Return whether a rule allows pages of any host."""
    return any(rule.decision == "allow" and WEB_FETCH in rule.tools for rule in configuration.rules)


def _may_have_servers(parts: "SessionParts") -> bool:
    """Return whether there is a file that may configure MCP servers."""
    configuration = parts.configuration
    return (
        parts.settings.mcp_config is not None
        or configuration.project is not None
        or bool(configuration.plugins)
        or os.path.lexists(get_user_directory() / SERVERS_FILE)
    )


SESSION_FEATURES: Mapping[str, FeatureEntry] = {
    "ask_user": FeatureEntry("agentcli.features.ask_user.engine", lambda parts: parts.gate.can_ask),
    "programs": FeatureEntry(
        "agentcli.features.programs.engine", lambda parts: parts.settings.programs
    ),
    "children": FeatureEntry("agentcli.features.children.engine"),
    "symbols": FeatureEntry(
        "agentcli.features.symbols.engine", lambda parts: parts.settings.symbols
    ),
    "recall": FeatureEntry(
        "agentcli.features.recall.engine", lambda parts: parts.settings.memory != "off"
    ),
    "web": FeatureEntry("agentcli.features.web.engine", _uses_web),
    "computer": FeatureEntry(
        "agentcli.features.computer.engine", lambda parts: parts.settings.computer
    ),
    "python_tools": FeatureEntry("agentcli.features.python_tools.engine"),
    "mcp": FeatureEntry("agentcli.features.mcp.server_files", _may_have_servers),
    "telemetry": FeatureEntry(
        "agentcli.features.insights.session_telemetry",
        lambda parts: parts.settings.otel,
    ),
}
"""The features that add tools or listeners to a session, in the order of their tools."""


def load_outliner(settings: "Settings", tools: "BuiltinTools") -> "OutlineFile | None":
    """Load what outlines large files for read_file, or return None if it is not turned on."""
    if not settings.symbols:
        return None
    built: OutlineFile | None = import_module("agentcli.features.symbols.engine").build_outliner(
        settings, tools
    )
    return built


def build_session_features(parts: "SessionParts") -> Mapping[str, SessionFeature]:
    """Build what features add to a session. Raise SettingsError if one cannot be built."""
    built = {
        name: import_module(entry.module).build_session_feature(parts)
        for name, entry in SESSION_FEATURES.items()
        if entry.is_on(parts)
    }
    return {name: feature for name, feature in built.items() if feature is not None}
