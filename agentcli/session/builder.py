"""Build a running session from settings: all packages are connected here."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentcli import __version__
from agentcli.agent.compaction import Compactor
from agentcli.agent.dispatch import Dispatcher
from agentcli.agent.journal import Journal, Listener
from agentcli.agent.limits import Breaker, Pace, TurnLimits
from agentcli.agent.loop import Loop
from agentcli.agent.model_client import ModelClient, load_system_prompt
from agentcli.agent.toolset import Load, Offer, Toolset
from agentcli.log.paths import SessionPaths
from agentcli.log.writer import LogWriter
from agentcli.permissions.masking import EventMasking
from agentcli.permissions.secrets import Redactor
from agentcli.session.builtin_tools import BuiltinTools
from agentcli.session.checkpoints import Checkpoints
from agentcli.session.configuration import Configuration, load_configuration
from agentcli.session.context_sources import ContextSources, build_context_sources
from agentcli.session.directories import Directories
from agentcli.session.features import SessionFeature, build_session_features
from agentcli.session.hooks import SessionHooks, build_hooks, warn_of_hooks
from agentcli.session.model import (
    ModelInUse,
    SessionModel,
    list_hosted,
    open_priced_model,
    warn_about_computer,
    warn_about_hosted,
)
from agentcli.session.permission_gate import CallEvaluator, PermissionGate
from agentcli.session.preparation import SessionPreparation
from agentcli.session.requirements import (
    RunRequirements,
    apply_tool_choice,
    build_completion,
)
from agentcli.session.sandbox_host import SANDBOX_OFF, SandboxHost
from agentcli.session.secrets import TokenNote, build_redactor, refuse_tokens
from agentcli.session.session import Session, SessionParts, Steering
from agentcli.session.start import SessionStart, close_unfinished, open_existing, open_new
from agentcli.session.tool_catalog import ToolCatalog
from agentcli.system import startup
from agentcli.system.lazy import Lazy
from agentcli.types.errors import UsageError
from agentcli.types.events import (
    ContextNote,
    EffortChanged,
    Emit,
    SessionResumed,
    SessionStarted,
    Warned,
    list_effective_facts,
)
from agentcli.types.messages import Json
from agentcli.types.own_tools import EDITING
from agentcli.types.provider import Request
from agentcli.types.settings import Settings
from agentcli.types.tools import Tool, ToolSpec
from agentcli.types.verdicts import INHERITED, AskUser, CurrentMode, Delegation, Mode

if TYPE_CHECKING:
    from agentcli.session.edit_checks import EditChecks
    from agentcli.session.unsaved_files import EditorFiles


def open_session(
    settings: Settings,
    *,
    listeners: Sequence[Listener],
    ask_user: AskUser | None = None,
    resume: SessionPaths | None = None,
    requirements: RunRequirements | None = None,
    tools: Sequence[Tool] = (),
    editor: "EditorFiles | None" = None,
) -> Session:
    """Open a new or resumed session. Raise AgentError if that is not possible.

    `ask_user` is None if nobody can be asked.
    `resume` is a session to continue, as `log/sessions.py` finds it.
    `requirements` must be met before a turn is done, in a run without a user.
    `tools` are those of the program that opens the session.
    `editor` has files that may not be saved."""
    configuration = load_configuration(settings, uses_hooks=True)
    settings = _choose_cache(configuration.settings, is_run=requirements is not None)
    configuration = replace(configuration, settings=settings)
    opened = open_priced_model(settings)
    start = open_existing(resume) if resume else open_new(settings.sessions)
    try:
        redactor = build_redactor(settings)
        context_sources = build_context_sources(
            configuration,
            list_effective_facts(start.past.facts) if start.past.facts else (),
            clean=redactor.mask,
            wants_plan=requirements is None or requirements.answer_schema is None,
        )
        log = LogWriter(start.paths.log, prev=start.last_hash)
        journal = Journal(
            start.session,
            record=log.append,
            listeners=(
                *listeners,
                context_sources.instructions,
                context_sources.environment,
                context_sources.plan_tracker,
            ),
            past=start.past,
            last_seq=start.last_seq,
            mask=EventMasking(redactor),
        )
        model = SessionModel(
            opened,
            settings=settings,
            past=start.past.facts,
            sum_spent=start.sum_spending,
            emit=journal.append,
        )
        parts = build_parts(
            configuration,
            start.paths,
            is_resumed=bool(start.past.facts),
            journal=journal,
            model=model,
            redactor=redactor,
            ask_user=ask_user,
            editor=editor,
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
    startup.resume_collection()
    return session


def _choose_cache(settings: Settings, *, is_run: bool) -> Settings:
    """Return the settings with the lifetime of cached prompts: a user pauses, a run does not."""
    if settings.cache != "auto":
        return settings
    return replace(settings, cache="5m" if is_run else "1h")


def build_parts(
    configuration: Configuration,
    paths: SessionPaths,
    *,
    journal: Journal,
    model: SessionModel,
    redactor: Redactor,
    is_resumed: bool = False,
    ask_user: AskUser | None = None,
    editor: "EditorFiles | None" = None,
) -> SessionParts:
    """Build the parts: the permission gate with all it needs, then the tools, which need it."""
    settings, emit = configuration.settings, journal.append
    mode = CurrentMode(value=settings.mode)
    hooks = None
    if configuration.hooks:
        hooks = build_hooks(
            configuration,
            paths,
            emit=emit,
            clean=redactor.mask,
            mode=mode,
            is_resumed=is_resumed,
        )
    directories = Directories(settings, sessions=paths.sessions, emit=emit)
    gate = PermissionGate(
        configuration,
        SandboxHost(configuration, paths, emit=emit),
        redactor=redactor,
        mode=mode,
        ask_user=ask_user,
        hooks=hooks.engine if hooks else None,
        notify=hooks.notify if hooks else None,
        evaluator=CallEvaluator(
            model=model, session=journal.session, clean=redactor.mask, emit=emit
        ),
        facts=journal.facts,
        find_added=directories.find_grants,
    )

    toolset = Toolset(())
    builtin_tools = BuiltinTools(
        settings, gate=gate, model=lambda: model.current, emit=emit, editor=editor
    )
    return SessionParts(
        configuration=configuration,
        settings=settings,
        paths=paths,
        journal=journal,
        toolset=toolset,
        catalog=ToolCatalog(toolset, window_tokens=model.get_window(), past=journal.facts),
        model=model,
        hooks=hooks,
        gate=gate,
        builtin_tools=builtin_tools,
        checkpoints=Checkpoints(
            paths, workspace=settings.workspace, emit=emit, added=directories.find_grants
        ),
        edit_checks=Lazy(
            partial(_build_edit_checks, settings, builtin_tools, gate=gate, emit=emit)
        ),
        directories=directories,
        child_listeners=[],
        start_notes=[],
        step_notes=[
            *([hooks.collect_notes] if hooks else []),
            builtin_tools.collect_notes,
        ],
    )


def _build_edit_checks(
    settings: Settings, builtin_tools: BuiltinTools, *, gate: PermissionGate, emit: Emit
) -> "EditChecks":
    from agentcli.session.edit_checks import EDIT_CHECK_TIMEOUT_S, EditChecks

    return EditChecks(
        settings.workspace,
        settings.checks,
        run_check=partial(builtin_tools.run_command, timeout_s=EDIT_CHECK_TIMEOUT_S),
        may_run_commands=lambda: gate.host.may_run_commands,
        emit=emit,
    )


def check_edits(parts: SessionParts, offers: Iterable[Offer]) -> Iterator[Offer]:
    """Yield the same tools, with checks after those that edit files."""
    for spec, load in offers:
        is_edit = spec.source == "built-in" and spec.name in EDITING
        yield spec, partial(_load_checked, parts, spec, load=load) if is_edit else load


def _load_checked(parts: SessionParts, spec: ToolSpec, *, load: Load) -> Tool:
    from agentcli.session.edit_checks import CheckedEdit

    return CheckedEdit(load(), spec, checks=parts.edit_checks.get())


_MODES_BESIDE: Mapping[Mode, Mode] = {"ask": "auto-edit"}
"""The modes of agents in a directory of their own: no edit there touches the user's files."""


