"""The sources of a request's tokens that the user can influence."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from agentcli.agent.context_notes import EnvironmentNotes, PlanTracker
from agentcli.agent.history import PINNED, SUMMARIZED, History, build_messages
from agentcli.agent.model_client import load_system_prompt
from agentcli.agent.toolset import Toolset
from agentcli.features.context.tools import fail_if_called
from agentcli.log.reader import read_session
from agentcli.log.sessions import find_session_to_read
from agentcli.session.configuration import Configuration, load_configuration
from agentcli.session.context_sources import (
    ProjectInstructions,
    build_delegate_spec,
    is_foreign,
    load_roles,
)
from agentcli.session.features import list_foreign_tools
from agentcli.session.model import SCRIPT, choose_model, find_window
from agentcli.session.tool_catalog import ToolCatalog
from agentcli.settings import load_settings
from agentcli.system.tokens import count_message_tokens, count_spec_tokens, estimate
from agentcli.tools.contracts import load_patch_spec, load_spec
from agentcli.types.errors import SettingsError, UsageError
from agentcli.types.events import (
    ContextNote,
    Fact,
    ModeChanged,
    ModelChanged,
    SessionResumed,
    SessionStarted,
    TurnStarted,
)
from agentcli.types.messages import Document, Image, Json, Text, UserMessage
from agentcli.types.own_tools import BUILT_IN
from agentcli.types.provider import Message, Request
from agentcli.types.settings import Settings
from agentcli.types.tools import ToolMessage, ToolSpec

if TYPE_CHECKING:
    from agentcli.providers.dialect import Model

_Masked = TypeVar("_Masked")


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenSource:
    name: str
    tokens: int


def list_token_sources(
    *, system: str, tools: Sequence[ToolSpec], facts: Iterable[Fact]
) -> list[TokenSource]:
    """Return the sources in the order of a request. Their sum is about what it costs to send."""
    facts = list(facts)
    totals = {"system prompt": estimate(system)}
    for spec in tools:
        owner = "tools" if spec.source == "built-in" else f"tools of {spec.source}"
        totals[owner] = totals.get(owner, 0) + count_spec_tokens(spec)
    pinned = {
        fact.text: str(fact.why)
        for fact in facts
        if isinstance(fact, ContextNote) and fact.why in PINNED
    }
    others = ("summary", "conversation", "tool results")
    totals |= dict.fromkeys((*map(str, PINNED), *others), 0)
    for message in History(facts).build_messages():
        totals[_classify_message(message, pinned)] += count_message_tokens(message, estimate)
    return [TokenSource(name=name, tokens=tokens) for name, tokens in totals.items() if tokens]


def _classify_message(message: Message, pinned: Mapping[str, str]) -> str:
    if isinstance(message, ToolMessage):
        return "tool results"
    first = message.content[0] if message.content else None
    text = first.text if isinstance(first, Text) else ""
    if text in pinned:
        return pinned[text]
    return "summary" if text.startswith(SUMMARIZED) else "conversation"


# The first request of a session as it would be sent now, without opening a session


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstRequest:
    """Everything before the first prompt, and what follows it directly."""

    settings: Settings
    system: str
    toolset: Toolset
    notes: tuple[ContextNote, ...]
    notes_after: tuple[ContextNote, ...]
    takes_images: bool

    def build_request(self, prompt: str, attachments: Sequence[Text | Image | Document]) -> Request:
        turn = TurnStarted(message=UserMessage(content=(Text(text=prompt), *attachments)))
        return Request(
            model=self.settings.model or "",
            system=self.system,
            messages=build_messages((*self.notes, turn, *self.notes_after)),
            tools=self.toolset.declared,
            deferred=self.toolset.deferred,
            effort=self.settings.effort,
        )


def mask_as_sent(settings: Settings, value: _Masked) -> _Masked:
    """Return the value as a session would send it, without hidden values."""
    from agentcli.permissions.masking import EventMasking
    from agentcli.session.secrets import build_redactor

    masked: _Masked = EventMasking(build_redactor(settings)).mask_value(value)
    return masked


def build_first_request(settings: Settings) -> FirstRequest:
    """Build the request. Raise SettingsError if the settings name a model that does not exist."""
    configuration = load_configuration(settings)
    settings = configuration.settings
    if settings.model and not settings.model.startswith(f"{SCRIPT}/"):
        choose_model(settings)
    toolset = build_toolset(configuration)
    model = _find_known_model(settings)
    instructions = ProjectInstructions(configuration)
    facts = (
        *instructions.build_start_notes(),
        *load_roles(configuration, tools=toolset.specs)[1],
    )
    notes = tuple(fact for fact in facts if isinstance(fact, ContextNote))
    return FirstRequest(
        settings=settings,
        system=load_system_prompt(),
        toolset=toolset,
        notes=mask_as_sent(settings, notes),
        notes_after=(
            *PlanTracker([ModeChanged(mode=settings.mode)]).collect_notes(),
            *EnvironmentNotes(
                settings.workspace,
                hosts=configuration.granted_hosts,
                has_sandbox=settings.sandbox != "off",
            ).collect_notes(),
        ),
        takes_images=model is None or model.images,
    )


def encode_first_request(
    settings: Settings, prompt: str, *, attachments: Sequence[Text | Image | Document]
) -> dict[str, Json]:
    """Return the request in the model's own protocol. Raise AgentError if there is no model."""
    if (settings.model or "").startswith(f"{SCRIPT}/"):
        raise UsageError(
            "a script model has no request", hint="agentcli prompt --json --model opus"
        )
    from agentcli.providers.normalize import NormalizedHistory, prepare_request
    from agentcli.providers.transport import find_dialect

    model, _ = choose_model(settings)
    prepared = prepare_request(
        build_first_request(settings).build_request(prompt, attachments), NormalizedHistory(model)
    )
    return find_dialect(model.protocol).encode(prepared.request, model)


