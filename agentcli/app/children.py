"""The child agents of a session: each has its own loop and log, and shares all boundaries."""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from agentcli.agent.journal import Journal
from agentcli.agent.limits import Breaker, Limits
from agentcli.agent.loop import Loop
from agentcli.agent.toolset import Load, Toolset
from agentcli.app.boundary import Boundary
from agentcli.app.briefing import role_folders
from agentcli.app.checkpoints import Checkpoints
from agentcli.app.engine import open_asking, open_dispatcher
from agentcli.app.workshop import Workshop
from agentcli.record.log import Log
from agentcli.record.place import SessionPlace
from agentcli.settings import Settings
from agentcli.tools.contracts import BUILT_IN, contract
from agentcli.types.events import Event, Told, Warned
from agentcli.types.tools import Effect, Tool, ToolSpec

if TYPE_CHECKING:
    from agentcli.agent.children import Child, Children, Role

STEPS_MAX = 40
WALL_S = 900.0


class ChildAgents:
    def __init__(
        self,
        settings: Settings,
        place: SessionPlace,
        *,
        boundary: Boundary,
        workshop: Workshop,
        checkpoints: Checkpoints,
    ) -> None:
        self._settings = settings
        self._place = place
        self._boundary = boundary
        self._workshop = workshop
        self._checkpoints = checkpoints
        self._roles: list[Role] = []

    def at_start(self) -> list[Told | Warned]:
        """What the model is told of the roles there are."""
        folders = role_folders(self._settings)
        if not folders:
            return []
        from agentcli.agent.roles import find_roles, told

        self._roles, bad = find_roles(folders, tools=BUILT_IN)
        return [*bad, *([told(self._roles)] if self._roles else [])]

    def offers(self) -> Iterator[tuple[ToolSpec, Load]]:
        yield contract("delegate"), self._delegate

    def _delegate(self) -> Tool:
        from agentcli.agent.children import Children
        from agentcli.tools.delegate import Delegate

        children = Children(self._roles, open_child=self._open)
        return Delegate(run_child=children.run, effect_of=lambda name: _effect(children, name))

    def _open(self, role: "Role", listen: Callable[[Event], None]) -> "Child":
        from agentcli.agent.children import Child

        log = Log(self._place.new_child_log())
        journal = Journal(
            f"{self._place.id}/{log.path.stem}",
            record=log.append,
            listeners=(listen,),
            mask=self._boundary.mask,
        )
        offers = [offer for offer in self._workshop.offers() if offer[0].name in role.tools]
        toolset, breaker = Toolset(self._checkpoints.around(offers)), Breaker()
        loop = Loop(
            asking=open_asking(
                toolset, settings=self._settings, workshop=self._workshop, journal=journal
            ),
            journal=journal,
            dispatcher=open_dispatcher(
                toolset,
                settings=self._settings,
                boundary=self._boundary,
                journal=journal,
                breaker=breaker,
            ),
            breaker=breaker,
            limits=Limits(steps=STEPS_MAX, wall_s=WALL_S),
            parallel=self._settings.parallel,
        )
        return Child(
            journal=journal, loop=loop, log=log.path, head=lambda: log.head, close=log.close
        )


def _effect(children: "Children", name: str) -> Effect:
    """A child that only reads may run beside others."""
    return Effect.READ if children.role(name).only_reads else Effect.EXECUTE
