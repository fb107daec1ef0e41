"""The child agents of a session.

Each has its own loop and log, and shares the session's permission gate and limits.
"""

from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentcli import __version__
from agentcli.agent.journal import Journal
from agentcli.agent.limits import Breaker, TurnLimits
from agentcli.agent.loop import Loop
from agentcli.agent.toolset import Offer, Toolset
from agentcli.log.writer import LogWriter
from agentcli.permissions.masking import EventMasking
from agentcli.session.builder import (
    build_dispatcher,
    build_model_client,
    build_parts_beside,
    check_edits,
)
from agentcli.session.context_sources import (
    ProjectInstructions,
    build_delegate_spec,
    is_foreign,
    load_roles,
)
from agentcli.session.features import SessionFeature
from agentcli.session.model import ModelInUse
from agentcli.session.session import SessionParts
from agentcli.session.tool_catalog import ToolCatalog
from agentcli.system.lazy import Lazy
from agentcli.tools.contracts import INPUT_TOOL
from agentcli.types.agents import AgentStarted
from agentcli.types.errors import ToolError
from agentcli.types.events import (
    ContextNote,
    Event,
    Fact,
    SessionStarted,
    Warned,
)
from agentcli.types.own_tools import BUILT_IN, BUILT_IN_READING
from agentcli.types.tools import Effect, ErrorKind, Output, Tool, ToolContext, ToolSpec
from agentcli.types.verdicts import Delegation

if TYPE_CHECKING:
    from agentcli.agent.children import Child, ChildRunner, Role
    from agentcli.features.children.background import BackgroundAgents

STEPS_MAX = 40
WALL_S = 900.0


def build_session_feature(parts: SessionParts) -> "ChildAgents":
    return ChildAgents(parts)