def build_parts_beside(parts: SessionParts, workspace: Path, *, journal: Journal) -> SessionParts:
    """Build the parts of an agent that works in another directory, with a journal of its own."""
    from agentcli.permissions.policy import extend_to_worktree

    configuration, gate = parts.configuration, parts.gate
    mode = _MODES_BESIDE.get(gate.mode, gate.mode)
    agreed = (rule for rule in gate.agreed_rules if rule.lasts in INHERITED)
    rules = extend_to_worktree((*configuration.rules, *agreed), workspace)
    return build_parts(
        replace(
            configuration,
            settings=replace(parts.settings, workspace=workspace, mode=mode),
            rules=rules,
        ),
        parts.paths,
        journal=journal,
        model=parts.model,
        redactor=gate.redactor,
        ask_user=gate.ask if gate.can_ask else None,
    )


def build_model_client(
    parts: SessionParts,
    toolset: Toolset,
    *,
    journal: Journal,
    answer_schema: Json = None,
    model: Callable[[], ModelInUse] | None = None,
) -> ModelClient:
    """Build a client for a model, or else the one in use. Each request declares the tools
    declared by then."""
    settings, session_model, hooks = parts.settings, parts.model, parts.hooks
    return ModelClient(
        model=model or (lambda: session_model.current),
        template=Request(
            model=session_model.current.name,
            system=load_system_prompt(),
            messages=(),
            hosted=list_hosted(settings) if settings.hosted or settings.web else (),
            answer_schema=answer_schema,
            parallel=settings.parallel,
            session=journal.session,
        ),
        journal=journal,
        compactor=Compactor(
            journal,
            window=session_model.get_window,
            suggest_larger_window=session_model.suggest_larger_window,
            store_result=parts.builtin_tools.store_result,
            run_before_compaction=hooks.run_before_compaction if hooks else None,
        ),
        small_model=session_model.open_small if settings.small_model else None,
        fall_back=None if model else session_model.fall_back,
        tools=lambda: toolset.declared,
        deferred=lambda: toolset.deferred,
    )


