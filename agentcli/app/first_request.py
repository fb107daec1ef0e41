"""The first request of a session as it would be sent now, without a session being opened."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agentcli.agent.history import build_messages
from agentcli.agent.planning import PlanTracker
from agentcli.agent.prompt import load_system_prompt
from agentcli.agent.surroundings import EnvironmentNotes
from agentcli.agent.toolset import Toolset
from agentcli.app.briefing import ProjectInstructions, load_roles
from agentcli.app.catalogue import ToolCatalog
from agentcli.app.model import SCRIPT, choose_model
from agentcli.app.plugins import load_plugins
from agentcli.app.project import Project, apply_project, load_project
from agentcli.app.server_entries import iter_accepted_tools, read_entries
from agentcli.settings import Settings
from agentcli.tools.contracts import BUILT_IN, load_spec
from agentcli.tools.patching.contract import load_patch_spec
from agentcli.types.errors import SettingsError, UsageError
from agentcli.types.events import ContextNote, Fact, ModeChanged, TurnStarted
from agentcli.types.messages import Image, Json, Text, UserMessage
from agentcli.types.tools import Tool, ToolSpec
from agentcli.types.wire import Request

if TYPE_CHECKING:
    from agentcli.wire.dialect import Model


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstRequest:
    """All that precedes the first prompt, and what follows it at once."""

    settings: Settings
    system: str
    toolset: Toolset
    notes: tuple[ContextNote, ...]
    notes_after: tuple[ContextNote, ...]
    takes_images: bool

    def build_request(self, prompt: str, attachments: Sequence[Text | Image]) -> Request:
        said = TurnStarted(message=UserMessage(content=(Text(text=prompt), *attachments)))
        return Request(
            model=self.settings.model or "",
            system=self.system,
            messages=build_messages((*self.notes, said, *self.notes_after)),
            tools=self.toolset.declared,
            deferred=self.toolset.deferred,
            effort=self.settings.effort,
        )


def build_first_request(settings: Settings) -> FirstRequest:
    project = load_project(settings.workspace, trust_project=settings.trust_project)
    settings = apply_project(settings, project)
    toolset = build_toolset(settings, project)
    model = _find_known_model(settings)
    told = (
        *ProjectInstructions(settings).build_start_notes(),
        *load_roles(settings, tools=toolset.specs)[1],
    )
    return FirstRequest(
        settings=settings,
        system=load_system_prompt(),
        toolset=toolset,
        notes=tuple(fact for fact in told if isinstance(fact, ContextNote)),
        notes_after=(
            *PlanTracker([ModeChanged(mode=settings.mode)]).collect_notes(),
            *EnvironmentNotes(settings.workspace).collect_notes(),
        ),
        takes_images=model is None or model.images,
    )


def encode_first_request(
    settings: Settings, prompt: str, attachments: Sequence[Text | Image]
) -> dict[str, Json]:
    """In the words of the model's own protocol. Raises AgentError where there is no model."""
    if (settings.model or "").startswith(f"{SCRIPT}/"):
        raise UsageError("a script is sent nothing", hint="agentcli prompt --json --model opus")
    from agentcli.wire.connection import prepare_request
    from agentcli.wire.normalize import NormalizedHistory
    from agentcli.wire.transport import find_dialect

    model, _ = choose_model(settings)
    request = prepare_request(
        build_first_request(settings).build_request(prompt, attachments), NormalizedHistory(model)
    )
    return find_dialect(model.protocol).encode(request, model)


def build_toolset(
    settings: Settings, project: Project | None, *, past: Sequence[Fact] = ()
) -> Toolset:
    """What a session would have, as far as it is known without asking any server.

    `before`: of a session that would be taken up: what was found in it is declared again."""
    model = _find_known_model(settings)
    toolset = Toolset((spec, _fail_if_called) for spec in _iter_own_specs(settings, model))
    entries = read_entries(settings, project)
    servers = iter_accepted_tools(entries) if entries else ()
    sizes = (settings.window, model.window_tokens if model else None)
    window = min((size for size in sizes if size), default=None)
    catalogue = ToolCatalog(toolset, servers=None, window_tokens=window, past=past)
    plugins = load_plugins(settings.workspace).iter_offers()
    catalogue.admit((*plugins, *((spec, _fail_if_called) for spec in servers)))
    return toolset


def _iter_own_specs(settings: Settings, model: "Model | None") -> Iterable[ToolSpec]:
    yield from map(load_spec, BUILT_IN)
    if model is not None and model.patch_tool:
        yield load_patch_spec()
    if settings.programs:
        yield load_spec("run_program")
    yield load_spec("delegate")


def _find_known_model(settings: Settings) -> "Model | None":
    """None: no model is chosen, or nothing is known of it."""
    if (settings.model or "").startswith(f"{SCRIPT}/"):
        return None
    try:
        return choose_model(settings)[0]
    except SettingsError:
        return None


def _fail_if_called() -> Tool:
    raise AssertionError("a tool that is only listed was called")
