"""Build a running session from settings: all packages are connected here."""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from agentcli import __version__
from agentcli.agent.completion import AnswerForm
from agentcli.agent.journal import Journal, Listener
from agentcli.agent.limits import Breaker, TurnLimits
from agentcli.agent.loop import CollectNotes, Loop
from agentcli.agent.model_client import ModelClient
from agentcli.log.paths import SessionPaths
from agentcli.log.turns import is_in_turn
from agentcli.log.writer import LogWriter
from agentcli.session.agent_parts import build_dispatcher, build_model_client
from agentcli.session.builtin_tools import BuiltinTools
from agentcli.session.context_sources import ContextSources, build_context_sources
from agentcli.session.hooks import SessionHooks, build_hooks
from agentcli.session.model import (
    ModelInUse,
    apply_budget,
    build_budget,
    open_evaluator_model,
    open_priced_model,
)
from agentcli.session.permission_gate import SANDBOX_OFF, CallEvaluator, PermissionGate
from agentcli.session.project import Project, apply_project, load_project
from agentcli.session.requirements import (
    RunRequirements,
    build_answer_form,
    build_answer_offers,
    build_completion_checks,
    refuse_unconfined,
)
from agentcli.session.session import Session, Steering
from agentcli.session.start import SessionStart, close_unfinished, open_existing, open_new
from agentcli.session.telemetry import Telemetry, build_telemetry
from agentcli.session.tools import SessionTools, build_session_tools
from agentcli.settings import Settings
from agentcli.system import garbage
from agentcli.types.events import SessionResumed, SessionStarted, Warned
from agentcli.types.fast_dataclass import dataclass
from agentcli.types.verdicts import AskUser

if TYPE_CHECKING:
    from agentcli.agent.budget import Budget


@dataclass(frozen=True, slots=True, kw_only=True)
class _SessionParts:
    """The parts of a session that exist before its loop and model client."""

    settings: Settings
    start: SessionStart
    project: Project | None
    model: ModelInUse
    requirements: RunRequirements | None
    gate: PermissionGate
    context_sources: ContextSources
    telemetry: Telemetry
    log: LogWriter
    journal: Journal
    builtin_tools: BuiltinTools
    form: AnswerForm | None
    session_tools: SessionTools


def open_session(
    settings: Settings,
    *,
    listeners: Sequence[Listener],
    ask_user: AskUser | None = None,
    resume: SessionPaths | None = None,
    requirements: RunRequirements | None = None,
) -> Session:
    """Open a new or resumed session. Raise AgentError if that is not possible.

    `ask_user` is None if nobody can be asked.
    `resume` is a session to continue, as `log/sessions.py` finds it.
    `requirements` must be met before a turn is done, in a run without a user."""
    project = load_project(settings.workspace, trust_project=settings.trust_project)
    settings = apply_project(settings, project)
    model = open_priced_model(settings)
    start = open_existing(resume) if resume else open_new(settings.sessions)
    try:
        budget = build_budget(settings, spent=start.spent)
        parts = _build_parts(
            settings,
            start,
            project=project,
            model=apply_budget(budget, model),
            requirements=requirements,
            listeners=listeners,
            ask_user=ask_user,
        )
        session = _assemble(parts, budget)
    except BaseException:
        start.lock.release()
        raise
    garbage.resume_collection()
    return session


def _build_parts(
    settings: Settings,
    start: SessionStart,
    *,
    project: Project | None,
    model: ModelInUse,
    requirements: RunRequirements | None,
    listeners: Sequence[Listener],
    ask_user: AskUser | None,
) -> _SessionParts:
    paths, past = start.paths, tuple(entry.fact for entry in start.entries)
    gate = PermissionGate(settings, paths, ask_user=ask_user, project=project)
    context_sources = build_context_sources(settings, past, clean=gate.secret_masking.clean)
    telemetry = build_telemetry(settings)
    log = LogWriter(paths.log, prev=start.last_hash)
    journal = Journal(
        start.session,
        record=log.append,
        listeners=(*listeners, *context_sources.listeners, telemetry),
        past_entries=start.entries,
        last_seq=start.last_seq,
        mask=gate.secret_masking.build_event_mask(),
    )
    builtin_tools = BuiltinTools(settings, paths, gate=gate, model=model, emit=journal.append)
    refuse_unconfined(requirements, builtin_tools)
    form = build_answer_form(requirements, journal, by_call=not model.answer_schemas)
    session_tools = build_session_tools(
        settings,
        paths,
        project=project,
        gate=gate,
        builtin_tools=builtin_tools,
        journal=journal,
        extra_offers=build_answer_offers(form),
    )
    return _SessionParts(
        settings=settings,
        start=start,
        project=project,
        model=model,
        requirements=requirements,
        gate=gate,
        context_sources=context_sources,
        telemetry=telemetry,
        log=log,
        journal=journal,
        builtin_tools=builtin_tools,
        form=form,
        session_tools=session_tools,
    )