class ChildAgents(SessionFeature):
    def __init__(self, parts: SessionParts) -> None:
        self._parts = parts
        self._roles: list[Role] = []
        self._agents = Lazy(self._build_agents)
        self._spec = build_delegate_spec(
            parts.settings, parts.configuration.plugins, past=parts.journal.facts
        )
        self.offers = ((self._spec, self._build_delegate),)
        if not self._spec.deferred:  # else there are no roles
            parts.start_notes.append(self._load_roles)
        if any(isinstance(fact, AgentStarted) for fact in parts.journal.facts):
            parts.start_notes.append(lambda: self.agents.build_warnings())

    def _load_roles(self) -> list[ContextNote | Warned]:
        """Load the available roles. Return the context notes about them, and warnings."""
        self._roles, facts = load_roles(self._parts.configuration, tools=self._parts.toolset.specs)
        return facts

    def _build_delegate(self) -> Tool:
        from agentcli.agent.children import ChildRunner
        from agentcli.features.children.delegate import Delegate

        children = ChildRunner(self._roles, open_child=self._open_child)
        return Delegate(
            run_child=partial(self._run_child, children),
            effect_of=partial(self._find_effect, children),
        )

    async def _run_child(
        self, children: "ChildRunner", task: str, name: str, context: ToolContext
    ) -> Output:
        role = children.find_role(name)
        if role.is_background:
            return await self.agents.start(task, self._isolate(role), context=context)
        if role.is_isolated:
            return await self.agents.run(task, role, context=context)
        return await children.run(task, name, context=context)

    def _find_effect(self, children: "ChildRunner", name: str) -> Effect:
        """Return the effect of a role. A child that only reads may run in parallel with others.

        One that works beside the session changes nothing before its patch is approved."""
        role = children.find_role(name)
        return Effect.READ if role.is_background or self._is_reading(role) else Effect.EXECUTE

    def _is_reading(self, role: "Role") -> bool:
        return role.tools is None or set(role.tools) <= set(self._list_read_tools())

    def _isolate(self, role: "Role") -> "Role":
        """Return the role; what works beside the session changes files only in a worktree."""
        return role if self._is_reading(role) else replace(role, is_isolated=True)

    @property
    def agents(self) -> "BackgroundAgents":
        """The agents that work beside the session."""
        return self._agents.get()

    def _build_agents(self) -> "BackgroundAgents":
        from agentcli.features.children.background import BackgroundAgents

        agents = BackgroundAgents(self._parts, open_child=self._open_child)
        self._parts.step_notes.append(agents.collect_notes)
        return agents

    def describe_activity(self) -> str:
        return self._agents.made.describe_activity() if self._agents.made else ""

    async def find_unfinished(self) -> Sequence[ContextNote]:
        return await self._agents.made.find_unfinished() if self._agents.made else ()

    async def close(self) -> None:
        if self._agents.made:
            await self._agents.made.close()

    def _list_read_tools(self) -> tuple[str, ...]:
        return (
            *BUILT_IN_READING,
            *(spec.name for spec in self._parts.toolset.specs if spec.only_reads),
        )

    def _iter_foreign_offers(self) -> Iterator[Offer]:
        """Yield the parent's tools of servers and the user's own."""
        toolset = self._parts.toolset
        for spec in toolset.specs:
            if is_foreign(spec):
                yield replace(spec, deferred=False), partial(toolset.resolve, spec.name)

    def _build_toolset(
        self, parts: SessionParts, role: "Role", *, facts: Callable[[], Sequence[Fact]]
    ) -> Toolset:
        """Return the tools of a role. Raise ToolError if none of those it names exists."""
        own = parts.builtin_tools.iter_offers(facts, declare=lambda names: toolset.declare(names))
        if parts is self._parts:  # else the whole worktree can be refused or discarded
            own = parts.checkpoints.wrap_offers(own)
        offers = [*check_edits(parts, own), *self._iter_foreign_offers()]
        wanted = self._list_read_tools() if role.tools is None else role.tools
        if "bash" in wanted:
            wanted = (*wanted, INPUT_TOOL)
        chosen = [
            one
            for one in offers
            if any(_matches_name(one[0], name) for name in wanted)
            and not any(_matches_name(one[0], name) for name in role.without)
        ]
        if not chosen:
            names = ", ".join(wanted)
            raise ToolError(f"The role {role.name} uses the tool {names}, which is not there.")
        toolset = Toolset(one for one in chosen if one[0].name in BUILT_IN)
        ToolCatalog(toolset, window_tokens=self._parts.model.get_window()).admit(chosen)
        return toolset

    def _open_child(
        self,
        role: "Role",
        task: str,
        *,
        listen: Callable[[Event], None],
        context: ToolContext,
        workspace: Path | None = None,
        model: ModelInUse | None = None,
    ) -> "Child":
        """Open a child. One with a workspace of its own has its own sandbox and processes."""
        from agentcli.agent.children import Child

        own_parts = self._parts
        limits = TurnLimits(steps=_limit_steps(context.steps_left), wall_s=WALL_S)
        log = LogWriter(own_parts.paths.choose_child_log())
        journal = Journal(
            f"{own_parts.paths.id}/{log.path.stem}",
            record=log.append,
            listeners=(
                listen,
                *(build(role.name, context.call_id) for build in own_parts.child_listeners),
            ),
            mask=EventMasking(own_parts.gate.redactor),
        )
        parts = (
            own_parts
            if workspace is None
            else build_parts_beside(own_parts, workspace, journal=journal)
        )
        toolset = self._build_toolset(parts, role, facts=lambda: journal.facts)
        instructions = ProjectInstructions(parts.configuration)
        journal.subscribe(instructions)
        child = Delegation(child_id=journal.session, role=role.name, task=task)
        model = model or self._choose_model(role)
        breaker = Breaker()
        loop = Loop(
            model_client=build_model_client(
                parts, toolset, journal=journal, model=(lambda: model) if model else None
            ),
            journal=journal,
            dispatcher=build_dispatcher(
                parts, toolset, journal=journal, breaker=breaker, child=child
            ),
            breaker=breaker,
            limits=limits,
            parallel=parts.settings.parallel,
            collect_notes=instructions.collect_notes,
            find_unfinished=parts.hooks.build_child_check(child) if parts.hooks else None,
            wraps_up=True,
        )
        self._record_start(
            parts,
            journal,
            toolset=toolset,
            instructions=instructions,
            model=model or parts.model.current,
        )
        return Child(
            journal=journal,
            loop=loop,
            log_path=log.path,
            read_log_head=lambda: log.head,
            close=self._begin_in_root(toolset, log)
            if parts is own_parts
            else partial(_close_beside, parts, log),
        )

    def _begin_in_root(
        self, toolset: Toolset, log: LogWriter
    ) -> Callable[[], Coroutine[Any, Any, None]]:
        """Let a child that shares the session's commands begin in the root. Return its close."""
        directory = self._parts.gate.host.directory
        before = directory.path
        if "bash" in toolset.names:  # it works alone then
            directory.move_to(self._parts.settings.workspace)

        async def close() -> None:
            if "bash" in toolset.names:
                directory.move_to(before)
            log.close()

        return close

    def _choose_model(self, role: "Role") -> ModelInUse | None:
        """Return the model of a role, or None for the session's own, whichever that is then."""
        models = self._parts.model
        model = models.open_other(role.model) if role.model else models.open_small()
        if role.effort:
            return replace(model or models.current, effort=role.effort)
        return model

    def _record_start(
        self,
        parts: SessionParts,
        journal: Journal,
        *,
        toolset: Toolset,
        instructions: ProjectInstructions,
        model: ModelInUse,
    ) -> None:
        journal.append(
            SessionStarted(
                session=journal.session,
                version=__version__,
                workspace=str(parts.settings.workspace),
                model=model.name,
                mode=parts.gate.mode,
                **toolset.build_terms(),
            )
        )
        for note in instructions.build_start_notes():
            if isinstance(note, ContextNote):  # problems with them are in the parent's log
                journal.append(note)


async def _close_beside(parts: SessionParts, log: LogWriter) -> None:
    """Close what a child with a workspace of its own has opened."""
    async with AsyncExitStack() as last_first:  # each runs, even if others fail
        last_first.callback(log.close)
        last_first.callback(parts.gate.close)
        last_first.push_async_callback(parts.builtin_tools.close)


def _matches_name(spec: ToolSpec, name: str) -> bool:
    """Return whether a tool has this name. `*` matches all, and a server's tool also matches a glob
    like `tracker__*`."""
    return name in (spec.name, "*") or ("__" in spec.name and fnmatchcase(spec.name, name))


def _limit_steps(left: int | None) -> int:
    """Return the step limit of a child.

    Raise ToolError if the parent has no request left, and so could not see the answer either."""
    if left is not None and left <= 0:
        reached = "The limit of this run is reached: no child agent was started."
        raise ToolError(reached, kind=ErrorKind.LIMITED)
    return STEPS_MAX if left is None else min(STEPS_MAX, left)
