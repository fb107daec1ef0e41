"""The tools of a session, built-in and foreign, with their storage and undo."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from agentcli.agent.journal import Journal
from agentcli.agent.toolset import Load, Toolset
from agentcli.features.children.engine import ChildAgents
from agentcli.features.mcp.server_files import read_entries
from agentcli.features.plugins.engine import load_plugins
from agentcli.features.programs.engine import Programs
from agentcli.log.paths import SessionPaths
from agentcli.session.builtin_tools import BuiltinTools
from agentcli.session.checkpoints import Checkpoints
from agentcli.session.permission_gate import PermissionGate
from agentcli.session.project import Project
from agentcli.session.tool_catalog import ToolCatalog
from agentcli.settings import Settings
from agentcli.types.events import Warned
from agentcli.types.fast_dataclass import dataclass
from agentcli.types.tools import ToolSpec

if TYPE_CHECKING:
    from agentcli.features.mcp.servers import Servers


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionTools:
    toolset: Toolset
    catalogue: ToolCatalog
    checkpoints: Checkpoints
    children: ChildAgents
    programs: Programs
    warnings: Sequence[Warned]
    """Warnings about plugins and servers that cannot be used."""


def build_session_tools(
    settings: Settings,
    paths: SessionPaths,
    *,
    project: Project | None,
    gate: PermissionGate,
    builtin_tools: BuiltinTools,
    journal: Journal,
    extra_offers: Sequence[tuple[ToolSpec, Load]],
) -> SessionTools:
    """Build the tools. `extra_offers` belong to this session only."""
    checkpoints = Checkpoints(paths, workspace=settings.workspace, emit=journal.append)
    children = ChildAgents(
        settings, paths, gate=gate, builtin_tools=builtin_tools, checkpoints=checkpoints
    )
    programs = Programs(settings, paths, gate=gate, builtin_tools=builtin_tools)
    own = (
        *builtin_tools.iter_offers(lambda: journal.facts),
        *programs.iter_offers(),
        *extra_offers,
    )
    toolset = Toolset((*checkpoints.wrap_offers(own), *children.iter_offers()))
    plugins = load_plugins(settings.workspace)
    servers = _build_servers(
        settings,
        paths,
        project=project,
        gate=gate,
        builtin_tools=builtin_tools,
        journal=journal,
        checkpoints=checkpoints,
    )
    catalogue = ToolCatalog(
        toolset, servers=servers, window_tokens=builtin_tools.get_window(), past=journal.facts
    )
    foreign = checkpoints.wrap_offers(plugins.iter_offers())
    catalogue.admit((*foreign, *(servers.iter_offers() if servers else ())))
    children.connect(toolset, list_read_tools=servers.list_read_tools if servers else tuple)
    return SessionTools(
        toolset=toolset,
        catalogue=catalogue,
        checkpoints=checkpoints,
        children=children,
        programs=programs,
        warnings=(*plugins.warnings, *(servers.warnings if servers else ())),
    )


def _build_servers(
    settings: Settings,
    paths: SessionPaths,
    *,
    project: Project | None,
    gate: PermissionGate,
    builtin_tools: BuiltinTools,
    journal: Journal,
    checkpoints: Checkpoints,
) -> "Servers | None":
    """Return the servers, or None if none is configured."""
    entries = read_entries(settings, project)
    if entries is None:
        return None
    from agentcli.features.mcp.servers import Servers
    from agentcli.features.mcp.session_sampling import enable_sampling

    servers = Servers(
        entries.servers,
        settings,
        gate=gate,
        paths=paths,
        emit=journal.append,
        takes_images=lambda: builtin_tools.model.images,
        wrap_offers=checkpoints.wrap_offers,
        problems=entries.problems,
    )
    enable_sampling(
        servers, settings=settings, gate=gate, builtin_tools=builtin_tools, journal=journal
    )
    return servers
