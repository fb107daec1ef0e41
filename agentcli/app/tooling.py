"""Every tool of a session, ours and foreign ones, and what they need to be kept and undone."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from agentcli.agent.journal import Journal
from agentcli.agent.toolset import Load, Toolset
from agentcli.app.boundary import Boundary
from agentcli.app.catalogue import Catalogue
from agentcli.app.checkpoints import Checkpoints
from agentcli.app.children import ChildAgents
from agentcli.app.plugins import open_plugins
from agentcli.app.programs import Programs
from agentcli.app.project import Project
from agentcli.app.server_entries import read_entries
from agentcli.app.workshop import Workshop
from agentcli.record.place import SessionPlace
from agentcli.settings import Settings
from agentcli.types.events import Warned
from agentcli.types.record import dataclass
from agentcli.types.tools import ToolSpec

if TYPE_CHECKING:
    from agentcli.app.servers import Servers


@dataclass(frozen=True, slots=True, kw_only=True)
class Tooling:
    toolset: Toolset
    catalogue: Catalogue
    checkpoints: Checkpoints
    children: ChildAgents
    programs: Programs
    warnings: Sequence[Warned]
    """Of plugins and servers that cannot be used."""


def open_tooling(
    settings: Settings,
    place: SessionPlace,
    *,
    project: Project | None,
    boundary: Boundary,
    workshop: Workshop,
    journal: Journal,
    besides: Sequence[tuple[ToolSpec, Load]],
) -> Tooling:
    """`besides`: offers of this one session."""
    checkpoints = Checkpoints(place, workspace=settings.workspace, tell=journal.tell)
    children = ChildAgents(
        settings, place, boundary=boundary, workshop=workshop, checkpoints=checkpoints
    )
    programs = Programs(settings, place, boundary=boundary, workshop=workshop)
    own = (*workshop.offers(lambda: journal.facts), *programs.offers(), *besides)
    toolset = Toolset((*checkpoints.around(own), *children.offers()))
    plugins = open_plugins(settings.workspace)
    servers = _open_servers(
        settings,
        place,
        project=project,
        boundary=boundary,
        workshop=workshop,
        journal=journal,
        checkpoints=checkpoints,
    )
    catalogue = Catalogue(
        toolset, servers=servers, window_tokens=workshop.window(), before=journal.facts
    )
    foreign = checkpoints.around(plugins.offers())
    catalogue.admit((*foreign, *(servers.offers() if servers else ())))
    children.connect(toolset, reading=servers.reading if servers else tuple)
    return Tooling(
        toolset=toolset,
        catalogue=catalogue,
        checkpoints=checkpoints,
        children=children,
        programs=programs,
        warnings=(*plugins.warnings, *(servers.warnings if servers else ())),
    )


def _open_servers(
    settings: Settings,
    place: SessionPlace,
    *,
    project: Project | None,
    boundary: Boundary,
    workshop: Workshop,
    journal: Journal,
    checkpoints: Checkpoints,
) -> "Servers | None":
    """None: nobody has written any down."""
    entries = read_entries(settings, project)
    if entries is None:
        return None
    from agentcli.app.server_sampling import let_sample
    from agentcli.app.servers import Servers

    servers = Servers(
        entries.servers,
        settings,
        boundary=boundary,
        place=place,
        tell=journal.tell,
        takes_images=lambda: workshop.model.images,
        keep_states=checkpoints.around,
        problems=entries.problems,
    )
    let_sample(servers, settings=settings, boundary=boundary, workshop=workshop, journal=journal)
    return servers
