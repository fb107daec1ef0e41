"""The child agents of a session: each has its own loop and log, and shares all boundaries."""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import partial
from typing import TYPE_CHECKING

from agentcli import __version__
from agentcli.agent.asking import Asking, FallBack, nobody_else
from agentcli.agent.dispatch import After
from agentcli.agent.journal import Journal
from agentcli.agent.limits import Breaker, Limits
from agentcli.agent.loop import Loop
from agentcli.agent.toolset import Load, Toolset
from agentcli.app.boundary import Boundary
from agentcli.app.briefing import Briefing, find_roles, is_foreign
from agentcli.app.catalogue import Catalogue
from agentcli.app.checkpoints import Checkpoints
from agentcli.app.engine import open_asking, open_dispatcher
from agentcli.app.workshop import Workshop
from agentcli.record.log import Log
from agentcli.record.place import SessionPlace
from agentcli.settings import Settings
from agentcli.tools.contracts import BUILT_IN, contract
from agentcli.types.errors import ToolError
from agentcli.types.events import Event, Fact, SessionStarted, Told, Warned
from agentcli.types.tools import Effect, ErrorKind, Tool, ToolSpec
from agentcli.types.verdicts import Delegation

if TYPE_CHECKING:
    from agentcli.agent.children import Child, Children, Role

STEPS_MAX = 40
WALL_S = 900.0

Offer = tuple[ToolSpec, Load]


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
        self._parents = Toolset(())
        self._reading: Callable[[], Collection[str]] = tuple
        self.after: Callable[[Delegation], Sequence[After]] = lambda child: ()
        """What looks at the output of a child's every call."""
        self.fall_back: FallBack = nobody_else
        """Puts another model in the place of the session's."""
        self.steps_left: Callable[[], int | None] = lambda: None
        """How many requests their parent may still make in its turn; None: without end."""

    def connect(self, toolset: Toolset, *, reading: Callable[[], Collection[str]]) -> None:
        """The parent's tools, and those of servers among them that only read."""
        self._parents, self._reading = toolset, reading

    def at_start(self) -> list[Told | Warned]:
        """What the model is told of the roles there are."""
        self._roles, facts = find_roles(self._settings, tools=self._parents.specs)
        return facts

    def offers(self) -> Iterator[Offer]:
        yield contract("delegate"), self._delegate

    def _delegate(self) -> Tool:
        from agentcli.agent.children import Children
        from agentcli.tools.delegate import Delegate

        children = Children(self._roles, open_child=self._open)
        return Delegate(run_child=children.run, effect_of=partial(self._effect, children))

    def _effect(self, children: "Children", name: str) -> Effect:
        """A child that only reads may run beside others."""
        names = children.role(name).tools
        is_reading = names is None or set(names) <= set(self._names_of_reading())
        return Effect.READ if is_reading else Effect.EXECUTE

    def _names_of_reading(self) -> tuple[str, ...]:
        from agentcli.agent.children import READING

        return (*READING, *self._reading())

    def _foreign(self) -> Iterator[Offer]:
        """The parent's tools of servers and plugins."""
        for spec in self._parents.specs:
            if is_foreign(spec):
                yield replace(spec, deferred=False), partial(self._parents.resolve, spec.name)

    def _toolset(self, role: "Role", facts: Callable[[], Sequence[Fact]]) -> Toolset:
        """Raises ToolError where the role names a tool that there is not."""
        offers = [*self._checkpoints.around(self._workshop.offers(facts)), *self._foreign()]
        wanted = self._names_of_reading() if role.tools is None else role.tools
        for name in wanted:
            if not any(_is_meant(spec, name) for spec, _ in offers):
                raise ToolError(f"The role {role.name} uses the tool {name}, which is not there.")
        chosen = [one for one in offers if any(_is_meant(one[0], name) for name in wanted)]
        toolset = Toolset(one for one in chosen if one[0].name in BUILT_IN)
        Catalogue(toolset, servers=None, window_tokens=self._workshop.window()).admit(chosen)
        return toolset

    def _steps(self) -> int:
        """Raises ToolError where the parent has none left, and could not hear of it either."""
        left = self.steps_left()
        if left is not None and left <= 0:
            reached = "The limit of this run is reached: no child agent was started."
            raise ToolError(reached, kind=ErrorKind.LIMITED)
        return STEPS_MAX if left is None else min(STEPS_MAX, left)

    def _open(self, role: "Role", task: str, listen: Callable[[Event], None]) -> "Child":
        from agentcli.agent.children import Child

        limits = Limits(steps=self._steps(), wall_s=WALL_S)
        toolset = self._toolset(role, lambda: journal.facts)
        breaker, briefing = Breaker(), Briefing(self._settings)
        log, followed = Log(self._place.new_child_log()), self._boundary.followed
        journal = Journal(
            f"{self._place.id}/{log.path.stem}",
            record=log.append,
            listeners=(listen, briefing),
            mask=self._boundary.secrecy.new_mask(),
        )
        child = Delegation(child_id=journal.session, role=role.name, task=task)
        asking = open_asking(
            toolset, settings=self._settings, workshop=self._workshop, journal=journal
        )
        asking.fall_back = partial(self._follow, asking)
        loop = Loop(
            asking=asking,
            journal=journal,
            dispatcher=open_dispatcher(
                toolset,
                settings=self._settings,
                boundary=self._boundary,
                journal=journal,
                breaker=breaker,
                after=self.after(child),
                child=child,
            ),
            breaker=breaker,
            limits=limits,
            parallel=self._settings.parallel,
            notices=briefing.notices,
            wraps_up=True,
        )

        def close() -> None:
            if "bash" in toolset.names:
                self._boundary.follow(followed)  # the parent's commands go on where they were
            log.close()

        self._begin(journal, toolset, briefing)
        return Child(journal=journal, loop=loop, log=log.path, head=lambda: log.head, close=close)

    async def _follow(self, asking: Asking) -> bool:
        """Whether the session goes on with another model, and the child with it."""
        is_behind = asking.model != self._workshop.model.name
        if not is_behind and not await self.fall_back():
            return False
        model = self._workshop.model
        asking.use(wire=model.wire, model=model.name, price=model.price)
        return True

    def _begin(self, journal: Journal, toolset: Toolset, briefing: Briefing) -> None:
        journal.tell(
            SessionStarted(
                session=journal.session,
                version=__version__,
                workspace=str(self._settings.workspace),
                model=self._workshop.model.name,
                mode=self._boundary.mode,
                tools=toolset.names,
                tools_sha256=toolset.sha256(),
            )
        )
        for told in briefing.at_start():
            if isinstance(told, Told):  # what is wrong with them, the parent's log says
                journal.tell(told)


def _is_meant(spec: ToolSpec, name: str) -> bool:
    """A tool of ours by its name, one of a server also by a pattern such as `tracker__*`."""
    return spec.name == name or ("__" in spec.name and fnmatchcase(spec.name, name))
