"""What a model is sent in the next request of a session, taken apart."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from agentcli.agent.context import TokenSource, list_token_sources
from agentcli.agent.prompt import load_system_prompt
from agentcli.app.briefing import is_foreign
from agentcli.app.first_request import build_toolset
from agentcli.app.model import find_window
from agentcli.app.project import apply_project, load_project
from agentcli.record.reading import read_valid_part
from agentcli.record.sessions import find_session_to_read
from agentcli.settings import load_settings
from agentcli.tools.contracts import BUILT_IN
from agentcli.types.errors import SettingsError
from agentcli.types.events import Fact, ModelChanged, SessionResumed, SessionStarted
from agentcli.types.tools import ToolSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextReport:
    """Of the next request of a session."""

    session: str
    model: str
    sources: Sequence[TokenSource]
    window_tokens: int | None
    """None: nobody knows it."""

    @property
    def tokens(self) -> int:
        return sum(source.tokens for source in self.sources)


def measure_saved_session(session_name: str | None, workspace: Path) -> ContextReport:
    """Of a session that is named, or else of the latest in the workspace."""
    place = find_session_to_read(session_name, workspace)
    facts = [entry.fact for entry in read_valid_part(place.log).entries]
    if not facts:
        raise SettingsError(
            f"{place.log} holds no session", hint=f"see why: agentcli audit verify {place.log}"
        )
    model, workspace, names = _find_terms(facts)
    settings = load_settings(
        {"model": model or None}, workspace=workspace if workspace.is_dir() else Path()
    )
    project = load_project(settings.workspace)
    tools = build_toolset(apply_project(settings, project), project, past=facts).declared
    had = [spec for spec in tools if spec.name in names or is_foreign(spec)]
    return measure_context(facts, session=place.id, tools=had)


def measure_context(
    facts: Sequence[Fact],
    *,
    session: str,
    tools: Sequence[ToolSpec],
    window_tokens: int | None = None,
) -> ContextReport:
    """`tools`: as they are declared. `window_tokens`: of the model, where a session knows it."""
    model, *_ = _find_terms(facts)
    return ContextReport(
        session=session,
        model=model,
        sources=list_token_sources(system=load_system_prompt(), tools=tools, facts=facts),
        window_tokens=window_tokens or find_window(model),
    )


def _find_terms(facts: Sequence[Fact]) -> tuple[str, Path, tuple[str, ...]]:
    """The model, the workspace and the names of the tools, as they were last."""
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