def build_toolset(configuration: Configuration, *, past: Sequence[Fact] = ()) -> Toolset:
    """Return the tools that a session would have, as known without asking any server.

    `past` is the facts of a session to resume: tools found in it are declared again."""
    settings = configuration.settings
    model = _find_known_model(settings)
    specs = _iter_own_specs(configuration, model, past=past)
    toolset = Toolset((spec, fail_if_called) for spec in specs)
    sizes = (settings.window, model.window_tokens if model else None)
    window = min((size for size in sizes if size), default=None)
    catalogue = ToolCatalog(toolset, window_tokens=window, past=past)
    foreign, _ = list_foreign_tools(settings, configuration.project)
    catalogue.admit((spec, fail_if_called) for spec in foreign)
    return toolset


def _iter_own_specs(
    configuration: Configuration, model: "Model | None", *, past: Sequence[Fact]
) -> Iterable[ToolSpec]:
    yield from map(load_spec, BUILT_IN)
    if model is not None and model.patch_tool:
        yield load_patch_spec()
    if configuration.settings.programs:
        yield load_spec("run_program")
    yield build_delegate_spec(configuration.settings, configuration.plugins, past=past)


def _find_known_model(settings: Settings) -> "Model | None":
    """Return the chosen model. None if none is chosen, or nothing is known about it."""
    if (settings.model or "").startswith(f"{SCRIPT}/"):
        return None
    try:
        return choose_model(settings)[0]
    except SettingsError:
        return None


# The next request of a session, by source


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextReport:
    """The token sources of a session's next request."""

    session: str
    model: str
    sources: Sequence[TokenSource]
    window_tokens: int | None
    """None if it is unknown."""

    @property
    def tokens(self) -> int:
        return sum(source.tokens for source in self.sources)


def measure_saved_session(session_name: str | None, workspace: Path) -> ContextReport:
    """Measure a named session, or else the latest one in the workspace."""
    paths = find_session_to_read(session_name, workspace)
    facts = [entry.fact for entry in read_session(paths.log, "show").entries]
    model, workspace, names = _find_latest_setup(facts)
    settings = load_settings(
        {"model": model or None}, workspace=workspace if workspace.is_dir() else Path()
    )
    configured = load_configuration(settings)
    tools = build_toolset(configured, past=facts).declared
    had = [spec for spec in tools if spec.name in names or is_foreign(spec)]
    return measure_context(facts, session=paths.id, tools=had)


def measure_context(
    facts: Sequence[Fact],
    *,
    session: str,
    tools: Sequence[ToolSpec],
    window_tokens: int | None = None,
) -> ContextReport:
    """Measure a request. `tools` is the declared tools.

    `window_tokens` is the window of the model, if the session knows it."""
    model, *_ = _find_latest_setup(facts)
    return ContextReport(
        session=session,
        model=model,
        sources=list_token_sources(system=load_system_prompt(), tools=tools, facts=facts),
        window_tokens=window_tokens or find_window(model),
    )


def _find_latest_setup(facts: Sequence[Fact]) -> tuple[str, Path, tuple[str, ...]]:
    """Return the latest model, workspace and tool names."""
    model, workspace, tools = "", Path(), tuple(BUILT_IN)
    for fact in facts:
        match fact:
            case SessionStarted() | SessionResumed():
                model, workspace, tools = fact.model, Path(fact.workspace), fact.tools
            case ModelChanged(model=name):
                model = name
            case _:
                pass
    return model, workspace, tools
