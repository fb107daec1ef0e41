"""Settings to a running session: here every island is put in its place."""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from agentcli import __version__
from agentcli.agent.asking import Asking
from agentcli.agent.finish import Finish
from agentcli.agent.journal import Journal, Listener
from agentcli.agent.limits import Breaker, Limits
from agentcli.agent.loop import Loop, Notices
from agentcli.agent.planning import Planning
from agentcli.agent.surroundings import Surroundings
from agentcli.app.boundary import SANDBOX_OFF, Boundary
from agentcli.app.briefing import Briefing
from agentcli.app.engine import open_asking, open_dispatcher
from agentcli.app.errand import (
    Errand,
    answer_form,
    answer_offers,
    finish_of,
    refuse_unconfined,
)
from agentcli.app.hooks import SessionHooks, open_hooks
from agentcli.app.model import ModelInUse, open_model
from agentcli.app.opinion import SecondOpinion
from agentcli.app.project import Project, open_project, with_project
from agentcli.app.resume import (
    Taken,
    close_open_ends,
    files_known,
    is_in_turn,
    take_new,
    take_up,
)
from agentcli.app.session import Session
from agentcli.app.spending import open_budget, open_evaluator, within
from agentcli.app.steering import Steering
from agentcli.app.telemetry import open_telemetry
from agentcli.app.tooling import Tooling, open_tooling
from agentcli.app.workshop import Workshop
from agentcli.record.log import Log
from agentcli.record.place import SessionPlace
from agentcli.settings import Settings
from agentcli.types.events import SessionResumed, SessionStarted, Told, Warned
from agentcli.types.verdicts import Asker

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
    briefing = Briefing(
        settings, past=(entry.fact for entry in taken.entries), clean=boundary.clean
    )
    surroundings = Surroundings(settings.workspace, (entry.fact for entry in taken.entries))
    planning = Planning(entry.fact for entry in taken.entries)
    journal = Journal(
        taken.session,
        record=log.append,
        listeners=(*listeners, briefing, surroundings, planning, telemetry),
        before=taken.entries,
        last_seq=taken.last_seq,
        mask=boundary.mask,
    )
    workshop = Workshop(
        settings,
        place,
        boundary=boundary,
        model=model,
        known=files_known(taken.entries),
        tell=journal.tell,
    )
    refuse_unconfined(errand, workshop)
    form = answer_form(errand, journal, by_call=not model.answer_schemas)
    tooling = open_tooling(
        settings,
        place,
        project=project,
        boundary=boundary,
        workshop=workshop,
        journal=journal,
        besides=answer_offers(form),
    )
    hooks = _guarded(boundary, settings, taken, tooling, journal, project=project)
    boundary.opinion = SecondOpinion(
        model=model,
        open_own=partial(open_evaluator, settings, budget) if settings.evaluator else None,
        clean=boundary.clean,
    )
    steering = Steering(
        lambda: (
            *hooks.notices(),
            *workshop.notices(),
            *briefing.notices(),
            *planning.notices(),
            *surroundings.notices(),
        )
    )
    asking = open_asking(
        tooling.toolset,
        settings=settings,
        workshop=workshop,
        journal=journal,
        answer_schema=form.schema if form and not form.by_call else None,
    )
    loop = _loop(
        settings,
        asking,
        journal=journal,
        boundary=boundary,
        tooling=tooling,
        hooks=hooks,
        notices=steering.notices,
        finish=finish_of(errand, journal, form=form, workshop=workshop, settings=settings),
        errand=errand,
    )
    _announce(
        settings,
        taken,
        journal,
        tooling=tooling,
        model=model,
        told_first=briefing.news((*briefing.at_start(), *tooling.children.at_start())),
        ignored=project.warning if project else "",
    )
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
        checkpoints=tooling.checkpoints,
        telemetry=telemetry,
        boundary=boundary,
        catalogue=tooling.catalogue,
        hooks=hooks,
        children=tooling.children,
        planning=planning,
        surroundings=surroundings,
        budget=budget,
    )


def _guarded(
    boundary: Boundary,
    settings: Settings,
    taken: Taken,
    tooling: Tooling,
    journal: Journal,
    *,
    project: Project | None,
) -> SessionHooks:
    """The boundary learns what is known only once there are tools and a journal."""
    hooks = open_hooks(
        settings,
        taken.place,
        project=project,
        tell=journal.tell,
        clean=boundary.clean,
        resolve=tooling.toolset.resolve,
        mode=lambda: boundary.mode,
        is_resumed=bool(taken.entries),
    )
    boundary.tell = journal.tell
    boundary.hooks = hooks.engine
    boundary.source = lambda name: tooling.toolset.resolve(name).spec.source
    boundary.before = journal.facts
    return hooks


def _loop(
    settings: Settings,
    asking: Asking,
    *,
    journal: Journal,
    boundary: Boundary,
    tooling: Tooling,
    hooks: SessionHooks,
    notices: Notices,
    finish: Finish | None,
    errand: Errand | None,
) -> Loop:
    breaker = Breaker()
    dispatcher = open_dispatcher(
        tooling.toolset,
        settings=settings,
        boundary=boundary,
        journal=journal,
        breaker=breaker,
        after=hooks.after,
    )
    tooling.programs.connect(tooling.toolset, dispatcher)
    tooling.children.after = hooks.after
    return Loop(
        asking=asking,
        journal=journal,
        dispatcher=dispatcher,
        breaker=breaker,
        limits=Limits(steps=settings.max_turns, wall_s=settings.timeout),
        parallel=settings.parallel,
        notices=notices,
        unfinished=hooks.unfinished,
        finish=finish,
        on_deny=errand.on_deny if errand else "continue",
        wraps_up=errand is not None and errand.wraps_up,
    )


def _announce(
    settings: Settings,
    taken: Taken,
    journal: Journal,
    *,
    tooling: Tooling,
    model: ModelInUse,
    told_first: Sequence[Told | Warned],
    ignored: str,
) -> None:
    """The first facts: under which terms the session begins or goes on, and what to know of it."""
    terms: dict[str, Any] = {
        "session": taken.session,
        "version": __version__,
        "workspace": str(settings.workspace),
        "model": model.name,
        "mode": settings.mode,
        "tools": tooling.toolset.names,
        "tools_sha256": tooling.toolset.sha256(),
    }
    if taken.entries:
        repaired = (*taken.repaired, *close_open_ends(journal))
        journal.tell(SessionResumed(**terms, repaired=repaired))
    else:
        journal.tell(SessionStarted(**terms))
    if not is_in_turn(journal.facts):  # a fork that was cut in a turn goes on as it is
        for fact in told_first:
            journal.tell(fact)
    for warning in tooling.warnings:
        journal.tell(warning)
    is_off = settings.sandbox == "off"
    for code, message in (
        ("model.unknown", model.warning),
        ("sandbox.off", SANDBOX_OFF if is_off else ""),
        ("project.untrusted", ignored),
    ):
        if message:
            journal.tell(Warned(code=code, message=message))
