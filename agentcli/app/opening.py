"""Settings to a running session: here every island is put in its place."""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from agentcli import __version__
from agentcli.agent.answer import AnswerForm
from agentcli.agent.asking import Asking
from agentcli.agent.journal import Journal, Listener
from agentcli.agent.limits import Breaker, Limits
from agentcli.agent.loop import Loop, Notices
from agentcli.app.boundary import SANDBOX_OFF, Boundary
from agentcli.app.engine import open_asking, open_dispatcher
from agentcli.app.errand import (
    Errand,
    answer_form,
    answer_offers,
    finish_of,
    refuse_unconfined,
)
from agentcli.app.hooks import SessionHooks, open_hooks
from agentcli.app.knowledge import Knowledge, open_knowledge
from agentcli.app.model import ModelInUse
from agentcli.app.opinion import SecondOpinion
from agentcli.app.project import Project, open_project, with_project
from agentcli.app.resume import (
    Taken,
    close_open_ends,
    take_new,
    take_up,
)
from agentcli.app.session import Session
from agentcli.app.spending import open_budget, open_evaluator, open_priced_model, within
from agentcli.app.steering import Steering
from agentcli.app.telemetry import Telemetry, open_telemetry
from agentcli.app.tooling import Tooling, open_tooling
from agentcli.app.workshop import Workshop
from agentcli.machine import garbage
from agentcli.record.log import Log
from agentcli.record.place import SessionPlace
from agentcli.record.turns import is_in_turn
from agentcli.settings import Settings
from agentcli.types.events import SessionResumed, SessionStarted, Warned
from agentcli.types.record import dataclass
from agentcli.types.verdicts import Asker

if TYPE_CHECKING:
    from agentcli.agent.budget import Budget


@dataclass(frozen=True, slots=True, kw_only=True)
class _Parts:
    """What a session stands on, before there is anybody to talk to."""

    settings: Settings
    taken: Taken
    project: Project | None
    model: ModelInUse
    errand: Errand | None
    boundary: Boundary
    knowledge: Knowledge
    telemetry: Telemetry
    log: Log
    journal: Journal
    workshop: Workshop
    form: AnswerForm | None
    tooling: Tooling


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
    model = open_priced_model(settings)
    taken = take_up(resume) if resume else take_new(settings.sessions)
    try:
        budget = open_budget(settings, spent=taken.spent)
        parts = _parts(
            settings,
            taken,
            project=project,
            model=within(budget, model),
            errand=errand,
            listeners=listeners,
            asker=asker,
        )
        session = _assembled(parts, budget)
    except BaseException:
        taken.lock.release()
        raise
    garbage.end_start()
    return session


def _parts(
    settings: Settings,
    taken: Taken,
    *,
    project: Project | None,
    model: ModelInUse,
    errand: Errand | None,
    listeners: Sequence[Listener],
    asker: Asker | None,
) -> _Parts:
    place, past = taken.place, tuple(entry.fact for entry in taken.entries)
    boundary = Boundary(settings, place, asker=asker, project=project)
    knowledge = open_knowledge(settings, past, clean=boundary.secrecy.clean)
    telemetry = open_telemetry(settings)
    log = Log(place.log, prev=taken.last_hash)
    journal = Journal(
        taken.session,
        record=log.append,
        listeners=(*listeners, *knowledge.listeners, telemetry),
        before=taken.entries,
        last_seq=taken.last_seq,
        mask=boundary.secrecy.new_mask(),
    )
    workshop = Workshop(settings, place, boundary=boundary, model=model, tell=journal.tell)
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
    return _Parts(
        settings=settings,
        taken=taken,
        project=project,
        model=model,
        errand=errand,
        boundary=boundary,
        knowledge=knowledge,
        telemetry=telemetry,
        log=log,
        journal=journal,
        workshop=workshop,
        form=form,
        tooling=tooling,
    )


