"""Settings to a running session: here every island is put in its place."""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from agentcli import __version__
from agentcli.agent.asking import Asking
from agentcli.agent.dispatch import Dispatcher
from agentcli.agent.journal import Journal, Listener
from agentcli.agent.limits import Breaker, Limits, Pace
from agentcli.agent.loop import Loop
from agentcli.agent.prompt import system_prompt
from agentcli.agent.room import Room
from agentcli.agent.toolset import Toolset
from agentcli.app.boundary import SANDBOX_OFF, Boundary
from agentcli.app.briefing import Briefing
from agentcli.app.catalogue import Catalogue
from agentcli.app.checkpoints import Checkpoints
from agentcli.app.children import ChildAgents
from agentcli.app.errand import (
    Errand,
    answer_form,
    answer_offers,
    finish_of,
    refuse_unconfined,
)
from agentcli.app.hooks import open_hooks
from agentcli.app.model import ModelInUse, open_model
from agentcli.app.opinion import SecondOpinion
from agentcli.app.plugins import open_plugins
from agentcli.app.programs import Programs
from agentcli.app.project import Project, open_project, with_project
from agentcli.app.resume import (
    Taken,
    close_open_ends,
    files_known,
    take_new,
    take_up,
)
from agentcli.app.servers import open_servers
from agentcli.app.session import Session
from agentcli.app.spending import open_budget, open_evaluator, within
from agentcli.app.steering import Steering
from agentcli.app.telemetry import open_telemetry
from agentcli.app.workshop import Workshop
from agentcli.record.log import Log
from agentcli.record.place import SessionPlace
from agentcli.settings import Settings
from agentcli.types.events import (
    SessionResumed,
    SessionStarted,
    Warned,
)
from agentcli.types.verdicts import Asker
from agentcli.types.wire import Request

if TYPE_CHECKING:
    from agentcli.agent.budget import Budget


def open_session(
    settings: Settings,
    *,
    listeners: Sequence[Listener],
    asker: Asker | None = None,
    resume: SessionPlace | None = None,
    errand: Errand | None = None,
) -> Session:
    """Raises AgentError when the session cannot be had. `asker` None: nobody can be asked.

    `resume`: a session to continue, as `record/sessions.py` finds it.
    `errand`: what must be true before a turn is done, in a run without a person."""
    project = open_project(settings.workspace, trust_project=settings.trust_project)
    settings = with_project(settings, project)
    budget = open_budget(settings)
    model = within(budget, open_model(settings), settings)
    taken = take_up(resume) if resume else take_new(settings.sessions)
    try:
        return _assembled(
            settings,
            taken,
            model=model,
            budget=budget,
            listeners=listeners,
            asker=asker,
            project=project,
            errand=errand,
        )
    except BaseException:
        taken.lock.release()
        raise


