"""What a model is sent, taken apart: before a session's first prompt, and at the end of one."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from agentcli.agent.context import Source, sources
from agentcli.agent.prompt import system_prompt
from agentcli.app.briefing import Briefing
from agentcli.app.model import window_of
from agentcli.record.reading import read_what_fits
from agentcli.record.sessions import past_session
from agentcli.settings import Settings
from agentcli.tools.contracts import ALSO, BUILT_IN, USUAL, contract
from agentcli.types.events import Fact, ModelChanged, SessionResumed, SessionStarted, Told
from agentcli.types.tools import ToolSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """All that precedes the first prompt."""

    system: str
    tools: tuple[ToolSpec, ...]
    told: tuple[Told, ...]


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


def opening(settings: Settings) -> Opening:
    told = Briefing(settings).at_start()
    return Opening(
        system=system_prompt(),
        tools=tuple(contract(name) for name in USUAL),
        told=tuple(fact for fact in told if isinstance(fact, Told)),
    )


def contents_of(named: str | None, workspace: Path) -> Contents:
    """Of a session that is named, or else of the latest in the workspace."""
    place = past_session(named, workspace).place
    facts = [entry.fact for entry in read_what_fits(place.log).entries]
    return contents(facts, session=place.id)


def contents(facts: Sequence[Fact], *, session: str, window_tokens: int | None = None) -> Contents:
    """`window_tokens`: of the model in use, where a session is running and knows it."""
    model, names = _terms(facts)
    tools = [contract(name) for name in names if name in (*BUILT_IN, *ALSO)]
    return Contents(
        session=session,
        model=model,
        sources=sources(system=system_prompt(), tools=tools, facts=facts),
        window_tokens=window_tokens or window_of(model),
    )


def _terms(facts: Sequence[Fact]) -> tuple[str, tuple[str, ...]]:
    """The model and the tools, as they were last."""
    model, tools = "", tuple(BUILT_IN)
    for fact in facts:
        match fact:
            case SessionStarted() | SessionResumed():
                model, tools = fact.model, fact.tools
            case ModelChanged(model=name):
                model = name
            case _:
                pass
    return model, tools
