"""One agent beside the session, as it is now or as the facts of the session say."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from agentcli.agent.children import ChildProgress
from agentcli.types.agents import AgentEnded, AgentStarted, PatchDecided, name_agent
from agentcli.types.events import Fact
from agentcli.types.spending import NO_SPENDING, Spending, compute_child_spending, select_own_facts

AgentState = Literal["starting", "running", "done", "failed", "waiting", "merged", "refused"]
"""`waiting` for a decision on its patch."""


@dataclass(slots=True, kw_only=True)
class BackgroundAgent:
    """One agent: what was recorded of it, and its task while it is at work."""

    number: int
    role: str
    task: str
    state: AgentState = "starting"
    worktree: str = ""
    progress: ChildProgress | None = None
    """None if it worked in an earlier process."""
    ended: AgentEnded | None = None
    decided: PatchDecided | None = None
    running: "asyncio.Task[None] | None" = field(default=None, repr=False)
    asking: "asyncio.Task[None] | None" = field(default=None, repr=False)
    """The question about its patch, from its end until the user has answered."""

    @property
    def name(self) -> str:
        return name_agent(self.number, self.role)

    @property
    def is_asked(self) -> bool:
        """True while the user is asked about its patch, or will be as soon as a turn ends."""
        return self.asking is not None and not self.asking.done()

    @property
    def is_active(self) -> bool:
        return self.state in ("starting", "running")

    @property
    def spending(self) -> Spending:
        if self.ended is not None:
            return compute_child_spending(self.ended.turn)
        return self.progress.spending if self.progress else NO_SPENDING

    @property
    def doing(self) -> str:
        """What it does, or what became of it, in a few words."""
        if self.ended is None:
            return self.progress.doing if self.progress else ""
        return self.ended.message or " ".join(self.ended.answer.split())


def restore_agents(facts: Sequence[Fact]) -> list[BackgroundAgent]:
    """Return the agents of earlier processes of this session, from its facts."""
    found: dict[int, BackgroundAgent] = {}
    for fact in select_own_facts(facts):
        match fact:
            case AgentStarted():
                found[fact.agent] = BackgroundAgent(
                    number=fact.agent, role=fact.role, task=fact.task, worktree=fact.worktree
                )
            case AgentEnded() if fact.agent in found:
                agent = found[fact.agent]
                agent.ended = fact
                agent.state = "failed" if fact.message else "done"
                if fact.state or (fact.was_lost and agent.worktree):
                    agent.state = "waiting"
            case PatchDecided() if fact.agent in found:
                agent = found[fact.agent]
                agent.decided = fact
                is_merged = fact.verdict.decision in ("allow", "modify")
                agent.state = "merged" if is_merged else "refused"
            case _:
                pass
    return list(found.values())
