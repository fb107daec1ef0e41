"""An MCP server and its tools in words, the same on the command line and in a session."""

from pathlib import Path
from typing import TYPE_CHECKING

from agentcli.features.mcp.tokens import find_logins
from agentcli.system.files import shorten_home
from agentcli.system.tokens import count_spec_tokens
from agentcli.types.errors import SettingsError
from agentcli.types.words import pluralize

if TYPE_CHECKING:
    from agentcli.features.mcp.approvals import OfferedTool
    from agentcli.features.mcp.entries import ServerEntry

DESCRIPTION_CHARS = 90
NO_SERVERS = "no servers; add one: agentcli mcp add NAME -- COMMAND ARGS"


def format_tool_cost(entry: "ServerEntry", tools: "tuple[OfferedTool, ...]") -> str:
    tokens = sum(count_spec_tokens(tool.spec(entry.name)) for tool in tools)
    return f"{pluralize(len(tools), 'tool')}, {tokens} tokens if declared"


def describe_terms(entry: "ServerEntry") -> str:
    """Describe where it runs, which file defines it, and which of its keys are ignored."""
    ignored = f", ignored: {', '.join(entry.ignored)}" if entry.ignored else ""
    return f"{_describe_sandbox(entry)}; {shorten_home(Path(entry.where))}{ignored}"


def shorten_description(tool: "OfferedTool") -> str:
    return " ".join(tool.description.split())[:DESCRIPTION_CHARS].rstrip()


def _login_state(entry: "ServerEntry") -> str:
    logins = find_logins(entry)
    try:
        return ", logged in" if logins is not None and logins.read() else ""
    except SettingsError as error:
        return f", {error}"


def _describe_sandbox(entry: "ServerEntry") -> str:
    if entry.is_remote:
        return f"remote{_login_state(entry)}"
    if not entry.is_confined:
        return "NOT sandboxed"
    if entry.hosts:
        return f"sandboxed, network: {' '.join(entry.hosts)}"
    return "sandboxed, with network" if entry.network else "sandboxed, no network"
