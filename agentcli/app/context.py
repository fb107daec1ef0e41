"""What a model is sent in the next request of a session, taken apart."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from agentcli.agent.context import Source, sources
from agentcli.agent.prompt import system_prompt
from agentcli.app.briefing import is_foreign
from agentcli.app.first_request import tools_now
from agentcli.app.model import window_of
from agentcli.app.project import open_project, with_project
from agentcli.record.reading import read_what_fits
from agentcli.record.sessions import place_to_read
from agentcli.settings import load
from agentcli.tools.contracts import BUILT_IN
from agentcli.types.errors import SettingsError
from agentcli.types.events import Fact, ModelChanged, SessionResumed, SessionStarted
from agentcli.types.tools import ToolSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Contents:
    """Of the next request of a session."""

    session: str
    model: str
    sources: Sequence[Source]
    window_tokens: int | None
    """None: nobody knows it."""

    @property
    def tokens(self) -> int:
        return sum(source.tokens for source in self.sources)


def contents_of(named: str | None, workspace: Path) -> Contents:
    """Of a session that is named, or else of the latest in the workspace."""
    place = place_to_read(named, workspace)
    facts = [entry.fact for entry in read_what_fits(place.log).entries]
    if not facts:
        raise SettingsError(
            f"{place.log} holds no session", hint=f"see why: agentcli audit verify {place.log}"
        )
    model, workspace, names = _terms(facts)
    settings = load({"model": model or None}, workspace=workspace if workspace.is_dir() else Path())
    project = open_project(settings.workspace)
    tools = tools_now(with_project(settings, project), project, before=facts).declared
    had = [spec for spec in tools if spec.name in names or is_foreign(spec)]
    return contents(facts, session=place.id, tools=had)


def contents(
    facts: Sequence[Fact],
    *,
    session: str,
    tools: Sequence[ToolSpec],
    window_tokens: int | None = None,
) -> Contents:
    """`tools`: as they are declared. `window_tokens`: of the model, where a session knows it."""
    model, *_ = _terms(facts)
    return Contents(
        session=session,
        model=model,
        sources=sources(system=system_prompt(), tools=tools, facts=facts),
        window_tokens=window_tokens or window_of(model),
    )


def _terms(facts: Sequence[Fact]) -> tuple[str, Path, tuple[str, ...]]:
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