def build_dispatcher(
    parts: SessionParts,
    toolset: Toolset,
    *,
    journal: Journal,
    breaker: Breaker,
    child: Delegation | None = None,
    runs_hooks: bool = True,
) -> Dispatcher:
    """Build a dispatcher whose calls pass the permission gate and are recorded in the journal.

    `child` is the delegation it works for, or None for the session's own agent."""
    gate = parts.gate
    hooks = parts.hooks.engine if parts.hooks and runs_hooks else None
    return Dispatcher(
        toolset=toolset,
        judge=partial(gate.judge, child=child),
        emit=journal.append,
        workspace=parts.settings.workspace,
        breaker=breaker,
        pace=Pace(parts.settings.calls_per_minute),
        result_hooks=hooks.build_after(child) if hooks else (),
        failure_hooks=hooks.build_after(child, only_failures=True) if hooks else (),
        clean=gate.redactor.mask,
        check=refuse_tokens,
        explain=TokenNote(journal.facts),
        find_origin=gate.find_origin,
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
    journal = parts.journal
    completion = build_completion(requirements, parts)
    features = build_session_features(parts)
    _add_tools(parts, features, own=completion.offers, tools=tools)
    tool_choice_warning = ""
    if requirements is not None and requirements.tool_choice not in ("auto", "none"):
        tool_choice_warning = apply_tool_choice(requirements.tool_choice, parts)
    preparation = SessionPreparation(parts.builtin_tools, parts.checkpoints)
    if parts.hooks is not None:
        journal.subscribe(parts.hooks)
    for listener in (one for feature in features.values() for one in feature.listeners):
        journal.subscribe(listener)
    journal.subscribe(preparation)
    parts.step_notes.extend(  # what features add later comes after these
        (
            context_sources.instructions.collect_notes,
            context_sources.plan_tracker.collect_notes,
            context_sources.environment.collect_notes,
        )
    )
    steering = Steering(parts.step_notes)
    model_client = build_model_client(
        parts, parts.toolset, journal=journal, answer_schema=completion.answer_schema
    )
    breaker = Breaker()
    loop = Loop(
        model_client=model_client,
        journal=journal,
        dispatcher=build_dispatcher(parts, parts.toolset, journal=journal, breaker=breaker),
        breaker=breaker,
        limits=TurnLimits.from_settings(parts.settings),
        parallel=parts.settings.parallel,
        collect_notes=steering.collect_notes,
        find_unfinished=partial(_find_unfinished, parts.hooks, tuple(features.values())),
        completion_checks=completion.checks,
        on_deny=requirements.on_deny if requirements else "continue",
        wraps_up=requirements is not None and requirements.wraps_up,
    )
    _announce(
        parts,
        start,
        context_sources=context_sources,
        features=features,
        tool_choice_warning=tool_choice_warning,
    )
    return Session(
        parts,
        start=start,
        log=log,
        loop=loop,
        model_client=model_client,
        steering=steering,
        goal=completion.goal,
        prompt_notes=completion.prompt_notes,
        context_sources=context_sources,
        features=features,
        preparation=preparation,
    )


async def _find_unfinished(
    hooks: SessionHooks | None, features: Sequence[SessionFeature]
) -> Sequence[ContextNote]:
    """Return notes on work that remains. Hooks are asked if nothing else does."""
    notes = [note for feature in features for note in await feature.find_unfinished()]
    return notes or (await hooks.find_unfinished() if hooks else ())


def _add_tools(
    parts: SessionParts,
    features: Mapping[str, SessionFeature],
    *,
    own: Sequence[Offer],
    tools: Sequence[Tool],
) -> None:
    """Add all tools: the built-in ones with `own`, those of the caller, and those of features."""
    built_in = (
        *parts.builtin_tools.iter_offers(
            lambda: parts.journal.facts, declare=parts.toolset.declare
        ),
        *own,
    )
    undoable = parts.checkpoints.wrap_offers(built_in)
    parts.toolset.add([*check_edits(parts, undoable)])
    for tool in tools:
        if tool.spec.name in parts.toolset.names:
            raise UsageError(
                f"there is a tool {tool.spec.name} already", hint="give it another name"
            )
        parts.toolset.add(parts.checkpoints.wrap_offers([(tool.spec, partial(_get_tool, tool))]))
    for feature in features.values():
        parts.toolset.add(feature.offers)
    if foreign := [offer for feature in features.values() for offer in feature.foreign_offers]:
        parts.catalog.admit(foreign)


def _get_tool(tool: Tool) -> Tool:
    return tool


def _announce(
    parts: SessionParts,
    start: SessionStart,
    *,
    context_sources: ContextSources,
    features: Mapping[str, SessionFeature],
    tool_choice_warning: str,
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
        **toolset.build_terms(),
    }
    if start.past.facts:
        repaired = (
            *start.repaired,
            *close_unfinished(journal, start.lost, lost_agents=start.lost_agents),
        )
        journal.append(SessionResumed(**terms, repaired=repaired))
    else:
        journal.append(SessionStarted(**terms))
    if model.effort is not None:
        journal.append(EffortChanged(effort=model.effort))
    if settings.directories or settings.add_dir or start.past.facts:
        parts.directories.start(tuple(journal.facts))
    if not journal.is_in_turn:  # a fork that was cut in a turn continues unchanged
        notes = [note for collect in parts.start_notes for note in collect()]
        for fact in context_sources.instructions.build_start_notes(notes):
            journal.append(fact)
    for warning in _iter_warnings(parts, features, tool_choice_warning=tool_choice_warning):
        journal.append(warning)


def _iter_warnings(
    parts: SessionParts, features: Mapping[str, SessionFeature], *, tool_choice_warning: str
) -> Iterator[Warned]:
    """Yield the warnings about what the user configured."""
    configuration, settings, model = parts.configuration, parts.settings, parts.model.current
    for feature in features.values():
        yield from feature.warnings
    if configuration.hooks or configuration.hook_problems:
        yield from warn_of_hooks(configuration, parts.toolset.names)
    for code, message in (
        ("model.unknown", model.warning),
        ("sandbox.off", SANDBOX_OFF if settings.sandbox == "off" else ""),
        ("plugin.unusable", "; ".join(configuration.plugin_problems)),
        ("project.untrusted", configuration.project.warning if configuration.project else ""),
        ("model.tool_choice", tool_choice_warning),
        ("model.hosted", warn_about_hosted(settings, model) if settings.hosted else ""),
        ("model.computer", warn_about_computer(model) if settings.computer else ""),
    ):
        if message:
            yield Warned(code=code, message=message)
