"""Agents beside the session: each in a worktree of its own, ending in a patch.

What one may cost is set aside before it starts. Its patch is judged like an edit of its files, and
merged between turns, one patch at a time. What becomes of each agent is a fact.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal, Protocol

from agentcli.agent.children import INTERRUPTED, Child, ChildProgress, Role
from agentcli.features.children.patch import (
    NOTHING_MERGED,
    AgentPatch,
    PatchMerger,
    open_trees,
)
from agentcli.session.model import ModelInUse
from agentcli.session.session import SessionParts
from agentcli.session.worktrees import Worktree
from agentcli.system.process import run_to_completion
from agentcli.types.agents import (
    PATHS_SHOWN,
    AgentEnded,
    AgentStarted,
    PatchDecided,
    describe_decision,
    name_agent,
)
from agentcli.types.deltas import CallProgress
from agentcli.types.errors import (
    Ending,
    ProviderError,
    SettingsError,
    ToolError,
    UsageError,
)
from agentcli.types.events import (
    PATHS_RECORDED,
    ContextNote,
    Event,
    Fact,
    NoteReason,
    TurnEnded,
    TurnStarted,
    Warned,
)
from agentcli.types.spending import NO_SPENDING, Spending, compute_child_spending, select_own_facts
from agentcli.types.tools import (
    ChildTurn,
    ErrorKind,
    Output,
    Raw,
    ToolContext,
)
from agentcli.types.verdicts import Delegation, Verdict
from agentcli.types.words import pluralize

if TYPE_CHECKING:
    from pathlib import Path

    from agentcli.agent.limits import Share


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


ANSWER_CHARS = 2_000
BROKEN = TurnEnded(ending=Ending.INTERNAL, message="internal error")


class OpenAgent(Protocol):
    """Opens a child in a workspace of its own, with a model of its own."""

    def __call__(
        self,
        role: Role,
        task: str,
        *,
        listen: Callable[[Event], None],
        context: ToolContext,
        workspace: "Path | None" = None,
        model: ModelInUse | None = None,
    ) -> Child: ...


class BackgroundAgents:
    def __init__(self, parts: SessionParts, *, open_child: OpenAgent) -> None:
        self._parts = parts
        self._open_child = open_child
        self._journal = parts.journal
        self.agents = {one.number: one for one in restore_agents(parts.journal.facts)}
        self._notes: list[ContextNote] = []
        self._one_tree_at_a_time = asyncio.Lock()
        self._merger = PatchMerger(parts)
        self._one_patch_at_a_time = asyncio.Lock()
        self._idle = asyncio.Event()
        self._note_turn(is_running=parts.journal.is_in_turn)
        parts.journal.subscribe(self._on_event)
        self._is_closing = False

    # What the session's own agent does with them

    async def start(self, task: str, role: Role, *, context: ToolContext) -> Output:
        """Start an agent and return at once. Raise ToolError if a limit does not permit it."""
        # In whole lines, a question would take the line that the user is typing.
        offers_patch = self._parts.gate.can_ask and not self._parts.settings.accessible
        agent = await self._start(task, role, context, offers_patch=offers_patch)
        ends = "Its changes will come as a patch." if role.is_isolated else ""
        text = f"Started {agent.name} beside you. You get a note when it ends. {ends}".strip()
        return Output.of(text, details=Raw(text=f"{agent.name} started: /agents"))

    async def run(self, task: str, role: Role, *, context: ToolContext) -> Output:
        """Run an agent to its end, and decide on its patch."""
        agent = await self._start(task, role, context, offers_patch=False)
        assert agent.running is not None
        try:
            await asyncio.shield(agent.running)
        except asyncio.CancelledError:
            await run_to_completion(self.stop(agent))
            raise
        if agent.state == "waiting":
            await self.decide(agent, is_between_calls=True)
        is_done = agent.state in ("done", "merged")
        text = self._describe(agent)
        return Output.of(text, error=None if is_done else ErrorKind.FAILED, details=Raw(text=text))

    def _on_event(self, event: Event) -> None:
        if isinstance(event, TurnStarted | TurnEnded):
            self._note_turn(is_running=isinstance(event, TurnStarted))

    def _note_turn(self, *, is_running: bool) -> None:
        """Note whether a turn runs: patches are merged between turns."""
        if is_running:
            self._idle.clear()
        else:
            self._idle.set()

    def collect_notes(self) -> Sequence[ContextNote]:
        """Return what the model needs to know about its agents."""
        notes, self._notes = self._notes, []
        return notes

    async def find_unfinished(self) -> Sequence[ContextNote]:
        """Wait for the agents of a run that nobody watches, and decide on their patches."""
        if self._parts.gate.can_ask:
            return ()
        for agent in list(self.agents.values()):
            if agent.running is not None:  # else it worked in an earlier process
                await asyncio.shield(agent.running)
                if agent.state == "waiting":
                    await self.decide(agent, is_between_calls=True)
        return self.collect_notes()

    def build_warnings(self) -> list[Warned]:
        """Return what the user of a resumed session should know."""
        return [
            Warned(
                code="agents.patch",
                message=f"the patch of {one.name} waits for your decision: /agents {one.number}",
            )
            for one in self.agents.values()
            if one.state == "waiting"
        ]

    async def close(self) -> None:
        """Stop all agents. Their worktrees stay as long as they hold changes."""
        self._is_closing = True
        for agent in self.agents.values():
            await self.stop(agent)
            if agent.asking is not None:
                agent.asking.cancel()
                await asyncio.wait([agent.asking])

    async def stop(self, agent: BackgroundAgent) -> None:
        """End an agent and its processes. What it changed so far is its patch."""
        if agent.running is not None and not agent.running.done():
            agent.running.cancel()
            await asyncio.wait([agent.running])

    def describe_activity(self) -> str:
        """Return how many work or wait for a decision, and what those at work have cost."""
        active = [one for one in self.agents.values() if one.is_active]
        waiting = sum(one.state == "waiting" for one in self.agents.values())
        spent = sum((one.spending for one in active), NO_SPENDING)
        cost = f" ${spent.known_usd:.2f}" if spent.known_usd else ""
        return ", ".join(
            filter(
                None,
                (
                    f"{pluralize(len(active), 'agent')}{cost}" if active else "",
                    f"{pluralize(waiting, 'patch', many='patches')} waiting" if waiting else "",
                ),
            )
        )

    def find(self, number: int) -> BackgroundAgent:
        if number not in self.agents:
            known = ", ".join(map(str, self.agents)) or "there are none"
            raise UsageError(f"no agent {number} ({known})", hint="/agents")
        return self.agents[number]

    # The course of one agent

    async def _start(
        self, task: str, role: Role, context: ToolContext, *, offers_patch: bool
    ) -> BackgroundAgent:
        most = self._parts.settings.agents_max
        if sum(one.is_active for one in self.agents.values()) >= most:
            raise ToolError(
                f"{pluralize(most, 'agent')} can work at a time, and as many do. Wait for a note "
                "that one has ended.",
                kind=ErrorKind.LIMITED,
            )
        number = 1 + max(self.agents, default=0)
        agent = BackgroundAgent(number=number, role=role.name, task=task)
        try:
            share = self._parts.model.open_share()
        except ProviderError as error:
            raise ToolError(f"Not started: {error}.", kind=ErrorKind.LIMITED) from error
        self.agents[number] = agent  # from here on it counts
        try:
            tree = await self._make_tree(number) if role.is_isolated else None
            child, model = self._open(agent, role, context=context, tree=tree, share=share)
        except BaseException as error:
            self._parts.model.close_share(share)
            del self.agents[number]
            if isinstance(error, SettingsError):
                raise ToolError(f"Not started: {error}.", kind=ErrorKind.FAILED) from error
            raise
        self._journal.append(
            AgentStarted(
                agent=number,
                role=role.name,
                task=task,
                call_id=context.call_id,
                log_path=str(child.log_path),
                worktree=tree.name if tree else "",
                max_cost_usd=share.cap_usd if share else None,
            )
        )
        agent.state, agent.worktree = "running", tree.name if tree else ""
        agent.running = asyncio.ensure_future(
            self._work(
                agent, role, child=child, model=model, share=share, offers_patch=offers_patch
            )
        )
        return agent

    async def _make_tree(self, number: int) -> Worktree:
        """Make a worktree with the user's files, the uncommitted changes included."""
        name = f"agent-{self._parts.paths.id}-{number}"
        async with self._one_tree_at_a_time:
            return await run_to_completion(
                asyncio.to_thread(lambda: open_trees(self._parts).make(name, carries_changes=True))
            )

    def _open(
        self,
        agent: BackgroundAgent,
        role: Role,
        *,
        context: ToolContext,
        tree: Worktree | None,
        share: "Share | None",
    ) -> tuple[Child, ModelInUse]:
        model = self._parts.model.open_alone(role.model, share)
        model = replace(model, effort=role.effort) if role.effort else model
        agent.progress = ChildProgress(
            lambda text: self._journal.append(
                CallProgress(call_id=f"agent-{agent.number}", text=text)
            )
        )
        child = self._open_child(
            role,
            agent.task,
            listen=agent.progress,
            context=context,
            workspace=tree.workspace if tree else None,
            model=model,
        )
        return child, model

    async def _work(
        self,
        agent: BackgroundAgent,
        role: Role,
        *,
        child: Child,
        model: ModelInUse,
        share: "Share | None",
        offers_patch: bool,
    ) -> None:
        """Let the agent work, and record its end, whichever that is."""
        ended = BROKEN
        try:
            ended = await child.open_turn(role, agent.task)
        except asyncio.CancelledError:
            ended = INTERRUPTED  # by `stop`: it is this task's own end
        finally:
            await run_to_completion(
                self._end(agent, role, child=child, ended=ended, model=model, share=share)
            )
        if agent.state == "waiting" and offers_patch and not self._is_closing:
            agent.asking = asyncio.ensure_future(self._offer(agent))

    async def _offer(self, agent: BackgroundAgent) -> None:
        """Ask about a patch as soon as no turn runs."""
        await self._idle.wait()
        await self.decide(agent)

    async def _end(
        self,
        agent: BackgroundAgent,
        role: Role,
        *,
        child: Child,
        ended: TurnEnded,
        model: ModelInUse,
        share: "Share | None",
    ) -> None:
        assert agent.progress is not None
        output = agent.progress.build_output(role, ended, child=child)
        await child.close()
        await model.provider.close()
        self._parts.model.close_share(share)
        turn = output.details
        assert isinstance(turn, ChildTurn)
        patch = await self._find_patch(agent)
        text = "".join(block.text for block in output.content if hasattr(block, "text"))
        is_done = ended.ending is Ending.DONE
        agent.ended = AgentEnded(
            agent=agent.number,
            turn=turn,
            answer=text[:ANSWER_CHARS] if is_done else "",
            message="" if is_done else ended.message or ended.ending.value.replace("_", " "),
            state=patch.state if patch else "",
            paths=patch.paths[:PATHS_RECORDED] if patch else (),
            added=patch.added if patch else 0,
            removed=patch.removed if patch else 0,
        )
        agent.state = "waiting" if patch else "done" if is_done else "failed"
        self._journal.append(agent.ended)
        self._add_note(agent)

    # The patch of an agent

    async def decide(self, agent: BackgroundAgent, *, is_between_calls: bool = False) -> None:
        """Judge the patch of an agent like an edit, and merge it if it is approved.

        Nothing else may run beside the merge: it waits for the end of a turn, unless the caller
        is between two calls. Raise UsageError if there is no patch to decide on."""
        async with self._one_patch_at_a_time:
            patch = await self._find_patch(agent) if agent.state == "waiting" else None
            if patch is None:
                agent.state = "done" if agent.state == "waiting" else agent.state
                raise UsageError(f"{agent.name} has no patch to decide on", hint="/agents")
            child = Delegation(
                child_id=f"agent-{agent.number}",
                role=agent.role or str(agent.number),
                task=agent.task,
            )
            verdict = await self._merger.judge(patch, child)
            if not is_between_calls:
                await self._idle.wait()
            await run_to_completion(self._carry_out(agent, patch, verdict=verdict))

    async def _carry_out(
        self, agent: BackgroundAgent, patch: AgentPatch, *, verdict: Verdict
    ) -> None:
        """Merge the patch, or not, and record it."""
        outcome = NOTHING_MERGED
        if verdict.decision in ("allow", "modify"):
            try:
                outcome = await self._merger.merge(agent.number, patch, verdict=verdict)
            except SettingsError as error:
                verdict = replace(verdict, decision="deny", reason=str(error))
        agent.decided = PatchDecided(
            agent=agent.number,
            verdict=verdict,
            paths=outcome.merged[:PATHS_RECORDED],
            conflicts=outcome.conflicts[:PATHS_RECORDED],
        )
        is_merged = verdict.decision in ("allow", "modify")
        agent.state = "merged" if is_merged else "refused"
        self._journal.append(agent.decided)
        self._add_note(agent)
        if is_merged and not outcome.conflicts:
            await self._merger.remove(agent.number, agent.worktree)

    async def _find_patch(self, agent: BackgroundAgent) -> AgentPatch | None:
        if not agent.worktree:
            return None
        state = agent.ended.state if agent.ended else ""
        return await self._merger.find(agent.number, agent.worktree, state=state)

    # What the model gets to know

    def _add_note(self, agent: BackgroundAgent) -> None:
        note = f"[{self._describe(agent)}]"
        self._notes.append(ContextNote(text=note, why=NoteReason.BACKGROUND))

    def _describe(self, agent: BackgroundAgent) -> str:
        ended, name = agent.ended, agent.name[:1].upper() + agent.name[1:]
        assert ended is not None
        if agent.decided is not None:
            return f"{name}: {describe_decision(agent.decided)}"
        how = f"ended: {ended.answer}" if not ended.message else f"did not finish: {ended.message}."
        if not ended.paths:
            return f"{name} {how}"
        files = ", ".join(ended.paths[:PATHS_SHOWN])
        return f"{name} {how} Its patch of {files} is not merged yet: the user decides on it."
