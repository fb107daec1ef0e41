"""The child agents of a session.

Each has its own loop and log, and shares the session's permission gate and limits.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import partial
from typing import TYPE_CHECKING

from agentcli import __version__
from agentcli.agent.journal import Journal
from agentcli.agent.limits import Breaker, TurnLimits
from agentcli.agent.loop import Loop
from agentcli.agent.toolset import Load, Toolset
from agentcli.log.writer import LogWriter
from agentcli.session.context_sources import ProjectInstructions, is_foreign, load_roles
from agentcli.session.features import SessionFeature
from agentcli.session.model import ModelInUse
from agentcli.session.parts import SessionParts, build_dispatcher
from agentcli.session.tool_catalog import ToolCatalog
from agentcli.tools.contracts import BUILT_IN, INPUT_TOOL, load_spec
from agentcli.types.errors import ToolError
from agentcli.types.events import ContextNote, Event, Fact, SessionStarted, Warned
from agentcli.types.tools import Effect, ErrorKind, Tool, ToolContext, ToolSpec
from agentcli.types.verdicts import Delegation

if TYPE_CHECKING:
    from agentcli.agent.children import Child, ChildRunner, Role

STEPS_MAX = 40
WALL_S = 900.0

Offer = tuple[ToolSpec, Load]


def build_session_feature(parts: SessionParts) -> "ChildAgents":
    return ChildAgents(parts)


class ChildAgents(SessionFeature):
    def __init__(self, parts: SessionParts) -> None:
        self._parts = parts
        self._roles: list[Role] = []

    def build_start_notes(self) -> list[ContextNote | Warned]:
        """Return the context notes about the available roles, and warnings."""
        self._roles, facts = load_roles(self._parts.settings, tools=self._parts.toolset.specs)
        return facts

    def iter_offers(self) -> Iterator[Offer]:
        yield load_spec("delegate"), self._build_delegate

    def _build_delegate(self) -> Tool:
        from agentcli.agent.children import ChildRunner
        from agentcli.features.children.delegate import Delegate

        children = ChildRunner(self._roles, open_child=self._open_child)
        return Delegate(run_child=children.run, effect_of=partial(self._find_effect, children))

    def _find_effect(self, children: "ChildRunner", name: str) -> Effect:
        """Return the effect of a role. A child that only reads may run in parallel with others."""
        names = children.find_role(name).tools
        is_reading = names is None or set(names) <= set(self._list_read_tools())
        return Effect.READ if is_reading else Effect.EXECUTE

    def _list_read_tools(self) -> tuple[str, ...]:
        from agentcli.agent.children import READ_TOOLS

        return (*READ_TOOLS, *(spec.name for spec in self._parts.toolset.specs if spec.only_reads))

    def _iter_foreign_offers(self) -> Iterator[Offer]:
        """Yield the parent's tools of servers and the user's own."""
        toolset = self._parts.toolset
        for spec in toolset.specs:
            if is_foreign(spec):
                yield replace(spec, deferred=False), partial(toolset.resolve, spec.name)

    def _build_toolset(self, role: "Role", facts: Callable[[], Sequence[Fact]]) -> Toolset:
        """Return the tools of a role. Raise ToolError if none of those it names exists."""
        offers = [
            *self._parts.edit_checks.wrap_offers(
                self._parts.checkpoints.wrap_offers(
                    self._parts.builtin_tools.iter_offers(
                        facts, declare=lambda names: toolset.declare(names)
                    )
                )
            ),
            *self._iter_foreign_offers(),
        ]
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
        self, role: "Role", task: str, *, listen: Callable[[Event], None], context: ToolContext
    ) -> "Child":
        from agentcli.agent.children import Child

        limits = TurnLimits(steps=_limit_steps(context.steps_left), wall_s=WALL_S)
        toolset = self._build_toolset(role, lambda: journal.facts)
        parts, gate = self._parts, self._parts.gate
        breaker = Breaker()
        instructions = ProjectInstructions(parts.settings, find_rule=gate.find_read_rule)
        log = LogWriter(parts.paths.new_child_log())
        journal = Journal(
            f"{parts.paths.id}/{log.path.stem}",
            record=log.append,
            listeners=(
                listen,
                instructions,
                *(build(role.name, context.call_id) for build in parts.child_listeners),
            ),
            mask=gate.secret_masking.build_event_mask(),
        )
        child = Delegation(child_id=journal.session, role=role.name, task=task)
        model = self._choose_model(role)
        loop = Loop(
            model_client=parts.build_model_client(
                toolset, journal=journal, model=(lambda: model) if model else None
            ),
            journal=journal,
            dispatcher=build_dispatcher(
                toolset,
                settings=parts.settings,
                gate=gate,
                journal=journal,
                breaker=breaker,
                hooks=parts.hooks,
                child=child,
            ),
            breaker=breaker,
            limits=limits,
            parallel=parts.settings.parallel,
            collect_notes=instructions.collect_notes,
            find_unfinished=parts.hooks.build_child_check(child),
            wraps_up=True,
        )
        self._record_start(journal, toolset, instructions, model or parts.model.current)
        directory = gate.host.directory
        before = directory.path
        if "bash" in toolset.names:  # it works alone then, and begins in the root
            directory.path = parts.settings.workspace

        def close() -> None:
            if "bash" in toolset.names:
                directory.path = before
            log.close()

        return Child(
            journal=journal,
            loop=loop,
            log_path=log.path,
            read_log_head=lambda: log.head,
            close=close,
        )

    def _choose_model(self, role: "Role") -> ModelInUse | None:
        """Return the model of a role, or None for the session's own, whichever that is then."""
        models = self._parts.model
        model = models.open_other(role.model) if role.model else models.open_small()
        if role.effort:
            return replace(model or models.current, effort=role.effort)
        return model

    def _record_start(
        self,
        journal: Journal,
        toolset: Toolset,
        instructions: ProjectInstructions,
        model: ModelInUse,
    ) -> None:
        journal.append(
            SessionStarted(
                session=journal.session,
                version=__version__,
                workspace=str(self._parts.settings.workspace),
                model=model.name,
                mode=self._parts.gate.mode,
                tools=toolset.names,
                tools_sha256=toolset.hash_specs(),
            )
        )
        for note in instructions.build_start_notes():
            if isinstance(note, ContextNote):  # problems with them are in the parent's log
                journal.append(note)


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
