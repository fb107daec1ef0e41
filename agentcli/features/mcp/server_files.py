"""The MCP servers configured for a workspace, and their accepted tools.

If no file configures servers, no other module of `agentcli.features.mcp` is loaded here.
"""

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from agentcli.session.configuration import apply_managed, keeps_sandbox
from agentcli.session.directories import get_trust_directory
from agentcli.session.plugins import build_server_table, get_data_directory, load_plugins
from agentcli.session.project import Project
from agentcli.settings import SERVERS_FILE, get_user_directory, suggest_other_value
from agentcli.system.extras import build_extra_command, is_installed
from agentcli.system.files import build_unwritable_error, read_regular
from agentcli.types.errors import SettingsError
from agentcli.types.settings import Settings
from agentcli.types.tools import ToolSpec

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agentcli.features.mcp.approvals import ServerTrials, ToolListApprovals
    from agentcli.features.mcp.entries import Entries, ServerEntry
    from agentcli.features.mcp.servers import Servers
    from agentcli.permissions.plugin_files import PluginFiles
    from agentcli.session.session import SessionParts


def open_approvals() -> "ToolListApprovals":
    from agentcli.features.mcp.approvals import ToolListApprovals

    return ToolListApprovals(get_trust_directory() / "mcp")


def open_trials() -> "ServerTrials":
    from agentcli.features.mcp.approvals import ServerTrials

    return ServerTrials(get_trust_directory() / "mcp" / "tried")


def build_session_feature(parts: "SessionParts") -> "Servers | None":
    """Return the servers, or None if none is configured."""
    configuration = parts.configuration
    entries = read_entries(parts.settings, configuration.project, plugins=configuration.plugins)
    if entries is None:
        return None
    from agentcli.features.mcp.servers import Servers
    from agentcli.features.mcp.session_sampling import build_sampling

    usable, problems = _leave_out_unusable(entries)
    servers = Servers(
        usable,
        parts.settings,
        gate=parts.gate,
        emit=parts.journal.append,
        takes_images=lambda: parts.model.current.images,
        wrap_offers=parts.checkpoints.wrap_offers,
        catalogue=parts.catalog,
        sampling=build_sampling(parts),
        problems=problems,
    )
    parts.start_notes.append(servers.build_start_notes)
    parts.step_notes.append(servers.collect_notes)
    return servers


def _leave_out_unusable(found: "Entries") -> "tuple[Sequence[ServerEntry], Sequence[str]]":
    """Return the servers that can be used, and the problems: without its library, none can."""
    if not found.servers or is_installed("mcp"):
        return found.servers, found.problems
    names = ", ".join(server.name for server in found.servers)
    missing = f"{names}: MCP servers need the Python package mcp: {build_extra_command('mcp')}"
    return (), (*found.problems, missing)


def read_entries(
    settings: Settings, project: Project | None, *, plugins: "Sequence[PluginFiles]"
) -> "Entries | None":
    """Return the configured servers. None if no file configures any.

    If two have the same name, the user's own file wins over plugins, these over the project's, and
    `--mcp-config` over all. Of a project, `.agentcli/mcp.json` wins over the files of other agents.
    Raise SettingsError if that file or the user's cannot be read."""
    texts = [
        (text, path, True)
        for path in (get_user_directory() / SERVERS_FILE,)
        if (text := _read_text(path, read_regular)) is not None
    ]
    if settings.mcp_config is not None:
        texts.insert(0, (_read_required(settings.mcp_config, settings), settings.mcp_config, True))
    if project is not None and (theirs := project.read_text("mcp.json")) is not None:
        texts.append((theirs, project.files.directory / "mcp.json", False))
    foreign = project.read_foreign_servers() if project else {}
    plugins = [plugin for plugin in plugins if plugin.servers]
    if not texts and not foreign and not plugins:
        return None
    from agentcli.features.mcp.entries import (
        join_entries,
        parse_entries,
        parse_foreign_entries,
    )

    read = [
        parse_entries(text, where=str(path), environ=os.environ, may_loosen=may_loosen)
        for text, path, may_loosen in texts
    ]
    read += [_parse_plugin_servers(plugin) for plugin in plugins]
    disabled = {
        name
        for claude in (project.read_claude_settings(settings.workspace) if project else ())
        for name in claude.disabled_servers
    }
    read += [
        parse_foreign_entries(data, path=path, environ=os.environ, disabled=disabled)
        for path, data in foreign.items()
    ]
    return _confine(join_entries(read), settings)


def _confine(found: "Entries", settings: Settings) -> "Entries":
    """Return the servers, all in the sandbox if the policy of the machine keeps it."""
    if not keeps_sandbox(apply_managed(settings)):
        return found
    servers = tuple(replace(server, is_confined=True) for server in found.servers)
    return replace(found, servers=servers)


def _parse_plugin_servers(plugin: "PluginFiles") -> "Entries":
    """Read the servers of a plugin. They may read all of it and write its own data."""
    from agentcli.features.mcp.entries import Entries, parse_plugin_entries

    data = get_data_directory(plugin.name)
    try:
        data.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise build_unwritable_error(data, error) from error
    found = parse_plugin_entries(
        build_server_table(plugin),
        where=f"plugin {plugin.name}",
        environ=None if plugin.is_portable else os.environ,
    )
    servers = (
        server
        if server.is_remote
        else replace(server, root=str(plugin.root), writable=(str(data),))
        for server in found.servers
    )
    return Entries(servers=tuple(servers), problems=found.problems)


def list_known_tools(
    settings: Settings, project: Project | None
) -> tuple[list[ToolSpec], list[str]]:
    """Return the accepted tools of servers, and problems of the files that configure servers."""
    entries = read_entries(settings, project, plugins=load_plugins().plugins)
    if entries is None:
        return [], []
    approvals = open_approvals()
    servers, problems = _leave_out_unusable(entries)
    specs = [tool.spec(entry.name) for entry in servers for tool in approvals.find(entry) or ()]
    return specs, list(problems)


def _read_text(path: Path, read: Callable[[Path], bytes]) -> str | None:
    try:
        return read(path).decode("utf-8-sig", "replace")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise SettingsError(
            f"cannot read {path}: {error.strerror}", hint=f"ls -l {path}"
        ) from error


def _read_required(path: Path, settings: Settings) -> str:
    text = _read_text(path, Path.read_bytes)  # it may be a pipe: --mcp-config <(command)
    if text is None:
        raise SettingsError(
            f"file not found: {path} (mcp_config)",
            hint=suggest_other_value(settings, "mcp_config"),
        )
    return text
