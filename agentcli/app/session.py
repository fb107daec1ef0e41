"""Settings to a running session: here every island is put in its place."""

from collections.abc import Sequence

from agentcli import __version__
from agentcli.agent.dispatch import Dispatcher
from agentcli.agent.journal import Journal, Listener
from agentcli.agent.limits import Breaker, Limits, Pace
from agentcli.agent.loop import Loop
from agentcli.agent.prompt import system_prompt
from agentcli.agent.toolset import Toolset
from agentcli.app.boundary import Boundary
from agentcli.app.model import open_model
from agentcli.app.workshop import Workshop
from agentcli.record.log import Log
from agentcli.record.place import SessionPlace, new_place
from agentcli.settings import Settings
from agentcli.types.events import SessionEnded, SessionStarted, TurnEnded, Warned
from agentcli.types.messages import Text, UserMessage
from agentcli.types.verdicts import Asker
from agentcli.types.wire import Request, Wire


class Session:
    """One conversation: its loop, its log, and whatever it started."""

    def __init__(
        self,
        *,
        place: SessionPlace,
        journal: Journal,
        loop: Loop,
        log: Log,
        wire: Wire,
        workshop: Workshop,
        boundary: Boundary,
    ) -> None:
        self.place = place
        self._journal = journal
        self._loop = loop
        self._log = log
        self._wire = wire
        self._workshop = workshop
        self._boundary = boundary

    async def turn(self, prompt: str) -> TurnEnded:
        return await self._loop.turn(UserMessage(content=(Text(text=prompt),)))

    async def close(self, exit_code: int) -> None:
        """Nothing the session started is left running, and its log is closed."""
        await self._workshop.close()
        self._boundary.close()
        await self._wire.close()
        self._journal.tell(SessionEnded(exit_code=exit_code))
        self._log.close()


def open_session(
    settings: Settings, *, listeners: Sequence[Listener], asker: Asker | None = None
) -> Session:
    """Raises AgentError when the session cannot be had. `asker` None: nobody can be asked."""
    model = open_model(settings)
    place = new_place(settings.sessions)
    log = Log(place.log)
    journal = Journal(place.id, record=log.append, listeners=listeners)
    boundary = Boundary(settings, place, asker=asker)
    workshop = Workshop(settings, place, boundary=boundary, model=model)
    toolset = Toolset(workshop.offers())
    breaker = Breaker()
    limits = Limits(
        steps=settings.max_turns,
        wall_s=settings.timeout,
        cost_usd=settings.max_cost,
        calls_per_minute=settings.calls_per_minute,
    )
    dispatcher = Dispatcher(
        toolset=toolset,
        judge=boundary.judge,
        tell=journal.tell,
        workspace=settings.workspace,
        breaker=breaker,
        pace=Pace(limits.calls_per_minute),
        clean=boundary.clean,
    )
    loop = Loop(
        wire=model.wire,
        template=Request(
            model=model.name,
            system=system_prompt(),
            messages=(),
            tools=toolset.specs,
            effort=settings.effort,
            session=place.id,
        ),
        journal=journal,
        dispatcher=dispatcher,
        breaker=breaker,
        limits=limits,
        price=model.price,
        parallel=settings.parallel,
        notices=workshop.notices,
    )
    journal.tell(
        SessionStarted(
            session=place.id,
            version=__version__,
            workspace=str(settings.workspace),
            model=model.name,
            mode=settings.mode,
            tools=toolset.names,
            tools_sha256=toolset.sha256(),
        )
    )
    if model.warning:
        journal.tell(Warned(code="model.unknown", message=model.warning))
    return Session(
        place=place,
        journal=journal,
        loop=loop,
        log=log,
        wire=model.wire,
        workshop=workshop,
        boundary=boundary,
    )
