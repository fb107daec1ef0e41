"""What a model is told besides what was said: instructions, where and when it works, the plan.

Each part hears of everything that happens, and has something to say before the next reply.
"""

from collections.abc import Callable, Sequence

from agentcli.agent.journal import Listener
from agentcli.agent.planning import Planning
from agentcli.agent.surroundings import Surroundings
from agentcli.app.briefing import Briefing
from agentcli.settings import Settings
from agentcli.types.events import Fact, Told, Warned
from agentcli.types.record import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Knowledge:
    briefing: Briefing
    surroundings: Surroundings
    planning: Planning

    @property
    def listeners(self) -> tuple[Listener, ...]:
        return self.briefing, self.surroundings, self.planning

    def notices(self) -> Sequence[Told | Warned]:
        return (
            *self.briefing.notices(),
            *self.planning.notices(),
            *self.surroundings.notices(),
        )


def open_knowledge(
    settings: Settings, past: Sequence[Fact], *, clean: Callable[[str], str]
) -> Knowledge:
    """`past`: of a session that goes on: what was told in it is not told again."""
    return Knowledge(
        briefing=Briefing(settings, past=past, clean=clean),
        surroundings=Surroundings(settings.workspace, past),
        planning=Planning(past),
    )