def _assemble(parts: _SessionParts, budget: "Budget | None") -> Session:
    hooks = _connect_gate(parts, budget)
    others = (hooks, parts.builtin_tools, parts.context_sources)
    steering = Steering(lambda: [notice for one in others for notice in one.collect_notes()])
    form = parts.form
    model_client = build_model_client(
        parts.session_tools.toolset,
        settings=parts.settings,
        builtin_tools=parts.builtin_tools,
        journal=parts.journal,
        answer_schema=form.schema if form and not form.by_call else None,
    )
    loop = _build_loop(parts, model_client, hooks=hooks, collect_notes=steering.collect_notes)
    _announce(parts, hooks)
    return Session(
        settings=parts.settings,
        start=parts.start,
        journal=parts.journal,
        loop=loop,
        asking=model_client,
        log=parts.log,
        model=parts.model,
        steering=steering,
        builtin_tools=parts.builtin_tools,
        tooling=parts.session_tools,
        telemetry=parts.telemetry,
        gate=parts.gate,
        hooks=hooks,
        context_sources=parts.context_sources,
        budget=budget,
    )


def _connect_gate(parts: _SessionParts, budget: "Budget | None") -> SessionHooks:
    """Give the permission gate the parts that need tools and a journal, and return the hooks."""
    settings, boundary, toolset = parts.settings, parts.gate, parts.session_tools.toolset
    hooks = build_hooks(
        settings,
        parts.start.paths,
        project=parts.project,
        emit=parts.journal.append,
        clean=boundary.secret_masking.clean,
        toolset=toolset,
        mode=lambda: boundary.mode,
        is_resumed=bool(parts.start.entries),
    )
    boundary.emit = parts.journal.append
    boundary.hooks = hooks.engine
    boundary.past = parts.journal.facts
    boundary.evaluator = CallEvaluator(
        model=parts.model,
        open_own_model=partial(open_evaluator_model, settings, budget)
        if settings.evaluator
        else None,
        clean=boundary.secret_masking.clean,
        emit=parts.journal.append,
    )
    return hooks


def _build_loop(
    parts: _SessionParts,
    model_client: ModelClient,
    *,
    hooks: SessionHooks,
    collect_notes: CollectNotes,
) -> Loop:
    settings, session_tools, requirements = parts.settings, parts.session_tools, parts.requirements
    breaker = Breaker()
    dispatcher = build_dispatcher(
        session_tools.toolset,
        settings=settings,
        gate=parts.gate,
        journal=parts.journal,
        breaker=breaker,
        result_hooks=hooks.build_result_hooks(),
    )
    session_tools.programs.connect(session_tools.toolset)
    session_tools.children.build_result_hooks = hooks.build_result_hooks
    finish = build_completion_checks(
        requirements,
        parts.journal,
        form=parts.form,
        builtin_tools=parts.builtin_tools,
        settings=settings,
    )
    return Loop(
        model_client=model_client,
        journal=parts.journal,
        dispatcher=dispatcher,
        breaker=breaker,
        limits=TurnLimits(steps=settings.max_turns, wall_s=settings.timeout),
        parallel=settings.parallel,
        collect_notes=collect_notes,
        find_unfinished=hooks.find_unfinished,
        completion_checks=finish,
        on_deny=requirements.on_deny if requirements else "continue",
        wraps_up=requirements is not None and requirements.wraps_up,
    )


def _announce(parts: _SessionParts, hooks: SessionHooks) -> None:
    """Append the first facts: the terms of the session, context notes and warnings."""
    settings, start, journal, session_tools = (
        parts.settings,
        parts.start,
        parts.journal,
        parts.session_tools,
    )
    terms: dict[str, Any] = {
        "session": start.session,
        "version": __version__,
        "workspace": str(settings.workspace),
        "model": parts.model.name,
        "mode": settings.mode,
        "tools": session_tools.toolset.names,
        "tools_sha256": session_tools.toolset.hash_specs(),
    }
    if start.entries:
        repaired = (*start.repaired, *close_unfinished(journal, start.lost))
        journal.append(SessionResumed(**terms, repaired=repaired))
    else:
        journal.append(SessionStarted(**terms))
    if not is_in_turn(journal.facts):  # a fork that was cut in a turn continues unchanged
        instructions = parts.context_sources.instructions
        for fact in instructions.filter_new(
            (*instructions.build_start_notes(), *session_tools.children.build_start_notes())
        ):
            journal.append(fact)
    for warning in (*session_tools.warnings, *hooks.warnings):
        journal.append(warning)
    for code, message in (
        ("model.unknown", parts.model.warning),
        ("sandbox.off", SANDBOX_OFF if settings.sandbox == "off" else ""),
        ("project.untrusted", parts.project.warning if parts.project else ""),
    ):
        if message:
            journal.append(Warned(code=code, message=message))
