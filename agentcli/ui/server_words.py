"""An MCP server and its tools in words, the same on the command line and in a session."""

from pathlib import Path
from typing import TYPE_CHECKING

from agentcli.agent.size import spec_tokens
from agentcli.app.server_logins import logins_of
from agentcli.types.errors import SettingsError
from agentcli.types.words import counted
from agentcli.ui.lines import short_path

if TYPE_CHECKING:
    from agentcli.mcp.entries import ServerEntry
    from agentcli.mcp.offered import Offered

DESCRIBED_CHARS = 90
NO_SERVERS = "no servers; add one: agentcli mcp add NAME -- COMMAND ARGS"


def cost(entry: "ServerEntry", tools: "tuple[Offered, ...]") -> str:
    tokens = sum(spec_tokens(tool.spec(entry.name)) for tool in tools)
    return f"{counted(len(tools), 'tool')}, {tokens} tokens if all are declared"


def terms(entry: "ServerEntry") -> str:
    """Where it runs, which file says so, and what of that is not obeyed."""
    ignored = f", ignored: {', '.join(entry.ignored)}" if entry.ignored else ""
    return f"{_confinement(entry)}; {short_path(Path(entry.where))}{ignored}"


def described(tool: "Offered") -> str:
    return " ".join(tool.description.split())[:DESCRIBED_CHARS].rstrip()


def _login(entry: "ServerEntry") -> str:
    logins = logins_of(entry)
    try:
        return ", logged in" if logins is not None and logins.read() else ""
    except SettingsError as error:
        return f", {error}"


def _confinement(entry: "ServerEntry") -> str:
    if entry.is_remote:
        return f"elsewhere{_login(entry)}"
    if not entry.is_confined:
        return "NOT confined"
    return "in the sandbox, with network" if entry.network else "in the sandbox, without network"
