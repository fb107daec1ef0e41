"""The first request of a session as it would be sent now, without a session being opened."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agentcli.agent.history import messages
from agentcli.agent.planning import Planning
from agentcli.agent.prompt import system_prompt
from agentcli.agent.surroundings import Surroundings
from agentcli.agent.toolset import Toolset
from agentcli.app.briefing import Briefing, find_roles
from agentcli.app.catalogue import Catalogue
from agentcli.app.model import SCRIPT, chosen
from agentcli.app.plugins import open_plugins
from agentcli.app.project import Project, open_project, with_project
from agentcli.app.server_entries import accepted_tools, read_entries
from agentcli.settings import Settings
from agentcli.tools.contracts import BUILT_IN, contract
from agentcli.tools.patching.contract import patch_contract
from agentcli.types.errors import SettingsError, UsageError
from agentcli.types.events import Fact, ModeChanged, Told, TurnStarted
from agentcli.types.messages import Image, Json, Text, UserMessage
from agentcli.types.tools import Tool, ToolSpec
from agentcli.types.wire import Request

if TYPE_CHECKING:
    from agentcli.wire.dialect import Model


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """All that precedes the first prompt, and what follows it at once."""

    settings: Settings
    system: str
    toolset: Toolset
    told: tuple[Told, ...]
    told_after: tuple[Told, ...]
    takes_images: bool

    def request(self, prompt: str, attached: Sequence[Text | Image]) -> Request:
        said = TurnStarted(message=UserMessage(content=(Text(text=prompt), *attached)))
        return Request(
            model=self.settings.model or "",
            system=self.system,
            messages=messages((*self.told, said, *self.told_after)),
            tools=self.toolset.declared,
            deferred=self.toolset.deferred,
            effort=self.settings.effort,
        )


def opening(settings: Settings) -> Opening:
    project = open_project(settings.workspace, trust_project=settings.trust_project)
    settings = with_project(settings, project)
    toolset = tools_now(settings, project)
    model = _known(settings)
    told = (*Briefing(settings).at_start(), *find_roles(settings, tools=toolset.specs)[1])
    return Opening(
        settings=settings,
        system=system_prompt(),
        toolset=toolset,
        told=tuple(fact for fact in told if isinstance(fact, Told)),
        told_after=(
            *Planning([ModeChanged(mode=settings.mode)]).notices(),
            *Surroundings(settings.workspace).notices(),
        ),
        takes_images=model is None or model.images,
    )


def body(settings: Settings, prompt: str, attached: Sequence[Text | Image]) -> dict[str, Json]:
    """In the words of the model's own protocol. Raises AgentError where there is no model."""
    if (settings.model or "").startswith(f"{SCRIPT}/"):
        raise UsageError("a script is sent nothing", hint="agentcli prompt --json --model opus")
    from agentcli.wire.connection import on_wire
    from agentcli.wire.normalize import Normal
    from agentcli.wire.transport import dialect_of

    model, _ = chosen(settings)
    request = on_wire(opening(settings).request(prompt, attached), Normal(model))
    return dialect_of(model.protocol).encode(request, model)


def tools_now(
    settings: Settings, project: Project | None, *, before: Sequence[Fact] = ()
) -> Toolset:
    """What a session would have, as far as it is known without asking any server.

    `before`: of a session that would be taken up: what was found in it is declared again."""
    model = _known(settings)
    toolset = Toolset((spec, _never) for spec in _own(settings, model))
    entries = read_entries(settings, project)
    servers = accepted_tools(entries) if entries else ()
    sizes = (settings.window, model.window_tokens if model else None)
    window = min((size for size in sizes if size), default=None)
    catalogue = Catalogue(toolset, servers=None, window_tokens=window, before=before)
    plugins = open_plugins(settings.workspace).offers()
    catalogue.admit((*plugins, *((spec, _never) for spec in servers)))
    return toolset


def _own(settings: Settings, model: "Model | None") -> Iterable[ToolSpec]:
    yield from map(contract, BUILT_IN)
    if model is not None and model.patch_tool:
        yield patch_contract()
    if settings.programs:
        yield contract("run_program")
    yield contract("delegate")


def _known(settings: Settings) -> "Model | None":
    """None: no model is chosen, or nothing is known of it."""
    if (settings.model or "").startswith(f"{SCRIPT}/"):
        return None
    try:
        return chosen(settings)[0]
    except SettingsError:
        return None


def _never() -> Tool:
    raise AssertionError("a tool that is only listed was called")
