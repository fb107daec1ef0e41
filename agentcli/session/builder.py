"""Build a running session from settings: all packages are connected here."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from agentcli import __version__
from agentcli.agent.completion import Goal
from agentcli.agent.journal import Journal, Listener
from agentcli.agent.limits import Breaker, TurnLimits
from agentcli.agent.loop import Loop
from agentcli.agent.toolset import Toolset
from agentcli.log.paths import SessionPaths
from agentcli.log.turns import is_in_turn
from agentcli.log.writer import LogWriter
from agentcli.session.builtin_tools import BuiltinTools
from agentcli.session.checkpoints import Checkpoints
from agentcli.session.context_sources import ContextSources, build_context_sources
from agentcli.session.directories import Directories
from agentcli.session.edit_checks import CHECK_TIMEOUT_S, EditChecks
from agentcli.session.features import SessionFeature, build_session_features
from agentcli.session.hooks import build_hooks
from agentcli.session.managed import apply_managed
from agentcli.session.model import (
    SessionModel,
    apply_budget,
    build_budget,
    open_evaluator_model,
    open_priced_model,
    restore_effort,
    warn_about_hosted,
)
from agentcli.session.parts import SessionParts, build_dispatcher
from agentcli.session.permission_gate import (
    CallEvaluator,
    PermissionGate,
    build_rule_finder,
    find_granted_hosts,
    load_rules,
)
from agentcli.session.preparation import build_preparation
from agentcli.session.project import Project, apply_project, load_project
from agentcli.session.requirements import (
    RunRequirements,
    build_answer_form,
    build_answer_offers,
    build_completion_checks,
    declare_chosen_tool,
    refuse_unconfined,
    run_command_check,
    warn_about_choice,
)
from agentcli.session.sandbox_host import SANDBOX_OFF, SandboxHost, find_own_paths
from agentcli.session.secret_masking import SecretMasking
from agentcli.session.session import Session, Steering
from agentcli.session.start import SessionStart, close_unfinished, open_existing, open_new
from agentcli.session.tool_catalog import ToolCatalog
from agentcli.system import garbage
from agentcli.types.errors import UsageError
from agentcli.types.events import SessionResumed, SessionStarted, Warned
from agentcli.types.rewinds import list_effective_facts
from agentcli.types.settings import Settings
from agentcli.types.tools import Tool
from agentcli.types.user_facts import EffortChanged
from agentcli.types.verdicts import AskUser, CurrentMode

if TYPE_CHECKING:
    from agentcli.agent.budget import Budget
    from agentcli.agent.completion import AnswerForm
    from agentcli.permissions.rules import PermissionRule


def open_session(
    settings: Settings,
    *,
    listeners: Sequence[Listener],
    ask_user: AskUser | None = None,
    resume: SessionPaths | None = None,
    requirements: RunRequirements | None = None,
    tools: Sequence[Tool] = (),
) -> Session:
    """Open a new or resumed session. Raise AgentError if that is not possible.

    `ask_user` is None if nobody can be asked.
    `resume` is a session to continue, as `log/sessions.py` finds it.
    `requirements` must be met before a turn is done, in a run without a user.
    `tools` are those of the program that opens the session."""
    project = load_project(settings.workspace, trust_project=settings.trust_project)
    settings = apply_managed(apply_project(settings, project))
    settings = _choose_cache(settings, is_run=requirements is not None)
    opened = open_priced_model(settings)
    start = open_existing(resume) if resume else open_new(settings.sessions)
    try:
        secret_masking = SecretMasking(settings)
        past = tuple(entry.fact for entry in start.entries)
        rules = load_rules(settings, project)
        context_sources = build_context_sources(
            settings,
            list_effective_facts(past),
            find_rule=build_rule_finder(rules, settings.workspace),
            hosts=find_granted_hosts(rules),
            clean=secret_masking.clean,
            wants_plan=requirements is None or requirements.answer_schema is None,
        )
        log = LogWriter(start.paths.log, prev=start.last_hash)
        journal = Journal(
            start.session,
            record=log.append,
            listeners=(*listeners, *context_sources.listeners),
            past_entries=start.entries,
            last_seq=start.last_seq,
            mask=secret_masking.build_event_mask(),
        )
        budget = build_budget(settings, spent=start.spent)
        opened = restore_effort(opened, settings, past)
        model = SessionModel(
            apply_budget(budget, opened), settings=settings, budget=budget, emit=journal.append
        )
        parts = _build_parts(
            settings,
            start,
            project=project,
            rules=rules,
            journal=journal,
            model=model,
            budget=budget,
            secret_masking=secret_masking,
            ask_user=ask_user,
        )
        session = _assemble(
            parts,
            start,
            log=log,
            context_sources=context_sources,
            requirements=requirements,
            tools=tools,
        )
    except BaseException:
        start.lock.release()
        raise
    garbage.resume_collection()
    return session


def _choose_cache(settings: Settings, *, is_run: bool) -> Settings:
    """Return the settings with the lifetime of cached prompts: a user pauses, a run does not."""
    if settings.cache != "auto":
        return settings
    return replace(settings, cache="5m" if is_run else "1h")


def _build_parts(
    settings: Settings,
    start: SessionStart,
    *,
    project: Project | None,
    rules: "Sequence[PermissionRule]",
    journal: Journal,
    model: SessionModel,
    budget: "Budget | None",
    secret_masking: SecretMasking,
    ask_user: AskUser | None,
) -> SessionParts:
    """Build the parts: the permission gate with all it needs, then the tools, which need it."""
    paths, emit, mode = start.paths, journal.append, CurrentMode(value=settings.mode)
    hooks = build_hooks(
        settings,
        paths,
        project=project,
        emit=emit,
        clean=secret_masking.clean,
        mode=mode,
        is_resumed=bool(start.entries),
    )
    evaluator = CallEvaluator(
        model=model,
        open_own_model=partial(open_evaluator_model, settings, budget)
        if settings.evaluator
        else None,
        clean=secret_masking.clean,
        emit=emit,
    )
    scripts = project.scripts if project else ()
    directories = Directories(settings, own=find_own_paths(paths), emit=emit)
    gate = PermissionGate(
        settings,
        SandboxHost(settings, paths, emit=emit, scripts=scripts, rules=rules),
        secret_masking=secret_masking,
        rules=rules,
        mode=mode,
        ask_user=ask_user,
        hooks=hooks.engine,
        notify=hooks.notify if hooks.engine else None,
        evaluator=evaluator,
        facts=journal.facts,
        directories=directories,
    )
    toolset = Toolset(())
    builtin_tools = BuiltinTools(settings, gate=gate, model=lambda: model.current, emit=emit)
    return SessionParts(
        settings=settings,
        paths=paths,
        project=project,
        journal=journal,
        toolset=toolset,
        catalogue=ToolCatalog(toolset, window_tokens=model.get_window(), past=journal.facts),
        model=model,
        hooks=hooks,
        gate=gate,
        builtin_tools=builtin_tools,
        checkpoints=Checkpoints(
            paths, workspace=settings.workspace, emit=emit, added=gate.get_added
        ),
        edit_checks=EditChecks(
            settings.workspace,
            settings.checks,
            run_check=partial(
                run_command_check, builtin_tools, settings.workspace, CHECK_TIMEOUT_S
            ),
            is_confined=lambda: not builtin_tools.lacks_sandbox,
            emit=emit,
        ),
        directories=directories,
        child_listeners=[],
    )


def _assemble(
    parts: SessionParts,
    start: SessionStart,
    *,
    log: LogWriter,
    context_sources: ContextSources,
    requirements: RunRequirements | None,
    tools: Sequence[Tool],
) -> Session:
    journal, builtin_tools = parts.journal, parts.builtin_tools
    goal = Goal(
        journal, parts.settings.verify, hint="" if requirements else "to drop the goal: /goal off"
    )
    refuse_unconfined(
        (*(requirements.checks if requirements else ()), *goal.commands), builtin_tools
    )
    is_enforced = parts.model.current.answer_schemas
    form = build_answer_form(requirements, journal, is_enforced=is_enforced)
    features = build_session_features(parts)
    _add_tools(parts, features, form=form, tools=tools)
    declare_chosen_tool(requirements, parts.toolset)
    if parts.hooks.engine is not None:
        journal.subscribe(parts.hooks)
    for feature in features.values():
        for listener in feature.listeners:
            journal.subscribe(listener)
    sources = (
        parts.hooks.collect_notes,
        builtin_tools.collect_notes,
        *(feature.collect_notes for feature in features.values()),
        context_sources.collect_notes,
    )
    steering = Steering(lambda: [note for collect in sources for note in collect()])
    model_client = parts.build_model_client(
        parts.toolset,
        journal=journal,
        answer_schema=form.schema if form and not form.by_call else None,
    )
    breaker = Breaker()
    loop = Loop(
        model_client=model_client,
        journal=journal,
        dispatcher=build_dispatcher(
            parts.toolset,
            settings=parts.settings,
            gate=parts.gate,
            journal=journal,
            breaker=breaker,
            hooks=parts.hooks,
        ),
        breaker=breaker,
        limits=TurnLimits(steps=parts.settings.max_turns, wall_s=parts.settings.timeout),
        parallel=parts.settings.parallel,
        collect_notes=steering.collect_notes,
        find_unfinished=parts.hooks.find_unfinished,
        completion_checks=build_completion_checks(
            requirements,
            journal,
            goal=goal,
            form=form,
            builtin_tools=builtin_tools,
            checkpoints=parts.checkpoints,
            settings=parts.settings,
        ),
        on_deny=requirements.on_deny if requirements else "continue",
        wraps_up=requirements is not None and requirements.wraps_up,
    )
    preparation = build_preparation(parts.gate.host)
    journal.subscribe(preparation)
    _announce(
        parts,
        start,
        context_sources,
        features,
        warnings={
            "model.tool_choice": warn_about_choice(requirements, parts.model.current),
            "model.hosted": warn_about_hosted(parts.settings, parts.model.current),
        },
    )
    return Session(
        parts,
        start=start,
        log=log,
        loop=loop,
        model_client=model_client,
        steering=steering,
        goal=goal,
        context_sources=context_sources,
        features=features,
        preparation=preparation,
    )


def _add_tools(
    parts: SessionParts,
    features: Mapping[str, SessionFeature],
    *,
    form: "AnswerForm | None",
    tools: Sequence[Tool],
) -> None:
    """Add all tools: the built-in ones, those of the program that opens it, and of features."""
    own = (
        *parts.builtin_tools.iter_offers(lambda: parts.journal.facts),
        *build_answer_offers(form),
    )
    parts.toolset.add(parts.edit_checks.wrap_offers(parts.checkpoints.wrap_offers(own)))
    for tool in tools:
        if tool.spec.name in parts.toolset.names:
            raise UsageError(
                f"there is a tool {tool.spec.name} already", hint="give it another name"
            )
        parts.toolset.add(parts.checkpoints.wrap_offers([(tool.spec, partial(_get_tool, tool))]))
    for feature in features.values():
        parts.toolset.add(feature.iter_offers())
    parts.catalogue.admit(
        [offer for feature in features.values() for offer in feature.iter_foreign_offers()]
    )


def _get_tool(tool: Tool) -> Tool:
    return tool


def _announce(
    parts: SessionParts,
    start: SessionStart,
    context_sources: ContextSources,
    features: Mapping[str, SessionFeature],
    *,
    warnings: Mapping[str, str],
) -> None:
    """Append the first facts: the terms of the session, context notes and warnings."""
    settings, journal, toolset = parts.settings, parts.journal, parts.toolset
    model = parts.model.current
    terms: dict[str, Any] = {
        "session": start.session,
        "version": __version__,
        "workspace": str(settings.workspace),
        "model": model.name,
        "mode": settings.mode,
        "tools": toolset.names,
        "tools_sha256": toolset.hash_specs(),
    }
    if start.entries:
        repaired = (*start.repaired, *close_unfinished(journal, start.lost))
        journal.append(SessionResumed(**terms, repaired=repaired))
    else:
        journal.append(SessionStarted(**terms))
    if model.effort is not None:
        journal.append(EffortChanged(effort=model.effort))
    parts.directories.start(tuple(journal.facts))
    if not is_in_turn(journal.facts):  # a fork that was cut in a turn continues unchanged
        instructions = context_sources.instructions
        notes = [note for one in features.values() for note in one.build_start_notes()]
        for fact in instructions.filter_new((*instructions.build_start_notes(), *notes)):
            journal.append(fact)
    own = (warning for feature in features.values() for warning in feature.warnings)
    for warning in (*own, *parts.hooks.build_warnings(toolset.names)):
        journal.append(warning)
    for code, message in (
        ("model.unknown", model.warning),
        ("sandbox.off", SANDBOX_OFF if settings.sandbox == "off" else ""),
        ("project.untrusted", parts.project.warning if parts.project else ""),
        *warnings.items(),
    ):
        if message:
            journal.append(Warned(code=code, message=message))