def _assembled(parts: _Parts, budget: "Budget | None") -> Session:
    hooks = _guarded(parts, budget)
    others = (hooks, parts.workshop, parts.knowledge)
    steering = Steering(lambda: [notice for one in others for notice in one.notices()])
    form = parts.form
    asking = open_asking(
        parts.tooling.toolset,
        settings=parts.settings,
        workshop=parts.workshop,
        journal=parts.journal,
        answer_schema=form.schema if form and not form.by_call else None,
    )
    loop = _loop(parts, asking, hooks=hooks, notices=steering.notices)
    _announce(parts, hooks)
    return Session(
        settings=parts.settings,
        taken=parts.taken,
        journal=parts.journal,
        loop=loop,
        asking=asking,
        log=parts.log,
        model=parts.model,
        steering=steering,
        workshop=parts.workshop,
        tooling=parts.tooling,
        telemetry=parts.telemetry,
        boundary=parts.boundary,
        hooks=hooks,
        knowledge=parts.knowledge,
        budget=budget,
    )


def _guarded(parts: _Parts, budget: "Budget | None") -> SessionHooks:
    """The boundary learns what is known only once there are tools and a journal."""
    settings, boundary, toolset = parts.settings, parts.boundary, parts.tooling.toolset
    hooks = open_hooks(
        settings,
        parts.taken.place,
        project=parts.project,
        tell=parts.journal.tell,
        clean=boundary.secrecy.clean,
        toolset=toolset,
        mode=lambda: boundary.mode,
        is_resumed=bool(parts.taken.entries),
    )
    boundary.tell = parts.journal.tell
    boundary.hooks = hooks.engine
    boundary.source = lambda name: toolset.resolve(name).spec.source
    boundary.before = parts.journal.facts
    boundary.opinion = SecondOpinion(
        model=parts.model,
        open_own=partial(open_evaluator, settings, budget) if settings.evaluator else None,
        clean=boundary.secrecy.clean,
        tell=parts.journal.tell,
    )
    return hooks


def _loop(parts: _Parts, asking: Asking, *, hooks: SessionHooks, notices: Notices) -> Loop:
    settings, tooling, errand = parts.settings, parts.tooling, parts.errand
    breaker = Breaker()
    dispatcher = open_dispatcher(
        tooling.toolset,
        settings=settings,
        boundary=parts.boundary,
        journal=parts.journal,
        breaker=breaker,
        after=hooks.after(),
    )
    tooling.programs.connect(tooling.toolset, dispatcher)
    tooling.children.after = hooks.after
    finish = finish_of(
        errand, parts.journal, form=parts.form, workshop=parts.workshop, settings=settings
    )
    loop = Loop(
        asking=asking,
        journal=parts.journal,
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
    tooling.children.steps_left = lambda: loop.steps_left
    return loop


def _announce(parts: _Parts, hooks: SessionHooks) -> None:
    """The first facts: under which terms the session begins or goes on, and what to know of it."""
    settings, taken, journal, tooling = parts.settings, parts.taken, parts.journal, parts.tooling
    terms: dict[str, Any] = {
        "session": taken.session,
        "version": __version__,
        "workspace": str(settings.workspace),
        "model": parts.model.name,
        "mode": settings.mode,
        "tools": tooling.toolset.names,
        "tools_sha256": tooling.toolset.sha256(),
    }
    if taken.entries:
        repaired = (*taken.repaired, *close_open_ends(journal, taken.lost))
        journal.tell(SessionResumed(**terms, repaired=repaired))
    else:
        journal.tell(SessionStarted(**terms))
    if not is_in_turn(journal.facts):  # a fork that was cut in a turn goes on as it is
        briefing = parts.knowledge.briefing
        for fact in briefing.news((*briefing.at_start(), *tooling.children.at_start())):
            journal.tell(fact)
    for warning in (*tooling.warnings, *hooks.warnings):
        journal.tell(warning)
    for code, message in (
        ("model.unknown", parts.model.warning),
        ("sandbox.off", SANDBOX_OFF if settings.sandbox == "off" else ""),
        ("project.untrusted", parts.project.warning if parts.project else ""),
    ):
        if message:
            journal.tell(Warned(code=code, message=message))
