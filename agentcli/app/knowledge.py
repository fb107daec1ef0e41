"""What a model is told besides what was said: instructions, where and when it works, the plan.

Each part hears of everything that happens, and has something to say before the next reply.
"""

from collections.abc import Callable, Sequence

from agentcli.agent.journal import Listener
from agentcli.agent.planning import PlanTracker
from agentcli.agent.surroundings import EnvironmentNotes
from agentcli.app.briefing import ProjectInstructions
from agentcli.settings import Settings
from agentcli.types.events import ContextNote, Fact, Warned
from agentcli.types.record import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextSources:
    instructions: ProjectInstructions
    environment: EnvironmentNotes
    plan_tracker: PlanTracker

    @property
    def listeners(self) -> tuple[Listener, ...]:
        return self.instructions, self.environment, self.plan_tracker

    def collect_notes(self) -> Sequence[ContextNote | Warned]:
        return (
            *self.instructions.collect_notes(),
            *self.plan_tracker.collect_notes(),
            *self.environment.collect_notes(),
        )


def build_context_sources(
    settings: Settings, past: Sequence[Fact], *, clean: Callable[[str], str]
) -> ContextSources:
    """`past`: of a session that goes on: what was told in it is not told again."""
    return ContextSources(
        instructions=ProjectInstructions(settings, past=past, clean=clean),
        environment=EnvironmentNotes(settings.workspace, past),
        plan_tracker=PlanTracker(past),
    )