def _assembled(
    settings: Settings,
    taken: Taken,
    *,
    model: ModelInUse,
    listeners: Sequence[Listener],
    asker: Asker | None,
    project: Project | None,
    budget: "Budget | None",
    errand: Errand | None,
) -> Session:
    place = taken.place
    telemetry = open_telemetry(settings)
    log = Log(place.log, prev=taken.last_hash)
    boundary = Boundary(settings, place, asker=asker, project=project)
    briefing = Briefing(settings)
    journal = Journal(
        taken.session,
        record=log.append,
        listeners=(*listeners, briefing, telemetry),
        before=taken.entries,
        last_seq=taken.last_seq,
        mask=boundary.mask,
    )
    workshop = Workshop(
        settings, place, boundary=boundary, model=model, known=files_known(taken.entries)
    )
    refuse_unconfined(errand, workshop)
    form = answer_form(errand, journal, by_call=not model.answer_schemas)
    checkpoints = Checkpoints(place, workspace=settings.workspace, tell=journal.tell)
    children = ChildAgents(
        settings, place, boundary=boundary, workshop=workshop, checkpoints=checkpoints
    )
    plugins = open_plugins(settings.workspace)
    programs = Programs(settings, place, boundary=boundary, workshop=workshop)
    own = (*workshop.offers(), *programs.offers(), *answer_offers(form))
    toolset = Toolset((*checkpoints.around(own), *children.offers()))
    servers = open_servers(
        settings,
        place,
        project=project,
        boundary=boundary,
        tell=journal.tell,
        takes_images=lambda: workshop.model.images,
        keep_states=checkpoints.around,
    )
    catalogue = Catalogue(
        toolset,
        servers=servers,
        window_tokens=workshop.window(),
        before=journal.facts,
    )
    foreign = checkpoints.around(plugins.offers())
    catalogue.admit((*foreign, *(servers.offers() if servers else ())))
    hooks = open_hooks(
        settings,
        place,
        project=project,
        tell=journal.tell,
        clean=boundary.clean,
        resolve=toolset.resolve,
        mode=lambda: boundary.mode,
        is_resumed=bool(taken.entries),
    )
    boundary.hooks = hooks.engine
    boundary.source = lambda name: toolset.resolve(name).spec.source
    boundary.before = journal.facts
    boundary.opinion = SecondOpinion(
        model=model,
        open_own=partial(open_evaluator, settings, budget) if settings.evaluator else None,
        clean=boundary.clean,
    )
    steering = Steering(lambda: (*hooks.notices(), *workshop.notices(), *briefing.notices()))
    breaker = Breaker()
    limits = Limits(
        steps=settings.max_turns,
        wall_s=settings.timeout,
        calls_per_minute=settings.calls_per_minute,
    )
    dispatcher = Dispatcher(
        toolset=toolset,
        judge=boundary.judge,
        tell=journal.tell,
        workspace=settings.workspace,
        breaker=breaker,
        pace=Pace(limits.calls_per_minute),
        after=hooks.after,
        clean=boundary.clean,
        origin=boundary.origin,
    )
    programs.connect(toolset, dispatcher)
    asking = Asking(
        wire=model.wire,
        template=Request(
            model=model.name,
            system=system_prompt(),
            messages=(),
            tools=toolset.specs,
            answer_schema=form.schema if form and not form.by_call else None,
            effort=settings.effort,
            session=taken.session,
        ),
        journal=journal,
        price=model.price,
        room=Room(journal, window=workshop.window, keep=workshop.keep),
        tools=lambda: toolset.declared,
    )
    loop = Loop(
        asking=asking,
        journal=journal,
        dispatcher=dispatcher,
        breaker=breaker,
        limits=limits,
        parallel=settings.parallel,
        notices=steering.notices,
        unfinished=hooks.unfinished,
        finish=finish_of(errand, journal, form=form, workshop=workshop, settings=settings),
        on_deny=errand.on_deny if errand else "continue",
        wraps_up=errand is not None and errand.wraps_up,
    )
    terms: dict[str, Any] = {
        "session": taken.session,
        "version": __version__,
        "workspace": str(settings.workspace),
        "model": model.name,
        "mode": settings.mode,
        "tools": toolset.names,
        "tools_sha256": toolset.sha256(),
    }
    told_first = (*briefing.at_start(), *children.at_start())
    if taken.entries:
        repaired = (*taken.repaired, *close_open_ends(journal))
        journal.tell(SessionResumed(**terms, repaired=repaired))
    else:
        journal.tell(SessionStarted(**terms))
        for fact in told_first:
            journal.tell(fact)
    for fact in (*plugins.warnings, *(servers.warnings if servers else ())):
        journal.tell(fact)
    if model.warning:
        journal.tell(Warned(code="model.unknown", message=model.warning))
    if settings.sandbox == "off":
        journal.tell(Warned(code="sandbox.off", message=SANDBOX_OFF))
    if project and (ignored := project.warning):
        journal.tell(Warned(code="project.untrusted", message=ignored))
    return Session(
        settings=settings,
        taken=taken,
        journal=journal,
        loop=loop,
        asking=asking,
        log=log,
        model=model,
        steering=steering,
        workshop=workshop,
        checkpoints=checkpoints,
        telemetry=telemetry,
        boundary=boundary,
        catalogue=catalogue,
        hooks=hooks,
        budget=budget,
    )
