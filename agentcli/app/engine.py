"""What every agent of a session runs on, parent or child: one way to run calls, one to ask."""

from collections.abc import Sequence
from functools import partial

from agentcli.agent.asking import Asking
from agentcli.agent.dispatch import After, Dispatcher
from agentcli.agent.journal import Journal
from agentcli.agent.limits import Breaker, Pace
from agentcli.agent.prompt import system_prompt
from agentcli.agent.room import Room
from agentcli.agent.toolset import Toolset
from agentcli.app.boundary import Boundary
from agentcli.app.secrecy import TokenNote, refuse_tokens
from agentcli.app.workshop import Workshop
from agentcli.settings import Settings
from agentcli.types.messages import Json
from agentcli.types.verdicts import Delegation
from agentcli.types.wire import Request


def open_dispatcher(
    toolset: Toolset,
    *,
    settings: Settings,
    boundary: Boundary,
    journal: Journal,
    breaker: Breaker,
    after: Sequence[After] = (),
    child: Delegation | None = None,
) -> Dispatcher:
    """Whatever it runs has passed the boundary, and is told to the journal.

    `child`: on whose behalf, where it is not the session's own agent."""
    return Dispatcher(
        toolset=toolset,
        judge=partial(boundary.judge, child=child),
        tell=journal.tell,
        workspace=settings.workspace,
        breaker=breaker,
        pace=Pace(settings.calls_per_minute),
        after=after,
        clean=boundary.secrecy.clean,
        check=refuse_tokens,
        explain=TokenNote(journal.facts),
        origin=boundary.origin,
    )


def open_asking(
    toolset: Toolset,
    *,
    settings: Settings,
    workshop: Workshop,
    journal: Journal,
    answer_schema: Json = None,
) -> Asking:
    """The model in use, told of the tools that are declared by then."""
    model = workshop.model
    return Asking(
        wire=model.wire,
        template=Request(
            model=model.name,
            system=system_prompt(),
            messages=(),
            tools=toolset.specs,
            answer_schema=answer_schema,
            effort=settings.effort,
            session=journal.session,
        ),
        journal=journal,
        price=model.price,
        room=Room(journal, window=workshop.window, keep=workshop.keep),
        tools=lambda: toolset.declared,
        deferred=lambda: toolset.deferred,
    )
